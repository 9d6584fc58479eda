"""Url: the components of RFC 3986, split and joined without losing a character.

The standard library's ``urlsplit`` drops tabs, folds ``http://h?`` into ``http://h`` and checks
as it goes; a normalizer needs the text that was there. Here ``join(split(text)) == text`` holds
for every string, and an absent component (``None``) stays different from an empty one (``""``).
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode
from contextlib import suppress
from hashlib import sha1
from ipaddress import IPv6Address
from json.encoder import encode_basestring_ascii
from typing import NamedTuple
from urllib.parse import parse_qsl, quote

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

    def with_path(self, path: str) -> Url:
        """Return the URL with another path (several times faster than ``_replace``)."""
        scheme, userinfo, host, port, _, query, fragment = self
        return Url(scheme, userinfo, host, port, path, query, fragment)

    def with_query(self, query: str | None) -> Url:
        scheme, userinfo, host, port, path, _, fragment = self
        return Url(scheme, userinfo, host, port, path, query, fragment)


# RFC 3986, appendix B, with the scheme and the two slashes required: text without an authority
# (mailto:, data:, javascript:, relative references) is not split.
_HIERARCHICAL = re.compile(
    r"([A-Za-z][A-Za-z0-9+.-]*)://([^/?#]*)([^?#]*)(?:\?([^#]*))?(?:#(.*))?", re.DOTALL
)
# Base64 has two alphabets (RFC 4648, section 5). A short code may be Base64 of anything, by chance.
_ADDRESS = re.compile("/|https?://")
_ADDRESS_IN_JSON = re.compile(f'(?:\\A|")(?:{_ADDRESS.pattern})')
_LEAST_ENCODED = 8
_URL_SAFE = str.maketrans("+/", "-_", "=,")  # what fills it up, which is added anew
_NOT_ONLY_HOST = re.compile(r"[:@\[\]]")
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
    if _NOT_ONLY_HOST.search(authority) is None:
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
    text = f"{scheme}://"
    if userinfo is not None:
        text = f"{text}{userinfo}@"
    text += host if port is None else f"{host}:{port}"
    text += path
    if query is not None:
        text = f"{text}?{query}"
    return text if fragment is None else f"{text}#{fragment}"


# --- reading a string as a browser and Scrapy's Request read it -----------------------------

_C0_AND_SPACE = "".join(map(chr, range(0x21)))
_TABS_AND_NEWLINES = re.compile(r"[\t\n\r]+")
# All characters that may stand unescaped in some component. "[" and "]" are among them: browsers
# leave them as they are in path and query, and an IP literal needs them.
_CLEAN = re.compile(r"[!#$%&'()*+,\-./0-9:;=?@A-Z\[\]_a-z~]*")
# What may stand unescaped besides letters, digits and "-._~".
_IN_USERINFO = "!$%&'()*+,:;="
_IN_PATH = _IN_USERINFO + "/@[]"
_IN_QUERY = _IN_PATH + "?"
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
        userinfo = (
            None if userinfo in ("", ":") else quote(userinfo, _IN_USERINFO, errors="surrogatepass")
        )
    path = _encode(path, _IN_PATH)
    if query is not None:
        query = _encode(query, _IN_QUERY)
    if fragment is not None:
        fragment = quote(fragment, _IN_QUERY, errors="surrogatepass")
    return Url(scheme, userinfo, host, port, path, query, fragment)


def _encode(text: str, allowed: str) -> str:
    return text if _CLEAN.fullmatch(text) else quote(text, allowed, errors="surrogatepass")


def _is_port(port: str) -> bool:
    # int() is slow for a port of a thousand digits: all but the last five must be 0.
    is_number = port.isascii() and port.isdigit() and not port[:-5].strip("0")
    return is_number and int(port[-5:]) <= _MAX_PORT


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


# --- the bytes by which stores know a URL ---------------------------------------------------

#: The class that makes these bytes in a crawl, where no other fingerprinter is configured.
STOCK_FINGERPRINTER = "scrapy.utils.request.RequestFingerprinter"

# The beginning is hashed once: to copy that costs less than to begin anew.
_of_plain_get = sha1(
    b'{"body": "", "headers": {}, "method": "GET", "url": ', usedforsecurity=False
).copy


def get_fingerprint(url: str) -> bytes:
    """Return the fingerprint, 20 bytes, of a GET without a body of exactly this URL.

    It is what ``scrapy.utils.request.fingerprint`` returns for such a request with
    ``verbatim_url``: SHA-1 of a JSON object with body, headers, method and URL, in that order.

    >>> get_fingerprint("http://example.com/").hex()
    'cebe46deeab7ee5915824a38cf73ee6f7eb0aba5'
    """
    digest = _of_plain_get()
    digest.update(f"{encode_basestring_ascii(url)}}}".encode())
    return digest.digest()


def holds_address(value: str) -> bool:
    """Return whether *value* is an address, or holds one in Base64: as tokens do that lead back.

    >>> holds_address("/a?b=c"), holds_address("eyJuZXh0IjoiL2EifQ"), holds_address("a/b")
    (True, True, False)
    """
    if _ADDRESS.match(value):
        return True
    for part in value.translate(_URL_SAFE).split("."):
        with suppress(ValueError):
            text = urlsafe_b64decode(part + "=" * (-len(part) % 4)).decode()
            if len(part) >= _LEAST_ENCODED and text.isprintable() and _ADDRESS_IN_JSON.search(text):
                return True
    return False


def separator(query: str) -> str:
    """Return what separates the parameters of *query*: ";" where there is no "&"."""
    return ";" if ";" in query and "&" not in query else "&"


def query_of(url: str) -> str:
    return url.partition("#")[0].partition("?")[2]


def params_of(query: str) -> list[tuple[str, str]]:
    """Return names and values."""
    return parse_qsl(query, keep_blank_values=True, separator=separator(query))
