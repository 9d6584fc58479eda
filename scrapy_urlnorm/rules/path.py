"""Rules on the path: dot segments, reserved characters, slashes, case, directory index, AMP.

They look at the path alone, but for those whose argument is a URL.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from scrapy_urlnorm.rules import data
from scrapy_urlnorm.rules.escapes import decode_forgeries, with_upper_case_escapes

if TYPE_CHECKING:
    from scrapy_urlnorm.url import Url

_SLASHES = re.compile(r"/{2,}")
# The slashes of a URL inside the path ("/proxy/http://example.org/") are there on purpose.
_EMBEDDED_SCHEME = re.compile(r"/[A-Za-z][A-Za-z0-9+.-]*:$")
# Of ":@!$&'()*+,=[]", which stock Scrapy decodes.
_RESERVED_ESCAPE = re.compile("%(?:2[146-9A-Ca-c]|3[AaDd]|40|5[BbDd])")
_FILE_EXTENSION = re.compile(r"[A-Za-z][A-Za-z0-9]{0,9}")

#: Schemes in whose last path segment Scrapy leaves everything after ";" alone.
_USES_PARAMS = frozenset(
    ("ftp", "hdl", "prospero", "http", "https", "shttp", "rtsp", "rtsps", "rtspu", "sip", "sips",
     "mms", "sftp", "tel")
)  # fmt: skip


def add_root_slash(path: str, _: object = True) -> str:
    """Give an empty path its ``/``.

    http://example.com -> http://example.com/

    Semantics: preserving; with an authority, the empty path and ``/`` are one resource.
    Source: RFC 3986, section 6.2.3
    """
    return path or "/"


def remove_dot_segments(path: str, _: object = True) -> str:
    """Resolve ``.`` and ``..`` in the path.

    http://example.com/foo/./bar/baz/../qux -> http://example.com/foo/bar/qux

    Semantics: preserving; a client resolves them before it sends a request.
    Source: RFC 3986, sections 5.2.4 and 6.2.2.3
    """
    if "/." not in path:
        return path
    output: list[str] = []
    segments = path.split("/")[1:]
    for segment in segments:
        if segment == "..":
            if output:
                output.pop()
        elif segment != ".":
            output.append(segment)
    if segments[-1] in (".", ".."):
        output.append("")
    return "/" + "/".join(output)


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
        new = decode_reserved(path)
        return url if new == path else url.with_path(new)
    end = len(path)
    if url.scheme in _USES_PARAMS:
        semicolon = path.find(";", path.rfind("/") + 1)
        if semicolon >= 0:
            end = semicolon
    head, params = path[:end], path[end:]
    new = decode_reserved(head)
    if params and head.endswith("."):
        new = remove_dot_segments(new)
    if params != ";":
        new += params
    return url if new == path else url.with_path(new)


def decode_reserved(path: str, _: object = True) -> str:
    """Return *path*, one without ``;``, as :func:`decode_path_reserved` writes it."""
    if "%" not in path:
        return path
    return _RESERVED_ESCAPE.sub(lambda match: chr(int(match[0][1:], 16)), decode_forgeries(path))


def remove_duplicate_slashes(path: str, _: object = True) -> str:
    """Make one slash of several in the path.

    http://example.com/foo//bar.html -> http://example.com/foo/bar.html

    Runs after the dot segments (``/a//../b`` is ``/a/b``); the slashes of a URL inside the path
    (``/http://example.org/``) and those of the query stay.

    Semantics: changing; an empty segment is a segment (RFC 3986, section 3.3).
    Source: the article "URI normalization", "Removing duplicate slashes"
    """
    return _SLASHES.sub(_one_slash, path) if "//" in path else path


def _one_slash(match: re.Match[str]) -> str:
    # 64 characters are enough for any scheme, and keep a hostile path linear.
    before = match.string[max(0, match.start() - 64) : match.start()]
    return "//" if _EMBEDDED_SCHEME.search(before) else "/"


def lowercase_path(path: str, _: object = True) -> str:
    """Write the path in lower case.

    http://example.com/Foo/Bar -> http://example.com/foo/bar

    Semantics: changing; right for servers on a case-insensitive file system only.
    Source: RFC 3986, section 6.2.2.1 (against); convention of IIS
    """
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


def remove_directory_index(path: str, names: data.IndexNames) -> str:
    """Remove index.html, IIS's default.asp and default.aspx, or the names that you list.

    http://example.com/a/index.html -> http://example.com/a/

    ``True`` takes the names of IIS in any case, ``/Default.aspx`` too: they do not stand beside an
    ``index.html`` that is another page. ``index.php`` and ``default.html`` may, and stay.

    Option: a list of names in place of these, spelled as they are listed. Pages of one folder that
    have them count as one page, the folder. A name below an index
    (``/index.php/index.html``) is path information and stays.

    Semantics: changing; the server may be set to another index, or to none.
    Source: the article "URI normalization", "Removing directory index"
    """
    if path.endswith("/"):
        return path
    start = path.rfind("/") + 1
    name = path[start:]
    if name not in names.exact and name.lower() not in names.any_case:
        return path
    above = path[: max(start - 1, 0)].rpartition("/")[2]
    if above in names.exact or above.lower() in names.any_case or above in data.index_names():
        return path
    return path[:start]


def trailing_slash(path: str, mode: str = "remove") -> str:
    """Remove the slash at the end of the path, or add it.

    http://example.com/foo/ -> http://example.com/foo     with "add" the other way round

    The root keeps its slash. ``add`` leaves a path whose last segment looks like a file name.

    Semantics: usually preserving; a server that knows one form mostly redirects the other to it.
    Source: RFC 3986, section 6.2.4; the article "URI normalization", "Adding trailing slash"
    """
    if mode == "remove":
        return (path.rstrip("/") or "/") if path.endswith("/") else path
    if path.endswith("/"):
        return path
    _, dot, extension = path.rpartition("/")[2].rpartition(".")
    if dot and _FILE_EXTENSION.fullmatch(extension):
        return path
    return path + "/"
