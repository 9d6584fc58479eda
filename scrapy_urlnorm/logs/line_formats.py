"""Formats of logs that have a row on each line: JSON, CDX, lists of URLs."""

from __future__ import annotations

import json
import re
from itertools import chain, islice
from typing import TYPE_CHECKING

from scrapy_urlnorm.logs.contents import contents_of, is_pair, objects_in
from scrapy_urlnorm.logs.observation import Observation, from_row
from scrapy_urlnorm.logs.source import SAMPLE, url_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from scrapy_urlnorm.logs.contents import Contents
    from scrapy_urlnorm.logs.source import Log

    Lines = Iterable[tuple[int, str]]


# --- JSON lines, and Scrapy's JSON feed: an array with one row a line -----------------------------


def read_json_lines(lines: Lines, log: Log) -> Iterator[Observation]:
    """Read one object a line; brackets and commas of an array around them are passed over.

    A log that tells what its pages show is read more than once: see `contents`.
    """
    rest = iter(lines)
    head = list(islice(rest, SAMPLE))
    if any('"blocks":' in line for _, line in head):
        with contents_of(head, rest, log) as (contents, again):
            yield from _observations(again, log, contents)
    else:
        yield from _observations(chain(head, rest), log, None)


def _observations(lines: Lines, log: Log, contents: Contents | None) -> Iterator[Observation]:
    for number, row in objects_in(lines, log):
        if is_pair(row):
            continue
        try:
            content = contents.of(row) if contents is not None else None
            observation = from_row(row)
        except ValueError as error:
            log.bad(number, str(error))
        else:
            yield observation._replace(content=content) if content else observation


# --- indexes of web archives: CDX with 11, 10, 9 or 7 fields, and CDXJ as pywb writes it ----------

# As in the Internet Archive's "CDX File Format" legend and the CDX server's output.
_LETTERS = {"a": "url", "m": "mime", "s": "status", "k": "digest", "r": "location"}
_LEGENDS = {
    11: "N b a m s k r M S V g",
    10: "N b a m s k r M V g",
    9: "N b a m s k r V g",
    7: "N b a m s k S",
}
_CDX = re.compile(r"\S+ \d{4,14} (\{)?")


def _is_cdx(sample: list[str]) -> bool:
    """Whether the first line is a header, or ``key timestamp URL ...`` with a known length."""
    line = next((line for line in sample if not line.startswith(("!", "@"))), "")
    found = _CDX.match(line)
    is_row = found is not None and bool(found[1] or len(line.split(" ")) in _LEGENDS)
    return is_row or sample[0].startswith("CDX ")


def _read_cdx(lines: Lines, log: Log) -> Iterator[Observation]:
    legend: list[str] | None = None
    for number, line in lines:
        if line.startswith("CDX "):
            legend = line.split(" ")[1:]
        elif not line.startswith(("!", "@")):  # a CDXJ header
            try:
                yield from_row(_row_of_cdx(line, legend))
            except (ValueError, RecursionError) as error:
                log.bad(number, str(error))


def _row_of_cdx(line: str, legend: list[str] | None) -> dict[str, str]:
    found = _CDX.match(line)
    if found is not None and found[1]:
        row = {name: str(value) for name, value in json.loads(line.split(" ", 2)[2]).items()}
        row["location"] = row.pop("redirect", "-")
    else:
        fields = line.split(" ")
        if legend is None and len(fields) not in _LEGENDS:
            known = ", ".join(map(str, _LEGENDS))
            raise ValueError(f"{len(fields)} fields; without a header a CDX line has {known}")
        names = _LEGENDS[len(fields)].split(" ") if legend is None else legend
        if len(names) != len(fields):
            raise ValueError(f"{len(fields)} fields where the header names {len(names)}")
        row = {_LETTERS[n]: v for n, v in zip(names, fields, strict=True) if n in _LETTERS}
    row = {name: row[name] for name in _LETTERS.values() if row.get(name, "-") != "-"}
    row["digest"] = row.get("digest", "").removeprefix("sha1:")
    if row.get("mime") == "warc/revisit":  # it repeats the digest of an earlier capture
        row.update(digest="", mime="")
    return row


# --- a bare list of URLs, one a line: rules can be proposed from it, but not proved ---------------

_ABSOLUTE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


def _is_list(sample: list[str]) -> bool:
    return bool(_ABSOLUTE.match(next((line for line in sample if line[0] != "#"), "")))


def _read_list(lines: Lines, log: Log) -> Iterator[Observation]:
    absolute = _ABSOLUTE.match
    for number, line in lines:
        if absolute(line):
            yield Observation(url_of(line))
        elif not line.startswith("#"):
            log.bad(number, f"not an absolute URL: {line[:60]!r}")


#: Of each format, what says whether the first lines look like it, and what turns numbered lines
#: into rows, and reports bad ones to the log. The one that fits most lines comes last.
FORMATS: dict[
    str, tuple[Callable[[list[str]], bool], Callable[[Lines, Log], Iterator[Observation]]]
] = {
    "jsonl": (lambda sample: sample[0].lstrip("[ ")[:1] in ("", "{", "]"), read_json_lines),
    "cdx": (_is_cdx, _read_cdx),
    "urls": (_is_list, _read_list),
}
