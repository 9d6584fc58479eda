"""A web of any number of hosts on one loopback port, and a process that crawls it.

``Site`` is an HTTP proxy on 127.0.0.1: a crawl that uses it as its proxy can fetch
``http://www.shop.test/`` or ``https://cdn.shop.test/`` although none of them resolves.
It answers from a function or a mapping of URLs, and remembers what was asked for.

``crawl`` runs one Scrapy crawl in a worker process (one for the whole test session: a
reactor cannot be started twice) and hands back its items, statistics, log and error.

>>> pages = {"http://a.test/": page("home", "/b"), "http://a.test/b": page("b")}
>>> result = crawl(pages, ["http://a.test/"])
>>> result.pages, result.requests
(['home', 'b'], ['http://a.test/', 'http://a.test/b'])
"""

from __future__ import annotations

import asyncio
import functools
import html
import json
import logging
import os
import signal
import ssl
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import scrapy

from scrapy_urlnorm.crawl.components import components_of

HERE = Path(__file__).resolve().parent
DEADLINE = 120  #: seconds; passes only when a crawl never ends


class Asked(str):
    """The URL that a site is asked for, with the `headers` of the request."""

    __slots__ = ("headers",)

    def __new__(cls, url: str, headers: Mapping[str, str]) -> Asked:  # noqa: PYI034 - 3.11 has Self
        asked = super().__new__(cls, url)
        asked.headers = headers
        return asked


