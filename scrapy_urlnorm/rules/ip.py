"""The canonical text of an IP address."""

from __future__ import annotations

import re
from ipaddress import IPv6Address

_NUMBER = re.compile(r"0[xX][0-9A-Fa-f]*|[0-9]+")
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
    groups = [int.from_bytes(packed[i : i + 2], "big") for i in range(0, 16, 2)]
    start, length = _longest_zero_run(groups)
    if length > 1:  # section 4.2.2: "::" does not stand for a single group
        left = ":".join(f"{group:x}" for group in groups[:start])
        right = ":".join(f"{group:x}" for group in groups[start + length :])
        text = f"{left}::{right}"
    else:
        text = ":".join(f"{group:x}" for group in groups)
    return f"[{text}{percent}{zone}]"


def _longest_zero_run(groups: list[int]) -> tuple[int, int]:
    """Return start and length of the first longest run of zeros (RFC 5952, section 4.2.3)."""
    best = (0, 0)
    start = 0
    for i, group in enumerate([*groups, 1]):
        if group:
            if i - start > best[1]:
                best = (start, i - start)
            start = i + 1
    return best


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
