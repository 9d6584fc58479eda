"""The fast path: the keys of plain URLs, part by part.

Most URLs of a crawl are plain: a scheme and any authority; a path in which no segment begins with a
dot, and no ``;``; legal characters elsewhere; escapes in upper case, none of an unreserved
character; no fragment, or one that goes. One expression takes such a URL apart. A crawl has few
hosts and few sets of parameter names, so the rules themselves say once what becomes of each, and the
answer is kept. What is left for each URL is a handful of look-ups and tests of characters. A row of
the catalogue says what a rule looks at (:class:`~scrapy_urlnorm.rules.Rule`).

The fast path returns ``None`` for any other URL, and where one run of the rules is not enough, since
there the order of rules might matter. Its answers equal those of the rules (a test checks).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from operator import itemgetter
from typing import TYPE_CHECKING, Any, TypeVar

from scrapy_urlnorm.caches import BoundedCache
from scrapy_urlnorm.rules.escapes import (
    FORM_QUERY,
    MANY,
    MAYBE,
    UNRESERVED,
    find_bad_escape,
    form_encoded,
    token_bytes,
)
from scrapy_urlnorm.url import Url, join, parse

if TYPE_CHECKING:
    from scrapy_urlnorm.rules import Catalogue

_Answer = TypeVar("_Answer")
FastKey = Callable[[str], "str | None"]
#: Takes the key by the catalogue, and its scheme and authority. Returns the key by the rules of the
#: site too, or ``None`` if it cannot tell.
SiteKey = Callable[[str, str], "str | None"]
#: What becomes of a query: the new one, ``None`` if none is left, "" if this cannot be told.
QueryKey = Callable[[str], "str | None"]
#: A plan: what becomes of all queries with the same names; ``None`` if they stay as they are.
Plan = QueryKey | None
Names = tuple[str, ...]

#: How many different beginnings of URLs are remembered, and the characters of one. A broad crawl
#: meets tens of thousands of hosts in turns: with fewer places it would forget each before its time.
_MOST_PREFIXES, _LONGEST_PREFIX = 65_536, 256
#: A plan costs ten times what a query with a plan does, so there is room for those of many sites.
_MOST_PLANS, _LONGEST_NAMES = 16_384, 512
#: A longer query is left to the rules: its plan would not be kept.
LONGEST_QUERY = 2_048
_MOST_RESULTS = 64


def memo(function: Callable[[str], _Answer]) -> BoundedCache[_Answer]:
    """Return a memo of what is known by scheme and authority."""
    return BoundedCache(function, most=_MOST_PREFIXES, longest=_LONGEST_PREFIX)


def _length(names: Names) -> int:
    # A short name takes more room than its characters: a plan of up to about 20 names is kept.
    return sum(map(len, names)) + 20 * len(names)


class PlainUrls:
    """How plain URLs are recognized, and their parts normalized, by a catalogue alone."""

    def __init__(self, catalogue: Catalogue) -> None:
        self.catalogue = catalogue
        self._run_on_head = catalogue.runner("head", "host")
        self._run_on_query = catalogue.runner("query")
        #: By scheme and authority as written, what becomes of them; ``None`` if it cannot be told.
        self.heads = memo(self._head)
        #: By the names of a query.
        self.plans: BoundedCache[Plan] = BoundedCache(
            self._plan, most=_MOST_PLANS, longest=_LONGEST_NAMES, length=_length
        )
        self._values = [
            rule.values(catalogue.compiled[rule.name])
            for rule in catalogue.rules()
            if rule.values is not None
        ]
        # With groups for prefix, path, and a query that is as it should be, or another one.
        self._expression = _expression(catalogue)

    def _head(self, prefix: str) -> str | None:
        url = parse(f"{prefix}/")
        new = None if url is None else self._run_on_head(url)
        if new is None:
            return None
        head = join(new._replace(path=""))
        return prefix if head == prefix else head  # one text takes less memory than two

    def fast_key(
        self, heads: BoundedCache[str | None] | None = None, site_key: SiteKey | None = None
    ) -> FastKey:
        """Return a function that gives the key of a plain URL, and ``None`` for any other URL.

        With site rules, *heads* are those of the URLs that have no catalogue of their own.
        """
        catalogue = self.catalogue
        if any(rule.part in ("url", "query") and rule.values is None for rule in catalogue.rules()):
            return lambda url: None  # no URL is plain
        fullmatch = self._expression.fullmatch
        if heads is None:
            heads = self.heads
        edit, ends = _path_edit(catalogue)
        last = {end[-1:] for end in ends}  # faster to look at than all ends
        edits_all = "" in last
        edits_slashes = "remove-duplicate-slashes" in catalogue.compiled
        # A segment in parentheses may be a session id.
        has_groups = "remove-session-ids" in catalogue.compiled
        query_key = self._query_key()
        empty = None if "remove-empty-query" in catalogue.compiled else ""

        def key_of(url: str) -> str | None:
            match = fullmatch(url)
            if match is None:
                return None
            prefix, path, query, other_query = match.groups()
            head = heads[prefix]
            if head is None or "/." in path:
                return None
            if (
                "%" in path
                or not path
                or edits_all
                or (edits_slashes and "//" in path)
                or (ends and path[-1] in last and path.endswith(ends))
            ):
                if "%" in path and find_bad_escape(path):
                    return None
                before = path
                path = edit(before)
                if path != before and edit(path) != path:
                    return None
            if has_groups and "(" in path and "/(" in path:
                return None
            key = head + path
            if other_query is not None:
                query = form_encoded(other_query) or empty
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

    def _query_key(self) -> QueryKey:
        """Return a function that says what the rules make of the query of a plain URL."""
        catalogue, plans = self.catalogue, self.plans
        is_encoded = "form-encode-query" in catalogue.compiled
        is_planned = "remove-session-ids" in catalogue.compiled or any(
            rule.part == "query" for rule in catalogue.rules()
        )

        def key_of(query: str) -> str | None:
            if len(query) > LONGEST_QUERY:
                return ""
            if is_encoded:  # one "=" in each pair
                plan = plans[tuple(query.replace("&", "=").split("=")[::2])]
            elif "%" in query and find_bad_escape(query):
                return ""
            elif is_planned:
                plan = plans[tuple([pair.partition("=")[0] for pair in query.split("&")])]
            else:
                return query
            return query if plan is None else plan(query)

        return key_of

    def _plan(self, names: Names) -> Plan:
        # Without a name, a piece may be no parameter; of equal names the values decide.
        if "" in names or len(set(map(token_bytes, names))) < len(names):
            return self._by_rules
        tests = [
            (place, test)
            for place, name in enumerate(names)
            for tests_of in self._values
            for test in tests_of(name)
        ]
        if not tests:
            return self._arrangement(names, "&".join(f"{name}=" for name in names))
        # By the results of all tests. A URL has few parameters with tests, and most never pass.
        known: dict[tuple[bool, ...], Plan] = {}

        def by_values(query: str) -> str | None:
            pairs = query.split("&")
            results = tuple([test(pairs[place].partition("=")[2]) for place, test in tests])
            if results not in known:
                if len(known) >= _MOST_RESULTS:
                    known.clear()
                known[results] = self._arrangement(names, query)
            arrange = known[results]
            return query if arrange is None else arrange(query)

        return by_values

    def _arrangement(self, names: Names, query: str) -> Plan:
        """Return a function that does to any query what the rules do to *query*."""
        new = self._by_rules(query)
        if new == "":
            return self._by_rules
        left = [] if new is None else [pair.partition("=")[0] for pair in new.split("&")]
        places = {name: place for place, name in enumerate(names)}
        order = [places[name] for name in left]
        if order == list(range(len(names))):
            return None
        if not order:
            return lambda query: None
        if len(order) == 1:
            return lambda query: query.split("&")[order[0]]
        take = itemgetter(*order)
        return lambda query: "&".join(take(query.split("&")))

    def _by_rules(self, query: str) -> str | None:
        """Have the rules run on a URL that is nothing but this query."""
        url = self._run_on_query(Url("http", None, "h", None, "/", query, None))
        return "" if url is None else url.query


def _path_edit(catalogue: Catalogue) -> tuple[Callable[[str], str], tuple[str, ...]]:
    """Return what the rules do to a plain path, and the ends of those that it may change.

    It may change those that are empty, or have an escape or two slashes in a row, besides.
    """
    edits: list[tuple[Callable[[str, Any], str], Any]] = []
    ends: list[str] = []
    for rule in catalogue.rules():
        edit = rule.change if rule.part == "path" else rule.edit
        if edit is not None and rule.ends is not None:
            option = catalogue.compiled[rule.name]
            edits.append((edit, option))
            ends += rule.ends(option) if callable(rule.ends) else rule.ends

    def edited(path: str) -> str:
        for edit, option in edits:
            path = edit(path, option)
        return path

    return edited, tuple(ends)


def _expression(catalogue: Catalogue) -> re.Pattern[str]:
    """Return an expression for plain URLs.

    No part can go on with what begins the next: a URL that does not match takes linear time.
    """
    on = catalogue.compiled
    # A control character or a space goes where it ends the URL; a backslash ends the authority.
    prefix = rf"[A-Za-z][A-Za-z0-9+.\-]{MANY}://[^/?#\\\x00-\x20]{MANY}"
    path = rf"/[{UNRESERVED}!$&'()*+,:=@%/]{MANY}|"
    if "decode-html-amp" in on:  # a semicolon may end an "&amp;"
        semicolon, any_character = "", '!"$-:<-~'
    else:
        semicolon, any_character = ";", '!"$-~'
    query, other_query = rf"[{UNRESERVED}!$&'()*+,:=@/?\[\]%{semicolon}]{MANY}", "(?!)"
    if "form-encode-query" in on:
        query, other_query = FORM_QUERY, f"[{any_character}]{MANY}"
    fragment = ""
    if "remove-fragment" in on:
        fragment = f"(?:#[!-~]*){MAYBE}"
        if kept := on["remove-fragment"]:  # a fragment may begin so once it is decoded
            beginnings = "|".join(map(re.escape, kept))
            fragment = rf"(?:#(?!{beginnings})[{UNRESERVED}!$&'()*+,:;=@/?\[\]]*){MAYBE}"
    queries = rf"(?:\?(?:({query})(?=#|\Z)|({other_query}))){MAYBE}"
    return re.compile(f"({prefix})({path}){queries}{fragment}")