@dataclass(frozen=True)
class Reply:
    """What the site answers."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


Answer = Callable[[str], Reply]


def mostly_long(values: Iterable[Any], *, of: int) -> list[Any]:
    """Parameters of a test: one in *of* runs always, the others with ``--long``."""
    return [
        pytest.param(value, marks=pytest.mark.long) if number % of else value
        for number, value in enumerate(values)
    ]


def page(name: str, *links: str, canonical: str | None = None) -> Reply:
    """An HTML page called ``name`` that links to ``links``."""
    head = f'<link rel="canonical" href="{html.escape(canonical)}">' if canonical else ""
    anchors = "".join(f'<a href="{html.escape(link)}">.</a>\n' for link in links)
    text = f"<html><head>{head}</head><body><h1>{html.escape(name)}</h1>{anchors}</body></html>"
    return Reply(200, text.encode(), {"Content-Type": "text/html; charset=utf-8"})


def redirect(to: str, status: int = 301) -> Reply:
    """A redirect; ``to`` goes into ``Location`` as it stands."""
    return Reply(status, b"", {"Location": to})


class Site:
    """Answers every host, over http and https, as an HTTP proxy on 127.0.0.1."""

    def __init__(self, answer: Answer | Mapping[str, Reply]) -> None:
        if callable(answer):
            self.answer: Answer = answer
        else:
            pages = dict(answer)
            self.answer = lambda url: pages.get(url, Reply(404))
        self.requests: list[str] = []  #: URLs as they arrived, in order
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        self._server.daemon_threads = True
        self._server.site = self  # type: ignore[attr-defined]
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        )

    @property
    def proxy(self) -> str:
        """URL of the proxy, for ``request.meta["proxy"]``."""
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Site:  # noqa: PYI034 - typing.Self is Python 3.11
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    tunnel: str | None = None

    def do_GET(self) -> None:
        if self.tunnel is not None:
            url = f"https://{self.tunnel}{self.path}"
        elif self.path.startswith("http"):
            url = self.path
        else:
            url = f"http://{self.headers['Host']}{self.path}"
        site: Site = self.server.site  # type: ignore[attr-defined]
        if not url.partition("//")[2].partition("/")[2].startswith("robots.txt"):
            site.requests.append(url)
        reply = site.answer(Asked(url, dict(self.headers)))
        self.send_response(reply.status)
        for name, value in reply.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(reply.body)))
        self.end_headers()
        self.wfile.write(reply.body)

    def do_CONNECT(self) -> None:
        self.send_response(200, "Connection established")
        self.end_headers()
        self.wfile.flush()
        self.connection = _tls().wrap_socket(self.connection, server_side=True)
        self.rfile = self.connection.makefile("rb")  # type: ignore[assignment]
        self.wfile = self.connection.makefile("wb", 0)  # type: ignore[assignment]
        self.tunnel = self.path.removesuffix(":443")
        self.close_connection = False

    def handle(self) -> None:
        try:
            super().handle()
        except (ConnectionError, ssl.SSLError):
            pass  # the crawler hung up
        finally:
            if self.tunnel is not None:
                self.connection.close()

    def log_message(self, format: str, *args: object) -> None:
        pass


@functools.lru_cache(maxsize=1)
def _tls() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(HERE / "data" / "loopback.pem")  # Scrapy does not verify by default
    return context


class ViaSite:
    """Downloader middleware that sends every request through the site."""

    @classmethod
    def from_crawler(cls, crawler: Any) -> ViaSite:
        middleware = cls()
        middleware.proxy = crawler.settings["LOOPBACK_PROXY"]
        return middleware

    def process_request(self, request: scrapy.Request) -> None:
        request.meta["proxy"] = self.proxy


class Follow(scrapy.Spider):
    """Starts at ``urls`` and follows every link of every page.

    ``filter_start=1`` sends the start requests through the dupefilter, as links are.
    """

    name = "follow"
    urls: tuple[str, ...] = ()
    filter_start = False

    async def start(self) -> Any:
        for url in self.urls:
            yield scrapy.Request(url, dont_filter=not self.filter_start)

    def parse(self, response: Any) -> Any:
        yield {
            "page": response.css("h1::text").get(),
            "url": response.url,
            "redirect_urls": response.meta.get("redirect_urls", []),
        }
        for href in response.css("a::attr(href)").getall():
            yield response.follow(href)


@dataclass
class Crawl:
    """What came of one crawl."""

    items: list[dict[str, Any]]
    stats: dict[str, Any]
    log: str
    error: str | None  #: "StoreMismatchError: ..." when the crawl could not start
    counts: dict[str, int]  #: what learning counted besides, such as "learned/suppressed"
    requests: list[str]  #: what the site was asked for, by all crawls

    @property
    def pages(self) -> list[str]:
        """Names of the pages that reached the callback, in order."""
        return [item["page"] for item in self.items]

    @property
    def reason(self) -> str | None:
        return self.stats.get("finish_reason")


def crawl(
    site: Site | Answer | Mapping[str, Reply],
    urls: list[str],
    settings: Mapping[str, Any] | None = None,
    *,
    spider: str = "loopback.Follow",
    **arguments: Any,
) -> Crawl:
    """Crawl ``site`` from ``urls``; settings and spider arguments must be JSON values.

    What is no `Site` says what one answers that is there for this crawl alone. A crawl that has not
    ended after `DEADLINE` seconds is killed: its `error` says so.
    """
    if not isinstance(site, Site):
        with Site(site) as served:
            return crawl(served, urls, settings, spider=spider, **arguments)
    own = {"DOWNLOAD_TIMEOUT": 20, "ITEM_PIPELINES": {"loopback.Collect": 100}}
    job = job_of(site, {**own, **(settings or {})}, spider, urls=urls, **arguments)
    return Crawl(**_worker().run(job), requests=site.requests)


def job_of(
    site: Site, settings: Mapping[str, Any], spider: str, **arguments: Any
) -> dict[str, Any]:
    """What a process that crawls ``site`` is told."""
    common = {
        "LOOPBACK_PROXY": site.proxy,
        "DOWNLOADER_MIDDLEWARES": {"loopback.ViaSite": 740},
        "TELNETCONSOLE_ENABLED": False,
        "REMOTE_CONTROL_ENABLED": False,
        "RETRY_ENABLED": False,
    }
    return {"settings": {**common, **settings}, "spider": spider, "arguments": arguments}


def crawler_of(spider: type[scrapy.Spider], settings: Mapping[str, Any]) -> Any:
    """A crawler with its settings applied, which does not run."""
    from scrapy.utils.reactor import install_reactor, is_reactor_installed
    from scrapy.utils.test import get_crawler

    if not is_reactor_installed():  # Scrapy 2.14 asks for one
        install_reactor("twisted.internet.asyncioreactor.AsyncioSelectorReactor")
    return get_crawler(spider, dict(settings))


class Collect:
    """Item pipeline that keeps the items for the parent process."""

    items: list[dict[str, Any]] = []  # noqa: RUF012 - one crawl at a time in a worker

    def process_item(self, item: Any) -> Any:
        Collect.items.append(dict(item))
        return item


class _Worker:
    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-W", "ignore", str(HERE / "loopback.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=tempfile.gettempdir(),
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            text=True,
        )

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def run(self, job: Mapping[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(job) + "\n")
        self._process.stdin.flush()
        killer = threading.Timer(DEADLINE, self._process.kill)
        killer.start()
        answer = self._process.stdout.readline()
        killer.cancel()
        if not answer:
            code = self._process.wait()
            self._process.stdin.close()
            self._process.stdout.close()
            if code == -signal.SIGKILL:
                error = f"the crawl did not end within {DEADLINE} seconds"
                return {"items": [], "stats": {}, "log": "", "error": error, "counts": {}}
            raise RuntimeError(f"the crawling process ended with {code}")
        result: dict[str, Any] = json.loads(answer)
        return result

    def stop(self) -> None:
        if self.alive:
            self._process.communicate()


_workers: list[_Worker] = []


def stop_worker() -> None:
    """End the crawling process (``conftest.py`` does, when the session ends)."""
    while _workers:
        _workers.pop().stop()


def _worker() -> _Worker:
    if not _workers or not _workers[0].alive:
        _workers[:] = [_Worker()]
    return _workers[0]


class _Keep(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.setFormatter(logging.Formatter("%(levelname)s [%(name)s] %(message)s"))
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))


async def _run(job: Mapping[str, Any]) -> dict[str, Any]:
    from scrapy.crawler import AsyncCrawlerRunner
    from scrapy.utils.misc import load_object

    log = _Keep()
    logging.root.addHandler(log)
    Collect.items = []
    crawler = None
    error = None
    try:
        runner = AsyncCrawlerRunner(dict(job["settings"]))
        crawler = runner.create_crawler(load_object(job["spider"]))
        await runner.crawl(crawler, **job["arguments"])
    except Exception as exc:  # noqa: BLE001 - whatever it is, the parent asks
        error = f"{type(exc).__name__}: {exc}"
    finally:
        logging.root.removeHandler(log)
    try:
        stats = dict(crawler.stats.get_stats()) if crawler else {}
    except (RuntimeError, AttributeError):  # the crawl did not come as far as that
        stats = {}
    return {
        "items": Collect.items,
        "stats": {key: value for key, value in stats.items() if not hasattr(value, "isoformat")},
        "counts": getattr(crawler and components_of(crawler).learner, "counts", {}),
        "log": "\n".join(log.lines),
        "error": error,
    }


async def _serve() -> None:
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        result = await _run(json.loads(line))
        print(json.dumps(result, default=str), flush=True)


def _mine_at_once() -> None:
    """The miner answers before the next page, so what a crawl learns is not left to the machine.

    Crawls in processes of their own (examples, kills) have a miner in another process.
    """
    from scrapy_urlnorm.crawl.miner import Miner
    from scrapy_urlnorm.crawl.online import mining

    Miner.mine = Miner.mine_at_once  # type: ignore[method-assign]
    mining.ADVANCE = 10**9


def _main() -> None:
    from scrapy.utils.reactor import install_reactor

    _mine_at_once()
    logging.root.setLevel(logging.DEBUG)
    for noisy in ("asyncio", "filelock"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    install_reactor("twisted.internet.asyncioreactor.AsyncioSelectorReactor")
    from twisted.internet import reactor

    def begin() -> None:
        task = asyncio.ensure_future(_serve())
        task.add_done_callback(lambda _: reactor.stop())  # type: ignore[attr-defined]

    reactor.callWhenRunning(begin)  # type: ignore[attr-defined]
    reactor.run(installSignalHandlers=False)  # type: ignore[attr-defined]


if __name__ == "__main__":
    # settings name the classes of this file as loopback.X, so run the imported module
    sys.path.insert(0, str(HERE))
    import loopback

    loopback._main()
