"""Url: the components of RFC 3986, split and joined without losing a character.

The standard library's ``urlsplit`` drops tabs, folds ``http://h?`` into ``http://h`` and checks
as it goes; a normalizer needs the text that was there. Here ``join(split(text)) == text`` holds
for every string, and an absent component (``None``) stays different from an empty one (``""``).
"""

from __future__ import annotations

import re
from ipaddress import IPv6Address
from typing import NamedTuple

#: Schemes whose URLs browsers and servers treat alike (URL Standard, "special scheme"), with
#: the port each implies. https://url.spec.whatwg.org/#special-scheme
DEFAULT_PORTS = {"http": "80", "https": "443", "ws": "80", "wss": "443", "ftp": "21"}

#: What must not become a segment of a path by an edit: a client resolves "." and "..", and "" is
#: no segment (RFC 3986, sections 3.3 and 5.2.4).
DOT_SEGMENTS = ("", ".", "..")

# The text behind these is no authority, even after "//": it is code, data, an address, another URL.
_OPAQUE_SCHEMES = {"about", "blob", "data", "javascript", "mailto", "tel", "urn", "view-source"}


class Url(NamedTuple):
    """The components of one hierarchical URL (RFC 3986, section 3), as raw text.

    ``host`` keeps the brackets of an IP literal. ``userinfo``, ``port``, ``query`` and
    ``fragment`` are ``None`` when their delimiter is absent. ``scheme`` and ``host`` are
    ``None`` in text that is not ``scheme://…``; such text stands whole in ``path``.
    """

    scheme: str | None
    userinfo: str | None
    host: str | None
    port: str | None
    path: str
    query: str | None
    fragment: str | None

    @property
    def is_hierarchical(self) -> bool:
        """Whether the text was of the form ``scheme://authority…``."""
        return self.host is not None

    def with_path(self, path: str) -> Url:
        """Return the URL with another path (several times faster than ``_replace``)."""
        scheme, userinfo, host, port, _, query, fragment = self
        return Url(scheme, userinfo, host, port, path, query, fragment)

    def with_query(self, query: str | None) -> Url:
        """Return the URL with another query."""
        scheme, userinfo, host, port, path, _, fragment = self
        return Url(scheme, userinfo, host, port, path, query, fragment)

    def __str__(self) -> str:
        return join(self)


# RFC 3986, appendix B, with the scheme and the two slashes required: text without an authority
# (mailto:, data:, javascript:, relative references) is not split.
_HIERARCHICAL = re.compile(
    r"([A-Za-z][A-Za-z0-9+.-]*)://([^/?#]*)([^?#]*)(?:\?([^#]*))?(?:#(.*))?", re.DOTALL
)
# The port is what follows the last colon that is not inside an IP literal.
_HOST_PORT = re.compile(r"(\[[^\]]*\]|[^:\[\]]*)(?::(.*))?", re.DOTALL)


def split(text: str) -> Url:
    """Split *text* into its components; never raises.

    >>> split("http://user@example.com:80/a?b#c")
    Url(scheme='http', userinfo='user', host='example.com', port='80', path='/a', query='b', \
fragment='c')
    >>> split("mailto:a@example.com").path
    'mailto:a@example.com'
    """
    match = _HIERARCHICAL.fullmatch(text)
    if match is None:
        return Url(None, None, None, None, text, None, None)
    scheme, authority, path, query, fragment = match.groups()
    if (
        ":" not in authority
        and "@" not in authority
        and "[" not in authority
        and "]" not in authority
    ):
        return Url(scheme, None, authority, None, path, query, fragment)
    userinfo: str | None
    userinfo, at, host_port = authority.rpartition("@")
    if not at:
        userinfo = None
    parts = _HOST_PORT.fullmatch(host_port)
    if parts is None:  # stray brackets or colons: such a host cannot be resolved
        return Url(None, None, None, None, text, None, None)
    host, port = parts.groups()
    return Url(scheme, userinfo, host, port, path, query, fragment)


def join(url: Url) -> str:
    """Put the components together again, adding nothing (RFC 3986, section 5.3)."""
    scheme, userinfo, host, port, path, query, fragment = url
    if host is None:
        return path
    text = (
        f"{scheme}://{host}{path}"
        if userinfo is None and port is None
        else (
            f"{scheme}://"
            f"{'' if userinfo is None else userinfo + '@'}{host}{'' if port is None else ':' + port}"
            f"{path}"
        )
    )
    if query is not None:
        text = f"{text}?{query}"
    if fragment is not None:
        text = f"{text}#{fragment}"
    return text


