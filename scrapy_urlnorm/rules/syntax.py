"""Rules on the spelling of a URL: escapes, dot segments, the empty path, the fragment.

All but ``remove-fragment`` are equivalences that RFC 3986 proves for every URL.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy_urlnorm.rules.escapes import with_upper_case_escapes, without_unreserved_escapes
from scrapy_urlnorm.url import Url

if TYPE_CHECKING:
    from collections.abc import Callable


def _on_every_component(url: Url, change: Callable[[str], str]) -> Url:
    """Apply *change* to each component that holds a ``%``."""
    scheme, userinfo, host, port, path, query, fragment = url
    changed = Url(
        scheme,
        change(userinfo) if userinfo and "%" in userinfo else userinfo,
        change(host) if host and "%" in host else host,
        port,
        change(path) if "%" in path else path,
        change(query) if query and "%" in query else query,
        change(fragment) if fragment and "%" in fragment else fragment,
    )
    return url if changed == url else changed


def uppercase_escapes(url: Url, _: object = True) -> Url:
    """Write the hex digits of percent-escapes in upper case.

    http://example.com/a%c2%b1b -> http://example.com/a%C2%B1b

    Semantics: preserving; the digits of an escape are case-insensitive.
    Source: RFC 3986, section 6.2.2.1
    """
    return _on_every_component(url, with_upper_case_escapes)


def decode_unreserved(url: Url, _: object = True) -> Url:
    """Decode the escapes of letters, digits, ``-``, ``.``, ``_`` and ``~``.

    http://example.com/%7Efoo -> http://example.com/~foo

    Semantics: preserving; for these characters alone the escape and the character are the same
    data. Everything else, ``%25`` first of all, stays as it is, and so do escapes whose decoding
    would forge another with a stray ``%`` in front of them (``%%34%31``).
    Source: RFC 3986, sections 2.3, 2.4 and 6.2.2.2
    """
    return _on_every_component(url, without_unreserved_escapes)


def remove_dot_segments(url: Url, _: object = True) -> Url:
    """Resolve ``.`` and ``..`` in the path.

    http://example.com/foo/./bar/baz/../qux -> http://example.com/foo/bar/qux

    Semantics: preserving; a client resolves them before it sends a request.
    Source: RFC 3986, sections 5.2.4 and 6.2.2.3
    """
    path = url.path
    if "/." not in path:
        return url
    resolved = resolve_dot_segments(path)
    return url if resolved == path else url.with_path(resolved)


def resolve_dot_segments(path: str) -> str:
    """Apply the algorithm of RFC 3986, section 5.2.4, to a path that begins with ``/``."""
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


def add_root_slash(url: Url, _: object = True) -> Url:
    """Give an empty path its ``/``.

    http://example.com -> http://example.com/

    Semantics: preserving; with an authority, the empty path and ``/`` are one resource.
    Source: RFC 3986, section 6.2.3
    """
    return url if url.path else url.with_path("/")


def remove_fragment(url: Url, keep: tuple[str, ...] = ()) -> Url:
    """Remove the fragment, which a client does not send.

    http://example.com/bar.html#section1 -> http://example.com/bar.html

    Option: a list of beginnings to keep, such as ``["#!", "#/"]`` for sites that route by
    fragment; of a fragment that is kept, the text directive ``:~:text=...`` still goes.

    Semantics: changing; pages that route by fragment show other content to a browser.
    Source: RFC 3986, section 3.5 and 6.1; https://wicg.github.io/scroll-to-text-fragment/
    """
    fragment = url.fragment
    if fragment is None:
        return url
    if keep and fragment.startswith(keep):
        kept = fragment.partition(":~:")[0]
        return url if kept == fragment else url._replace(fragment=kept)
    return url._replace(fragment=None)
