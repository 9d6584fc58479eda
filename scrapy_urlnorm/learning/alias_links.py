"""What the links look like by which a page claims other names, and what names look like."""

from __future__ import annotations

import re
from typing import NamedTuple

from scrapy_urlnorm.url import Url, split

_HEX = re.compile(r"[0-9a-f]{12,}")
_DIGITS = re.compile(r"\d+")
_SHORT_NAME = re.compile(r"[A-Za-z:_-]{0,20}(?:#|<hash>)?[a-z]?")
_PAGE_NUMBER = re.compile(
    r"(?:^|[/&?])(?:comment-)?(?:page|paged|cpage|start|offset|pg|p)[=/-]?(\d+)(?=/|&|$)",
    re.IGNORECASE,
)


class Link(NamedTuple):
    """A link by which a page claims another name, and what it looks like."""

    url: str
    look: tuple[str, ...]  #: the same for all links of one pattern and of its sibling
    place: str | None  #: the name of the element it leads to; ``None`` for a short link


def permalink(page: str, url: str, name: str) -> Link:
    """Return the link ``url#name`` of *page*, an element of which has the name."""
    of_page, of_link = split(page), split(url)
    is_same_path = of_page.path == of_link.path
    known = set(_params(of_page))
    added = sorted({each.partition("=")[0] for each in _params(of_link) if each not in known})
    fragment = _DIGITS.sub("#", _HEX.sub("<hash>", name))
    look = (
        "permalink",
        of_link.host or "",
        "same path" if is_same_path else "other path",
        "same folder" if _first_segment(of_page) == _first_segment(of_link) else "other folder",
        "same host" if of_page[:4] == of_link[:4] else "other host",
        _shape(of_link.path, keeps_first=True),
        "?" + "&".join(added),
        "#" + fragment if _SHORT_NAME.fullmatch(fragment) else "#text",
    )
    return Link(url, look, name)


def shortlink(page: str, url: str) -> Link | None:
    """Return the short link *url* of *page*; ``None`` if it says nothing about the page.

    It has to have the host of the page. A page with a number, ``/comment-page-2/``, often has the
    short link of the first page.
    """
    of_page, of_link = split(page), split(url)
    if of_page.host != of_link.host or _page_numbers(of_page) - _page_numbers(of_link):
        return None
    look = (
        "shortlink",
        of_link.host or "",
        _shape(of_page.path, keeps_first=False),
        _shape(of_link.path, keeps_first=False),
        "?" + "&".join(sorted({each.partition("=")[0] for each in _params(of_link)})),
    )
    return Link(url, look, None)


def _params(url: Url) -> list[str]:
    return [each for each in (url.query or "").replace(";", "&").split("&") if each]


def _first_segment(url: Url) -> str:
    return url.path[1:].partition("/")[0]


def _page_numbers(url: Url) -> set[str]:
    return set(_PAGE_NUMBER.findall(f"{url.path}?{url.query or ''}"))


def _shape(path: str, *, keeps_first: bool) -> str:
    """Return a path with ``#`` for segments with digits and ``w`` for others.

    The first of several segments stays as it is: it may be one of many applications on a host.
    """
    segments = path.split("/")
    last = segments.pop()
    shape = ["#" if _DIGITS.search(segment) else "w" if segment else "" for segment in segments]
    if keeps_first and len(shape) > 1 and shape[1] == "w" and (last or len(shape) > 2):
        shape[1] = segments[1]
    name, dot, extension = last.rpartition(".")
    end = "#" if _DIGITS.search(name or last) else "w" if last else ""
    if dot and len(extension) <= 5:
        end += dot + extension
    return "/".join((*shape, end))
