"""Formats of logs that have a row on each line: JSON, CSV, CDX, access logs, lists of URLs.

A format says whether the first lines of a log look like it, and turns numbered lines into rows.
"""

from __future__ import annotations

import csv
import json
import re
from contextlib import suppress
from itertools import chain, islice
from typing import TYPE_CHECKING, NamedTuple

from scrapy_urlnorm.logs.contents import contents_of, is_pair, objects_in
from scrapy_urlnorm.logs.observation import Observation, from_row
from scrapy_urlnorm.logs.source import SAMPLE, url_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from scrapy_urlnorm.logs.contents import Contents
    from scrapy_urlnorm.logs.source import Log

    Lines = Iterable[tuple[int, str]]


class Format(NamedTuple):
    """A format of lines."""

    matches: Callable[[list[str]], bool]  #: whether these first lines look like it
    #: Turns numbered lines into rows, and reports bad ones to the log.
    read: Callable[[Lines, Log], Iterator[Observation]]


# --- JSON lines, and Scrapy's JSON feed: an array with one row a line -----------------------------


def read_json_lines(lines: Lines, log: Log) -> Iterator[Observation]:
    """Read one object a line; brackets and commas of an array around them are passed over.

    A log that tells what its pages show is read more than once: see `contents`.
    """
    rest = iter(lines)
    head = list(islice(rest, SAMPLE))
    if any('"blocks":' in line or '"lines":' in line for _, line in head):
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


# --- CSV, whose header names the keys that JSON lines have ----------------------------------------


def _header(line: str) -> tuple[str, list[str]] | None:
    """Return the delimiter and the names of the columns, if ``url`` is one of them."""
    for delimiter in ",\t;":
        with suppress(csv.Error):
            cells = next(csv.reader([line], delimiter=delimiter), [])
            names = [cell.strip().lstrip("\ufeff").lower() for cell in cells]
            if "url" in names:
                return delimiter, names
    return None


def _read_table(lines: Lines, log: Log) -> Iterator[Observation]:
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
            if (cells := next(rows, None)) is None:
                return
            if len(cells) > len(names):
                raise ValueError(f"{len(cells)} cells under {len(names)} columns")
            yield from_row(dict(zip(names, cells, strict=False)))
        except (csv.Error, ValueError) as error:  # noqa: PERF203  # one bad row must not end it
            log.bad(number, str(error))


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


# --- access logs of Apache and nginx, common and combined: URLs that were requested ---------------

# [host:port] client identity user [time] "request" status size, then whatever the format adds
_ACCESS = re.compile(
    r"(?:(?P<host>[\w.-]+)(?::(?P<port>\d+))? (?=[\w-]*[.:]))?"  # a client is an address or a name
    r'\S+ \S+ .{1,200}? \[[^\]]{1,60}\] "(?P<request>(?:[^"\\]|\\.)*)" (?P<status>\d{3}) (?:\d+|-)'
)
_REQUEST = re.compile(r"(?:GET|HEAD) (\S+)(?: HTTP/[\d.]+)?$")
# A byte outside of ASCII, as both servers write it; it is read as %HH, which is how clients send
# it. (Apache: mod_log_config, "Format Notes"; nginx: log_format, "escape".)
_ESCAPE = re.compile(r'\\(?:x([0-9A-Fa-f]{2})|(["\\]))')


def _read_access(lines: Lines, log: Log) -> Iterator[Observation]:
    """Read GET and HEAD requests; lines with another method or no request are passed over.

    A line does not name its site unless the format begins with the virtual host (Apache's
    ``%v:%p %h ...``).
    """
    for number, line in lines:
        found = _ACCESS.match(line)
        if found is None:
            log.bad(number, 'no access log line: host ident user [time] "request" status size')
            continue
        request = _REQUEST.match(found["request"])
        if request is None:
            continue
        target = _ESCAPE.sub(lambda m: f"%{m[1].upper()}" if m[1] else m[2], request[1])
        if target.startswith("/"):
            host, port = found["host"], found["port"]
            place = "" if port in (None, "80", "443") else f":{port}"
            base = log.site or (host and f"http{'s' * (port == '443')}://{host}{place}")
            if not base:
                log.bad(number, "an access log does not name its site: give one, as https://HOST")
                continue
            target = base.rstrip("/") + target
        elif "://" not in target:
            continue
        yield Observation(url_of(target), int(found["status"]))


# --- a bare list of URLs, one a line: rules can be proposed from it, but not proved ---------------

_ABSOLUTE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


def _is_list(sample: list[str]) -> bool:
    return bool(_ABSOLUTE.match(next((line for line in sample if line[0] != "#"), "")))


def _read_list(lines: Lines, log: Log) -> Iterator[Observation]:
    absolute = _ABSOLUTE.match
    for number, line in lines:
        if absolute(line):
            yield Observation(url_of(line))
        elif line.startswith("/") and log.site:
            yield Observation(url_of(log.site.rstrip("/") + line))
        elif not line.startswith("#"):
            log.bad(number, f"not an absolute URL: {line[:60]!r}")


#: Tried in this order: the format that fits most lines (a list of URLs) comes last.
FORMATS = {
    "jsonl": Format(lambda sample: sample[0].startswith(("{", "[")), read_json_lines),
    "csv": Format(lambda sample: _header(sample[0]) is not None, _read_table),
    "cdx": Format(_is_cdx, _read_cdx),
    "access": Format(lambda sample: _ACCESS.match(sample[0]) is not None, _read_access),
    "urls": Format(_is_list, _read_list),
}
