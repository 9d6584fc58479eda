"""The rows of a log, site by site: in memory while they are few, on disk when they are many.

On disk they are in a table of DuckDB (extra ``learn``), which puts them in order by site in a
bounded memory. Where that is missing, all stay in memory. Of a giant site a sample is given, the
same from memory, from disk and from a cluster.
"""

from __future__ import annotations

import errno
import json
from collections import defaultdict
from contextlib import contextmanager
from itertools import chain, groupby, islice
from operator import itemgetter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from scrapy_urlnorm.exceptions import naming
from scrapy_urlnorm.learning import selected
from scrapy_urlnorm.learning.evidence import site_of
from scrapy_urlnorm.logs import Observation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from scrapy_urlnorm.learning.one_site import Rows

#: A log with fewer rows stays in memory, where these take some 120 MB (a choice).
_IN_MEMORY = 250_000
#: What DuckDB may hold in memory, rows written at once, and packs read at once (choices).
_MEMORY, _BATCH, _PACKS = "512MB", 50_000, 1_000
#: Characters of a pack of rows, if it has more than one (a choice, for memory).
_PACK = 1024 * 1024
#: A line of a log may have 16 MiB; as JSON in ASCII it may be six times as long.
_MAX_LINE = 128 * 1024 * 1024


_Item = TypeVar("_Item")
_Located = tuple[str, Observation]


class Sites(Protocol):
    """The rows of all sites, in the order of their names, as often as they are asked for."""

    def __len__(self) -> int:
        """How many sites there are."""

    def __iter__(self) -> Iterator[tuple[str, Rows]]:
        """Give the name of each site, and its rows in the order of the log, or a sample."""


@contextmanager
def by_site(rows: Iterable[Observation], after: str = "") -> Iterator[Sites]:
    """Read all *rows*; give them by site. What they take on disk is free again at the end.

    Only sites whose names come *after* this one. Of a giant site a sample is given. Raises what
    *rows* raises; OSError, which names the folder, if the disk cannot hold them.
    """
    located = ((site, row) for row in rows if (site := site_of(row.url)) > after)
    few, rest = _peeked(located)
    if few:
        yield _InMemory(rest)
        return
    with _on_disk(rest, sampled=True) as table:
        yield table


@contextmanager
def by_key(rows: Iterable[Observation], key: Callable[[str], str]) -> Iterator[Sites]:
    """Read all *rows*; give them by the site of their keys: no key is in two parts of the log.

    A log that stays in memory is one part, in its order. Every row is given. Raises as `by_site`.
    """
    few, rest = _peeked(rows)
    if few:
        yield [("", list(rest))]
        return
    # A URL without a host has no site, and the database takes no empty name.
    with _on_disk(((site_of(key(row.url)) or " ", row) for row in rest), sampled=False) as table:
        yield table


def _peeked(items: Iterable[_Item]) -> tuple[bool, Iterator[_Item]]:
    """Return whether *items* stay in memory, and all of them."""
    rest = iter(items)
    first = list(islice(rest, _IN_MEMORY))
    return len(first) < _IN_MEMORY or not _can_leave_memory(), chain(first, rest)


@contextmanager
def _on_disk(located: Iterator[_Located], *, sampled: bool) -> Iterator[_OnDisk]:
    import duckdb

    with (
        TemporaryDirectory(prefix="urlnorm-mine-") as folder,
        duckdb.connect(f"{folder}/rows.duckdb") as connection,
    ):
        try:
            table = _OnDisk(connection, Path(folder), sampled=sampled)
            for batch in iter(lambda: list(islice(located, _BATCH)), []):
                table.add(batch)
            yield table
        except duckdb.Error as error:
            reason = str(error).splitlines()[0]
            raise OSError(errno.EIO, f"the rows of the log: {reason}", folder) from error


def _can_leave_memory() -> bool:
    try:
        import duckdb  # noqa: F401
    except ImportError:
        return False
    return True


class _InMemory:
    def __init__(self, located: Iterable[tuple[str, Observation]]) -> None:
        self._rows: defaultdict[str, list[Observation]] = defaultdict(list)
        for site, row in located:
            self._rows[site].append(row)

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[tuple[str, list[Observation]]]:
        for site in sorted(self._rows):
            rows = self._rows[site]
            of = selected.parts(len(rows))
            yield site, rows if of < 2 else [r for r in rows if selected.path_hash(r.url) % of == 0]


