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
from typing import TYPE_CHECKING, Any, Protocol

from scrapy_urlnorm.exceptions import naming
from scrapy_urlnorm.learning import selected
from scrapy_urlnorm.learning.evidence import site_of
from scrapy_urlnorm.logs import Observation

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from scrapy_urlnorm.learning.one_site import Rows

#: A log with fewer rows stays in memory, where these take some 120 MB (a choice).
_IN_MEMORY = 250_000
#: What DuckDB may hold in memory, and rows written or read at once (choices).
_MEMORY, _BATCH = "512MB", 50_000
#: Rows taken out of JSON at once (a choice: each call costs as much as a row).
_PARSED = 1_000
#: A line of a log may have 16 MiB; as JSON in ASCII it may be six times as long.
_MAX_LINE = 128 * 1024 * 1024


_Located = tuple[str, Observation]


class Sites(Protocol):
    """The rows of all sites, in the order of their names."""

    def __len__(self) -> int:
        """How many sites there are."""

    def __iter__(self) -> Iterator[tuple[str, Rows]]:
        """Give the name of each site, and its rows in the order of the log, or a sample."""


@contextmanager
def by_site(rows: Iterable[Observation]) -> Iterator[Sites]:
    """Read all *rows*; give them by site. What they take on disk is free again at the end.

    Raises what *rows* raises; OSError, which names the folder, if the disk cannot hold them.
    """
    located: Iterator[_Located] = ((s, row) for row in rows if (s := site_of(row.url)))
    first = list(islice(located, _IN_MEMORY))
    few = len(first) < _IN_MEMORY
    located = chain(first, located)
    del first  # its rows are to go as they are read
    if few or not _can_leave_memory():
        yield _InMemory(located)
        return
    import duckdb

    with (
        TemporaryDirectory(prefix="urlnorm-mine-") as folder,
        duckdb.connect(f"{folder}/rows.duckdb") as connection,
    ):
        try:
            table = _OnDisk(connection, Path(folder))
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
    """A table of (site, number, hash of the path, row).

    A row is JSON, and the name of a site hexadecimal: so every text is ASCII without separators,
    and the order of the database is that of Python.
    """

    _COLUMNS = "site VARCHAR, number BIGINT, path UINTEGER, row VARCHAR"

    def __init__(self, connection: Any, folder: Path) -> None:
        self._connection = connection
        self._batch = folder / "batch.tsv"
        self._count = 0
        connection.execute(f"SET memory_limit = '{_MEMORY}'; SET threads = 2")
        connection.execute("SET temp_directory = $folder", {"folder": str(folder)})
        connection.execute(f"CREATE TABLE rows ({self._COLUMNS})")

    def add(self, batch: Iterable[tuple[str, Observation]]) -> None:
        """Append rows. DuckDB reads a file faster than it takes values, one by one."""
        encode = json.JSONEncoder(separators=(",", ":")).encode
        with naming(str(self._batch)), self._batch.open("w", encoding="ascii") as lines:
            for site, row in batch:
                self._count += 1
                name = site.encode("utf-8", "surrogatepass").hex()
                lines.write(
                    f"{name}\t{self._count}\t{selected.path_hash(row.url)}\t{encode(row)}\n"
                )
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
            "SELECT site, row FROM rows JOIN "
            "(SELECT site, ((count(*) + $most - 1) // $most)::UINTEGER AS parts "
            "FROM rows GROUP BY site) AS sizes USING (site) "
            "WHERE path % parts = 0 ORDER BY site, number",
            {"most": selected.MAX_ROWS},
        )
        batches = iter(lambda: found.fetchmany(_BATCH), [])
        for name, rows in groupby(chain.from_iterable(batches), itemgetter(0)):
            site = bytes.fromhex(name).decode("utf-8", "surrogatepass")
            yield site, Packed([row for _, row in rows])


class Packed:
    """Rows of a site as JSON, which costs less than objects to keep and to hand on."""

    def __init__(self, rows: list[str]) -> None:
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[Observation]:
        for start in range(0, len(self._rows), _PARSED):
            for row in json.loads(f"[{','.join(self._rows[start : start + _PARSED])}]"):
                row[_LINKS] = tuple(row[_LINKS])
                yield Observation(*row)


_LINKS = Observation._fields.index("self_links")
