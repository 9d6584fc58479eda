"""A crawl log as a web site that Scrapy crawls, without a network.

    python benchmarks/replay.py LOG [SETTING=VALUE...]    one crawl; prints a line of JSON

A download handler answers every URL of the log: redirects and errors as logged, a page with text
that depends on its logged content alone. So pages are equal where the log says so. Each page links
to some of the URLs that the log names next, and has the permalinks (`self_links`) and the canonical
URL that the log has for it. The links of a content are found by whoever fetches it under any URL,
and by nobody who never fetches it, as on a real site. The crawl begins at the first HTML page.
"""

from __future__ import annotations

import gzip
import hashlib
import html
import json
import os
import random
import resource
import sys
from collections import Counter, deque
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from processes import processor_seconds
from scrapy import Request
from scrapy.core.downloader.handlers.base import BaseDownloadHandler
from scrapy.core.engine import ExecutionEngine
from scrapy.http import HtmlResponse, Response
from scrapy.utils.request import RequestFingerprinter
from spider import crawl

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

REDIRECTS = (301, 302, 303, 307, 308)
MOST_BYTES = 1_000  #: what is no HTML has no longer body than this
MIN_LINKS = 4  #: a page of the site has at least so many, as long as there are URLs left
SETTINGS = {
    "CONCURRENT_REQUESTS": 8,
    "CONCURRENT_REQUESTS_PER_DOMAIN": 8,
    "COOKIES_ENABLED": False,
    "DOWNLOAD_DELAY": 0,
    "LOG_LEVEL": "ERROR",
    "REDIRECT_MAX_TIMES": 10,
    "RETRY_ENABLED": False,
    "ROBOTSTXT_OBEY": False,
    "SCHEDULER_MEMORY_QUEUE": "scrapy.squeues.FifoMemoryQueue",
    "URLLENGTH_LIMIT": 10_000,
}


class Answer(NamedTuple):
    """What the site says to one URL."""

    status: int
    target: str | None = None  #: of a redirect
    content: str | None = None
    is_html: bool = False
    canonical: str | None = None
    size: int = MOST_BYTES  #: of what is no HTML, in bytes


def address(row: dict[str, Any]) -> str:
    """Return the URL of a row of a log without its fragment."""
    return str(row["url"]).partition("#")[0]


def rows_of(path: Path) -> Iterator[dict[str, Any]]:
    """Return the rows of the log at *path*, the first of each URL."""
    seen = set()
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            if address(row) not in seen:
                seen.add(address(row))
                yield row


def answer_of(row: dict[str, Any]) -> Answer | None:
    """Return the answer that *row* tells; ``None`` for a page whose content it does not tell."""
    status = row["status"]
    if status in REDIRECTS and row.get("location"):
        return Answer(status, target=row["location"])
    if status != 200:
        return Answer(status)
    content = content_of(row)
    if content is None:
        return None
    size = min(MOST_BYTES, max(0, int(row.get("len") or 0))) if "len" in row else MOST_BYTES
    is_html = "html" in (row.get("mime") or "")
    return Answer(status, None, content, is_html, row.get("canonical"), size)


def content_of(row: dict[str, Any]) -> str | None:
    """Return the content of a page as text: equal text, equal content."""
    return row.get("bag_digest") or row.get("text_digest") or row.get("digest")