class _OnDisk:
    """A table of (site, number, how many rows, these rows).

    The rows of a site that come near each other in the log are one pack, as the database takes as
    long for each as JSON does. A pack is JSON, and the name of a site hexadecimal: so every text is
    ASCII without separators, and the order of the database is that of Python.
    """

    _COLUMNS = "site VARCHAR, number BIGINT, size INTEGER, rows VARCHAR"

    def __init__(self, connection: Any, folder: Path, *, sampled: bool) -> None:
        self._connection = connection
        self._sampled = sampled
        self._batch = folder / "batch.tsv"
        self._count = 0
        connection.execute(f"SET memory_limit = '{_MEMORY}'; SET threads = 2")
        connection.execute("SET temp_directory = $folder", {"folder": str(folder)})
        connection.execute(f"CREATE TABLE rows ({self._COLUMNS})")

    def add(self, batch: Iterable[tuple[str, Observation]]) -> None:
        """Append rows. DuckDB reads a file faster than it takes values, one by one."""
        found: defaultdict[str, list[Observation]] = defaultdict(list)
        for site, row in batch:
            found[site].append(row)
        with naming(str(self._batch)), self._batch.open("w", encoding="ascii") as lines:
            for site, rows in found.items():
                name = site.encode("utf-8", "surrogatepass").hex()
                for size, pack in _packs(rows):
                    self._count += 1
                    lines.write(f"{name}\t{self._count}\t{size}\t{pack}\n")
        columns = dict(column.split() for column in self._COLUMNS.split(", "))
        self._connection.execute(
            "INSERT INTO rows SELECT * FROM read_csv(?, columns = ?, auto_detect = false, "
            "header = false, delim = '\t', quote = '', escape = '', max_line_size = ?)",
            [str(self._batch), columns, _MAX_LINE],
        )
        self._batch.unlink()

    def __len__(self) -> int:
        (count,) = self._connection.execute("SELECT count(DISTINCT site) FROM rows").fetchone()
        return int(count)

    def __iter__(self) -> Iterator[tuple[str, Packed]]:
        found = self._connection.cursor().execute(
            "SELECT site, all_rows, size, rows FROM rows JOIN "
            "(SELECT site, sum(size)::BIGINT AS all_rows FROM rows GROUP BY site) AS sizes "
            "USING (site) ORDER BY site, number"
        )
        batches = iter(lambda: found.fetchmany(_PACKS), [])
        for (name, count), packs in groupby(chain.from_iterable(batches), itemgetter(0, 1)):
            site = bytes.fromhex(name).decode("utf-8", "surrogatepass")
            sized = ((size, pack) for _, _, size, pack in packs)
            of = selected.parts(count) if self._sampled else 1
            yield site, Packed(sized if of < 2 else _sampled(sized, of))


_Pack = tuple[int, str]  # how many rows, and these as JSON
_encode = json.JSONEncoder(separators=(",", ":")).encode


def _packs(rows: list[Observation]) -> Iterator[_Pack]:
    """Yield rows as JSON, in as many packs as their length asks for."""
    pack = _encode(rows)
    if len(pack) <= _PACK or len(rows) == 1:
        yield len(rows), pack
        return
    half = len(rows) // 2
    yield from _packs(rows[:half])
    yield from _packs(rows[half:])


def _sampled(packs: Iterable[_Pack], of: int) -> Iterator[_Pack]:
    """Yield the rows whose paths are in one of so many parts."""
    for _, pack in packs:
        rows = [row for row in json.loads(pack) if selected.path_hash(row[_URL]) % of == 0]
        if rows:
            yield len(rows), _encode(rows)


class Packed:
    """Rows of a site as JSON, which costs less than objects to keep and to hand on."""

    def __init__(self, packs: Iterable[_Pack]) -> None:
        self._packs: list[str] = []
        self._size = 0
        for size, pack in packs:
            self._size += size
            self._packs.append(pack)

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Observation]:
        for row in chain.from_iterable(map(json.loads, self._packs)):
            row[_LINKS] = tuple(row[_LINKS])
            yield Observation(*row)


_URL, _LINKS = map(Observation._fields.index, ("url", "self_links"))
