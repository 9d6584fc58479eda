"""Job: what a crawl wrote into its database, as answers to questions."""

from __future__ import annotations

import json
import sqlite3
from bisect import bisect_right
from collections import Counter
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from scrapy_urlnorm.exceptions import SiteRuleError, StoreError
from scrapy_urlnorm.site_rules.rule import rule_from_dict
from scrapy_urlnorm.stores.sqlite import DATABASE_NAME
from scrapy_urlnorm.url import split

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from scrapy_urlnorm.site_rules import SiteRule

#: What the column ``state`` says of a held request.
SUPPRESSED, COALESCED, DEFERRED = range(3)


class Held(NamedTuple):
    """A request that is held."""

    state: int  #: `SUPPRESSED`, `COALESCED` or `DEFERRED`
    behind: str | None  #: URL of its representative; "" if that arrived at another crawler
    rules: tuple[str, ...]  #: what makes the two one, in words
    is_alias: bool  #: whether the representative names it as another name of its own
    since: float  #: seconds since 1970; 0 where it is not known


class Filtered(NamedTuple):
    """The requests with one key that the dupefilter filtered. Times are seconds since 1970."""

    url: str  #: of one of them
    first: str | None  #: the URL that was there first, as far as it was still known
    rules: tuple[str, ...]  #: names of the catalogue, or rules in words; () if not known
    times: int
    since: float
    last: float


class Point(NamedTuple):
    """How far a crawl was: answers that came, and requests that it had not needed."""

    requests: int
    saved: int


