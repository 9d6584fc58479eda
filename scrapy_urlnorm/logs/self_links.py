"""What a page says about its own names: permalinks of its parts, and its short link.

A forum prints beside each post a link ``?post=9#p9``, and the post is the element ``p9`` of the
same page. So ``?post=9`` may be another name of the page. Whether it is, other pages have to show:
see `scrapy_urlnorm.learning.aliases`.

Most pages have no such link, so the search begins with the rarest thing, the ``#`` in front of a
name. Only where there is one is the tree of the page asked, which the spider uses too.
"""

from __future__ import annotations

import re
from contextlib import suppress
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urljoin

from lxml import etree  # type: ignore[import-untyped]  # ships no types
from w3lib.html import get_base_url

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scrapy.http import HtmlResponse


#: Permalinks of a page that are read.
MAX_NAMES = 60
#: Links with a name that are looked at: a listing of source code has one on each line.
_MAX_LINKS = 1_000
_LONGEST_URL, _LONGEST_NAME = 2_000, 60

#: A link to ``#name`` alone, within the page, is passed over. The look back comes behind the ``#``
#: because an expression that begins with a plain character is searched for much faster.
_NAME = re.compile(r"""#(?<!["'= ]#)[A-Za-z0-9_:.\-]{1,60}["'\s>]""")
_LINKS = etree.XPath("//@href[contains(., '#')][not(starts-with(., '#'))]", smart_strings=False)
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
        has_links = _NAME.search(text) is not None
        if not (has_shortlink or has_links):
            return [], None
        base = get_base_url(text[:4096], response.url, response.encoding)
        root = response.selector.root
        links = _links(root, base) if has_links else []
        return links, _shortlink(text, root, base, headers) if has_shortlink else None
    except (ValueError, LookupError, etree.LxmlError, RecursionError):  # no page that can be read
        return [], None


def _links(root: Any, base: str) -> list[SelfLink]:
    """Return the links of a page to its own elements, each once; not those to ``#name`` alone."""
    found: dict[SelfLink, None] = {}
    hrefs = _LINKS(root)[:_MAX_LINKS]
    names = set(root.xpath("//@id | //a/@name", smart_strings=False)) if hrefs else ()
    for href in hrefs:
        address, _, name = href.strip().rpartition("#")
        is_short = len(name) <= _LONGEST_NAME and len(address) <= _LONGEST_URL
        if address and name in names and is_short:
            with suppress(ValueError):  # a bad host in the link
                url = urljoin(base, address)
                if url.startswith(("http://", "https://")):
                    found[SelfLink(url, name)] = None
    return list(found)[:MAX_NAMES]


def _shortlink(text: str, root: Any, base: str, headers: Iterable[bytes]) -> str | None:
    declared = root.xpath(_SHORTLINK, smart_strings=False) if "shortlink" in text else []
    matches = (_IN_HEADER.search(value.decode("latin-1")) for value in headers)
    found = next(chain(declared, (match[1] for match in matches if match)), "")
    url = ""
    with suppress(ValueError):  # a bad host in the link
        url = urljoin(base, found.strip()) if 0 < len(found) <= _LONGEST_URL else ""
    return url if url.startswith(("http://", "https://")) else None
