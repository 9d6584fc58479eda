"""Parquet files with the columns of a crawl log; a folder of them, or a pattern of names.

The reader, DuckDB, comes with the extra ``learn``. Rows leave the file a batch at a time.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from scrapy_urlnorm.exceptions import LogFormatError, MissingExtraError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy_urlnorm.logs.source import Log

_COLUMNS = (
    *("url", "status", "mime", "len", "location", "canonical", "shortlink", "self_links"),
    *("digest", "text_digest", "bag_digest", "simhash", "kind", "lines"),
)
_ROWS = 10_000  # of a batch
_TABLE = "read_parquet(?, union_by_name = true)"


def matches(path: str) -> bool:
    """Whether the name ends in ``.parquet``, or the folder has such files."""
    if path.endswith(".parquet"):
        return True
    return Path(path).is_dir() and any(Path(path).rglob("*.parquet"))


def rows(path: str, log: Log) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the number and the row of each line of the table. Other columns are not read."""
    try:
        import duckdb
    except ImportError as error:
        raise MissingExtraError("duckdb", "learn", "reading a Parquet file") from error

    name = f"{path}/**/*.parquet" if Path(path).is_dir() else path
    with duckdb.connect() as connection:
        try:
            described = connection.execute(f"DESCRIBE SELECT * FROM {_TABLE}", [name])
            there = [row[0] for row in described.fetchall()]
            columns = [column for column in _COLUMNS if column in there]
            if "url" not in columns:
                names = ", ".join(map(repr, there))
                raise LogFormatError(f"{path}: no column 'url'; it has {names}")
            result = connection.execute(f"SELECT {', '.join(columns)} FROM {_TABLE}", [name])
            number = 0
            while batch := result.fetchmany(_ROWS):
                for values in batch:
                    number += 1
                    pairs = zip(columns, values, strict=True)
                    yield number, {key: value for key, value in pairs if value is not None}
        except (duckdb.Error, OverflowError) as error:
            raise LogFormatError(f"{path}: {str(error).splitlines()[0]}") from error