class Job:
    """The database behind *connection*, which messages call *name*.

    A table that the crawl did not make has no rows. Every question raises `StoreError` for a
    database that is damaged, in use, or of another version.
    """

    def __init__(self, connection: sqlite3.Connection, name: str) -> None:
        self._connection = connection
        self._name = name
        self._tables = {"sqlite_master"}
        self._tables.update(name for (name,) in self._rows("name", "sqlite_master"))

    def _rows(self, columns: str, table: str, rest: str = "", *values: object) -> Iterator[Any]:
        if table not in self._tables:
            return
        try:
            rows = self._connection.execute(f"SELECT {columns} FROM {table} {rest}", values)
            for row in rows:  # noqa: UP028 - that would close rows, perhaps after the database
                yield row
        except sqlite3.Error as error:
            hint = ""
            if "locked" in str(error):
                hint = ": a crawl uses it, ask when that has ended"
            elif "no such" in str(error):
                hint = ": another version made it"
            raise StoreError(f"{self._name}: {error}{hint}") from error

    def _first(self, columns: str, table: str, rest: str = "", *values: object) -> Any:
        return next(self._rows(columns, table, f"{rest} LIMIT 1", *values), None)

    def _names(self, what: str, text: str) -> tuple[str, ...]:
        try:
            return tuple(map(str, json.loads(text)))
        except (TypeError, ValueError, RecursionError) as error:
            raise self._damaged(what, error) from error

    def _damaged(self, what: str, error: Exception) -> StoreError:
        return StoreError(f"{self._name}: {what} cannot be read: {error!r}")

    # --- one URL ----------------------------------------------------------------------------

    def page(self, key: bytes) -> str | None:
        """Return the URL of the page that arrived under *key*: "" if it has none by itself."""
        row = self._first("url", "page", "WHERE fingerprint = ?", key)
        return None if row is None else row[0] or ""

    def held(self, key: bytes) -> Held | None:
        """Return what is known of the request with *key*, if it is held."""
        columns = "state, behind, rules, is_alias, since"
        row = self._first(columns, "held", "WHERE fingerprint = ? ORDER BY state", key)
        if row is None:
            return None
        state, behind, rules, is_alias, since = row
        return Held(state, behind, self._names("a held request", rules), bool(is_alias), since)

    def filtered(self, key: bytes) -> Filtered | None:
        """Return what is known of the filtered requests with *key*."""
        row = self._first("url, first, rules, count, since, last", "filtered", "WHERE key = ?", key)
        if row is None:
            return None
        url, first, rules, times, since, last = row
        names = self._names("a row of filtered requests", rules)
        return Filtered(url, first, names, times, since, last)

    def has_store(self) -> bool:
        """Return whether the keys of the crawl are in here too."""
        return self._first("1", "identity") is not None

    # --- all of it --------------------------------------------------------------------------

    def pages(self) -> Iterator[tuple[str | None, str | None]]:
        """Return URL and content of each page that arrived, in that order; ``None`` is unknown."""
        for number, url, content in self._rows("id, url, content", "page", "ORDER BY id"):
            yield url, None if content is None else self._content(f"page {number}", content)

    def _content(self, what: str, text: str) -> str:
        """Return the name of a content: the digest that is nearest to the visible text."""
        try:
            return next(str(name) for name in reversed(json.loads(text)[:3]) if name)
        except (LookupError, TypeError, ValueError, RecursionError, StopIteration) as error:
            raise self._damaged(what, error) from error

    def rules(self) -> list[tuple[SiteRule, int]]:
        """Return what was learned, also what was retracted, with the tests that each passed."""
        rows = self._rows("identity, rule, agreed", "rule")
        return [(self._rule(identity, rule), agreed) for identity, rule, agreed in rows]

    def _rule(self, identity: str, text: str) -> SiteRule:
        try:
            return rule_from_dict(json.loads(text))
        except (SiteRuleError, TypeError, ValueError, RecursionError) as error:
            raise self._damaged(f"the rule {identity}", error) from error

    def saved(self) -> Counter[tuple[str, tuple[str, ...]]]:
        """Count by host and rules the requests not sent that stock Scrapy would have sent."""
        counts = Counter[tuple[str, str]]()
        for host, rules, count in self._rows("host, rules, count", "saved"):
            counts[host, rules] += count
        for url, rules in self._rows("url, rules", "held", f"WHERE {_SAVED}"):
            counts[split(url).host or "", rules] += 1
        found = Counter[tuple[str, tuple[str, ...]]]()
        for (host, rules), count in counts.items():
            found[host, self._names("a saved request", rules)] += count
        return found

    def examples(self) -> dict[str, tuple[str, str]]:
        """Return by rule two URLs that it makes one, the latest: the first, and one not sent."""
        rows = [
            *self._rows("max(since), rules, behind, url", "held", f"WHERE {_SAVED} GROUP BY rules"),
            *self._rows("max(last), rules, first, url", "filtered", "GROUP BY rules"),
        ]
        found: dict[str, tuple[str, str]] = {}
        for _, rules, first, url in sorted(rows, key=lambda row: -row[0]):
            for name in self._names("a row of filtered requests", rules):
                found.setdefault(name, (first or "", url))
        return found

    def count_held(self) -> int:
        """Return how many requests are suppressed."""
        return int((self._first("count(*)", "held", f"WHERE {_SUPPRESSED}") or (0,))[0])

    def progress(self) -> list[Point]:
        """Return how the crawl went on. What was sent after all is not in it."""
        since = self._rows("since", "held", f"WHERE {_SAVED} ORDER BY since")
        held = [moment for (moment,) in since]
        points = self._rows("requests, saved, at", "progress", "ORDER BY requests")
        return [Point(requests, saved + bisect_right(held, at)) for requests, saved, at in points]


_SUPPRESSED = f"state = {SUPPRESSED}"
_SAVED = f"{_SUPPRESSED} AND saves = 1"


@contextmanager
def open_job(place: Path) -> Iterator[Job]:
    """Open what a crawl left in *place*, its JOBDIR or its database, for reading.

    Raises `StoreError`, also for a folder that has no database.
    """
    path = place / DATABASE_NAME if place.is_dir() else place
    if not path.is_file():
        raise StoreError(f"{place}: there is no {DATABASE_NAME} in it, so it is no job directory")
    try:
        connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=0)
    except sqlite3.Error as error:
        raise StoreError(f"{path}: {error}") from error
    with closing(connection):
        yield Job(connection, str(path))
