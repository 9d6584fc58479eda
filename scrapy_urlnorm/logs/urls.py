"""A bare list of URLs, one a line: rules can be proposed from it, but not proved.

A line that begins with ``/`` is a URL of the site that the user names, as in access logs.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from scrapy_urlnorm.logs.observation import Observation
from scrapy_urlnorm.logs.source import url_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from scrapy_urlnorm.logs.source import Log

_ABSOLUTE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


def matches(sample: list[str]) -> bool:
    """Whether the first line that is no comment is an absolute URL."""
    return bool(_ABSOLUTE.match(next((line for line in sample if line[0] != "#"), "")))


def read(lines: Iterable[tuple[int, str]], log: Log) -> Iterator[Observation]:
    """Read URLs; a line that begins with ``#`` is a comment."""
    absolute = _ABSOLUTE.match
    for number, line in lines:
        if absolute(line):
            yield Observation(url_of(line))
        elif line.startswith("/") and log.site:
            yield Observation(url_of(log.site.rstrip("/") + line))
        elif not line.startswith("#"):
            log.bad(number, f"not an absolute URL: {line[:60]!r}")
