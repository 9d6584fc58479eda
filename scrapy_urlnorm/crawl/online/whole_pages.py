"""WholePages: the pages that arrived, as their bytes, for verdicts; and how pages of a family move."""

from __future__ import annotations

import zlib
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, TypeGuard

from lxml import etree  # type: ignore[import-untyped]  # ships no types
from scrapy.http import HtmlResponse

from scrapy_urlnorm.caches import BoundedCache
from scrapy_urlnorm.crawl.online.files import Files
from scrapy_urlnorm.crawl.requests import page_from, site_of
from scrapy_urlnorm.learning.media import may_expire
from scrapy_urlnorm.logs.comparison import NEARLY_ALL, SOME, Movement, is_same
from scrapy_urlnorm.logs.differences import family_of
from scrapy_urlnorm.logs.nodes import carried, with_chosen, without_carried
from scrapy_urlnorm.logs.observation import LEAST_FILE
from scrapy_urlnorm.logs.page_identity import shown_by
from scrapy_urlnorm.logs.whole import Node, Whole, copy_of, referer_of, whole_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from scrapy.http import Response

    from scrapy_urlnorm.crawl.online.keys import ClusterKeys
    from scrapy_urlnorm.logs.blocks import Block
    from scrapy_urlnorm.logs.nodes import KeyOf
    from scrapy_urlnorm.logs.page_identity import Identity
    from scrapy_urlnorm.stores.sqlite import Database

_TABLES = """
CREATE TABLE IF NOT EXISTS body (
  id INTEGER PRIMARY KEY AUTOINCREMENT, site TEXT NOT NULL, fingerprint BLOB NOT NULL UNIQUE,
  url TEXT NOT NULL, referer TEXT NOT NULL, encoding TEXT NOT NULL, data BLOB NOT NULL);
CREATE INDEX IF NOT EXISTS body_of_site ON body (site, id);
"""
#: Bytes of a page whose text is read while the event loop waits. A larger page is known by its
#: bytes: that its text equals another is not noticed, so it is fetched.
LARGEST_READ = 300_000
#: Bytes of what is no HTML whose digest is made while the event loop waits. What is larger is
#: always fetched.
LARGEST_FILE = 16 * 1024 * 1024
#: So many pages, those that came last, are kept; how many more there may be for a while.
MAX_BODIES, _FORGOTTEN = 20_000, 500
_MAX_FAMILIES = 2_000
#: So many pages that arrived beside one are asked what they show, and how many have to agree.
_BESIDE, _AGREE = 4, 3
_MAX_READ, _MAX_NAMED = 32, 8
#: Bytes. To compare longer pages takes so long that the event loop has its turn meanwhile.
_LONG = 32 * 1024
#: A page of which so large a share stands not on another one is none that is nearly the same.
_FAR = 0.2
#: Links of a page of which it is asked whether they are seen: a store that many share may be asked.
_MOST_LINKS = 500
_UNREADABLE = ValueError, LookupError, etree.LxmlError, RecursionError
_MAX_PAIRS = 8  #: of long pages that wait until somebody asks what changes


def shown_in_crawl(response: Response) -> tuple[Identity | None, list[Block] | None]:
    return shown_by(response, LARGEST_READ)


def is_comparable(response: Response) -> bool:
    """Return whether a page has a content to compare, or a file that is neither small nor huge."""
    if isinstance(response, HtmlResponse):
        return True
    return LEAST_FILE <= len(response.body) <= LARGEST_FILE


def is_page(response: Response | None) -> TypeGuard[HtmlResponse]:
    """Whether the text of a response is read."""
    return isinstance(response, HtmlResponse) and len(response.body) <= LARGEST_READ


def links_of(response: Response | None, path: str) -> list[str]:
    """Return the URLs at *path* on a page: nothing on what is none, or cannot be read."""
    found: list[str] = []
    if is_page(response):
        with suppress(ValueError, etree.LxmlError):
            for link in dict.fromkeys(response.xpath(path).getall()):
                with suppress(ValueError):  # a bad host
                    found.append(response.urljoin(link.strip()))
    return found


