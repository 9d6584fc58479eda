"""Masking: removes the secrets from URLs that are written to files.

Secrets are user and password in front of the host (RFC 3986, section 3.2.1), session ids of the
curated lists, passwords, and tokens: anybody who has a token may do what its owner may. Names, user
names in parameters, e-mail addresses and search words are no secrets here. A token that is a plain
segment of a path is not found, because it looks like a name.

A masked value has the length of the old one, and each of its characters is of the same kind, so
that rules and guards still match. Equal values stay equal.
"""

from __future__ import annotations

import re
import string
from functools import cache
from hashlib import blake2b, shake_256
from typing import TYPE_CHECKING
from urllib.parse import unquote

from scrapy_urlnorm.rules import data
from scrapy_urlnorm.url import join, split

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    Mask = Callable[[str], str]

__all__ = ["KEY_BYTES", "is_secret", "mask_url", "placeholders"]

KEY_BYTES = 32

# Compared in lower case and without "-", "_", "[" and the like: user[password], X-Amz-Signature.
_PASSWORDS = re.compile("password|passwd|passphrase|pwd$|secret$|^pass$")
_TOKENS = re.compile(
    # OAuth 2.0 (RFC 6750, section 2.3), CSRF, password resets; API keys; signed URLs of AWS,
    # Google Cloud and Azure; sessions whose values the lists do not know.
    "token$|apikey$|accesskey$|authkey$|secretkey$|^key$|^auth$|^authorization$|^jwt$|^bearer$"
    "|signature$|^sig$|^sign$|^hmac$|sessionid$|sessid$|^session$|^sess$|^sesskey$|^sid$"
)
# Not among them: code, state, nonce and ticket are used up by the request that has them (RFC 6749,
# section 4.1.2), and more often name a product; hash and id name a page.

_NAME = re.compile(
    r"(?:[?&;#/]|%3F|%26|%3B|%23)((?:(?!%3D|%26|%3F|%23|%3B)[^?&;#/=]){1,100})(=|%3D)",
    re.IGNORECASE,
)
_END, _END_IN_PATH = re.compile("[&;#]"), re.compile("[&;#/]")
_END_ENCODED = re.compile("[&;#]|%26|%3B|%23", re.IGNORECASE)
_NO_NAME = re.compile(r"[\W_]+")
_PAGE_NUMBER = re.compile("[0-9]{0,3}")
_ESCAPE = re.compile("(%[0-9A-Fa-f]{2})")
# Characters whose kind is not kept: escaped letters and digits, characters outside of ASCII, and a
# "%" that begins no escape.
_ODD = re.compile(
    "%(?![0-9A-F]{2})|%(?:3[0-9]|[46][1-9A-F]|[57][0-9A]|[89A-F][0-9A-F])|[^\x00-\x7f]",
    re.IGNORECASE,
)
_GROUP = re.compile(r"([A-Za-z])\(([^()/]*)\)")

_DIGITS = ("012345", string.digits)
_LOWER = ("abcdef", "abcdefghijklmnopqrstuv", string.ascii_lowercase)
_UPPER = tuple(letters.upper() for letters in _LOWER)


def mask_url(url: str, key: bytes) -> str:
    """Return *url* with its secrets replaced by values made of them and *key*.

    Under one key equal values get equal masks, and different values different ones (but for
    chance, which guards on short values keep rare). Nobody can test guesses without the key.
    *key* has up to 64 bytes; `KEY_BYTES` are enough. Text that is no URL is searched for
    parameters too. Never raises.
    """
    return _masked(url, lambda value: _hashed(value, key))


def placeholders(urls: Iterable[str]) -> list[str]:
    """Return *urls* with their secrets replaced by ``aaa000``, the next ones by ``bbb111``.

    For a few URLs that people will read. Of a value only its length and kinds of characters are
    left, equal values stay equal, and to do it again changes nothing.
    """
    seen: dict[str, int] = {}
    return [_masked(url, lambda value: _numbered(value, seen)) for url in urls]


def _masked(url: str, mask: Mask) -> str:
    parts = split(url)
    if parts.host is None:
        return _mask_params(url, mask, _END)
    userinfo, path, query, fragment = parts.userinfo, parts.path, parts.query, parts.fragment
    if userinfo:
        userinfo = ":".join(mask(part) for part in userinfo.split(":", 1))
    if "(" in path:
        path = "/".join(_mask_segment(segment, mask) for segment in path.split("/"))
    return join(
        parts._replace(
            userinfo=userinfo,
            path=_mask_params(path, mask, _END_IN_PATH),
            query=query and _mask_params(f"?{query}", mask, _END)[1:],
            fragment=fragment and _mask_params(f"#{fragment}", mask, _END)[1:],
        )
    )


