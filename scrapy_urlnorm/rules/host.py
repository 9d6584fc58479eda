"""Rules on scheme and authority: case, international hosts, ports, IP addresses, labels."""

from __future__ import annotations

import re
import struct
from functools import lru_cache
from ipaddress import IPv6Address
from typing import TYPE_CHECKING
from urllib.parse import unquote_to_bytes

from scrapy_urlnorm.domains import MAX_HOST, MAX_LABEL, registrable_domain
from scrapy_urlnorm.rules.escapes import with_upper_case_escapes
from scrapy_urlnorm.url import DEFAULT_PORTS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scrapy_urlnorm.url import Url


def lowercase_scheme_host(url: Url, _: object = True) -> Url:
    """Write scheme and host in lower case; an international host in ASCII.

    HTTP://User@Example.COM/Foo -> http://User@example.com/Foo

    Semantics: preserving; both are case-insensitive, and UTS 46 (non-transitional, as in
    browsers) maps every spelling of an international host to one ASCII form.
    Source: RFC 3986, sections 3.2.2 and 6.2.2.1; https://url.spec.whatwg.org/#concept-domain-to-ascii
    """
    scheme, host = url.scheme or "", url.host or ""
    new_scheme = scheme if scheme.islower() else scheme.lower()
    new_host = canonical_host(host)
    if new_scheme == scheme and new_host == host:
        return url
    return url._replace(scheme=new_scheme, host=new_host)


def canonical_host(host: str) -> str:
    """Return *host* in lower case and ASCII; one that is no valid name only in lower case."""
    if host.isascii() and "%" not in host:
        return host.lower()
    if host[:1] != "[" and len(host) <= 4 * MAX_HOST:
        ascii_host = _to_ascii(host)
        if ascii_host is not None:
            return ascii_host
    # RFC 3986 wants letters in lower case but the digits of escapes in upper case.
    return with_upper_case_escapes(host.lower())


def normalize_ip_host(url: Url, _: object = True) -> Url:
    """Write an IP address in its one canonical form.

    http://[2001:DB8:0:0:0:0:0:1]/ -> http://[2001:db8::1]/
    http://0x7f.1/ -> http://127.0.0.1/

    Semantics: preserving; it is the same address. IPv4 in hexadecimal, octal or fewer than four
    parts only for the schemes whose clients read them (http, https, ws, wss, ftp). An IPv4
    address inside IPv6 is written in hexadecimal, as browsers do.
    Source: RFC 5952, section 4; https://url.spec.whatwg.org/#concept-ipv4-parser
    """
    host, new = url.host or "", None
    if host[:1] == "[":
        new = canonical_ipv6(host)
    elif url.scheme in DEFAULT_PORTS:
        new = canonical_ipv4(host)
    return url if new is None or new == host else url._replace(host=new)


def remove_default_port(url: Url, _: object = True) -> Url:
    """Remove an empty port and the default port of the scheme; drop leading zeros.

    http://example.com:80/ -> http://example.com/

    Semantics: preserving; the request goes to the same port.
    Source: RFC 3986, sections 3.2.3 and 6.2.3
    """
    port = url.port
    if port is None:
        return url
    number = port.lstrip("0") or ("0" if port else "")
    new = number if number and DEFAULT_PORTS.get(url.scheme or "") != number else None
    return url if new == port else url._replace(port=new)


def replace_ip_with_domain(host: str, domains: Mapping[str, str]) -> str:
    """Replace an IP address by the domain that you say it serves.

    http://208.77.188.166/ -> http://example.com/     with {"208.77.188.166": "example.com"}

    Option: a mapping of IP address to domain. Nothing is ever looked up: a reverse DNS answer
    names a machine, not a site, and one address serves many.

    Semantics: changing; a server may answer by address with another site.
    Source: the article "URI normalization", "Replacing IP with domain name"
    """
    return domains.get(host, host)


def force_scheme(url: Url, scheme: str = "http") -> Url:
    """Write http and https as one of the two.

    https://example.com/ -> http://example.com/     with "http"

    A URL with a port other than the default is left alone: it names one of the two servers.

    Semantics: changing; the two are distinct origins (RFC 9110, section 4.2.2).
    Source: the article "URI normalization", "Limiting protocols"
    """
    if url.scheme == scheme or url.port is not None or url.scheme not in ("http", "https"):
        return url
    return url._replace(scheme=scheme)


def www(host: str, mode: str = "remove") -> str:
    """Remove the label ``www`` in front of a host, or add it to a bare registrable domain.

    http://www.example.com/ -> http://example.com/     with "remove"

    The public suffix list decides what a site is: ``www.com`` and ``www.co.uk`` are left alone,
    and ``add`` touches no host that has a subdomain already.

    Semantics: changing; the two names may be different sites.
    Source: the article "URI normalization", "Removing or adding www as the first domain label"
    """
    if mode == "remove":
        return _strip_labels(host, ("www.",))
    is_bare = not host.startswith("www.") and _has_site(host) and registrable_domain(host) == host
    return f"www.{host}" if is_bare else host


def strip_mobile_host(host: str, _: object = True) -> str:
    """Remove the label ``m`` or ``mobile`` in front of a host.

    http://m.example.com/a -> http://example.com/a

    Semantics: changing; the mobile site may show less or other pages.
    Source: convention of sites that serve phones under a host of their own
    """
    return _strip_labels(host, ("m.", "mobile."))