@dataclass(eq=False)
class Shown:
    """What one fetch of a URL showed."""

    url: str  #: "" where it is not known: the page arrived at another crawler
    content: Identity | None
    response: Response | None = None
    blocks: list[Block] | None = None
    with_layout: bool = False  #: whether what only lays the page out is a part of it
    #: Links that carry on a part of its URL, and whether the crawl has them from others.
    known: dict[str, bool] = field(default_factory=dict)

    @property
    def is_long(self) -> bool:
        return self.response is not None and len(self.response.body) > _LONG

    @cached_property
    def has_expiring_links(self) -> bool:
        """Whether to fetch the page again may end the links that the crawl has from it."""
        return any(map(may_expire, links_of(self.response, "//a/@href")))

    @property
    def links(self) -> list[str]:
        """The URLs that the page links to, without fragments: the first `_MOST_LINKS` of them."""
        links = (link.partition("#")[0] for link in links_of(self.response, "//@href"))
        found = dict.fromkeys(link for link in links if link.startswith(("http://", "https://")))
        return [*found][:_MOST_LINKS]

    @property
    def head(self) -> dict[str, str]:
        """By their URLs, what the links of a page are that no reader can click on."""
        found = dict[str, str]()
        if is_page(self.response):
            with suppress(ValueError, etree.LxmlError):
                for link in self.response.xpath("//link[@href]"):
                    with suppress(ValueError):  # a bad host
                        url = self.response.urljoin(link.attrib["href"].strip())
                        found[url.partition("#")[0]] = link.attrib.get("rel", "")
        return found

    @cached_property
    def whole(self) -> Whole | None:
        """The page as a whole; ``None`` for a file, and a page that cannot be read or is not kept."""
        if is_page(self.response):
            with suppress(*_UNREADABLE):
                return whole_of(self.response, with_layout=self.with_layout)
        return None

    @cached_property
    def copy_of(self) -> str | None:
        """The URL of which the page declares to be a copy."""
        if is_page(self.response):
            with suppress(*_UNREADABLE):
                return copy_of(self.response)
        return None


