"""Percent-escapes: expressions that find them, and functions that write and read them.

An escape is ``%`` and two hex digits (RFC 3986, section 2.1). The functions here work on the text
of one component; the rules that use them are in :mod:`~scrapy_urlnorm.rules.syntax`,
:mod:`~scrapy_urlnorm.rules.path` and :mod:`~scrapy_urlnorm.rules.query`.
"""

from __future__ import annotations

import re
import sys
from binascii import unhexlify
from typing import TYPE_CHECKING
from urllib.parse import quote_plus

if TYPE_CHECKING:
    from collections.abc import Iterable

# Possessive repetition (Python 3.11) fails faster; without it the expressions match the same.
_POSSESSIVE = "+" if sys.version_info >= (3, 11) else ""
MANY, MAYBE = f"*{_POSSESSIVE}", f"?{_POSSESSIVE}"

#: The inside of a character class: what is never escaped (RFC 3986, section 2.3).
UNRESERVED = r"A-Za-z0-9._~\-"
_UNRESERVED_BYTES = frozenset(b"-.0123456789_~") | {*range(0x41, 0x5B), *range(0x61, 0x7B)}
#: The reserved characters that stock Scrapy decodes in a path.
DECODED_IN_PATH = frozenset(b":@!$&'()*+,=[]")
_LOWER_CASE = "[0-9A-F][a-f]|[a-f][0-9A-Fa-f]"  # two hex digits, one of them in lower case


def escape_of(characters: Iterable[int], *, any_case: bool = False) -> str:
    """Return an expression for the escape of each of these bytes.

    Its hex digits are in upper case, or in either with *any_case*.

    >>> escape_of(b"!-.")
    '%(?:[2][1DE])'
    >>> escape_of(b" -.@", any_case=True)
    '%(?:[2][0DdEe]|[4][0])'
    """
    second_digits: dict[str, str] = {}
    for byte in sorted(characters):
        first, second = f"{byte >> 4:X}", f"{byte & 15:X}"
        second_digits[first] = second_digits.get(first, "") + second
    first_digits: dict[str, str] = {}  # those that have the same second digits
    for first, second in second_digits.items():
        first_digits[second] = first_digits.get(second, "") + first

    pairs = (f"[{first}][{second}]" for second, first in first_digits.items())
    alternatives = "|".join(pairs)
    if any_case:
        alternatives = re.sub("[A-F]", lambda letter: letter[0] + letter[0].lower(), alternatives)
    return f"%(?:{alternatives})"


def text_of(characters: str, escape: str) -> str:
    """Return an expression for any text of these characters and escapes.

    *characters* is the inside of a character class. The form of the expression takes linear time.
    """
    return f"[{characters}]{MANY}(?:{escape}[{characters}]{MANY}){MANY}"


_RESERVED_BYTES = frozenset(range(256)) - _UNRESERVED_BYTES
#: The escapes, in upper case, of all bytes but those of unreserved characters ...
ESCAPE = escape_of(_RESERVED_BYTES)
#: ... and but that of the space, for which an HTML form writes "+".
ESCAPE_IN_FORM = escape_of(_RESERVED_BYTES - {0x20})
#: A name or a value as an HTML form writes it.
FORM_TOKEN = text_of(UNRESERVED + "+", ESCAPE_IN_FORM)
#: Finds a ``%`` that does not begin one of :data:`ESCAPE`.
find_bad_escape = re.compile(f"(?!{ESCAPE})%").search

# --- upper case -----------------------------------------------------------------------------

_ESCAPES_IN_LOWER_CASE = re.compile(f"(?:%(?:{_LOWER_CASE}))+")


def with_upper_case_escapes(text: str) -> str:
    """Return *text* with the hex digits of its escapes in upper case."""
    return _ESCAPES_IN_LOWER_CASE.sub(_upper, text)


def _upper(match: re.Match[str]) -> str:
    return match[0].upper()


# --- decoding unreserved characters ---------------------------------------------------------

_UNRESERVED_ESCAPE = re.compile(escape_of(_UNRESERVED_BYTES, any_case=True))
# A stray "%" before what decodes to two hex digits: decoding them would forge an escape.
_FORGERY = re.compile(r"%(?![0-9A-Fa-f]{2})(?:[0-9A-Fa-f]|%3[0-9]|%[46][1-6]){2}")
_FORGERY_OR_ESCAPE = re.compile(f"{_FORGERY.pattern}|{_UNRESERVED_ESCAPE.pattern}")
_HEX_DIGITS = frozenset("0123456789ABCDEFabcdef")
_ESCAPED_HEX_DIGITS = {f"{ord(digit):02X}": digit for digit in _HEX_DIGITS}
#: Found in every text whose escapes :func:`with_upper_case_escapes` or
#: :func:`without_unreserved_escapes` would change.
UNTIDY_ESCAPE = re.compile(f"%(?:{_LOWER_CASE})|{_UNRESERVED_ESCAPE.pattern}")


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


# --- decoding reserved characters in a path -------------------------------------------------

_RESERVED_ESCAPE_IN_PATH = re.compile(escape_of(DECODED_IN_PATH, any_case=True))


def without_reserved_escapes(text: str) -> str:
    """Return *text*, of a path, with the escapes of :data:`DECODED_IN_PATH` decoded."""
    return _RESERVED_ESCAPE_IN_PATH.sub(_decode, text)


def _decode(match: re.Match[str]) -> str:
    return chr(int(match[0][1:], 16))


# --- names and values of a query ------------------------------------------------------------

_IN_FORM = re.compile(FORM_TOKEN)
_ESCAPE_OR_UNSAFE = re.compile(r"%(?:[0-9A-Fa-f]{2})?|[^A-Za-z0-9._~+%-]")
# Every ASCII character and every escape, in both cases, to what form encoding writes for it.
_FORM_OF_BYTE = {byte: quote_plus(chr(byte)) for byte in range(128) if chr(byte) not in "+%"}
_FORM_OF_TEXT = {chr(byte): quote_plus(chr(byte)) for byte in range(128)} | {
    f"%{high}{low}": quote_plus(bytes.fromhex(high + low))
    for high in _HEX_DIGITS
    for low in _HEX_DIGITS
}
_ESCAPES = re.compile(rb"(?:%[0-9A-Fa-f]{2})+")


def form_encoded_often(text: str) -> str:
    """Return *text* with those characters encoded that most often need it.

    Where the result is form-encoded, it is that of *text*: a stray ``%`` before one of these
    characters is still a stray one. To look for six characters is several times faster than to
    look at each.
    """
    return (
        text.replace("/", "%2F")
        .replace(":", "%3A")
        .replace("%20", "+")
        .replace(",", "%2C")
        .replace("|", "%7C")
        .replace(";", "%3B")
    )


def form_encoded_token(text: str) -> str:
    """Return a name or a value of a query as an HTML form writes it."""
    if _IN_FORM.fullmatch(text):
        return text
    often = form_encoded_often(text).replace("=", "%3D")
    if _IN_FORM.fullmatch(often):
        return often
    if "%" not in text:
        return text.translate(_FORM_OF_BYTE)
    return _ESCAPE_OR_UNSAFE.sub(_form_encode_match, text)


def _form_encode_match(match: re.Match[str]) -> str:
    return _FORM_OF_TEXT[match[0]]


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
    return _ESCAPES.sub(_unhexlify, text.encode())


def _unhexlify(match: re.Match[bytes]) -> bytes:
    return unhexlify(match[0].replace(b"%", b""))
