"""Settle at once whether a URL is already in normal form.

Most URLs of a crawl are. One regular expression, built for the rules that are on, accepts the
plain shape of a normal URL; the parameters are then looked at by name. What it does not accept
may still be normal: the rules decide. What it accepts, every rule would leave as it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

IsNormal = Callable[[str], bool]

_CACHED_NAMES = 8_192

# Rules whose work the expression below does not describe: with one of them on, there is no
# short cut. (Rules on ports, user info, IP addresses and dots at the end of a host need no word:
# such URLs are never accepted.)
_NO_SHORT_CUT = {"strip-amp"}
_NO_SHORT_CUT_FOR_QUERIES = {"keep-params", "drop-default-params"}

_UNRESERVED = r"A-Za-z0-9._~\-"
# Escapes in upper case of all that is not unreserved...
_ESCAPE = r"%(?:[0189A-F][0-9A-F]|2[0-9A-CF]|3[A-F]|[46]0|5[B-E]|7[B-DF])"
# ... less what decode-path-reserved decodes, less the space that form encoding writes "+".
_ESCAPE_IN_PATH = r"%(?:[0189A-F][0-9A-F]|2[0235F]|3[BCEF]|5[CE]|60|7[B-DF])"
_ESCAPE_IN_FORM = r"%(?:[0189A-F][0-9A-F]|2[1-9A-CF]|3[A-F]|[46]0|5[B-E]|7[B-DF])"


def build(
    options: Mapping[str, Any], has_site_rules: Callable[[str], bool] | None = None
) -> IsNormal | None:
    """Return the test for these rules (name -> compiled option), ``None`` if there is none.

    *has_site_rules* tells whether a host has rules of its own, which no short cut can know.
    """
    if _NO_SHORT_CUT & options.keys() or options.get("www") == "add":
        return None
    fullmatch = re.compile(
        _scheme(options) + _host(options) + _path(options) + _query(options) + _fragment(options)
    ).fullmatch
    query_is_normal = _query_test(options)

    def is_normal(url: str) -> bool:
        match = fullmatch(url)
        if match is None:
            return False
        query = match["query"]
        return query is None or query_is_normal(query)

    if has_site_rules is None:
        return is_normal

    def is_normal_without_site_rules(url: str) -> bool:
        match = fullmatch(url)
        if match is None:
            return False
        host, query = match.group("host", "query")
        return not has_site_rules(host) and (query is None or query_is_normal(query))

    return is_normal_without_site_rules


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
    return unwanted + r"(?P<host>(?:[a-z0-9_-]+\.)*[a-z][a-z0-9_-]*)"


def _path(options: Mapping[str, Any]) -> str:
    letters = _UNRESERVED.replace("A-Z", "") if "lowercase-path" in options else _UNRESERVED
    # ";" and "(" may belong to a session id, ";" has a meaning of its own besides.
    character = rf"[{letters}!$&'*+,:=@)]"
    if "remove-session-ids" not in options:
        character = rf"[{letters}!$&'()*+,:=@]"
    escape = _ESCAPE_IN_PATH if "decode-path-reserved" in options else _ESCAPE
    # No segment begins with a dot, none is empty.
    segment = rf"(?!\.)(?:{character}|{escape}){_run(character, escape)}"
    slash = options.get("trailing-slash")
    end = {"remove": "(?<=[^/])", "add": "(?<=/)"}.get(slash, "") if slash else ""
    path = rf"(?:(?:/{segment})+/?{end}|/)"
    names = options.get("remove-directory-index")
    if names:
        stems = "|".join(sorted({re.escape(name.partition(".")[0]) for name in names}))
        path = rf"(?![^?#]*/(?:{stems})(?:\.[^/?#]*)?(?:[?#]|$))" + path
    return path


def _query(options: Mapping[str, Any]) -> str:
    if _NO_SHORT_CUT_FOR_QUERIES & options.keys():
        return "(?P<query>(?!))?"  # no query passes
    if "form-encode-query" in options:
        token = _run(f"[{_UNRESERVED}+]", _ESCAPE_IN_FORM)
        return rf"(?:\?(?P<query>{token}={token}(?:&{token}={token})*))?"
    # ";" may end "&amp;"; without the rules on form and order, anything legal is normal.
    text = _run(rf"[{_UNRESERVED}!$&'()*+,:=@/?\[\]]", _ESCAPE)
    empty = "(?!#|$)" if "remove-empty-query" in options else ""
    return rf"(?:\?(?P<query>{empty}{text}))?"


def _fragment(options: Mapping[str, Any]) -> str:
    if "remove-fragment" in options:
        return ""
    text = _run(rf"[{_UNRESERVED}!$&'()*+,;=:@/?\[\]]", _ESCAPE)
    return f"(?:#{text})?"


def _run(character: str, escape: str) -> str:
    """Return an expression for any text of these, in the form that cannot backtrack."""
    return f"{character}*(?:{escape}{character}*)*"


def _query_test(options: Mapping[str, Any]) -> Callable[[str], bool]:
    """Return a test for what the expression cannot see: names and order."""
    drop = options.get("drop-params")
    sessions = options.get("remove-session-ids")
    in_order = "sort-query" in options
    seen: dict[str, bool] = {}

    def is_plain(name: str) -> bool:
        # A name with an escape, and one that may carry a session, are for the rules.
        plain = (
            "%" not in name
            and "+" not in name
            and not (drop is not None and drop(name))
            and not (sessions is not None and sessions.may_match(name))
        )
        if len(seen) >= _CACHED_NAMES:
            seen.clear()
        seen[name] = plain
        return plain

    get = seen.get

    def query_is_normal(query: str) -> bool:
        if "&" not in query:
            name = query.partition("=")[0]
            plain = get(name)
            return is_plain(name) if plain is None else plain
        if in_order and ("%" in query or "+" in query):
            return False  # the order is that of the decoded names and values
        pairs = [piece.partition("=") for piece in query.split("&")]
        for name, _, _ in pairs:
            plain = get(name)
            if not (is_plain(name) if plain is None else plain):
                return False
        return not in_order or sorted(pairs) == pairs

    return query_is_normal