def remove_host_dot(host: str, _: object = True) -> str:
    """Remove the dot at the end of a fully qualified host.

    http://example.com./ -> http://example.com/

    Semantics: changing; without the dot a resolver may append a search domain, and servers
    compare the Host header as text.
    Source: RFC 3986, section 3.2.2; RFC 1034, section 3.1
    """
    return host.rstrip(".") if host.strip(".") else host


def remove_userinfo(url: Url, _: object = True) -> Url:
    """Remove user name and password.

    http://user:secret@example.com/ -> http://example.com/

    Semantics: changing; the server may answer each user differently.
    Source: RFC 9110, section 4.2.4
    """
    return url if url.userinfo is None else url._replace(userinfo=None)


def _strip_labels(host: str, labels: tuple[str, ...]) -> str:
    """Remove leading *labels* (each with its dot) as long as a registrable domain remains."""
    while host.startswith(labels):
        rest = host.partition(".")[2]
        if not _has_site(rest):
            break
        host = rest
    return host


def _has_site(host: str) -> bool:
    """Whether *host* is a name with a registrable domain, not an address nor a mere suffix."""
    if len(host) > MAX_HOST or canonical_ipv4(host) is not None:
        return False
    domain = registrable_domain(host)
    return "." in domain and all(domain.split("."))


# --- international hosts --------------------------------------------------------------------

# https://url.spec.whatwg.org/#forbidden-domain-code-point
_FORBIDDEN = re.compile(r"[\x00-\x20\"#%/:<>?@\[\\\]^`{|}\x7f]")


@lru_cache(maxsize=4_096)
def _to_ascii(host: str) -> str | None:
    """Return *host* by the URL Standard's "domain to ASCII", or ``None`` where it fails.

    Escapes are decoded first; the mapping is UTS 46, non-transitional, without the rules on
    hyphens and lengths. https://url.spec.whatwg.org/#concept-domain-to-ascii
    """
    import idna

    try:
        text = unquote_to_bytes(host).decode()
        mapped = idna.uts46_remap(text, std3_rules=False, transitional=False)
        ascii_host = ".".join(_label_to_ascii(label) for label in mapped.split("."))
    except UnicodeError:  # idna.IDNAError is one
        return None
    if not ascii_host or _FORBIDDEN.search(ascii_host):
        return None
    return ascii_host


def _label_to_ascii(label: str) -> str:
    if label.isascii():
        return label
    if len(label) > MAX_LABEL:  # no host name; to encode it takes time by the square of its length
        raise UnicodeError(f"a label of {len(label)} characters")
    return "xn--" + label.encode("punycode").decode("ascii")


# --- IP addresses ---------------------------------------------------------------------------

_NUMBER = re.compile(r"0[xX][0-9A-Fa-f]*|[0-9]+")
_ZEROS = re.compile(r"\b0(?::0)+\b")
_MAX_PARTS = 4


def canonical_ipv6(host: str) -> str | None:
    """Return *host* (with its brackets) as RFC 5952, section 4, writes it.

    A zone (``%25eth0``) stays as it is. ``None`` if it is not an IPv6 address.
    """
    text, percent, zone = host[1:-1].partition("%")
    try:
        packed = IPv6Address(text).packed
    except ValueError:
        return None
    text = ":".join(f"{group:x}" for group in struct.unpack("!8H", packed))
    # Sections 4.2.2 and 4.2.3: "::" stands for the first longest run, never for a single group.
    run = max(_ZEROS.finditer(text), key=lambda found: len(found[0]), default=None)
    if run is not None:
        text = f"{text[: run.start()].rstrip(':')}::{text[run.end() :].lstrip(':')}"
    return f"[{text}{percent}{zone}]"


def canonical_ipv4(host: str) -> str | None:
    """Return *host* as four decimal numbers if a client reads it as an IPv4 address.

    One to four parts, each decimal, octal or hexadecimal
    (https://url.spec.whatwg.org/#concept-ipv4-parser). ``None`` for a name, and for numbers
    that are no address (``256.1.1.1``), which a client refuses.
    """
    # A cheap test for names: an address ends in a digit, a hex digit after 0x, or a dot.
    last = host[-2:-1] if host.endswith(".") else host[-1:]
    if last not in "0123456789abcdefABCDEFxX" or not last:
        return None
    parts = host.removesuffix(".").split(".")
    if len(parts) > _MAX_PARTS:
        return None
    numbers = [_number(part) for part in parts]
    value = 0
    for number in numbers[:-1]:
        if number is None or number > 255:
            return None
        value = value << 8 | number
    bits = 8 * (_MAX_PARTS + 1 - len(parts))
    if numbers[-1] is None or numbers[-1] >> bits:
        return None
    value = value << bits | numbers[-1]
    return ".".join(str(value >> shift & 255) for shift in (24, 16, 8, 0))


def _number(part: str) -> int | None:
    if len(part) > 64 or _NUMBER.fullmatch(part) is None:
        return None
    try:
        if part[:2] in ("0x", "0X"):
            return int(part[2:] or "0", 16)
        return int(part, 8 if part[0] == "0" and len(part) > 1 else 10)
    except ValueError:  # an 8 or 9 in an octal number
        return None
