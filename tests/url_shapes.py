"""Shapes of URLs made to keep a normalizer busy, each at any length."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strategies import OPTIONS

from scrapy_urlnorm import Normalizer, SiteRule

if TYPE_CHECKING:
    from collections.abc import Callable

HEX = "0A1B2C3D4E5F60718293A4B5C6D7E8F9"
PATH = "http://example.com/"
QUERY = "http://example.com/?"


def run(head: str, unit: str, tail: str = "") -> Callable[[int], str]:
    """Return a shape: *unit* over and over between *head* and *tail*."""
    return lambda length: head + unit * (length // len(unit)) + tail


def runs(head: str, *units: str, tail: str = "") -> Callable[[int], str]:
    """Return a shape: a run of each of *units*, one after the other, as often each."""
    size = sum(map(len, units))
    return lambda length: head + "".join(unit * (length // size) for unit in units) + tail


#: Name -> function of the length in characters.
SHAPES: dict[str, Callable[[int], str]] = {
    # escapes
    "percent signs": run(PATH, "%"),
    "percent signs, then digits": runs(PATH, "%", "3"),
    "percent signs, then digits, in the query": runs(QUERY, "%", "3"),
    "percent signs, then digits, in the host": runs("http://", "%", "3", tail=".com/"),
    "percent signs, then digits, before a semicolon": runs(PATH, "%", "3", tail=";a"),
    "forged escapes": run(PATH, "%%34%31"),
    "nested forged escapes": runs(PATH, "%", "%34%31", "41"),
    "halves of escapes": run(PATH, "%3"),
    "escaped percent signs": run(PATH, "%25"),
    "a tower of escaped percent signs": runs(PATH + "%", "25", tail="41"),
    "escapes in lower case": run(PATH, "%c3%a9"),
    "escapes of letters": run(PATH, "%41"),
    "escapes of reserved characters": run(PATH, "%2C%3a"),
    "escapes in names": run(QUERY, "%75tm_x=%41&"),
    "one name, capital values": run(QUERY, "a=A&"),
    # paths
    "slashes": run(PATH, "/"),
    "dots": run(PATH, "."),
    "dot segments": run(PATH, "../a/./"),
    "dot segments with semicolons": run(PATH, "..;/"),
    "semicolons": run(PATH, ";"),
    "a long number, then names between semicolons": runs(QUERY + "=", "1", ";x"),
    "one long segment": run(PATH, "a"),
    "one long segment with dots": run(PATH, "a."),
    "segments": run(PATH, "a/"),
    "schemes in the path": run(PATH, "http://"),
    "slashes, then a colon": runs(PATH, "a/", "//", ":"),
    "index names": run(PATH, "index.html/"),
    "index names, no end": run(PATH, "index.", "/x"),
    "amp": run(PATH, "amp/", "x"),
    "amp without an end": run("http://example.com", "/amp", "x"),
    "amp at the end": run("http://example.com/x", "/amp"),
    "suffixes of amp": run(PATH + "a", ".amp", ".html"),
    "session ids in the path": run(PATH, f";jsessionid={HEX}"),
    "names of session ids in the path": run(PATH, "jsessionid;"),
    "groups": run(PATH, "(S("),
    "groups, closed": run(PATH, "(S(lit3py55t21z5v55vlm25s55))/"),
    "groups in groups": runs(PATH, "(A", ")"),
    "one group of many": run(PATH + "(", "S(a)", ")"),
    # queries
    "ampersands": run(QUERY, "&"),
    "equals signs": run(QUERY, "="),
    "question marks": run(QUERY, "?"),
    "pairs": run(QUERY, "a=1&"),
    "pairs, no end": run(QUERY, "a=1&", "\x00"),
    "names without values": run(QUERY, "b&a&"),
    "semicolons in the query": run(QUERY, "a=1;"),
    "one long name": run(QUERY, "a"),
    "one long value": run(QUERY + "a=", "%2F"),
    "pluses": run(QUERY, "+"),
    "brackets": run(QUERY, "a[]=1&"),
    "entities": run(QUERY, "&amp;"),
    "entities, nested": runs(QUERY, "&amp", "amp;"),
    "session ids": run(QUERY, f"sid={HEX}&"),
    "names of sessions": run(QUERY, "PHPSESSID=x&CFID=1&ASPSESSIONIDA=2&"),
    "long names of sessions": runs(QUERY + "ASPSESSIONID", "A", tail="=1"),
    "tracking parameters": run(QUERY, "utm_source=a&gclid=b&"),
    "many names": lambda length: QUERY + "&".join(f"p{i:06}=1" for i in range(length // 10)),
    "names that begin alike": lambda length: (
        QUERY + "&".join("x" * 200 + f"{i:04}" for i in range(length // 205, 0, -1))
    ),
    "fragments": run(PATH + "#", "#"),
    # hosts
    "labels": run("http://", "a.", "com/"),
    "labels, no end": run("http://", "a.", "com/\x00"),
    "labels www": run("http://", "www.", "example.com/"),
    "labels m": run("http://", "m.", "example.com/"),
    "one long label": run("http://", "a", ".com/"),
    "labels of a known domain": run("http://", "a.", "example.com/"),
    "dots in the host": run("http://", ".", "/"),
    "digits": run("http://", "1", "/"),
    "numbers": run("http://", "1.", "1/"),
    "punycode": run("http://", "xn--a.", "com/"),
    "international labels": run("http://", "é.", "com/"),
    "one international label": run("http://", "漢字", ".com/"),
    "international hosts in the path": lambda length: (
        PATH + "/".join(["http://" + "é" * 1000] * max(1, length // 1008))
    ),
    "digits of the port": run("http://example.com:", "0", "80/"),
    "at signs": run("http://", "@", "example.com/"),
    "colons": run("http://", ":", "example.com/"),
    "open brackets": run("http://", "[", "/"),
    "groups of an address": run("http://[", "1:", "]/"),
    # what is no URL character, and what is no URL
    "lone surrogates": run(PATH, "\udc80"),
    "lone surrogates in the host": run("http://", "\udc80", "/"),
    "spaces": run(PATH, " ", "a"),
    "tabs": run("http:", "\t", "//example.com/"),
    "backslashes": run("http://example.com", "\\"),
    "letters of other scripts": run(PATH, "é漢"),
    "letters of other scripts in the query": run(QUERY, "é=漢&"),
    "control characters": run(PATH, "\x00"),
    "a long scheme": run("", "a", "://example.com/"),
    "colons and slashes": run("", "://"),
}


def _site_rules() -> list[SiteRule]:
    """One rule of each kind that acts on these shapes, or looks at all of them to say no."""
    operations: list[dict[str, object]] = [
        {"kind": "host-alias", "host": "www.example.com", "by": "example.com"},
        {"kind": "prefix-alias", "prefix": "/amp", "by": "/c"},
        {"kind": "param-to-path", "param": "title", "path": "/w", "by": "/w/{}", "separator": ":"},
        {"kind": "split-segment", "prefix": "/", "separator": ";"},
        {"kind": "strip-segment", "prefix": "/a", "shape": "hex", "min_length": 1},
        {"kind": "strip-tail", "tail": "/index.html", "by": "/"},
        {"kind": "edit-value", "edit": "strip-suffix", "slots": "s0", "text": "a"},
        {"kind": "edit-value", "edit": "strip-suffix", "slots": "q:a", "text": "/"},
        {"kind": "edit-value", "edit": "replace-text", "slots": "s-1", "text": "%3", "by": ""},
        {"kind": "edit-value", "edit": "number-before", "slots": "s0"},
        {"kind": "edit-value", "edit": "lowercase", "slots": "q:a"},
        {"kind": "drop-default", "default": {"a": "1"}, "path": "/nowhere"},
        {"kind": "drop-param", "param": "sid"},
        {"kind": "drop-param", "param": "p1", "when": {"has": "a", "no": "zz"}},
        {"kind": "ignore-value", "slots": ["q:utm", "s5"], "path": "/*/*/**"},
        {"kind": "trailing-slash", "option": "add", "path": "/a/**"},
    ]
    return [SiteRule(site="*.example.com", **fields) for fields in operations]  # type: ignore[arg-type]


def rule_sets() -> dict[str, Normalizer]:
    """Return the profiles, all rules, those with several modes in another one, and site rules."""
    one = {name: modes[-1] for name, modes in OPTIONS.items()}
    other = {name: modes[0] for name, modes in OPTIONS.items() if modes != [True]}
    off = ("form-encode-query", "decode-path-reserved", "remove-session-ids")
    return {
        "safe": Normalizer("safe"),
        "default": Normalizer("default"),
        "aggressive": Normalizer("aggressive"),
        "all rules": Normalizer("aggressive", one | {"keep-params": False}),
        "other modes": Normalizer("aggressive", other | dict.fromkeys(off, False)),
        "site rules": Normalizer("default", site_rules=_site_rules()),
    }
