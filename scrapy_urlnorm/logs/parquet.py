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

COLUMNS = (
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
            types = {row[0]: row[1] for row in described.fetchall()}
            columns = [column for column in COLUMNS if column in types]
            if "url" not in columns:
                names = ", ".join(map(repr, types))
                raise LogFormatError(f"{path}: no column 'url'; it has {names}")
            values_of = ", ".join(_select(column, types[column]) for column in columns)
            result = connection.execute(f"SELECT {values_of} FROM {_TABLE}", [name])
            number = 0
            while batch := result.fetchmany(_ROWS):
                for values in batch:
                    number += 1
                    pairs = zip(columns, values, strict=True)
                    yield number, {key: value for key, value in pairs if value is not None}
        except (duckdb.Error, OverflowError) as error:
            raise LogFormatError(f"{path}: {str(error).splitlines()[0]}") from error


def _select(column: str, kind: str) -> str:
    """Return the SQL that gives a column of the type *kind* with values as in a crawl log.

    Writers keep digests and texts as bytes, and whole numbers that may be missing as fractions;
    a type that no crawl log has (a time, say) becomes its text.
    """
    name = f'"{column}"'
    if kind == "BLOB":
        return f"lower(hex({name}))" if "digest" in column else f"decode({name})"
    if kind in ("FLOAT", "DOUBLE"):
        return f"CAST({name} AS BIGINT)"
    if kind == "VARCHAR" or "INT" in kind or kind.endswith("]"):
        return name
    return f"CAST({name} AS VARCHAR)"
