"""Which page aliases a site offers, by its log. A rule file cannot hold them; a crawl uses them."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

from scrapy_urlnorm.learning.alias_links import permalink, shortlink
from scrapy_urlnorm.learning.aliases import SiteAliases
from scrapy_urlnorm.learning.evidence import site_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from scrapy_urlnorm.learning.alias_links import Link
    from scrapy_urlnorm.learning.aliases import Pattern
    from scrapy_urlnorm.logs import Observation


class Offer(NamedTuple):
    """One accepted pattern, and what a crawl in the order of the log would have had of it.

    ``merged`` URLs would have been suppressed behind the page that named them. ``wrong`` of them
    have other content than that page.
    """

    pattern: str
    support: int
    merged: int
    wrong: int
    examples: tuple[tuple[str, str], ...]

    def as_dict(self) -> dict[str, Any]:
        """All values, for JSON."""
        return {**self._asdict(), "examples": [list(pair) for pair in self.examples]}


def offered(site: str, rows: Iterable[Observation], key: Callable[[str], str]) -> tuple[Offer, ...]:
    """Replay the rows of *site* in their order; return the patterns of which none was refuted.

    *key* normalizes a URL. Pages vote as in a crawl, but all are fetched, so that what aliases
    would have suppressed can be compared.
    """
    rows = list(rows)
    if not any(row.self_links or row.shortlink for row in rows):
        return ()
    replay = _Replay(site, key)
    for row in rows:
        replay.add(row)
    return tuple(
        Offer(
            str(pattern),
            pattern.support,
            replay.merged[pattern],
            replay.wrong[pattern],
            tuple(pattern.examples),
        )
        for pattern in sorted(replay.aliases.accepted(), key=lambda one: -replay.merged[one])
    )


def offered_by_all(rows: Iterable[Observation], key: Callable[[str], str]) -> tuple[Offer, ...]:
    """Return what `offered` returns, for all sites of a log."""
    by_site: defaultdict[str, list[Observation]] = defaultdict(list)
    for row in rows:
        by_site[site_of(row.url)].append(row)
    return tuple(offer for site in sorted(by_site) for offer in offered(site, by_site[site], key))


class _Replay:
    def __init__(self, site: str, key: Callable[[str], str]) -> None:
        self.aliases = SiteAliases(site)
        self.merged: Counter[Pattern] = Counter()
        self.wrong: Counter[Pattern] = Counter()
        self._site = site
        self._key = key
        self._contents: dict[bytes, str] = {}  # of pages, and of what redirects led to

    def add(self, row: Observation) -> None:
        own = self._own(row.url)
        content = row.content if row.is_page else None
        if row.location is not None:
            content = self._contents.get(self._own(row.location))
        elif content is None and not (row.status and 400 <= row.status < 500):
            return  # an error of the server, a file: nothing is known about the page
        is_new = own not in self._contents
        if content is not None:
            self._contents.setdefault(own, content)
        elif row.location is not None:
            return  # what it leads to has not arrived
        if is_new and (alias := self.aliases.alias(own)) is not None:
            self.merged[alias.pattern] += 1
            self.wrong[alias.pattern] += self._contents[alias.page] != content
        doubts = self.aliases.arrives(own, content)
        if content is not None and row.is_page:
            place = own, row.url
            links = [(other, link) for other, link in self._links(row) if other != own]
            doubts += self.aliases.names(place, content, links, self._contents.get)[0]
        for doubt in doubts:
            self.aliases.kill(doubt.pattern, f"other content: {doubt.url}")

    def _links(self, row: Observation) -> list[tuple[bytes, Link]]:
        parts = [each.partition("#") for each in row.self_links]
        links = [permalink(row.url, url, name) for url, _, name in parts]
        if row.shortlink is not None and (short := shortlink(row.url, row.shortlink)):
            links.append(short)
        return [(self._own(link.url), link) for link in links if site_of(link.url) == self._site]

    def _own(self, url: str) -> bytes:
        return self._key(url).encode("utf-8", "surrogatepass")