# --- reading a string as a browser and Scrapy's Request read it -----------------------------

_C0_AND_SPACE = "".join(map(chr, range(0x21)))
_TABS_AND_NEWLINES = re.compile(r"[\t\n\r]+")
# All characters that may stand unescaped in some component. "[" and "]" are among them: browsers
# leave them as they are in path and query, and an IP literal needs them.
_CLEAN = re.compile(r"[!#$%&'()*+,\-./0-9:;=?@A-Z\[\]_a-z~]*")
_NOT_IN_PATH = re.compile(r"[^!$%&'()*+,\-./0-9:;=@A-Z\[\]_a-z~]+")
_NOT_IN_QUERY = re.compile(r"[^!$%&'()*+,\-./0-9:;=?@A-Z\[\]_a-z~]+")
_NOT_IN_USERINFO = re.compile(r"[^!$%&'()*+,\-.0-9:;=A-Z_a-z~]+")
_MAX_PORT = 65535
_IP_FUTURE = re.compile(r"[vV][0-9A-Fa-f]+\.[A-Za-z0-9\-._~!$&'()*+,;=:]+")


def parse(text: str) -> Url | None:
    """Read *text* as a browser does, into components that hold URL characters only.

    Follows the basic URL parser of the URL Standard for absolute URLs with an authority
    (https://url.spec.whatwg.org/#concept-basic-url-parser): control characters and spaces
    around it go, tabs and newlines anywhere go, ``\\`` is ``/`` before the query of a special
    scheme, the last ``@`` ends the userinfo and an empty userinfo goes, characters that no
    component may hold are percent-encoded as UTF-8. What differs: nothing is decoded and no
    dot segment is resolved here, since those are rules; ``^ ` { | }`` are encoded in the query
    too, as Scrapy's ``Request`` does; lone surrogates are encoded byte for byte, so that two
    different strings never become one.

    Returns ``None`` for text that is not ``scheme://…``, or has a port or an IP literal that no
    client accepts: such text is left alone.
    """
    clean = _CLEAN.fullmatch(text) is not None
    if not clean:
        text = _forward_slashes(_TABS_AND_NEWLINES.sub("", text.strip(_C0_AND_SPACE)))
    url = split(text)
    scheme, userinfo, host, port, path, query, fragment = url
    if host is None or (scheme or "").lower() in _OPAQUE_SCHEMES:
        return None
    if clean and userinfo is None and port is None and fragment is None and host[:1] != "[":
        return url
    if port and not _is_port(port):
        return None
    if host[:1] == "[" and not _is_ip_literal(host[1:-1]):
        return None
    if userinfo is not None:
        userinfo = None if userinfo in ("", ":") else _encode(_NOT_IN_USERINFO, userinfo)
    path = _encode(_NOT_IN_PATH, path)
    if query is not None:
        query = _encode(_NOT_IN_QUERY, query)
    if fragment is not None:
        fragment = _encode(_NOT_IN_QUERY, fragment)
    return Url(scheme, userinfo, host, port, path, query, fragment)


def _is_port(port: str) -> bool:
    # int() is slow for a port of a thousand digits: all but the last five must be 0.
    return (
        port.isascii()
        and port.isdigit()
        and not port[:-5].strip("0")
        and int(port[-5:]) <= _MAX_PORT
    )


def _is_ip_literal(text: str) -> bool:
    """Whether *text* may stand in brackets: IPv6 with or without a zone, or IPvFuture."""
    if _IP_FUTURE.fullmatch(text):
        return True
    try:
        IPv6Address(text.partition("%")[0])
    except ValueError:
        return False
    return True


def _forward_slashes(text: str) -> str:
    """Turn ``\\`` into ``/`` before the query of a URL with a special scheme."""
    if "\\" not in text or text.partition(":")[0].lower() not in DEFAULT_PORTS:
        return text
    cut = re.search(r"[?#]", text)
    end = cut.start() if cut else len(text)
    return text[:end].replace("\\", "/") + text[end:]


def _encode(illegal: re.Pattern[str], text: str) -> str:
    return illegal.sub(_percent_encode, text) if illegal.search(text) else text


def _percent_encode(match: re.Match[str]) -> str:
    return "%" + match[0].encode("utf-8", "surrogatepass").hex("%").upper()
