"""CSV (also with tabs or semicolons), whose header names the keys that JSON lines have."""

from __future__ import annotations

import csv
from contextlib import suppress
from typing import TYPE_CHECKING

from scrapy_urlnorm.logs.observation import from_row

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from scrapy_urlnorm.logs.observation import Observation
    from scrapy_urlnorm.logs.source import Log

_DELIMITERS = ",\t;"


def matches(sample: list[str]) -> bool:
    """Whether the first line is a header with a column ``url``."""
    return _header(sample[0]) is not None


def _header(line: str) -> tuple[str, list[str]] | None:
    """Return the delimiter and the names of the columns, if ``url`` is one of them."""
    for delimiter in _DELIMITERS:
        with suppress(csv.Error):
            cells = next(csv.reader([line], delimiter=delimiter), [])
            names = [cell.strip().lstrip("\ufeff").lower() for cell in cells]
            if "url" in names:
                return delimiter, names
    return None


def read(lines: Iterable[tuple[int, str]], log: Log) -> Iterator[Observation]:
    """Read rows below a header; an empty cell is a value that is not there."""
    numbered = iter(lines)
    number, first = next(numbered, (1, ""))
    header = _header(first)
    if header is None:
        log.bad(number, f"the header of a CSV log must name a column 'url', not {first[:60]!r}")
        return
    delimiter, names = header

    def texts() -> Iterator[str]:
        nonlocal number
        for at, line in numbered:
            number = at
            yield line + "\n"

    rows = csv.reader(texts(), delimiter=delimiter, strict=True)
    while True:
        try:
            cells = next(rows, None)
            if cells is None:
                return
            if len(cells) > len(names):
                raise ValueError(f"{len(cells)} cells under {len(names)} columns")
            yield from_row(dict(zip(names, cells, strict=False)))
        except (csv.Error, ValueError) as error:  # noqa: PERF203  # one bad row must not end it
            log.bad(number, str(error))
