"""ReadDatabase: a SQLite database that a crawl has written, opened for reading."""

from __future__ import annotations

import json
import sqlite3
from typing import TYPE_CHECKING, Any

from scrapy_urlnorm.exceptions import StoreError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from typing_extensions import Self


class ReadDatabase:
    """The database at *path*, which has to be there.

    Raises `StoreError`, at every question, for one that is damaged, in use, or of an older version.
    The message names the file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._connection = sqlite3.connect(
                f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=0
            )
        except sqlite3.Error as error:
            raise self._failed(error) from error

    def close(self) -> None:
        """Close the database."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _failed(self, error: Exception) -> StoreError:
        hint = ""
        if "locked" in str(error):
            hint = ": a crawl uses it, ask when that has ended"
        elif "no such" in str(error):
            hint = ": an older version made it, and a crawl that is resumed there mends that"
        return StoreError(f"{self._path}: {error}{hint}")

    def _read(self, select: str, *values: object) -> Iterator[Any]:
        try:
            yield from self._connection.execute(select, values)
        except sqlite3.Error as error:
            raise self._failed(error) from error

    def _one(self, select: str, *values: object) -> Any:
        """Return the first row, or ``None``."""
        return next(self._read(select, *values), None)

    def _json(self, what: str, text: str) -> Any:
        try:
            return json.loads(text)
        except (TypeError, ValueError, RecursionError) as error:
            raise self._damaged(what, error) from error

    def _damaged(self, what: str, error: Exception) -> StoreError:
        return StoreError(f"{self._path}: {what} cannot be read: {error!r}")
