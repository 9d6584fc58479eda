"""What a page says about its own names: permalinks of its parts, and its short link.

A forum prints beside each post a link ``?post=9#p9``, and the post is the element ``p9`` of the
same page. So ``?post=9`` may be another name of the page. Whether it is, other pages have to show:
see `scrapy_urlnorm.learning.aliases`.

Most pages have no such link, so the search begins with the rarest thing, the ``#`` in front of a
name. Only where there is one are the elements of the page looked up, in the tree that the spider
uses too.
"""

from __future__ import annotations

import re
from contextlib import suppress
from html import unescape
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urljoin

from lxml import etree  # type: ignore[import-untyped]  # ships no types
from w3lib.html import get_base_url

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scrapy.http import HtmlResponse

__all__ = ["MAX_NAMES", "SelfLink", "links_with_names", "names_of", "on_page", "shortlink_of"]

#: Permalinks of a page that are read.
MAX_NAMES = 60
#: Links with a name that are looked at: a listing of source code has one on each line.
_MAX_LINKS = 300
_LONGEST_URL = 2_000

#: A link to ``#name`` alone, within the page, is passed over. The look back comes behind the ``#``
#: because an expression that begins with a plain character is searched for much faster.
_NAME = re.compile(r"""#(?<!["'= ]#)([A-Za-z0-9_:.\-]{1,60})["'\s>]""")
#: To fold the case of the text would mean to copy it.
_SPELLINGS = ("href", "HREF", "Href")
_HREF = re.compile(r"""href\s*=\s*["']?([^"'<>\s]+)""", re.IGNORECASE)
_RELS = "concat(' ', normalize-space(translate(@rel, 'SHORTLINK', 'shortlink')), ' ')"
_SHORTLINK = f"(/html/head//link[contains({_RELS}, ' shortlink ')]/@href)[1]"
_IN_HEADER = re.compile(
    r"""<([^<>]{1,2000})>\s*;[^,]*?\brel\s*=\s*["']?shortlink\b""", re.IGNORECASE
)


class SelfLink(NamedTuple):
    """A link to a place with a name."""

    url: str  #: absolute, without the name
    name: str  #: behind the ``#``


def names_of(response: HtmlResponse) -> tuple[list[SelfLink], str | None]:
    """Return the permalinks of a page, and its short link or None. Nothing is raised.

    What is in a link to the URL of the page itself is returned too.
    """
    try:
        text = response.text
        headers = response.headers.getlist(b"Link")
        has_shortlink = bool(headers) or "shortlink" in text
        if not has_shortlink and _NAME.search(text) is None:
            return [], None
        base = get_base_url(text[:4096], response.url, response.encoding)
        links = links_with_names(text, base)
        if links:
            links = on_page(links, response.selector.root)
        if not has_shortlink:
            return links, None
        return links, shortlink_of(text, response.selector.root, base, headers)
    except (ValueError, LookupError, etree.LxmlError, RecursionError):  # no page that can be read
        return [], None


def links_with_names(text: str, base: str) -> list[SelfLink]:
    """Return the links of a page to places with a name, each once; not those to ``#name`` alone.

    *base* is the URL that relative links start from.
    """
    found: dict[SelfLink, None] = {}
    spellings = [name for name in _SPELLINGS if name in text]
    if not spellings:
        return []
    for match in _NAME.finditer(text):
        if len(found) >= _MAX_LINKS:
            break
        at = match.start()
        first = max(0, at - _LONGEST_URL)
        start = max(text.rfind(name, first, at) for name in spellings)
        href = _HREF.fullmatch(text, start, at) if start >= 0 else None
        if href is None:
            continue
        with suppress(ValueError):  # a bad host in the link
            url = urljoin(base, unescape(href[1]))
            if url.startswith(("http://", "https://")):
                found[SelfLink(url, match[1])] = None
    return list(found)


def on_page(links: Iterable[SelfLink], root: Any) -> list[SelfLink]:
    """Return those of *links* whose name an element of the page has, at most `MAX_NAMES`.

    *root* is the parsed page. A name is an ``id``, or the ``name`` of an ``a``.
    """
    links = list(links)
    if not links:
        return []
    names = set(root.xpath("//@id | //a/@name", smart_strings=False))
    return [link for link in links if link.name in names][:MAX_NAMES]


def shortlink_of(text: str, root: Any, base: str, headers: Iterable[bytes]) -> str | None:
    """Return the absolute URL that a page declares with ``rel=shortlink``, or None.

    *headers* are the values of its ``Link`` headers; the head of the page comes first.
    """
    found = None
    if "shortlink" in text:
        found = next(iter(root.xpath(_SHORTLINK, smart_strings=False)), None)
    for value in headers if found is None else ():
        if match := _IN_HEADER.search(value.decode("latin-1")):
            found = match[1]
            break
    if found is None or len(found) > _LONGEST_URL:
        return None
    try:
        url = urljoin(base, found.strip())
    except ValueError:  # a bad host in the link
        return None
    return url if url.startswith(("http://", "https://")) else None
