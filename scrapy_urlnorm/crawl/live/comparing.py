"""Compares the contents of two pages, as the audit of a rule needs it."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING
from urllib.parse import urljoin

from scrapy.http import HtmlResponse
from scrapy.utils.response import get_base_url

from scrapy_urlnorm.logs.observation import LEAST_FILE
from scrapy_urlnorm.logs.page_identity import Identity, body_digest, identity_of
from scrapy_urlnorm.url import split

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from scrapy.http import Response

    from scrapy_urlnorm.crawl.live.frontier import Audit
    from scrapy_urlnorm.site_rules import SiteRule

#: Bytes that a login wall or a soft 404 has at most.
LONGEST_WALL = 20_000
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


def content_of(response: Response, rules: Iterable[SiteRule]) -> Identity | None:
    """Return the identity of the content of a page, as far as *rules* will ever compare it.

    ``None`` without rules. For rules that redirects taught, its bytes are enough. That spares
    reading the text of a page that is too long for a login wall or a soft 404.
    """
    sources = {rule.source for rule in rules}
    if not sources:
        return None
    if sources != {"redirect"} or len(response.body) <= LONGEST_WALL:
        return identity_in_crawl(response)
    digest = body_digest(response) if response.body else None
    return None if digest is None else Identity(digest)


def identity_in_crawl(response: Response) -> Identity | None:
    """Return the identity of the content of a page, as fast as a running crawl needs it."""
    return identity_of(response, LARGEST_READ)


def is_comparable(response: Response) -> bool:
    """Return whether a page has a content to compare, or a file that is neither small nor huge."""
    if isinstance(response, HtmlResponse):
        return True
    return LEAST_FILE <= len(response.body) <= LARGEST_FILE


def answers_as_said(audit: Audit, content: Identity | None) -> bool:
    """Return whether a page with *content*, which answered *audit*, is the one the rules said.

    Rules learned from redirects said that there is no such page: only the same bytes at the same
    path will do. From another path the same relative links lead to other pages.
    """
    witness = audit.witness.content
    if not any(rule.source == "redirect" for rule in audit.rules):
        return same_content(witness, content)
    return (
        witness is not None
        and content is not None
        and witness.digest == content.digest
        and audit.request is not None
        and split(audit.request.url).path == split(audit.witness.url).path
    )


def same_content(one: Identity | None, other: Identity | None) -> bool:
    """Return whether two pages have the same content; unknown content equals none."""
    if one is None or other is None:
        return False
    if one.agrees(other):
        return True
    words, others = one.bag_digest, other.bag_digest
    return bool(words and others and words[:TOLD_WORDS] == others[:TOLD_WORDS])


def leads_elsewhere(
    response: Response, url: str, witness: str, key_of: Callable[[str], object]
) -> bool:
    """Return whether relative links of a page are others than the same links at *witness*.

    The page in *response* answered *url*. A final slash or one segment more, and ``part-2`` is
    another page (RFC 3986, section 5.2). Two URLs with as many slashes have links side by side,
    which the rule between them makes one as it does the pages. *key_of* returns learned keys.
    """
    if split(url).path.count("/") == split(witness).path.count("/"):
        return False
    if not isinstance(response, HtmlResponse) or get_base_url(response) != response.url:
        return False  # with a base of its own, its links do not depend on its URL
    for href in response.xpath("//a/@href").getall()[:_MOST_LINKS]:
        link = href.strip()
        if not link or link[0] in "/#" or ":" in link.partition("/")[0]:
            continue
        with suppress(ValueError):  # a bad host in the link
            here, there = urljoin(url, link), urljoin(witness, link)
            if here != there and key_of(here) != key_of(there):
                return True
    return False