def _mask_params(text: str, mask: Mask, end: re.Pattern[str]) -> str:
    """Mask the values of parameters, also of those of a URL that is itself a value."""
    done, at = [], 0
    while found := _NAME.search(text, at):
        name, equals = found.groups()
        stop = (end if equals == "=" else _END_ENCODED).search(text, found.end())
        value = text[found.end() : stop.start() if stop else len(text)]
        done.append(text[at : found.end()])
        at = found.end()
        if value and is_secret(unquote(name), unquote(value)):
            done.append(mask(value))
            at += len(value)
    return "".join([*done, text[at:]])


def _mask_segment(segment: str, mask: Mask) -> str:
    """Mask ASP.NET's session ids: /(S(...))/ and /(...)/."""

    def masked_group(found: re.Match[str]) -> str:
        name, value = found.groups()
        return f"{name}({mask(value)})" if _is_session(("group",), name, value) else found[0]

    inner = segment[1:-1]
    if f"({inner})" == segment and _is_session(("segment",), "", inner):
        return f"({mask(inner)})"
    return _GROUP.sub(masked_group, segment)


def is_secret(name: str, value: str) -> bool:
    """Whether the *value* of a parameter says who asks, or lets anybody do what its owner may."""
    plain = _NO_NAME.sub("", name).lower()
    if _PASSWORDS.search(plain):
        return not _PAGE_NUMBER.fullmatch(value)  # password=1 asks for a form, pass=2 for a page
    if _TOKENS.search(plain) and _is_random(value):
        return True
    return _is_session(("query", "parameter"), name, value)


def _is_random(value: str) -> bool:
    """Whether a value may be random; token=7 and session=morning choose what a page shows."""
    return len(value) >= 16 or (
        len(value) >= 8 and not value.isalpha() and not value.isdecimal() and value.isascii()
    )


def _is_session(kinds: tuple[str, ...], name: str, value: str) -> bool:
    rows = _sessions(kinds, name[:1].lower())
    return any(row.is_named(name) and row.accepts(value) for row in rows)


@cache
def _sessions(kinds: tuple[str, ...], initial: str) -> list[data.SessionId]:
    """Return the session ids of some kinds whose names have this initial."""
    # One character is no id: X(1) says only that the server tested for cookies.
    known = [row for row in data.session_ids() if row.kind in kinds and row.max_length > 1]
    return [row for row in known if row.name[:1].lower() == initial]


def _hashed(value: str, key: bytes) -> str:
    seed = blake2b(value.encode("utf-8", "surrogatepass"), key=key, digest_size=32).digest()
    if _ODD.search(value):
        return seed[:8].hex()
    noise = iter(shake_256(seed).digest(len(value)))
    return _in_kind(value, lambda letters: letters[next(noise) % len(letters)])


def _numbered(value: str, seen: dict[str, int]) -> str:
    number = seen.setdefault(value, len(seen)) % len(_DIGITS[0])
    if _ODD.search(value):
        return "abcdef"[number] * 16
    return _in_kind(value, lambda letters: letters[number])


def _in_kind(value: str, choose: Mask) -> str:
    """Replace each letter and digit by one that *choose* takes from its kind's alphabet.

    The alphabet is the narrowest that has all characters of that kind in *value*.
    """
    bare = "".join(_ESCAPE.split(value)[::2])
    digits, lower, upper = (_narrowest(bare, sets) for sets in (_DIGITS, _LOWER, _UPPER))
    kinds = {letter: letters for letters in (digits, lower, upper) for letter in letters}
    return "".join(
        part if odd else "".join(choose(kinds[each]) if each in kinds else each for each in part)
        for odd, part in ((n % 2, part) for n, part in enumerate(_ESCAPE.split(value)))
    )


def _narrowest(value: str, alphabets: tuple[str, ...]) -> str:
    """Return the first of growing *alphabets* that has all characters of its kind in *value*."""
    used = set(value) & set(alphabets[-1])
    return next(letters for letters in alphabets if used <= set(letters))