@dataclass(eq=False)
class WholePages:
    """Keeps the last `MAX_BODIES` pages in the *database*, and compares pages by cluster keys."""

    database: Database
    keys: ClusterKeys
    files: Files = field(default_factory=Files)

    def __post_init__(self) -> None:
        self.database.ensure(_TABLES)
        self._added = 0
        self._movements: dict[str, Movement] = {}  # of families, and of sites
        #: Pairs of which nothing was learned yet, and whether their fetches are far apart.
        self._pairs: list[tuple[Shown, Shown, bool]] = []
        self._nodes = BoundedCache(self._nodes_of, most=_MAX_READ, longest=0, length=lambda _: 0)
        # One verdict asks for it again and again.
        self._named = BoundedCache(self.shown, most=_MAX_NAMED, longest=0, length=lambda _: 0)

    def add(self, fingerprint: bytes, response: Response) -> None:
        if not is_page(response):
            return
        self.database.write(
            "INSERT OR REPLACE INTO body (site, fingerprint, url, referer, encoding, data)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            *(site_of(response.url), fingerprint, response.url, referer_of(response)),
            *(response.encoding, zlib.compress(response.body, 1)),
        )
        for named in (self._named, self._named.old):
            named.pop(fingerprint, None)
        self._added += 1
        if not self._added % _FORGOTTEN:
            oldest = "(SELECT max(id) FROM body) - ?"
            self.database.write(f"DELETE FROM body WHERE id <= {oldest}", MAX_BODIES)

    def get(self, fingerprint: bytes) -> HtmlResponse | None:
        """Return the page that arrived under *fingerprint*; ``None`` if it is not kept, or damaged."""
        return next(self._find("fingerprint = ?", fingerprint), None)

    def _find(self, where: str, value: object) -> Iterator[HtmlResponse]:
        select = f"SELECT url, referer, encoding, data FROM body WHERE {where}"
        for url, referer, encoding, data in self.database.read(select, value):
            with suppress(zlib.error):
                yield page_from(referer, url, zlib.decompress(data), encoding)

    def same(self, page: Shown, fetches: Sequence[Shown], beside: Sequence[Shown] = ()) -> bool:
        """Return whether a page is what *fetches* of another URL showed, but for what changes there.

        What cannot be read whole has to have the same bytes as one of them. *beside* are all fetches
        of the page: what these alone show, and all of them, is another page's.
        """
        if page.whole is not None:
            key_of = self._key_of(page, fetches[0])
            return self._same(page, fetches, self.keys.cluster_url, beside) or (
                any(page.known.values()) and self._same(page, fetches, key_of, beside)
            )
        digests = {each.content.digest for each in fetches if each.content is not None}
        return page.content is not None and page.content.digest in digests

    def same_but_for_links(
        self, page: Shown, fetches: Sequence[Shown], *, of_list: bool = False
    ) -> bool:
        """Return the same without what links of a page carry on of its URL, known or not.

        With *of_list* only of links to its own path: a rule about a part of a list may be refuted
        by what no other rule drops yet.
        """
        paths = {each.url.partition("?")[0] for each in (page, fetches[0])} if of_list else ()

        def may_change(address: str) -> bool:
            return not of_list or address.partition("?")[0] in paths

        cluster_url = self.keys.cluster_url
        key_of = without_carried(page.url, self._url(fetches[0], page), cluster_url, may_change)
        return self._same(page, fetches, key_of)

    def _key_of(self, page: Shown, other: Shown) -> KeyOf:
        """Return the keys by which links are compared.

        A page may carry a part of its URL on. What that leads to is not lost with the page if the
        crawl has it from others.
        """
        if not any(page.known.values()):
            return self.keys.cluster_url

        def is_known(address: str) -> bool:
            return page.known.get(address, False)

        return without_carried(page.url, self._url(other, page), self.keys.cluster_url, is_known)

    @staticmethod
    def _url(page: Shown, other: Shown) -> str:
        """Return the URL of a page, with the defaults that its forms say of parameters of another."""
        return page.url if page.whole is None else with_chosen(page.whole, other.url)

    def known_links(
        self, page: Shown, other: Shown, is_seen: Callable[[str], bool]
    ) -> dict[str, bool]:
        """Return the links that carry on what the URL of the *other* page has not.

        And whether the crawl has them from others, or the other page has one of their cluster. In the
        head of a page, they are known where the crawl does not have those of the other page either.
        """
        without, cluster_url = carried(page.url, other.url), self.keys.cluster_url
        links = [link for link in page.links if without(link) != link]
        others = set(map(cluster_url, other.links)) if links else ()
        heads = page.head if links else {}
        left = {rel for link, rel in other.head.items() if not is_seen(link)} if heads else ()
        return {
            link: cluster_url(link) in others or heads.get(link) in left or is_seen(link)
            for link in links
        }

    def _same(
        self, page: Shown, fetches: Sequence[Shown], key_of: KeyOf, beside: Sequence[Shown] = ()
    ) -> bool:
        by_bytes = self.files.by_bytes
        wholes, also = (
            [by_bytes(e.whole) for e in pages if e.whole is not None] for pages in (fetches, beside)
        )
        is_copy, family = self._is_copy(page, fetches[0]), self._movement(fetches[0].url)
        return (
            page.whole is not None
            and bool(wholes)
            and is_same(by_bytes(page.whole), wholes, key_of, family, also, is_copy=is_copy)
        )

    def _is_copy(self, page: Shown, other: Shown) -> bool:
        """Whether a page declares itself to be a copy of another, or of that of which it is one.

        Or of a page that arrived and is the same. What the spider got out of them outweighs that.
        """
        original, cluster_url = page.copy_of, self.keys.cluster_url
        if not original or page.with_layout:
            return False
        fingerprint = self.keys.fingerprint_of(original)
        if fingerprint == self.keys.fingerprint_of(page.url):
            return False
        if cluster_url(original) == cluster_url(other.copy_of or other.url):
            return True
        one, two = self._named[fingerprint].whole, other.whole
        return one is not None and two is not None and is_same(one, [two], cluster_url)

    def original_of(self, page: Shown) -> str | None:
        """Return the URL of another page, if *page* declares itself to be a copy of that."""
        original = page.copy_of
        fingerprint_of = self.keys.fingerprint_of
        is_other = original and fingerprint_of(original) != fingerprint_of(page.url)
        return original if is_other else None

    def shown(self, fingerprint: bytes) -> Shown:
        """Return the page that arrived under *fingerprint*, as it is kept."""
        response = self.get(fingerprint)
        return Shown(response.url if response is not None else "", None, response)

    @staticmethod
    def are_near(one: Shown, two: Shown) -> bool:
        """Return whether nearly all of the second page is on the first."""
        if one.whole is None or two.whole is None:
            return False
        nodes = {*two.whole.nodes}
        return len(nodes - {*one.whole.nodes}) <= _FAR * len(nodes)

    def learn(self, first: Shown, second: Shown, *, is_late: bool = False) -> None:
        """Learn what changes on pages of a family from two fetches, one right after the other.

        Or what ever changes on pages of the site, where the second *is_late*.
        """
        self._pairs.append((first, second, is_late))
        is_long = first.is_long or second.is_long
        for _ in self.catch_up(_MAX_PAIRS if is_long else 0):
            pass

    def catch_up(self, left: int = 0) -> Iterator[None]:
        """Learn from the pairs that wait, in their order and in steps, until so many are *left*."""
        while len(self._pairs) > left:
            for shown in self._pairs[0][:2]:
                _ = shown.whole
                yield
            self._learn(*self._pairs.pop(0))
            yield

    def _learn(self, first: Shown, second: Shown, is_late: bool) -> None:
        if not first.whole or not second.whole:
            return
        if is_late:
            of_site = self._movement_of_site(first.url)
            of_site.learn_late(first.whole, second.whole, self.keys.cluster_url)
        else:
            for movement in (self._movement(first.url), self._movement_of_site(first.url)):
                movement.learn(first.whole, second.whole, self.keys.cluster_url)

    def unknown_files(self, one: Shown, two: Shown) -> list[tuple[str, str]]:
        """Return the addresses of files that may tell two pages apart, and were not fetched."""
        return self.files.unknown(one.whole, two.whole) if one.whole and two.whole else []

    def _movement_of_site(self, url: str) -> Movement:
        return self._movements.setdefault(site_of(url), Movement())

    def _movement(self, url: str) -> Movement:
        if len(self._movements) >= _MAX_FAMILIES:
            self._movements.clear()  # it costs some second fetches
        known = self._movements.get(family_of(url))
        if known is None:
            known = Movement(self._movement_of_site(url))
            self._movements[family_of(url)] = known
        return known

    def explains(self, one: Shown, two: Shown) -> bool:
        """Return whether two pages differ no more than some of their families at each fetch."""
        return self._explains(one, two, SOME)

    def surely_explains(self, one: Shown, two: Shown) -> bool:
        """Return whether they differ no more than nearly all pages of their families."""
        return self._explains(one, two, NEARLY_ALL)

    def may_be_chance(self, one: Shown, two: Shown) -> bool:
        """Return whether they differ where some pages of their families move, or of their site.

        So both may move there, too, though they have held still in some fetches.
        """
        return self._explains(one, two, SOME, more=[self._movement_of_site(one.url)])

    def explains_by_time(self, one: Shown, two: Shown) -> bool:
        """Return the same, but for what pages that arrived beside each of the two show as well."""
        of_time = [self._beside(each.url) for each in (one, two)]
        return self._explains(one, two, NEARLY_ALL, of_time)

    def _explains(
        self,
        one: Shown,
        two: Shown,
        share: float,
        of_time: Sequence[Collection[Node]] = ((), ()),
        more: Sequence[Movement] = (),
    ) -> bool:
        if one.whole is None or two.whole is None:
            return False
        for _ in self.catch_up():
            pass
        movements = dict.fromkeys([*map(self._movement, (one.url, two.url)), *more])
        first, second = map(self.files.by_bytes, (one.whole, two.whole))
        is_copy, key_of = self._is_copy(two, one), self._key_of(two, one)
        return any(
            each.explains(first, second, key_of, of_time, is_copy=is_copy, share=share)
            for each in movements
        )

    def read_beside(self, *pages: Shown) -> Iterator[None]:
        """Read what `explains_by_time` asks for, a page at each step."""
        for page in pages:
            for number in self._numbers_beside(page.url):
                yield
                _ = self._nodes[number]

    def _beside(self, url: str) -> set[Node]:
        """Return the nodes that nearly all pages show which arrived beside that of *url*."""
        read = chain.from_iterable(self._nodes[number] for number in self._numbers_beside(url))
        return {node for node, often in Counter(read).items() if often >= _AGREE}

    def _numbers_beside(self, url: str) -> list[int]:
        select = "SELECT id, site FROM body WHERE fingerprint = ?"
        found: list[int] = []
        for number, site in self.database.read(select, self.keys.fingerprint_of(url)):
            for where in ("< ? ORDER BY id DESC", "> ? ORDER BY id"):
                select = f"SELECT id FROM body WHERE site = ? AND id {where} LIMIT ?"
                found += (n for (n,) in self.database.read(select, site, number, _BESIDE))
            found.sort(key=lambda each: abs(each - number))
        return found[:_BESIDE]

    def _nodes_of(self, number: int) -> frozenset[Node]:
        for page in self._find("id = ?", number):
            shown = Shown(page.url, None, page)
            return frozenset(shown.whole.nodes if shown.whole else ())
        return frozenset()
