"""Rules on the query, which they read as ``name=value`` pairs between ``&``, and on the fragment.

Pairs are kept as raw text and edited as such. Names and values are decoded only to be compared
(``+`` is a space there: https://url.spec.whatwg.org/#urlencoded-parsing).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from scrapy_urlnorm.caches import BoundedCache
from scrapy_urlnorm.rules.escapes import decode_token, form_encoded, is_form_encoded, token_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

_AMP = re.compile(r"&(?:amp;)+")

#: Bounds of memos by parameter name: how many names, and the characters of one.
MOST_NAMES, LONGEST_NAME = 8_192, 128


def decode_html_amp(query: str, _: object = True) -> str:
    """Turn a left-over ``&amp;`` between parameters into ``&``.

    http://example.com/?a=1&amp;b=2 -> http://example.com/?a=1&b=2

    No other HTML entity is touched: ``&copy=`` and ``&note=`` are parameters.

    Semantics: changing; ``amp;b`` is a possible, if unlikely, name.
    Source: HTML attribute values taken as URLs without decoding them
    """
    return _AMP.sub("&", query) if "&amp;" in query else query


def drop_params(query: str, dropped: BoundedCache[bool]) -> str | None:
    """Remove parameters that do not select content: tracking and click ids.

    http://example.com/a?id=1&utm_source=news&fbclid=x -> http://example.com/a?id=1

    Option: ``"sure"`` drops what no site is known to take for content; ``"likely"`` also what
    may be content on some, such as the id of a mailing. Or a list of names in place of the
    curated ones (``name*`` for a beginning), or ``{"list": "sure", "add": [...], "except":
    [...]}`` to change those. Names match whole: ``ref`` is not ``xref``.

    Semantics: changing; a site may use any name for content.
    Source: the article "URI normalization", "Removing unused query variables"
    """
    pieces = query.split("&")
    kept = [piece for piece in pieces if not dropped[piece.partition("=")[0]]]
    return query if len(kept) == len(pieces) else rejoined(kept)


def dropped_names(
    patterns: Collection[str],
    excepted: Iterable[str] = (),
    is_curated: Callable[[str], bool] = lambda name: False,
) -> BoundedCache[bool]:
    """Tell, by a name as it is written, whether the parameter goes.

    Those of *patterns* go, ``utm_*`` standing for every longer name that begins so, and those that
    *is_curated* knows, but never one of *excepted*.
    """
    names = {name for name in patterns if name[-1] != "*"}
    beginnings = tuple(name[:-1] for name in patterns if name[-1] == "*")
    kept = frozenset(excepted)

    def is_dropped(text: str) -> bool:
        name = decode_token(text)
        if name in kept:
            return False
        if name in names or is_curated(name):
            return True
        return name.startswith(beginnings) and name not in beginnings

    return BoundedCache(is_dropped, most=MOST_NAMES, longest=LONGEST_NAME)


def keep_params(query: str, keep: frozenset[str]) -> str | None:
    """Remove every parameter but those listed.

    http://example.com/a?id=1&x=2 -> http://example.com/a?id=1     with ["id"]

    Option: the list of names.

    Semantics: changing; everything not listed is taken as unused.
    Source: the article "URI normalization", "Removing unused query variables"
    """
    return _filter_pairs(query, lambda name, _value: name in keep)


def drop_default_params(query: str, defaults: Mapping[str, frozenset[str]]) -> str | None:
    """Remove parameters that are at their default value.

    http://example.com/list?id=1&sort=name -> http://example.com/list?id=1
    with {"sort": "name"}

    Option: a mapping of name to default value, or to a list of values.

    Semantics: changing; right where the server answers alike with and without.
    Source: the article "URI normalization", "Removing default query parameters"
    """
    return _filter_pairs(query, lambda name, value: value not in defaults.get(name, ()))


def default_value_tests(
    defaults: Mapping[str, frozenset[str]],
) -> Callable[[str], Sequence[Callable[[str], bool]]]:
    """Return the tests for values of :func:`drop_default_params`; name and value as written."""

    def tests(name: str) -> Sequence[Callable[[str], bool]]:
        values = defaults.get(decode_token(name))
        return () if values is None else (lambda value: decode_token(value) in values,)

    return tests


def form_encode_query(query: str, _: object = True) -> str:
    """Write the query as an HTML form would send it, as stock Scrapy does.

    http://example.com/?q=a%20b&c -> http://example.com/?q=a+b&c=

    Empty pairs (``&&``) go, a name without ``=`` gets one, reserved characters are escaped.

    Semantics: changing; a server may tell ``?a`` from ``?a=``. It is here so that nobody gets
    more requests than from stock Scrapy.
    Source: https://url.spec.whatwg.org/#concept-urlencoded-serializer;
    w3lib.url.canonicalize_url
    """
    return query if not query or is_form_encoded(query) else form_encoded(query)


def sort_query(query: str, mode: str = "pairs") -> str:
    """Sort the parameters by name, and those of one name by value.

    http://example.com/?b=2&a=1 -> http://example.com/?a=1&b=2

    Option: ``"stable"`` sorts by name only, so that the values of one name keep their order.

    Semantics: changing; order may matter, most of all among parameters of one name.
    Source: the article "URI normalization", "Sorting the query parameters";
    https://url.spec.whatwg.org/#dom-urlsearchparams-sort
    """
    if "&" not in query:
        return query
    pairs = [piece.partition("=") for piece in query.split("&")]
    if mode == "pairs" and "%" not in query and "+" not in query:
        ordered = sorted(pairs)
    else:
        tokens = {token for name, _, value in pairs for token in (name, value)}
        decoded = {token: token_bytes(token) for token in tokens}
        if mode == "pairs":
            ordered = sorted(pairs, key=lambda pair: (decoded[pair[0]], decoded[pair[2]]))
        else:
            ordered = sorted(pairs, key=lambda pair: decoded[pair[0]])
    return query if ordered == pairs else "&".join(map("".join, ordered))


def remove_empty_query(query: str, _: object = True) -> str | None:
    """Remove a ``?`` that nothing follows.

    http://example.com/display? -> http://example.com/display

    Semantics: changing; RFC 3986, section 6.2.3, lets no one assume that the two are equal.
    Source: the article "URI normalization", 'Removing the "?" when the query is empty'
    """
    return query or None


def remove_fragment(fragment: str, keep: tuple[str, ...] = ()) -> str | None:
    """Remove the fragment, which a client does not send.

    http://example.com/bar.html#section1 -> http://example.com/bar.html

    Option: a list of beginnings to keep, such as ``["#!", "#/"]`` for sites that route by
    fragment; of a fragment that is kept, the text directive ``:~:text=...`` still goes.

    Semantics: changing; pages that route by fragment show other content to a browser.
    Source: RFC 3986, section 3.5 and 6.1; https://wicg.github.io/scroll-to-text-fragment/
    """
    return fragment.partition(":~:")[0] if keep and fragment.startswith(keep) else None


# --- names and values -----------------------------------------------------------------------


def _filter_pairs(query: str, keep: Callable[[str, str], bool]) -> str | None:
    """Remove the pairs for which *keep* is false. An empty piece is no parameter, and stays."""
    pieces = query.split("&")
    gone = set()
    for piece in set(pieces):
        name, _, value = piece.partition("=")
        if piece and not keep(decode_token(name), decode_token(value)):
            gone.add(piece)
    return rejoined([piece for piece in pieces if piece not in gone]) if gone else query


def rejoined(pieces: list[str]) -> str | None:
    """Join the pieces that are left of a query; ``None``, for no query, if all are empty."""
    return "&".join(pieces) if any(pieces) else None
