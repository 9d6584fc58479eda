"""The queries of plain URLs: what becomes of them, mostly decided by the names of the parameters.

Which parameters stay, and in which order, is the same for all queries with the same names, unless a
rule looks at values. The rules themselves say it once for each set of names.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter
from typing import TYPE_CHECKING

from scrapy_urlnorm.caches import BoundedCache
from scrapy_urlnorm.rules.escapes import find_bad_escape, token_bytes
from scrapy_urlnorm.rules.query import form_encoded, is_form_encoded
from scrapy_urlnorm.url import Url

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scrapy_urlnorm.rules.compiled import Catalogue
    from scrapy_urlnorm.rules.plain import Plain, ValueTest

#: What becomes of a query: the new one, ``None`` if none is left, "" if this cannot be told.
QueryKey = Callable[[str], "str | None"]
Names = tuple[str, ...]

#: A plan costs ten times what a query with a plan does, so there is room for those of many sites.
_MOST_PLANS, _LONGEST_NAMES = 16_384, 512
_MOST_RESULTS = 64


def query_key(plain: Plain, catalogue: Catalogue) -> QueryKey:
    """Return a function that says what the rules make of the query of a plain URL."""
    plans = BoundedCache(
        _Planner(plain, catalogue).plan, most=_MOST_PLANS, longest=_LONGEST_NAMES, length=_length
    )
    if plain.form_encode:
        return _of_any_query(plans, plain.remove_empty_query)
    return _of_legal_query(plans if plain.names_decide or plain.value_tests else None)


def _of_any_query(plans: BoundedCache[QueryKey | None], remove_empty_query: bool) -> QueryKey:
    """Return the function for where queries are form-encoded."""

    def key_of(query: str) -> str | None:
        if not is_form_encoded(query):
            query = form_encoded(query)
        if "&" in query:
            # A form-encoded query has one "=" in each pair.
            plan = plans[tuple(query.replace("&", "=").split("=")[::2])]
        elif query:
            plan = plans[query.partition("=")[:1]]
        else:
            return None if remove_empty_query else ""
        return query if plan is None else plan(query)

    return key_of


def _of_legal_query(plans: BoundedCache[QueryKey | None] | None) -> QueryKey:
    """Return the function for where parameters stay as they are written."""

    def key_of(query: str) -> str | None:
        if "%" in query and find_bad_escape(query):
            return ""
        if plans is None:
            return query
        plan = plans[tuple([pair.partition("=")[0] for pair in query.split("&")])]
        return query if plan is None else plan(query)

    return key_of


def _length(names: Names) -> int:
    # A short name takes more room than its characters: a plan of up to about 20 names is kept.
    return sum(map(len, names)) + 20 * len(names)


class _Planner:
    """Makes plans: what becomes of all queries with the same names."""

    def __init__(self, plain: Plain, catalogue: Catalogue) -> None:
        self._value_tests = plain.value_tests
        self._run_once = catalogue.run_once

    def plan(self, names: Names) -> QueryKey | None:
        """Return what becomes of queries with these *names*; ``None`` if they stay as they are."""
        # Without a name, a piece may be no parameter; of equal names the values decide.
        if "" in names or _some_are_equal(names):
            return self.by_rules
        tests = [
            (place, test)
            for place, name in enumerate(names)
            for tests_of in self._value_tests
            for test in tests_of(name)
        ]
        if tests:
            return _ByValues(self, names, tests)
        return self.arrangement(names, "&".join(f"{name}=" for name in names))

    def arrangement(self, names: Names, query: str) -> QueryKey | None:
        """Return a function that does to any query what the rules do to *query*."""
        new = self.by_rules(query)
        if new == "":
            return self.by_rules
        places = {name: place for place, name in enumerate(names)}
        left = [] if new is None else [pair.partition("=")[0] for pair in new.split("&")]
        return _arrangement([places[name] for name in left], len(names))

    def by_rules(self, query: str) -> str | None:
        """Have the rules run on a URL that is nothing but this query."""
        url = self._run_once(Url("http", None, "h", None, "/", query, None))
        return "" if url is None else url.query


class _ByValues:
    """What becomes of queries with the same names, of which some may have special values."""

    def __init__(
        self, planner: _Planner, names: Names, tests: Sequence[tuple[int, ValueTest]]
    ) -> None:
        self._planner = planner
        self._names = names
        self._tests = tests
        # By the results of all tests. A URL has few parameters with tests, and most never pass.
        self._arrangements: dict[tuple[bool, ...], QueryKey | None] = {}

    def __call__(self, query: str) -> str | None:
        pairs = query.split("&")
        results = tuple([test(pairs[place].partition("=")[2]) for place, test in self._tests])
        known = self._arrangements
        if results not in known:
            if len(known) >= _MOST_RESULTS:
                known.clear()
            known[results] = self._planner.arrangement(self._names, query)
        arrange = known[results]
        return query if arrange is None else arrange(query)


def _some_are_equal(names: Names) -> bool:
    return len(set(map(token_bytes, names))) < len(names)


def _arrangement(order: list[int], count: int) -> QueryKey | None:
    """Return a function that takes the pairs at the places *order*; ``None`` if that is all."""
    if order == list(range(count)):
        return None
    if not order:
        return lambda query: None
    if len(order) == 1:
        only = order[0]
        return lambda query: query.split("&")[only]
    take = itemgetter(*order)
    return lambda query: "&".join(take(query.split("&")))
