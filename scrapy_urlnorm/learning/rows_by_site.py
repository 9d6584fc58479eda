"""The rows of a log, site by site: in memory while they are few, on disk when they are many.

Of a giant site a sample is given, the same from memory, from disk and from a cluster.
"""

from __future__ import annotations

import errno
import json
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Sized
from contextlib import closing, contextmanager
from itertools import chain, islice
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Protocol

from scrapy_urlnorm.learning import evidence
from scrapy_urlnorm.learning.evidence import site_of
from scrapy_urlnorm.logs import Observation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: A log with fewer rows stays in memory, where these take some 120 MB (a choice).
_IN_MEMORY = 250_000
#: Rows written at once (a choice: those of one site among them are one pack).
_BATCH = 20_000
_Located = tuple[str, Observation]
_Pack = tuple[int, str]  # how many rows, and these as JSON
_encode = json.JSONEncoder(separators=(",", ":")).encode
_URL = Observation._fields.index("url")


class Rows(Sized, Iterable[Observation], Protocol):
    """The rows of one site. Their order decides nothing."""


class Sites(Sized, Iterable[tuple[str, Rows]], Protocol):
    """The rows of each site in the order of the log, or a sample, as often as they are asked for.

    Sites come in the order of their names.
    """


@contextmanager
def by_site(rows: Iterable[Observation]) -> Iterator[Sites]:
    """Read all *rows*; give them by site. What they take on disk is free again at the end.

    Of a giant site a sample is given. Raises what *rows* raises; OSError, which names the folder,
    if the disk cannot hold them.
    """
    located = ((site, row) for row in rows if (site := site_of(row.url)))
    first = list(islice(located, _IN_MEMORY))
    if len(first) < _IN_MEMORY:
        found: defaultdict[str, list[Observation]] = defaultdict(list)
        for site, row in first:
            found[site].append(row)
        for site, known in found.items():
            of = evidence.parts(len(known))
            if of > 1:
                found[site] = [row for row in known if evidence.path_hash(row.url) % of == 0]
        yield sorted(found.items())
        return
    with _on_disk(chain(first, located), sampled=True) as table:
        yield table


@contextmanager
def by_key(rows: Iterable[Observation], key: Callable[[str], str]) -> Iterator[Sites]:
    """Read all *rows*; give them by the site of their keys: no key is in two parts of the log.

    A log that stays in memory is one part, in its order. Every row is given. Raises as `by_site`.
    """
    rows = iter(rows)
    first = list(islice(rows, _IN_MEMORY))
    if len(first) < _IN_MEMORY:
        yield [("", first)]
        return
    located = ((site_of(key(row.url)), row) for row in chain(first, rows))
    with _on_disk(located, sampled=False) as table:
        yield table


@contextmanager
def _on_disk(located: Iterator[_Located], *, sampled: bool) -> Iterator[_OnDisk]:
    with TemporaryDirectory(prefix="urlnorm-mine-") as folder:
        try:
            with closing(sqlite3.connect(f"{folder}/rows.sqlite")) as connection:
                yield _OnDisk(connection, located, sampled=sampled)
        except sqlite3.Error as error:
            raise OSError(errno.EIO, f"the rows of the log: {error}", folder) from error


class _OnDisk:
    """A table of packs: rows of one site that come near each other in the log, as JSON."""

    def __init__(
        self, connection: sqlite3.Connection, located: Iterator[_Located], *, sampled: bool
    ) -> None:
        self._connection = connection
        self._sampled = sampled
        connection.execute("PRAGMA journal_mode = OFF")  # what a crash leaves is of no use
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute("CREATE TABLE pack (site BLOB, size INTEGER, rows TEXT)")
        while batch := list(islice(located, _BATCH)):
            found: defaultdict[str, list[Observation]] = defaultdict(list)
            for site, row in batch:
                found[site].append(row)
            packs = (
                (site.encode("utf-8", "surrogatepass"), len(rows), _encode(rows))
                for site, rows in found.items()
            )
            connection.executemany("INSERT INTO pack VALUES (?, ?, ?)", packs)
        connection.execute("CREATE INDEX in_order ON pack (site)")
        connection.execute("CREATE INDEX sizes ON pack (site, size)")

    def __len__(self) -> int:
        (count,) = self._connection.execute("SELECT count(DISTINCT site) FROM pack").fetchone()
        return int(count)

    def __iter__(self) -> Iterator[tuple[str, Packed]]:
        read = self._connection.execute
        for name, count in read("SELECT site, sum(size) FROM pack GROUP BY site ORDER BY site"):
            packs = read("SELECT size, rows FROM pack WHERE site = ? ORDER BY rowid", [name])
            of = evidence.parts(count) if self._sampled else 1
            site = name.decode("utf-8", "surrogatepass")
            yield site, Packed(packs if of < 2 else _sampled(packs, of))


def _sampled(packs: Iterable[_Pack], of: int) -> Iterator[_Pack]:
    """Yield the rows whose paths are in one of so many parts."""
    for _, pack in packs:
        rows = [row for row in json.loads(pack) if evidence.path_hash(row[_URL]) % of == 0]
        yield len(rows), _encode(rows)


class Packed:
    """Rows of a site as JSON, which costs less than objects to keep and to hand on."""

    def __init__(self, packs: Iterable[_Pack]) -> None:
        self._packs = list(packs)

    def __len__(self) -> int:
        return sum(size for size, _ in self._packs)

    def __iter__(self) -> Iterator[Observation]:
        for _, pack in self._packs:
            for row in json.loads(pack):
                yield Observation(*row)
