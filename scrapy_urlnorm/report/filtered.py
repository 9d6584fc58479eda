"""What a crawl saved, and why, as rows in its database.

`FilteredRecord` writes what the dupefilter merged: a row for each key, and exact counts by host and
rules. A request that is held because of what was learned has a row of its own (table ``held``) as
long as it is held: nothing of it is copied, `count_saved` counts these rows. `Job` answers
questions about all of it, also of a crawl that has ended.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections import Counter
from contextlib import closing, contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any, NamedTuple
from zlib import crc32

from scrapy_urlnorm.exceptions import SiteRuleError, StoreError
from scrapy_urlnorm.rules import RULES
from scrapy_urlnorm.stores.sqlite import DATABASE_NAME
from scrapy_urlnorm.text import listed, logger_of, shortened
from scrapy_urlnorm.url import split

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from scrapy_urlnorm.logs import Observation
    from scrapy_urlnorm.site_rules import SiteRule
    from scrapy_urlnorm.stores.sqlite import Database

logger = logger_of(__name__)

#: Rows that are kept; of more keys, those of every second, fourth, ... hash.
MAX_ROWS = 100_000
#: Pairs of host and rules that are counted. What comes later counts for the host "".
MAX_COUNTS = 20_000
_BATCH = 1_000  # new rows that wait in memory
_LONGEST_RULE, _LONGEST_SENTENCE, _LONGEST_URL, _MANY = 160, 300, 2_000, 7
_SUMMARIES = {rule.name: rule.summary for rule in RULES}
_WHEN = {"has": "with", "no": "without", "params": "where", "among": "where", "rest": "of"}
_WHEN |= {"segments": "where segment", "starts": "where it begins with", "host": "on"}

_TABLES = """
CREATE TABLE IF NOT EXISTS filtered (
  key BLOB PRIMARY KEY, place INTEGER NOT NULL, url TEXT NOT NULL, first TEXT, rules TEXT NOT NULL,
  count INTEGER NOT NULL, since REAL NOT NULL, last REAL NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS saved (
  host TEXT NOT NULL, rules TEXT NOT NULL, count INTEGER NOT NULL, PRIMARY KEY (host, rules));
CREATE TABLE IF NOT EXISTS run (
  crawl TEXT NOT NULL, log TEXT NOT NULL, started REAL NOT NULL, ended REAL NOT NULL,
  about TEXT NOT NULL);
"""
#: Of several requests with one key, one of which the rules are known says more.
_ADD_FILTERED = """
INSERT INTO filtered VALUES (?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (key) DO UPDATE SET count = count + excluded.count, last = excluded.last,
  url = CASE rules WHEN '[]' THEN excluded.url ELSE url END,
  first = CASE rules WHEN '[]' THEN excluded.first ELSE first END,
  rules = CASE rules WHEN '[]' THEN excluded.rules ELSE rules END
"""
_ADD_SAVED = """
INSERT INTO saved VALUES (?, ?, ?)
ON CONFLICT (host, rules) DO UPDATE SET count = count + excluded.count
"""
_RUN_ENDED = "UPDATE run SET ended = ? WHERE rowid = (SELECT max(rowid) FROM run)"
#: What the column ``state`` says of a held request.
SUPPRESSED, COALESCED, DEFERRED, LAST = range(4)
_SUPPRESSED = f"state = {SUPPRESSED}"
_SAVED = f"{_SUPPRESSED} AND saves = 1"


@lru_cache(1_000)
def rule_in_words(rule: object) -> str:
    """Return the name by which the database knows a rule, the same in every run."""
    origin = getattr(rule, "origin", None)
    text = str(rule).removesuffix(f" in {origin}") if origin else str(rule)
    return shortened(text, _LONGEST_RULE)


def sentence_of(rule: SiteRule) -> str:
    """Return what *rule* makes one, as a sentence; the site is not in it."""
    what, conditions = rule.operation.sentence(), []
    path = "" if rule.path is None or rule.kind == "param-to-path" else str(rule.path)
    if path.endswith("/**") and "*" not in path[:-2]:
        what += f" below {path[:-2]}"
    elif path:
        conditions.append(f"at {path}")
    for name, value in rule.when.items():
        conditions.append(f"{_WHEN.get(name, name)} {_value(value)}")
    where = f" ({', '.join(conditions)})" if conditions else ""
    return shortened(f"{what[:1].upper()}{what[1:]}{where}.", _LONGEST_SENTENCE)


def summary_of(name: str) -> str:
    """Return what the rule *name* of the catalogue does; any other text stays as it is."""
    return _SUMMARIES.get(name, name)


def _value(value: object) -> str:
    if isinstance(value, dict):
        return " and ".join(f"{name}={_value(each)}" for name, each in value.items())
    words = [*map(str, value)] if isinstance(value, (list, tuple)) else [str(value)]
    return " or ".join(words) if len(words) < _MANY else listed(words)


@lru_cache(maxsize=1024)
def _listed(rules: tuple[object, ...]) -> str:
    return json.dumps([rule_in_words(rule) for rule in rules])


def count_saved(database: Database) -> int:
    """Return how many requests are held for good that stock Scrapy would have sent.

    Raises `StoreError` if the database cannot be read, or has no table ``held``.
    """
    return int(database.read(f"SELECT count(*) FROM held WHERE {_SAVED}")[0][0])


class FilteredRecord:
    """Writes down what the dupefilter filters. What fails of it ends the record, and not the crawl.

    What has come together goes into the transaction of *database*, which has to be open, when that
    ends; and before, when it is much. Where the database itself fails, whoever needs it stops the crawl.

    Runs that share *database*, as those with one JOBDIR do, are one crawl. `crawl` is its name, by
    which it finds its rows in *log*, the path of its crawl log, where other crawls write too. *about*
    says how it ran: terms and texts for its report.
    """

    def __init__(
        self, database: Database, log: str = "", about: Sequence[tuple[str, str]] = ()
    ) -> None:
        self._database = database
        self.crawl = token_hex(8)
        self._has_ended = False
        self._new: list[tuple[Any, ...]] = []
        self._saved: Counter[tuple[str, str]] = Counter()
        self._parts = 1  # of so many keys, one is kept
        self._rows = self._counts = 0
        with self._ending_on_failure():
            database.ensure(_TABLES)
            self._rows = self._count("since", "filtered")  # fails if it is another table
            self._counts = self._count("*", "saved")
            for (crawl,) in database.read("SELECT crawl FROM run LIMIT 1"):
                self.crawl = crawl
            now = time.time()
            row = (self.crawl, log, now, now, json.dumps(about))
            database.write("INSERT INTO run VALUES (?, ?, ?, ?, ?)", *row)
            database.before_commit.append(self.write)

    def _count(self, column: str, table: str) -> int:
        return int(self._database.read(f"SELECT count({column}) FROM {table}")[0][0])

    def add(
        self, key: bytes, url: str, first: str | None, rules: Iterable[object], *, saves: bool
    ) -> None:
        """Take note that a request for *url* is not sent, because of *first*, which has its key.

        *rules* are what made them one, as far as that is known; *saves* whether stock Scrapy would
        have sent the request.
        """
        if self._has_ended:
            return
        listed = _listed(tuple(rules))
        if saves:
            is_full = self._counts + len(self._saved) >= MAX_COUNTS
            self._saved["" if is_full else split(url).host or "", listed] += 1
        if (place := crc32(key)) % self._parts == 0:
            now, first = time.time(), first and first[:_LONGEST_URL]
            self._new.append((key, place, url[:_LONGEST_URL], first, listed, 1, now, now))
            if len(self._new) >= _BATCH:
                self.write()

    def write(self) -> None:
        """Put what has come together into the transaction of the database."""
        if self._has_ended:
            return
        # Taken away first: what is written may end the transaction, which calls this again.
        rows, self._new = self._new, []
        saved, self._saved = self._saved, Counter()
        database = self._database
        with self._ending_on_failure():
            if database.changes or rows or saved:
                database.write(_RUN_ENDED, time.time())
            if rows:
                database.write_many(_ADD_FILTERED, rows)
            if saved:
                database.write_many(_ADD_SAVED, [(*about, n) for about, n in saved.items()])
            self._rows += len(rows)
            self._counts += len(saved)
            if self._rows > MAX_ROWS:  # some of them may have been there before
                while (count := self._count("*", "filtered")) > MAX_ROWS:
                    self._parts *= 2
                    database.write("DELETE FROM filtered WHERE place % ? != 0", self._parts)
                self._rows = count

    def close(self) -> None:
        """Write the rest; a second time does nothing."""
        self.write()
        self._end()

    def _end(self) -> None:
        self._has_ended = True
        with suppress(ValueError):  # a second time, or it failed at the beginning
            self._database.before_commit.remove(self.write)

    @contextmanager
    def _ending_on_failure(self) -> Iterator[None]:
        try:
            yield
        except (StoreError, sqlite3.Error, UnicodeError) as error:
            logger.warning(
                "Filtered requests are not written down any more, the crawl goes on: %s", error
            )
            self._end()


# --- questions ------------------------------------------------------------------------------


class Held(NamedTuple):
    """A request that is held."""

    state: int  #: `SUPPRESSED`, `COALESCED`, `DEFERRED` or `LAST`
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


class Run(NamedTuple):
    """One run of a crawl: several runs with one JOBDIR are one crawl."""

    crawl: str  #: the name of the crawl in its rows of a crawl log
    log: str  #: path of the crawl log; "" if none was written
    started: float  #: seconds since 1970
    ended: float  #: seconds since 1970; of a run that was killed, when it last wrote
    about: tuple[tuple[str, str], ...]  #: how it ran: terms and texts


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
            hints = {"locked": "a crawl uses it, ask when that has ended"}
            hints["no such"] = "another version made it"
            hint = "".join(f": {hint}" for words, hint in hints.items() if words in str(error))
            raise StoreError(f"{self._name}: {error}{hint}") from error

    def _first(self, columns: str, table: str, rest: str = "", *values: object) -> Any:
        return next(self._rows(columns, table, f"{rest} LIMIT 1", *values), None)

    @contextmanager
    def _reading(self, what: str) -> Iterator[None]:
        try:
            yield
        except (SiteRuleError, LookupError, TypeError, ValueError, RecursionError) as error:
            raise StoreError(f"{self._name}: {what} cannot be read: {error!r}") from error

    def _names(self, what: str, text: str) -> tuple[str, ...]:
        with self._reading(what):
            return tuple(map(str, json.loads(text)))

    def page(self, key: bytes) -> str | None:
        """Return the URL of the page that arrived under *key*: "" if it has none by itself."""
        at = "WHERE fingerprint = ?"
        row = self._first("url", "page", at, key) or self._first("url", "shown", at, key)
        return row and (row[0] or "")

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
        return Filtered(*row)._replace(rules=self._names("a row of filtered requests", row[2]))

    def has_store(self) -> bool:
        """Return whether the keys of the crawl are in here too."""
        return self._first("1", "identity") is not None

    def pages(self) -> Iterator[Observation]:
        """Yield the pages that arrived and have a URL, in their order, as rows of a log.

        The name of a content is the digest that is nearest to the visible text.
        """
        from scrapy_urlnorm.logs import Observation

        for number, url, content in self._rows("id, url, content", "page", "ORDER BY id"):
            if content is not None:
                with self._reading(f"page {number}"):
                    content = [str(name) for name in json.loads(content)[:3] if name][-1]
            if url:
                yield Observation(url, 200, content)

    def rules(self) -> list[tuple[SiteRule, int]]:
        """Return what was learned, also what was retracted, with the tests that each passed."""
        from scrapy_urlnorm.site_rules.rule import rule_from_dict

        found = []
        for identity, text, agreed in self._rows("identity, rule, agreed", "rule"):
            with self._reading(f"the rule {identity}"):
                found.append((rule_from_dict(json.loads(text)), agreed))
        return found

    def saved(self) -> Counter[tuple[str, tuple[str, ...]]]:
        """Count by host and rules the requests not sent that stock Scrapy would have sent."""
        counts = Counter[tuple[str, tuple[str, ...]]]()
        for host, rules, count in self._rows("host, rules, count", "saved"):
            counts[host, self._names("a saved request", rules)] += count
        for url, rules in self._rows("url, rules", "held", f"WHERE {_SAVED}"):
            counts[split(url).host or "", self._names("a held request", rules)] += 1
        return counts

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

    def runs(self) -> list[Run]:
        """Return the runs of the crawl, in their order."""
        found = []
        for row in self._rows("crawl, log, started, ended, about", "run", "ORDER BY rowid"):
            with self._reading("how a run went"):
                said = tuple((str(term), str(text)) for term, text in json.loads(row[-1]))
            found.append(Run(*row)._replace(about=said))
        return found

    @property
    def crawl(self) -> str | None:
        """The name of the crawl in its rows of a crawl log; None if it wrote none."""
        return next((run.crawl for run in self.runs()), None)

    def logged(self) -> Iterator[Observation]:
        """Return what the runs of the crawl wrote into their crawl logs.

        A log may have rows of other crawls. One that is not there any more has none. Raises
        `LogFormatError` for a row that cannot be read.
        """
        from scrapy_urlnorm.logs import read_log

        for path in dict.fromkeys(run.log for run in self.runs()):
            if Path(path).is_file():
                yield from read_log(path, format="jsonl", crawl=self.crawl)


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
