"""The short cut for plain URLs, which most URLs of a crawl are.

A plain URL has a host and a path that no rule touches and only parameters that no rule knows: at
most its parameters are to be form-encoded and sorted, an empty path is to become the root, and
the fragment is to go. One regular expression, built for the rules that are on, recognizes it.
For everything else the rules decide; what the short cut answers is what they would answer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from scrapy_urlnorm.caches import BoundedCache
from scrapy_urlnorm.rules.escapes import (
    ESCAPE,
    ESCAPE_IN_PATH,
    FORM_TOKEN,
    MANY,
    UNRESERVED,
    text_of,
)
from scrapy_urlnorm.rules.params import LONGEST_NAME, MOST_NAMES
from scrapy_urlnorm.rules.query import form_encoded, sorted_query

if TYPE_CHECKING:
    from scrapy_urlnorm.rules.params import ParamMatcher
    from scrapy_urlnorm.rules.sessions import SessionMatcher

Shortcut = Callable[[str], "str | None"]

# Rules that the expression below does not describe: with one of them on there is no short cut,
# or none for queries. (Rules on ports, user info, IP addresses and dots at the end of a host
# need no word: such URLs are not plain.)
_NO_SHORTCUT = {"strip-amp"}
_NO_SHORTCUT_FOR_QUERIES = {"keep-params", "drop-default-params"}


class PlainUrls(NamedTuple):
    """Which URLs are plain for some rules, and how their parameters are sorted."""

    expression: re.Pattern[str]
    names: BoundedCache[bool]
    order: str | None


def plain_urls(options: Mapping[str, Any]) -> PlainUrls | None:
    """Describe the URLs that are plain for these rules (name -> compiled option).

    ``None`` where no expression describes them: all URLs go the long way then.
    """
    if _NO_SHORTCUT & options.keys() or options.get("www") == "add":
        return None
    if "add-root-slash" not in options:
        return None
    expression = re.compile(
        f"({_scheme(options)}{_host(options)}{_path(options)}){_query(options)}{_fragment(options)}"
    )
    return PlainUrls(expression, _plain_name_test(options), options.get("sort-query"))


def build(urls: PlainUrls, site_key: Callable[[str, str], str | None] | None = None) -> Shortcut:
    """Return the short cut for *urls*.

    It returns the key of a plain URL, and ``None`` for any other. *site_key* makes of a host and
    a key by the catalogue the key by the rules of the site too, or ``None`` if it cannot tell.
    """
    fullmatch = urls.expression.fullmatch
    plain = urls.names
    order = urls.order

    def shortcut(url: str) -> str | None:
        match = fullmatch(url)
        if match is None:
            return None
        key, host, path, query, loose_query = match.groups()
        if not path:
            key += "/"
        if loose_query is not None:
            query = form_encoded(loose_query)
            if not query:  # nothing but "&": not for us to say what becomes of the "?"
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

    return shortcut


def _no_index(options: Mapping[str, Any]) -> str:
    """Return an expression that fails for a path that may end in an index name.

    It stands before the host, where it is tried once; behind it, it would be tried anew at every
    label of a host that is not plain.
    """
    names = options.get("remove-directory-index")
    if not names:
        return ""
    stems = "|".join(sorted({re.escape(name.partition(".")[0]) for name in names}))
    return rf"(?![^?#]*/(?:{stems})(?:\.[^/?#]*)?(?:[?#]|$))"


def _scheme(options: Mapping[str, Any]) -> str:
    return f"{options.get('force-scheme', 'https?')}://"


def _host(options: Mapping[str, Any]) -> str:
    labels = []
    if "www" in options:
        labels.append(r"www\.")
    if "strip-mobile-host" in options:
        labels += [r"m\.", r"mobile\."]
    unwanted = f"(?!{'|'.join(labels)})" if labels else ""
    # The last label begins with a letter: no number, no IPv4 address.
    return unwanted + _no_index(options) + r"((?:[a-z0-9_-]+\.)*[a-z][a-z0-9_-]*)"


def _path(options: Mapping[str, Any]) -> str:
    letters = UNRESERVED.replace("A-Z", "") if "lowercase-path" in options else UNRESERVED
    # ";" may begin a session id, and has a meaning of its own besides.
    characters = letters + "!$&'()*+,:=@"
    escape = ESCAPE_IN_PATH if "decode-path-reserved" in options else ESCAPE
    # No segment begins with a dot, and none with "(", where it may be a session id.
    unwanted = "./(" if "remove-session-ids" in options else "./"
    segment = rf"(?=[^{unwanted}])(?:[{characters}]|{escape}){text_of(characters, escape)}"
    mode = options.get("trailing-slash")
    end = {"remove": "(?<!/)", "add": "(?<=/)"}[mode] if mode else ""
    if "remove-duplicate-slashes" in options or mode == "remove":
        path = rf"((?:/{segment})+/?{end}|/|)"
    else:
        path = rf"((?:/(?:{segment})?)+{end}|)"
    return path


def _query(options: Mapping[str, Any]) -> str:
    if _NO_SHORTCUT_FOR_QUERIES & options.keys():
        return "(?:((?!))((?!)))?"  # no query is plain
    if "form-encode-query" in options:
        token = FORM_TOKEN
        encoded = f"{token}={token}(?:&{token}={token}){MANY}(?=#|$)"
        # Or anything printable, but for the ";" that may end an "&amp;".
        loose = r'[!"$-:<-~]+' if "decode-html-amp" in options else r'[!"$-~]+'
        return rf"(?:\?(?:({encoded})|({loose})))?"
    # Without the rule on form, what is legal is plain, but for ";" which may end an "&amp;".
    text = text_of(UNRESERVED + r"!$&'()*+,:=@/?\[\]", ESCAPE)
    empty = "(?!#|$)" if "remove-empty-query" in options else ""
    return rf"(?:\?({empty}{text})((?!))?)?"


def _fragment(options: Mapping[str, Any]) -> str:
    kept = options.get("remove-fragment")
    if kept == ():
        return "(?:#[!-~]*)?"
    return ""


def _plain_name_test(options: Mapping[str, Any]) -> BoundedCache[bool]:
    """Return a test for what the expression cannot see: a parameter that some rule knows."""
    drop: ParamMatcher | None = options.get("drop-params")
    sessions: SessionMatcher | None = options.get("remove-session-ids")

    def is_plain(name: str) -> bool:
        known = (drop is not None and drop.as_written[name]) or (
            sessions is not None and sessions.as_written(name)
        )
        return not known

    return BoundedCache(is_plain, most=MOST_NAMES, longest=LONGEST_NAME)