class Site:
    """The site that the rows of a log describe."""

    def __init__(self, rows: Iterable[dict[str, Any]]) -> None:
        self.answers: dict[str, Answer] = {}
        self.fetched: Counter[str] = Counter()  #: contents
        self._permalinks: dict[str, list[str]] = {}  # by content
        self._texts: dict[str, bytes] = {}  # by content: its page, from </head> on
        for row in rows:
            answer = answer_of(row)
            if answer is not None:
                self.answers[address(row)] = answer
                if answer.content is not None:
                    self._permalinks.setdefault(answer.content, row.get("self_links") or [])
        self.start = next(url for url, answer in self.answers.items() if answer.is_html)
        self._links = self._given_out()
        prints = RequestFingerprinter()
        # Request encodes some URLs its own way, so they are looked up by Scrapy's fingerprint too.
        self._fingerprint = lambda url: prints.fingerprint(
            Request(url, meta={"verbatim_url": True})
        )
        self._by_fingerprint = {
            self._fingerprint(url): answer for url, answer in self.answers.items() if "://" in url
        }

    def _given_out(self) -> dict[str, list[str]]:
        """Give every URL to a content that the log has before it. Return the URLs by content."""
        contents = {answer.content for answer in self.answers.values() if answer.is_html}
        share = max(MIN_LINKS, 2 * -(-len(self.answers) // max(1, len(contents))))
        first = self.answers[self.start].content
        assert first is not None
        links: dict[str, list[str]] = {first: []}
        waiting = deque([first])  # contents that still take URLs
        for url, answer in self.answers.items():
            if url == self.start:
                continue
            while len(waiting) > 1 and len(links[waiting[0]]) >= share:
                waiting.popleft()
            links[waiting[0]].append(url)
            if answer.is_html and answer.content is not None and answer.content not in links:
                links[answer.content] = []
                waiting.append(answer.content)
        return links

    def answer(self, url: str) -> Answer | None:
        """Return the answer to *url*; ``None`` for one that the log does not have."""
        return self.answers.get(url) or self._by_fingerprint.get(self._fingerprint(url))

    def respond(self, request: Request) -> Response:
        """Answer *request*, and count its content."""
        answer = self.answer(request.url.partition("#")[0])
        if answer is None:
            return Response(request.url, status=404)
        if answer.target is not None:
            location = answer.target.encode("utf-8", "surrogatepass")
            return Response(request.url, status=answer.status, headers={"Location": location})
        if answer.content is None:
            return Response(request.url, status=answer.status)
        self.fetched[answer.content] += 1
        body = self.body(answer)
        if not answer.is_html:
            mime = {"Content-Type": "application/octet-stream"}
            return Response(request.url, body=body, headers=mime)
        mime = {"Content-Type": "text/html; charset=utf-8"}
        return HtmlResponse(request.url, body=body, headers=mime, encoding="utf-8")

    def body(self, answer: Answer) -> bytes:
        content = answer.content
        assert content is not None
        if not answer.is_html:
            return (content.encode() * MOST_BYTES)[: answer.size]
        if content not in self._texts:
            self._texts[content] = self._text(content).encode()
        canonical = answer.canonical
        head = f'<link rel="canonical" href="{html.escape(canonical)}">' if canonical else ""
        return b"<html><head>" + head.encode() + self._texts[content]

    def _text(self, content: str) -> str:
        chance = random.Random(content)
        text = " ".join(chance.choice(WORDS) for _ in range(chance.randint(60, 160)))
        permalinks = "".join(
            f'<p id="{html.escape(url.partition("#")[2])}"><a href="{html.escape(url)}">link</a></p>'
            for url in self._permalinks[content]
            if url.partition("#")[0] in self.answers
        )
        links = "".join(
            f'<li><a href="{html.escape(url)}">go</a></li>' for url in self._links.get(content, ())
        )
        return (
            f"<title>{text[:30]}</title></head><body><h1>{text[30:60]}</h1><p>{text}</p>"
            f"{permalinks}<ul>{links}</ul></body></html>"
        )


def _word(number: int) -> str:
    letters = hashlib.md5(b"%d" % number).hexdigest()
    return letters[: random.Random(number).randint(3, 8)].translate(
        str.maketrans("0123456789", "ghijklmnop")
    )


WORDS = [_word(number) for number in range(3000)]


def replay(path: Path, settings: dict[str, Any]) -> dict[str, Any]:
    """Crawl with *settings*; return what came of it, and how often each content was fetched."""
    site = Site(rows_of(path))

    class Handler(BaseDownloadHandler):
        async def download_request(self, request: Request) -> Response:
            return site.respond(request)

    # Scrapy asks for requests every five seconds as well, which changes their order from run to run.
    ExecutionEngine._SLOT_HEARTBEAT_INTERVAL = 1e6
    settings = {**SETTINGS, "DOWNLOAD_HANDLERS": {"http": Handler, "https": Handler}, **settings}
    crawler, before = crawl(site.start, settings)
    with suppress(ChildProcessError):
        while os.wait():  # a process that mines may end later than the crawl
            pass
    pages, stats = site.fetched.total(), crawler.stats.get_stats()
    shown = ("urlnorm/", "downloader/re")
    return {
        "pages": pages,
        "redundant": pages - len(site.fetched),
        "contents": dict(site.fetched),
        "cpu": processor_seconds() - before,
        "megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "finish_reason": stats.get("finish_reason"),
        "errors": stats.get("log_count/ERROR", 0),
        "stats": {key: stats[key] for key in sorted(stats) if key.startswith(shown)},
    }


def main() -> None:
    if len(sys.argv) < 2:
        sys.exit((__doc__ or "").strip())
    settings = dict(argument.split("=", 1) for argument in sys.argv[2:])
    print(json.dumps(replay(Path(sys.argv[1]), settings)), flush=True)


if __name__ == "__main__":
    main()
