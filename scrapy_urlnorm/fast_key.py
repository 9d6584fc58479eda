"""The fast path: the keys of plain URLs, part by part.

One expression takes a URL apart into scheme and authority, path, query and fragment. A crawl has
few hosts and few sets of parameter names, so the rules themselves say once what becomes of each,
and the answer is kept. What is left for each URL is a handful of look-ups and tests of characters.
:mod:`~scrapy_urlnorm.rules.plain` tells which rules allow that, for which URLs.

The fast path returns ``None`` for any other URL, and where one run of the rules is not enough, since
there the order of rules might matter. Its answers equal those of the rules (a test checks).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from scrapy_urlnorm.caches import BoundedCache
from scrapy_urlnorm.query_plans import query_key
from scrapy_urlnorm.rules.escapes import MANY, MAYBE, UNRESERVED, find_bad_escape
from scrapy_urlnorm.url import join, parse

if TYPE_CHECKING:
    from scrapy_urlnorm.query_plans import QueryKey
    from scrapy_urlnorm.rules.compiled import Catalogue
    from scrapy_urlnorm.rules.plain import Edit, Plain

_Answer = TypeVar("_Answer")
FastKey = Callable[[str], "str | None"]
#: By scheme and authority as they are written, what becomes of them; ``None`` if it cannot be told.
Heads = BoundedCache["str | None"]
#: Takes the key by the catalogue, and its scheme and authority. Returns the key by the rules of the
#: site too, or ``None`` if it cannot tell.
SiteKey = Callable[[str, str], "str | None"]

#: How many different beginnings of URLs are remembered, and the characters of one. A broad crawl
#: meets tens of thousands of hosts in turns: with fewer places it would forget each before its time.
_MOST_PREFIXES, _LONGEST_PREFIX = 65_536, 256


class PlainUrls(NamedTuple):
    """How plain URLs are recognized, and their parts normalized, by the catalogue alone."""

    plain: Plain
    expression: re.Pattern[str]  # with groups for prefix, path and query
    heads: Heads
    query_key: QueryKey


def plain_urls(catalogue: Catalogue) -> PlainUrls | None:
    """Compile what the rules of *catalogue* say of plain URLs; ``None`` if one says nothing."""
    plain = catalogue.plain()
    if plain is None:
        return None

    def head_of(prefix: str) -> str | None:
        url = parse(f"{prefix}/")
        new = None if url is None else catalogue.run_once(url)
        if new is None:
            return None
        head = join(new)[:-1]
        return prefix if head == prefix else head  # one text takes less memory than two

    return PlainUrls(plain, _expression(plain), memo(head_of), query_key(plain, catalogue))


def memo(function: Callable[[str], _Answer]) -> BoundedCache[_Answer]:
    """Return a memo of what is known by scheme and authority."""
    return BoundedCache(function, most=_MOST_PREFIXES, longest=_LONGEST_PREFIX)


def fast_key(
    urls: PlainUrls, heads: Heads | None = None, site_key: SiteKey | None = None
) -> FastKey:
    """Return a function that gives the key of a plain URL, and ``None`` for any other URL.

    With site rules, *heads* are those of the URLs that have no catalogue of their own.
    """
    plain, expression, own_heads, query_key = urls
    fullmatch = expression.fullmatch
    heads = own_heads if heads is None else heads
    decode, edit, ends = plain.decode_path, _in_turn(plain.path_edits), plain.edited_ends
    empty_path = "/" if plain.add_root_slash else ""
    no_group = "/." if plain.groups else "/("

    def key_of(url: str) -> str | None:
        match = fullmatch(url)
        if match is None:
            return None
        prefix, path, query = match.groups()
        head = heads[prefix]
        if "%" in path:
            if find_bad_escape(path):
                return None
            path = decode(path)
        if head is None or "/." in path or no_group in path:
            return None
        if not path:
            path = empty_path
        if edit is not None and ("//" in path or path.endswith(ends)):
            before = path
            path = edit(before)
            if path is not before and edit(path) != path:
                return None
        key = head + path
        if query is not None:
            query = query_key(query)
            if query:
                key = f"{key}?{query}"
            elif query is not None:
                return None
        if key == url:
            key = url
        return key if site_key is None else site_key(key, head)

    return key_of


def _in_turn(edits: list[Edit]) -> Edit | None:
    """Return one function that does what *edits* do one after the other, ``None`` for none."""
    if not edits:
        return None

    def edited(path: str) -> str:
        for edit in edits:
            path = edit(path)
        return path

    return edited


def _expression(plain: Plain) -> re.Pattern[str]:
    """Return an expression for plain URLs.

    No part can go on with what begins the next: a URL that does not match takes linear time.
    """
    # A control character or a space goes where it ends the URL; a backslash ends the authority.
    prefix = rf"[A-Za-z][A-Za-z0-9+.\-]{MANY}://[^/?#\\\x00-\x20]{MANY}"
    path = rf"/[{UNRESERVED}!$&'()*+,:=@%/]{MANY}|"
    if plain.form_encode:
        query = '!"$-~' if plain.semicolons else '!"$-:<-~'
    else:
        query = UNRESERVED + r"!$&'()*+,:=@/?\[\]%" + ";" * plain.semicolons
    fragment = "" if plain.fragment is None else f"(?:{plain.fragment}){MAYBE}"
    return re.compile(rf"({prefix})({path})(?:\?([{query}]{MANY})){MAYBE}{fragment}")
