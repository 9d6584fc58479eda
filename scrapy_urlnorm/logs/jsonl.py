"""JSON lines, and Scrapy's JSON feed: an array with one row a line."""

from __future__ import annotations

import json
from itertools import chain, islice
from typing import TYPE_CHECKING

from scrapy_urlnorm.logs.common_lines import two_passes
from scrapy_urlnorm.logs.observation import from_row

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from scrapy_urlnorm.logs.common_lines import Contents
    from scrapy_urlnorm.logs.observation import Observation
    from scrapy_urlnorm.logs.source import Log


def matches(sample: list[str]) -> bool:
    """Whether the first line begins an object or an array."""
    return sample[0].startswith(("{", "["))


def read(lines: Iterable[tuple[int, str]], log: Log) -> Iterator[Observation]:
    """Read one object a line; brackets and commas of an array around them are passed over.

    A log whose rows have the hashes of their lines is read twice: see `common_lines`.
    """
    rest = iter(lines)
    head = list(islice(rest, 20))
    if any('"lines":' in line for _, line in head):
        with two_passes(head, rest, log) as (contents, again):
            yield from _rows(again, log, contents)
    else:
        yield from _rows(chain(head, rest), log, None)


def _rows(
    lines: Iterable[tuple[int, str]], log: Log, contents: Contents | None
) -> Iterator[Observation]:
    loads = json.loads
    for number, line in lines:
        try:
            row = loads(line)
        except RecursionError:
            log.bad(number, "nested too deeply")
            continue
        except ValueError as error:
            bare = line.strip("[], ")
            if not bare:
                continue
            try:
                row = loads(bare)
            except (ValueError, RecursionError):
                log.bad(number, f"no JSON object: {error}")
                continue
        if isinstance(row, list) and not row:
            continue
        try:
            if not isinstance(row, dict):
                raise ValueError(f"a row must be an object, not {line[:40]!r}")  # noqa: TRY004
            observation = from_row(row)
            if contents is not None:
                content = contents.of(row) or observation.content
                observation = observation._replace(content=content)
            yield observation
        except ValueError as error:
            log.bad(number, str(error))
