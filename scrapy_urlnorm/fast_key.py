"""The fast path: the keys of plain URLs, without running a rule.

Most URLs of a crawl are plain. Each rule that is on says which URLs it takes for plain
(:mod:`~scrapy_urlnorm.rules.plain`), and one regular expression, made of these words, recognizes
them. The fast path makes four simple changes itself: it gives an empty path its slash, encodes the
parameters as a form does, sorts them, and removes the fragment.

The fast path returns ``None`` for any other URL. Its answers equal those of the rules (a test
checks).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from scrapy_urlnorm.caches import BoundedCache
from scrapy_urlnorm.rules.escapes import ESCAPE, FORM_TOKEN, MANY, UNRESERVED, text_of
from scrapy_urlnorm.rules.params import LONGEST_NAME, MOST_NAMES
from scrapy_urlnorm.rules.query import form_encoded, sorted_query

if TYPE_CHECKING:
    from scrapy_urlnorm.rules.plain import Plain

FastKey = Callable[[str], "str | None"]
_NOTHING = "(?!)"  # an expression that matches no text


class PlainUrls(NamedTuple):
    """How plain URLs are recognized, and how their parameters are sorted."""

    expression: re.Pattern[str]
    is_plain_param: BoundedCache[bool]  # by name: no expression can know all names of the rules
    sort: str | None


def plain_urls(plain: Plain) -> PlainUrls:
    """Compile *plain*, a description, into an expression and a test for names of parameters."""
    expression = re.compile(
        f"({plain.scheme}://{_host(plain)}{_path(plain)}){_query(plain)}{_fragment(plain)}"
    )
    no_params = plain.no_params

    def is_plain_param(name: str) -> bool:
        return not any(knows(name) for knows in no_params)

    cache = BoundedCache(is_plain_param, most=MOST_NAMES, longest=LONGEST_NAME)
    return PlainUrls(expression, cache, plain.sort)


def fast_key(urls: PlainUrls, site_key: Callable[[str, str], str | None] | None = None) -> FastKey:
    """Return a function that gives the key of a plain URL, and ``None`` for any other URL.

    *site_key* takes a host and the key by the catalogue. It returns the key by the rules of the
    site too, or ``None`` if it cannot tell.
    """
    fullmatch = urls.expression.fullmatch
    plain = urls.is_plain_param
    order = urls.sort

    def key_of(url: str) -> str | None:
        match = fullmatch(url)
        if match is None:
            return None
        key, host, path, query, loose_query = match.groups()
        if not path:
            key += "/"
        if loose_query is not None:
            query = form_encoded(loose_query)
            if not query:  # nothing but "&": other rules decide whether the "?" stays
                return None
        if query is not None:
            if "&" in query:
                pairs = [piece.partition("=") for piece in query.split("&")]
                for name, _, _ in pairs:
                    if not plain[name]:
                        return None
                if order is not None:
                    query = sorted_query(query, order, pairs)
            elif not plain[query.partition("=")[0]]:
                return None
            key = f"{key}?{query}"
        return key if site_key is None else site_key(host, key)

    return key_of


def _host(plain: Plain) -> str:
    """Return an expression for the host, which is its one group.

    What a host must not begin with, and what a path must not end in, is looked for before the
    host, where the look-ahead is tried once; after a label it would be tried at every label.
    """
    look_ahead = rf"(?={re.escape(plain.first_label)}\.)" if plain.first_label else ""
    if plain.no_first_labels:
        look_ahead += rf"(?!(?:{'|'.join(plain.no_first_labels)})\.)"
    if plain.no_last_segments:
        names = "|".join(map(re.escape, plain.no_last_segments))
        look_ahead += rf"(?![^?#]*/(?:{names})(?:\.[^/?#]*)?(?:[?#]|$))"
    # The last label begins with a letter: no number, no IPv4 address.
    return look_ahead + r"((?:[a-z0-9_-]+\.)*[a-z][a-z0-9_-]*)"


def _path(plain: Plain) -> str:
    """Return an expression for the path, which is its one group."""
    characters = plain.characters + "!$&'()*+,:=@"
    text = text_of(characters, plain.escape)
    segment = rf"(?=[^{plain.no_segment_begins}])(?:[{characters}]|{plain.escape}){text}"
    end = {None: "", True: "(?<=/)", False: "(?<!/)"}[plain.last_slash]
    if plain.empty_segments:
        path = rf"(?:/(?:{segment})?)+{end}"
    else:
        path = rf"(?:/{segment})+/?{end}|/"
    return f"({path}|)" if plain.add_root_slash else f"({path})"


def _query(plain: Plain) -> str:
    """Return an expression for the query: one group if it stays, another if it is to be encoded."""
    if not plain.queries:
        return f"(?:({_NOTHING})({_NOTHING}))?"
    if plain.form_encode:
        encoded = rf"{FORM_TOKEN}={FORM_TOKEN}(?:&{FORM_TOKEN}={FORM_TOKEN}){MANY}(?=#|$)"
        printable = r'[!"$-~]+' if plain.semicolons else r'[!"$-:<-~]+'
        return rf"(?:\?(?:({encoded})|({printable})))?"
    legal = text_of(UNRESERVED + r"!$&'()*+,:=@/?\[\]" + ";" * plain.semicolons, ESCAPE)
    not_empty = "" if plain.empty_query else "(?!#|$)"
    return rf"(?:\?({not_empty}{legal})({_NOTHING})?)?"


def _fragment(plain: Plain) -> str:
    return "(?:#[!-~]*)?" if plain.remove_fragment else ""
