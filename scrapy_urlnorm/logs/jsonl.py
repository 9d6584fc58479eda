"""JSON lines, and Scrapy's JSON feed: an array with one row a line."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from .observation import from_row

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from .observation import Observation
    from .source import Log


def matches(sample: list[str]) -> bool:
    """Whether the first line begins an object or an array."""
    return sample[0].startswith(("{", "["))


def read(lines: Iterable[tuple[int, str]], log: Log) -> Iterator[Observation]:
    """Read one object a line; brackets and commas of an array around them are passed over."""
    loads = json.loads
    for number, line in lines:
        try:
            row = loads(line)
        except ValueError as error:
            bare = line.strip("[], ")
            if not bare:
                continue
            try:
                row = loads(bare)
            except ValueError:
                log.bad(number, f"no JSON object: {error}")
                continue
        if isinstance(row, list) and not row:
            continue
        try:
            if not isinstance(row, dict):
                raise ValueError(f"a row must be an object, not {line[:40]!r}")  # noqa: TRY004
            yield from_row(row)
        except ValueError as error:
            log.bad(number, str(error))
