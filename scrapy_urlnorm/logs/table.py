"""CSV (also with tabs or semicolons), whose header names the keys that JSON lines have."""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING

from .observation import from_row

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from .observation import Observation
    from .source import Log

_DELIMITERS = ",\t;"


def matches(sample: list[str]) -> bool:
    """Whether the first line is a header with a column ``url``."""
    return _delimiter(sample[0]) is not None


def _delimiter(header: str) -> str | None:
    for delimiter in _DELIMITERS:
        if "url" in _names(next(csv.reader([header], delimiter=delimiter))):
            return delimiter
    return None


def _names(header: list[str]) -> list[str]:
    return [name.strip().lstrip("\ufeff").lower() for name in header]


def read(lines: Iterable[tuple[int, str]], log: Log) -> Iterator[Observation]:
    """Read rows below a header; an empty cell is a value that is not there."""
    numbered = iter(lines)
    number, header = next(numbered, (1, ""))
    delimiter = _delimiter(header)
    if delimiter is None:
        log.bad(number, f"the header of a CSV log must name a column 'url', not {header[:60]!r}")
        return

    def texts() -> Iterator[str]:
        nonlocal number
        for at, line in numbered:
            number = at
            yield line + "\n"

    names = _names(next(csv.reader([header], delimiter=delimiter)))
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
