"""Rules on the query, which they read as ``name=value`` pairs between ``&``.

Pairs are kept as raw text and edited as such. Names and values are decoded only to be compared
(``+`` is a space there: https://url.spec.whatwg.org/#urlencoded-parsing).
"""

from __future__ import annotations

import re
from operator import itemgetter
from typing import TYPE_CHECKING

from scrapy_urlnorm.rules.escapes import (
    FORM_TOKEN,
    MANY,
    decode_token,
    form_encoded_often,
    form_encoded_token,
    token_bytes,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from scrapy_urlnorm.rules.params import ParamMatcher
    from scrapy_urlnorm.url import Url

#: Matches a query that is written as an HTML form would send it.
is_form_encoded = re.compile(
    rf"{FORM_TOKEN}={FORM_TOKEN}(?:&{FORM_TOKEN}={FORM_TOKEN}){MANY}"
).fullmatch
_AMP = re.compile(r"&(?:amp;)+")


def decode_html_amp(url: Url, _: object = True) -> Url:
    """Turn a left-over ``&amp;`` between parameters into ``&``.

    http://example.com/?a=1&amp;b=2 -> http://example.com/?a=1&b=2

    No other HTML entity is touched: ``&copy=`` and ``&note=`` are parameters.

    Semantics: changing; ``amp;b`` is a possible, if unlikely, name.
    Source: HTML attribute values taken as URLs without decoding them
    """
    query = url.query
    if not query or "&amp;" not in query:
        return url
    return url.with_query(_AMP.sub("&", query))


def drop_params(url: Url, drop: ParamMatcher) -> Url:
    """Remove parameters that do not select content: tracking and click ids.

    http://example.com/a?id=1&utm_source=news&fbclid=x -> http://example.com/a?id=1

    Option: ``"sure"`` drops what no site is known to take for content; ``"likely"`` also what
    may be content on some, such as the id of a mailing. Or a list of names in place of the
    curated ones (``name*`` for a beginning), or ``{"list": "sure", "add": [...], "except":
    [...]}`` to change those. Names match whole: ``ref`` is not ``xref``.

    Semantics: changing; a site may use any name for content.
    Source: the article "URI normalization", "Removing unused query variables"
    """
    query = url.query
    if not query:
        return url
    dropped = drop.as_written
    pieces = query.split("&")
    kept = [piece for piece in pieces if not dropped[piece.partition("=")[0]]]
    return url if len(kept) == len(pieces) else url.with_query(_rejoin(kept))


def keep_params(url: Url, keep: frozenset[str]) -> Url:
    """Remove every parameter but those listed.

    http://example.com/a?id=1&x=2 -> http://example.com/a?id=1     with ["id"]

    Option: the list of names.

    Semantics: changing; everything not listed is taken as unused.
    Source: the article "URI normalization", "Removing unused query variables"
    """
    return _filter_pairs(url, lambda name, _value: name in keep)


def drop_default_params(url: Url, defaults: Mapping[str, frozenset[str]]) -> Url:
    """Remove parameters that are at their default value.

    http://example.com/list?id=1&sort=name -> http://example.com/list?id=1
    with {"sort": "name"}

    Option: a mapping of name to default value, or to a list of values.

    Semantics: changing; right where the server answers alike with and without.
    Source: the article "URI normalization", "Removing default query parameters"
    """
    return _filter_pairs(url, lambda name, value: value not in defaults.get(name, ()))


def form_encode_query(url: Url, _: object = True) -> Url:
    """Write the query as an HTML form would send it, as stock Scrapy does.

    http://example.com/?q=a%20b&c -> http://example.com/?q=a+b&c=

    Empty pairs (``&&``) go, a name without ``=`` gets one, reserved characters are escaped.

    Semantics: changing; a server may tell ``?a`` from ``?a=``. It is here so that nobody gets
    more requests than from stock Scrapy.
    Source: https://url.spec.whatwg.org/#concept-urlencoded-serializer;
    w3lib.url.canonicalize_url
    """
    query = url.query
    if not query:
        return url
    encoded = form_encoded(query)
    return url if encoded == query else url.with_query(encoded)


def form_encoded(query: str) -> str:
    """Return *query* as an HTML form would send it; see :func:`form_encode_query`."""
    if is_form_encoded(query):
        return query
    often = form_encoded_often(query)
    if is_form_encoded(often):
        return often
    pairs = [piece.partition("=") for piece in query.split("&") if piece]
    return "&".join(
        [f"{form_encoded_token(name)}={form_encoded_token(value)}" for name, _, value in pairs]
    )


def sort_query(url: Url, mode: str = "pairs") -> Url:
    """Sort the parameters by name, and those of one name by value.

    http://example.com/?b=2&a=1 -> http://example.com/?a=1&b=2

    Option: ``"stable"`` sorts by name only, so that the values of one name keep their order.

    Semantics: changing; order may matter, most of all among parameters of one name.
    Source: the article "URI normalization", "Sorting the query parameters";
    https://url.spec.whatwg.org/#dom-urlsearchparams-sort
    """
    query = url.query
    if not query or "&" not in query:
        return url
    ordered = sorted_query(query, mode)
    return url if ordered is query else url.with_query(ordered)


def sorted_query(query: str, mode: str) -> str:
    """Return *query* in order, or *query* itself if it is; see :func:`sort_query`."""
    pairs = [piece.partition("=") for piece in query.split("&")]
    if mode == "pairs" and "%" not in query and "+" not in query:
        in_order = sorted(pairs)
        return query if in_order == pairs else "&".join(map("".join, in_order))
    names = [pair[0] for pair in pairs]
    key: Callable[[tuple[str, str, str]], object]
    if "%" not in query and "+" not in query:
        key = _first
    elif len(set(names)) == len(names) and not any("%" in n or "+" in n for n in names):
        key = _first  # the names alone decide
    else:
        decoded = _Decoded()
        if mode == "pairs":
            key = lambda pair: (decoded[pair[0]], decoded[pair[2]])
        else:
            key = lambda pair: decoded[pair[0]]
    ordered = sorted(pairs, key=key)
    return query if ordered == pairs else "&".join(map("".join, ordered))


def remove_empty_query(url: Url, _: object = True) -> Url:
    """Remove a ``?`` that nothing follows.

    http://example.com/display? -> http://example.com/display

    Semantics: changing; RFC 3986, section 6.2.3, lets no one assume that the two are equal.
    Source: the article "URI normalization", 'Removing the "?" when the query is empty'
    """
    return url if url.query != "" else url.with_query(None)


# --- names and values -----------------------------------------------------------------------


_first = itemgetter(0)


class _Decoded(dict[str, bytes]):
    """The bytes of the tokens of one query; a repeated token is decoded only once."""

    def __missing__(self, token: str) -> bytes:
        found = self[token] = token_bytes(token)
        return found


def _filter_pairs(url: Url, keep: Callable[[str, str], bool]) -> Url:
    """Remove the pairs for which *keep* is false, and an empty query with the last of them."""
    query = url.query
    if not query:
        return url
    pieces = query.split("&")
    kept = []
    for piece in pieces:
        name, _, value = piece.partition("=")
        # An empty piece is no parameter, so it stays.
        if not piece or keep(decode_token(name), decode_token(value)):
            kept.append(piece)
    if len(kept) == len(pieces):
        return url
    return url.with_query(_rejoin(kept))


def _rejoin(pieces: list[str]) -> str | None:
    """Join the pieces that are left of a query; ``None``, for no query, if all are empty."""
    return "&".join(pieces) if any(pieces) else None
