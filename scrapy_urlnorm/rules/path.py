"""Rules on the path: directory index, slashes, case, session ids, AMP."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from scrapy_urlnorm.rules import data
from scrapy_urlnorm.rules.escapes import (
    decode_forgeries,
    with_upper_case_escapes,
    without_reserved_escapes,
)
from scrapy_urlnorm.rules.syntax import resolve_dot_segments

if TYPE_CHECKING:
    from scrapy_urlnorm.url import Url

_SLASHES = re.compile(r"/{2,}")
# The slashes of a URL inside the path ("/proxy/http://example.org/") are there on purpose.
_EMBEDDED_SCHEME = re.compile(r"/[A-Za-z][A-Za-z0-9+.-]*:$")
_FILE_EXTENSION = re.compile(r"[A-Za-z][A-Za-z0-9]{0,9}")

#: Schemes in whose last path segment Scrapy leaves everything after ";" alone.
_USES_PARAMS = frozenset(
    ("ftp", "hdl", "prospero", "http", "https", "shttp", "rtsp", "rtsps", "rtspu", "sip", "sips",
     "mms", "sftp", "tel")
)  # fmt: skip


def decode_path_reserved(url: Url, _: object = True) -> Url:
    """Decode the reserved characters in a path that stock Scrapy decodes.

    http://example.com/a%2Cb%3A -> http://example.com/a,b:

    ``%2F``, ``%3B``, ``%3F``, ``%23`` and ``%25`` stay. As in Scrapy, what follows a ``;`` in
    the last segment is left alone, a ``;`` that nothing follows goes, and a dot segment right
    before it (``/a/..;b``) is resolved.

    Semantics: changing; RFC 3986 protects reserved characters from normalization. It is here so
    that nobody gets more requests than from stock Scrapy.
    Source: RFC 3986, section 2.2 (against); w3lib.url.canonicalize_url
    """
    path = url.path
    if ";" not in path:
        return _with_path(url, decode_reserved(path))
    end = len(path)
    if url.scheme in _USES_PARAMS:
        semicolon = path.find(";", path.rfind("/") + 1)
        if semicolon >= 0:
            end = semicolon
    head, params = path[:end], path[end:]
    new = decode_reserved(head)
    if params and head.endswith("."):
        new = resolve_dot_segments(new)
    if params != ";":
        new += params
    return _with_path(url, new)


def decode_reserved(path: str) -> str:
    """Return *path*, one without ``;``, as :func:`decode_path_reserved` writes it."""
    return without_reserved_escapes(decode_forgeries(path)) if "%" in path else path


def remove_duplicate_slashes(url: Url, _: object = True) -> Url:
    """Make one slash of several in the path.

    http://example.com/foo//bar.html -> http://example.com/foo/bar.html

    Runs after the dot segments (``/a//../b`` is ``/a/b``); the slashes of a URL inside the path
    (``/http://example.org/``) and those of the query stay.

    Semantics: changing; an empty segment is a segment (RFC 3986, section 3.3).
    Source: the article "URI normalization", "Removing duplicate slashes"
    """
    return _with_path(url, with_single_slashes(url.path))


def with_single_slashes(path: str, _: object = True) -> str:
    """Return *path* as :func:`remove_duplicate_slashes` writes it."""
    return _SLASHES.sub(_one_slash, path) if "//" in path else path


def _one_slash(match: re.Match[str]) -> str:
    # 64 characters are enough for any scheme, and keep a hostile path linear.
    before = match.string[max(0, match.start() - 64) : match.start()]
    return "//" if _EMBEDDED_SCHEME.search(before) else "/"


def lowercase_path(url: Url, _: object = True) -> Url:
    """Write the path in lower case.

    http://example.com/Foo/Bar -> http://example.com/foo/bar

    Semantics: changing; right for servers on a case-insensitive file system only.
    Source: RFC 3986, section 6.2.2.1 (against); convention of IIS
    """
    return _with_path(url, in_lower_case(url.path))


def in_lower_case(path: str, _: object = True) -> str:
    """Return *path* as :func:`lowercase_path` writes it."""
    new = path.lower()
    return with_upper_case_escapes(new) if "%" in new else new


def strip_amp(url: Url, _: object = True) -> Url:
    """Remove the marks of an AMP page from the path and the query.

    http://example.com/story/amp/ -> http://example.com/story/
    http://example.com/story.amp.html?output=amp -> http://example.com/story.html

    Semantics: changing; the AMP page is a reduced form of the other.
    Source: convention; https://amp.dev/documentation/guides-and-tutorials/
    """
    path, query = url.path, url.query
    new_path = path
    if "amp" in path:
        end = _before_amp_segments(path)
        if 0 < end < len(path):
            new_path = path[:end] + ("/" if path.endswith("/") else "")
        new_path = new_path.removesuffix(".amp") if new_path.endswith(".html.amp") else new_path
        if new_path.endswith(".amp.html"):
            stem = new_path.removesuffix(".html")
            end = len(stem)
            while stem.endswith(".amp", 0, end):
                end -= len(".amp")
            new_path = stem[:end] + ".html"
    new_query = query
    if query and "amp" in query:
        marks = ("amp", "amp=", "amp=1", "output=amp", "outputType=amp")
        pieces = [piece for piece in query.split("&") if piece not in marks]
        new_query = "&".join(pieces) if pieces else None
    if new_path == path and new_query == query:
        return url
    return url._replace(path=new_path, query=new_query)


def _before_amp_segments(path: str) -> int:
    """Return where the segments ``amp`` at the end of *path* begin; its length if there are none.

    Each may have a slash behind it, which is then the end of the path or an empty segment.
    """
    start = len(path)
    while True:
        end = start - 1 if path.endswith("/", 0, start) else start
        if not path.endswith("/amp", 0, end):
            return start
        start = end - len("/amp")


def remove_directory_index(url: Url, names: frozenset[str]) -> Url:
    """Remove index.html, or the names that you list, at the end of the path.

    http://example.com/a/index.html -> http://example.com/a/

    Option: a list of names in place of ``index.html``. With several, pages of one folder that
    have these names count as one page, the folder. With ``True`` no two names do: ``index.php``
    and ``default.html`` may be pages of their own beside ``index.html``. A name below an index
    (``/index.php/index.html``) is path information and stays.

    Semantics: changing; the server may be set to another index, or to none.
    Source: the article "URI normalization", "Removing directory index"
    """
    return _with_path(url, without_index(url.path, names))


def without_index(path: str, names: frozenset[str]) -> str:
    """Return *path* as :func:`remove_directory_index` writes it."""
    start = path.rfind("/") + 1
    if path[start:] not in names:
        return path
    above = path[: max(start - 1, 0)].rpartition("/")[2]
    if above in names or above in data.index_names():
        return path
    return path[:start]


def trailing_slash(url: Url, mode: str = "remove") -> Url:
    """Remove the slash at the end of the path, or add it.

    http://example.com/foo -> http://example.com/foo/     with "add"

    The root keeps its slash. ``add`` leaves a path whose last segment looks like a file name.

    Semantics: usually preserving; a server that knows one form mostly redirects the other to it.
    Source: RFC 3986, section 6.2.4; the article "URI normalization", "Adding trailing slash"
    """
    return _with_path(url, with_last_slash(url.path, mode))


def with_last_slash(path: str, mode: str) -> str:
    """Return *path* as :func:`trailing_slash` writes it, with the slash or without."""
    if mode == "remove":
        return (path.rstrip("/") or "/") if path.endswith("/") else path
    if path.endswith("/"):
        return path
    _, dot, extension = path.rpartition("/")[2].rpartition(".")
    if dot and _FILE_EXTENSION.fullmatch(extension):
        return path
    return path + "/"


def _with_path(url: Url, path: str) -> Url:
    """Return *url* with this path, or *url* itself if it has it."""
    return url if path == url.path else url.with_path(path)
