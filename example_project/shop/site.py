"""The shop: some eighty pages, under many more URLs, as real shops have them.

Its hosts do not exist: the site is an HTTP proxy on 127.0.0.1, and ``ThroughSite`` sends every
request to it. Every page says in ``X-Page`` which page it is, so that the crawl can be judged.
"""

from __future__ import annotations

import html
import os
import threading
from hashlib import md5
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, urlsplit

HOST = "http://www.shop.test"
ALIAS = "http://shop.test"
CATEGORIES = ("books", "music", "garden", "toys")
COLOURS = ("red", "green", "blue")
ITEMS_PER_CATEGORY = int(os.environ.get("SHOP_ITEMS", "15"))

PAGES = frozenset(
    {"home", "help"}
    | {f"category {category}" for category in CATEGORIES}
    | {f"item {category} {n}" for category in CATEGORIES for n in range(ITEMS_PER_CATEGORY)}
    | {f"search {colour} {category}" for colour in COLOURS for category in CATEGORIES}
)


def session(path: str) -> str:
    """A session id: whoever comes without one gets one of two."""
    return md5(bytes([len(path) % 2]), usedforsecurity=False).hexdigest().upper()


def answer(url: str) -> tuple[int, str, list[str]]:
    """Return the status, the page (or the target of a redirect) and the links on it."""
    parts = urlsplit(url)
    path, _, sid = parts.path.partition(";jsessionid=")
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    if parts.hostname != "www.shop.test":  # the other name of the host
        return 301, url.replace(ALIAS, HOST, 1), []
    names = path.strip("/").split("/")
    if names[-1] == "index.html":
        names = names[:-1] or [""]
    jsessionid = f";jsessionid={sid or session(path)}"
    home_links = [
        "/",
        f"{ALIAS}/?utm_source=footer",
        f"/help{jsessionid}",
        "/help#contact",
        *(f"/c/{category}{jsessionid}" for category in CATEGORIES),
    ]
    if names == [""]:
        campaign = "utm_source=home&utm_medium=banner"
        links = [f"/c/{category}/index.html?{campaign}" for category in CATEGORIES]
        return 200, "home", home_links + links
    if names == ["help"]:
        return 200, "help", home_links
    if names[0] == "c" and names[1] in CATEGORIES:
        return category_page(names[1], url, path, sid, jsessionid, home_links)
    if names[0] == "item" and names[1] in CATEGORIES:
        return item_page(names[1], int(names[2]), jsessionid, home_links)
    if names == ["search"] and query.keys() == {"colour", "cat"}:
        if parts.query.startswith("colour"):  # this site sorts its parameters
            return 301, f"/search?cat={query['cat']}&colour={query['colour']}", []
        items = [f"/item/{query['cat']}/{n}" for n in range(0, ITEMS_PER_CATEGORY, 4)]
        return 200, f"search {query['colour']} {query['cat']}", home_links + items
    return 404, "", []


def category_page(
    category: str, url: str, path: str, sid: str, jsessionid: str, home_links: list[str]
) -> tuple[int, str, list[str]]:
    """A list of items, which can be sorted, with an address that ends in a slash."""
    if not path.endswith(("/", "index.html")):
        return 301, url.replace(path, path + "/", 1), []
    links = [f"/c/{category}/{jsessionid}?sort={key}" for key in ("price", "name", "date")]
    links += [f"/search?colour={colour}&cat={category}" for colour in COLOURS]
    for n in range(ITEMS_PER_CATEGORY):
        item = f"/item/{category}/{n}"
        links += [f"{item}{jsessionid}", f"{item}?utm_source=list&pos={n}", f"{item}#reviews"]
    return 200, f"category {category}", home_links + links


def item_page(
    category: str, n: int, jsessionid: str, home_links: list[str]
) -> tuple[int, str, list[str]]:
    """An item, with a printable view, links to share it and its neighbours."""
    item = f"/item/{category}/{n}"
    links = [
        f"{item}?print=1",
        f"{ALIAS}{item}?utm_source=share&utm_medium=social",
        f"/c/{category}?from=item#list",
        f"/item/{category}/{(n + 1) % ITEMS_PER_CATEGORY}{jsessionid}",
    ]
    return 200, f"item {category} {n}", home_links + links


class Site:
    """The shop, on a port that the system chooses."""

    def __init__(self) -> None:
        self.requests = 0
        self.redirects = 0
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        self._server.daemon_threads = True
        self._server.site = self
        self.proxy = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        status, page, links = answer(self.path)
        site = self.server.site
        site.requests += 1
        self.send_response(status)
        if status == 301:
            site.redirects += 1
            self.send_header("Location", page)
        anchors = "".join(f'<a href="{html.escape(link)}">.</a>\n' for link in links)
        body = f"<html><body><h1>{page}</h1>{anchors}</body></html>".encode()
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("X-Page", page if status == 200 else "")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


class ThroughSite:
    """Downloader middleware: every request goes to the site of the spider."""

    @classmethod
    def from_crawler(cls, crawler):
        middleware = cls()
        middleware.crawler = crawler
        return middleware

    def process_request(self, request):
        request.meta["proxy"] = self.crawler.spider.site.proxy
