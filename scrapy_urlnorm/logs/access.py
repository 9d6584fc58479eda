"""Access logs of Apache and nginx, common and combined: URLs that were requested, no contents.

A line does not name its site unless the format begins with the virtual host (Apache's
``%v:%p %h ...``). Give ``site``, such as ``https://shop.example``, for logs without.

Both servers write a byte outside of ASCII as ``\\xHH``; it is read as ``%HH``, which is how clients
send it. (Apache: mod_log_config, "Format Notes"; nginx: log_format, "escape".)
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from scrapy_urlnorm.logs.observation import Observation
from scrapy_urlnorm.logs.source import url_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from scrapy_urlnorm.logs.source import Log

# [host:port] client identity user [time] "request" status size, then whatever the format adds
_LINE = re.compile(
    r"(?:(?P<host>[\w.-]+)(?::(?P<port>\d+))? (?=[\w-]*[.:]))?"  # a client is an address or a name
    r'\S+ \S+ .{1,200}? \[[^\]]{1,60}\] "(?P<request>(?:[^"\\]|\\.)*)" (?P<status>\d{3}) (?:\d+|-)'
)
_REQUEST = re.compile(r"(?:GET|HEAD) (\S+)(?: HTTP/[\d.]+)?$")
_ESCAPE = re.compile(r'\\(?:x([0-9A-Fa-f]{2})|(["\\]))')


def matches(sample: list[str]) -> bool:
    """Whether the first line has a time in brackets, a request in quotes, a status and a size."""
    return _LINE.match(sample[0]) is not None


def read(lines: Iterable[tuple[int, str]], log: Log) -> Iterator[Observation]:
    """Read GET and HEAD requests; lines with another method or no request are passed over."""
    for number, line in lines:
        found = _LINE.match(line)
        if found is None:
            log.bad(number, 'no access log line: host ident user [time] "request" status size')
            continue
        request = _REQUEST.match(found["request"])
        if request is None:
            continue
        target = _ESCAPE.sub(_unescape, request[1]) if "\\" in request[1] else request[1]
        if target.startswith("/"):
            base = log.site or _base(found["host"], found["port"])
            if base is None:
                log.bad(number, "an access log does not name its site: give one, as https://HOST")
                continue
            target = base.rstrip("/") + target
        elif "://" not in target:
            continue
        yield Observation(url_of(target), int(found["status"]))


def _unescape(match: re.Match[str]) -> str:
    return f"%{match[1].upper()}" if match[1] else match[2]


def _base(host: str | None, port: str | None) -> str | None:
    if host is None:
        return None
    if port in (None, "80", "443"):
        return ("https://" if port == "443" else "http://") + host
    return f"http://{host}:{port}"
