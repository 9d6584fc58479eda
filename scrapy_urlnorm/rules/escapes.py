"""Percent-escapes: expressions that find them, functions that write and read them, two rules.

An escape is ``%`` and two hex digits (RFC 3986, section 2.1). The functions here work on the text
of one component.
"""

from __future__ import annotations

import re
import sys
from binascii import unhexlify
from typing import TYPE_CHECKING
from urllib.parse import quote_plus

from scrapy_urlnorm.url import Url

if TYPE_CHECKING:
    from collections.abc import Callable

# Possessive repetition (Python 3.11) fails faster; without it the expressions match the same.
_POSSESSIVE = "+" if sys.version_info >= (3, 11) else ""
MANY, MAYBE = f"*{_POSSESSIVE}", f"?{_POSSESSIVE}"

#: The inside of a character class: what is never escaped (RFC 3986, section 2.3).
UNRESERVED = r"A-Za-z0-9._~\-"
#: The escapes, in upper case, of all bytes but those of unreserved characters ...
ESCAPE = "%(?:[0189A-F][0-9A-F]|2[0-9A-CF]|3[A-F]|[46]0|5[B-E]|7[B-DF])"
#: ... and but that of the space, for which an HTML form writes "+".
ESCAPE_IN_FORM = ESCAPE.replace("2[0-9", "2[1-9")
#: A name or a value as an HTML form writes it. The form of the expression takes linear time.
FORM_TOKEN = f"[{UNRESERVED}+]{MANY}(?:{ESCAPE_IN_FORM}[{UNRESERVED}+]{MANY}){MANY}"
#: Finds a ``%`` that does not begin one of :data:`ESCAPE`.
find_bad_escape = re.compile(f"(?!{ESCAPE})%").search

_ESCAPES_IN_LOWER_CASE = re.compile("(?:%(?:[0-9A-F][a-f]|[a-f][0-9A-Fa-f]))+")
_UNRESERVED_ESCAPE = re.compile("%(?:2[DdEe]|3[0-9]|[46][1-9A-Fa-f]|5[0-9AaFf]|7[0-9AaEe])")
# A stray "%" before what decodes to two hex digits: decoding them would forge an escape.
_FORGERY = re.compile(r"%(?![0-9A-Fa-f]{2})(?:[0-9A-Fa-f]|%3[0-9]|%[46][1-6]){2}")
_FORGERY_OR_ESCAPE = re.compile(f"{_FORGERY.pattern}|{_UNRESERVED_ESCAPE.pattern}")
_HEX_DIGITS = frozenset("0123456789ABCDEFabcdef")
_ESCAPED_HEX_DIGITS = {f"{ord(digit):02X}": digit for digit in _HEX_DIGITS}


def with_upper_case_escapes(text: str) -> str:
    """Return *text* with the hex digits of its escapes in upper case."""
    return _ESCAPES_IN_LOWER_CASE.sub(lambda match: match[0].upper(), text)


def without_unreserved_escapes(text: str) -> str:
    """Return *text* with the escapes of unreserved characters decoded, but for forgeries.

    A forgery is a stray ``%`` before escapes that decode to two hex digits (``%%34%31``).
    """
    if _UNRESERVED_ESCAPE.search(text) is None:
        return text
    return _FORGERY_OR_ESCAPE.sub(_decode_unless_forged, text)


def _decode_unless_forged(match: re.Match[str]) -> str:
    escape = match[0]
    return escape if _FORGERY.match(escape) else chr(int(escape[1:], 16))


def decode_forgeries(text: str) -> str:
    """Return *text* with the escapes decoded that :func:`without_unreserved_escapes` leaves.

    A decoded character may be a digit of an escape further left, which may decode to a digit in
    its turn: one pass from the right sees each ``%`` after everything that may belong to it.
    """
    if _FORGERY.search(text) is None:
        return text
    done: list[str] = []  # the characters to the right, the nearest last
    for character in reversed(text):
        if character == "%":
            first, end = _hex_digit(done, len(done))
            if first:
                second, end = _hex_digit(done, end)
                if second:
                    done[end:] = second, first
        done.append(character)
    done.reverse()
    return "".join(done)


def _hex_digit(characters: list[str], end: int) -> tuple[str, int]:
    """Return the hex digit that ends right before *end*, plain or escaped, and its beginning.

    The digit is ``""`` if none is there. The *characters* are in reverse order.
    """
    if end and characters[end - 1] in _HEX_DIGITS:
        return characters[end - 1], end - 1
    if end >= 3 and characters[end - 1] == "%":
        digit = _ESCAPED_HEX_DIGITS.get(characters[end - 2] + characters[end - 3])
        if digit:
            return digit, end - 3
    return "", end


def _on_every_component(url: Url, change: Callable[[str], str]) -> Url:
    if not any(part and "%" in part for part in url):
        return url
    changed = Url._make(change(part) if part and "%" in part else part for part in url)
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


# --- names and values of a query ------------------------------------------------------------

_IN_FORM = re.compile(FORM_TOKEN)
_FORM_OF_BYTE = {byte: quote_plus(chr(byte)) for byte in range(128) if byte != ord("+")}
#: A query that is written as an HTML form would send it.
FORM_QUERY = rf"{FORM_TOKEN}={FORM_TOKEN}(?:&{FORM_TOKEN}={FORM_TOKEN}){MANY}"
is_form_encoded = re.compile(FORM_QUERY).fullmatch
_ESCAPES = re.compile(rb"(?:%[0-9A-Fa-f]{2})+")


def form_encoded(query: str) -> str:
    """Return *query* as an HTML form would send it: ``name=value`` between ``&``, no empty pair."""
    # To encode the six characters that most often need it is several times faster than to look at
    # each. It changes nothing else: a stray "%" before one of them is still a stray one.
    query = query.replace("/", "%2F").replace(":", "%3A").replace("%20", "+")
    query = query.replace(",", "%2C").replace("|", "%7C").replace(";", "%3B")
    if is_form_encoded(query):
        return query
    pieces = [piece for piece in query.split("&") if piece]
    encoded = {
        piece: "=".join(map(_form_token, piece.partition("=")[::2])) for piece in set(pieces)
    }
    return "&".join([encoded[piece] for piece in pieces])


def _form_token(text: str) -> str:
    if _IN_FORM.fullmatch(text):
        return text
    return quote_plus(token_bytes(text)) if "%" in text else text.translate(_FORM_OF_BYTE)


def decode_token(text: str) -> str:
    """Return what a form-encoded name or value stands for, byte for byte.

    ``+`` is a space. Bytes that are not UTF-8 become lone surrogates, so that two tokens of
    different bytes stay different.
    """
    if "+" in text:
        text = text.replace("+", " ")
    if "%" not in text:
        return text
    return _unquote(text).decode("utf-8", "surrogateescape")


def token_bytes(text: str) -> bytes:
    """Return the bytes that a form-encoded name or value stands for."""
    text = text.replace("+", " ")
    return _unquote(text) if "%" in text else text.encode()


def _unquote(text: str) -> bytes:
    return _ESCAPES.sub(lambda match: unhexlify(match[0].replace(b"%", b"")), text.encode())
