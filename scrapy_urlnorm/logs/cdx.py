"""Indexes of web archives: CDX with 11, 10, 9 or 7 fields, and CDXJ as pywb writes it.

Fields as in the Internet Archive's "CDX File Format" legend and the CDX server's output; a
``CDX`` header line says which ones a file has. A revisit record repeats the digest of an
earlier capture; it has no status of its own, so it is no page.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from scrapy_urlnorm.logs.observation import from_row

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from scrapy_urlnorm.logs.observation import Observation
    from scrapy_urlnorm.logs.source import Log

_LETTERS = {"a": "url", "m": "mime", "s": "status", "k": "digest", "r": "location"}
_LEGENDS = {
    11: "N b a m s k r M S V g",
    10: "N b a m s k r M V g",
    9: "N b a m s k r V g",
    7: "N b a m s k S",
}
_START = re.compile(r"\S+ \d{4,14} \S")
_JSON_START = re.compile(r"\S+ \d{4,14} \{")


def matches(sample: list[str]) -> bool:
    """Whether the first line is a header, or ``key timestamp URL ...`` with a known length."""
    if sample[0].startswith("CDX "):
        return True
    line = _first_row(sample)
    return bool(_JSON_START.match(line)) or (
        bool(_START.match(line)) and len(line.split(" ")) in _LEGENDS
    )


def _first_row(sample: list[str]) -> str:
    return next((line for line in sample if not line.startswith(("!", "@"))), "")


def read(lines: Iterable[tuple[int, str]], log: Log) -> Iterator[Observation]:
    """Read CDX and CDXJ lines, which a merged index may mix."""
    legend: list[str] | None = None
    for number, line in lines:
        if line.startswith("CDX "):
            legend = line.split(" ")[1:]
            continue
        if line.startswith(("!", "@")):  # a CDXJ header
            continue
        try:
            if _JSON_START.match(line):
                yield from_row(_cdxj(line))
            else:
                yield from_row(_cdx(line, legend))
        except (ValueError, RecursionError) as error:
            log.bad(number, str(error))


def _cdx(line: str, legend: list[str] | None) -> dict[str, str]:
    fields = line.split(" ")
    if legend is None:
        if len(fields) not in _LEGENDS:
            known = ", ".join(map(str, _LEGENDS))
            raise ValueError(f"{len(fields)} fields; without a header a CDX line has {known}")
        names = _LEGENDS[len(fields)].split(" ")
    elif len(legend) == len(fields):
        names = legend
    else:
        raise ValueError(f"{len(fields)} fields where the header names {len(legend)}")
    return _row({_LETTERS[n]: v for n, v in zip(names, fields, strict=True) if n in _LETTERS})


def _cdxj(line: str) -> dict[str, str]:
    fields = json.loads(line.split(" ", 2)[2])
    return _row(
        {
            name: str(fields[key])
            for name, key in (
                ("url", "url"),
                ("mime", "mime"),
                ("status", "status"),
                ("digest", "digest"),
                ("location", "redirect"),
            )
            if key in fields
        }
    )


def _row(fields: dict[str, str]) -> dict[str, str]:
    """Return *fields* without unknown ones (``-``), and the digest without its algorithm."""
    row = {name: value for name, value in fields.items() if value != "-"}
    row["digest"] = row.get("digest", "").removeprefix("sha1:")
    if row.get("mime") == "warc/revisit":
        row.update(digest="", mime="")
    return row
