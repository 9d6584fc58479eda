"""Compares two pages: whether what a rule says of their URLs is so."""

from __future__ import annotations

from contextlib import suppress
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urljoin

from scrapy.http import HtmlResponse
from scrapy.utils.response import get_base_url

from scrapy_urlnorm.logs.observation import LEAST_FILE
from scrapy_urlnorm.logs.page_identity import Identity, shown_by
from scrapy_urlnorm.url import split

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy.http import Response

    from scrapy_urlnorm.logs.blocks import Block

#: Hexadecimal digits of the digest of a page's words that crawlers tell one another.
TOLD_WORDS = 24
#: Bytes of a page whose text is read while the event loop waits. A larger page is known by its
#: bytes: that its text equals another is not noticed, so it is fetched.
LARGEST_READ = 300_000
#: Bytes of what is no HTML whose digest is made while the event loop waits. What is larger is
#: always fetched.
LARGEST_FILE = 16 * 1024 * 1024
#: Links of a page that are compared.
_MOST_LINKS = 500


class Verdict(Enum):
    """What two pages say of the rules that make their URLs one."""

    AGREES = "agrees"
    DIFFERS = "differs"
    UNSTABLE = "unstable"  #: one of them has changed by itself, so nothing is proved


class Shown(NamedTuple):
    """What one fetch of a URL showed."""

    url: str  #: "" where it is not known: the page arrived at another crawler
    content: Identity | None
    response: Response | None = None  #: without it the links are not compared
    blocks: list[Block] | None = None


def verdict(
    representative: Shown,
    found: Shown,
    again: tuple[Shown | None, Shown | None] | None = None,
    *,
    key_of: Callable[[str], object] = lambda url: url,
    is_same: Callable[[Shown, Shown], bool | None] | None = None,
) -> Verdict | None:
    """Return whether *found*, the page of a URL, is the one that *representative* showed.

    ``None`` asks the caller to fetch the representative *again*, twice: other content may mean that
    the page changes by itself. *is_same* compares pages that were fetched one after the other.
    *key_of* returns cluster keys, for the links of the page.

    =====================================  ======================================================
    the page equals the representative     agrees
    it equals the representative now       agrees, or unstable if the representative has changed
    it does not                            differs, whatever the representative has become
    the representative does not come       unstable
    =====================================  ======================================================
    """
    is_same = is_same or (lambda one, other: same_content(one.content, other.content))
    if again is None:
        if same_content(representative.content, found.content):
            is_other = leads_elsewhere(representative, found, key_of)
            return Verdict.DIFFERS if is_other else Verdict.AGREES
        return None if representative.url else Verdict.DIFFERS
    now, after = again
    if now is None or after is None or (said := is_same(found, now)) is None:
        return Verdict.UNSTABLE
    if not said or leads_elsewhere(representative, found, key_of):
        return Verdict.DIFFERS
    has_stayed = representative.content is None or is_same(representative, now)
    return Verdict.AGREES if has_stayed else Verdict.UNSTABLE


def shown_in_crawl(response: Response) -> tuple[Identity | None, list[Block] | None]:
    """Return the identity of a page by its bytes, and its blocks if it is no larger than may be."""
    return shown_by(response, LARGEST_READ)


def blocks_in_crawl(response: Response) -> list[Block] | None:
    """Return the blocks of a page that was fetched again."""
    return shown_in_crawl(response)[1]


def is_comparable(response: Response) -> bool:
    """Return whether a page has a content to compare, or a file that is neither small nor huge."""
    if isinstance(response, HtmlResponse):
        return True
    return LEAST_FILE <= len(response.body) <= LARGEST_FILE


def same_content(one: Identity | None, other: Identity | None) -> bool:
    """Return whether two pages have the same content; unknown content equals none."""
    if one is None or other is None:
        return False
    if one.agrees(other):
        return True
    words, others = one.bag_digest, other.bag_digest
    return bool(words and others and words[:TOLD_WORDS] == others[:TOLD_WORDS])


def leads_elsewhere(representative: Shown, found: Shown, key_of: Callable[[str], object]) -> bool:
    """Return whether relative links of a page are others than the same links at the other URL.

    A final slash or one segment more, and ``part-2`` is another page (RFC 3986, section 5.2). Two
    URLs with as many slashes have links side by side, which the rule between them makes one as it
    does the pages.
    """
    response, url, other = found.response, found.url, representative.url
    if not other or split(url).path.count("/") == split(other).path.count("/"):
        return False
    if not isinstance(response, HtmlResponse) or get_base_url(response) != response.url:
        return False  # with a base of its own, its links do not depend on its URL
    for href in response.xpath("//a/@href").getall()[:_MOST_LINKS]:
        link = href.strip()
        if not link or link[0] in "/#" or ":" in link.partition("/")[0]:
            continue
        with suppress(ValueError):  # a bad host in the link
            here, there = urljoin(url, link), urljoin(other, link)
            if here != there and key_of(here) != key_of(there):
                return True
    return False
