"""The slots of a URL: the one representation that site rules read, for a crawl and for learning.

Slots are a plain dictionary from names to decoded texts:

``scheme``, ``host``, ``port``, ``userinfo``   as in the URL, where it has them
``s0``, ``s1``, ...   the path segments
``slash``             ``"1"`` where the path ends in a slash (the root never has it)
``q:NAME``            a parameter; the values of a repeated one are joined by `REPEAT`
``?``                 tokens that stand alone, such as ``?thread-423`` (see `is_bare`)
``sep``               ``";"`` where that separates the parameters

A rule makes new slots out of old ones. `Form` remembers the text that every slot came from: a
slot that no rule changed goes back into the URL byte for byte.
"""

from __future__ import annotations

import re
from itertools import islice
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, quote_plus, unquote

from scrapy_urlnorm.text import common_ends

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Sequence

    from scrapy_urlnorm.url import Url

Slots = dict[str, str]

#: Between the values of one parameter that is given more than once. No URL can bring this
#: character along: bytes decode to characters below U+D800 or to U+DC80..U+DCFF (PEP 383).
REPEAT = "\ud800"

# RFC 3986, section 3.3: a segment holds unreserved characters, sub-delims, ":" and "@".
_SEGMENT_SAFE = "!$&'()*+,;=:@-._~"
_SEMICOLON = re.compile(r"[&;]|%3B", re.IGNORECASE)
_EQUALS = re.compile(r"=|%3D", re.IGNORECASE)
_NAME, _NUMBER = re.compile(r"[A-Za-z_][\w-]*", re.ASCII), re.compile(r"[\d.]+", re.ASCII)
_NAMES = tuple(f"s{i}" for i in range(64))


def decode(token: str) -> str:
    """Decode a path segment; bytes that are not UTF-8 become lone surrogates (PEP 383)."""
    return unquote(token, errors="surrogateescape") if "%" in token else token


def encode_segment(token: str) -> str:
    """Write *token* as a path segment (RFC 3986, section 3.3)."""
    return quote(token, safe=_SEGMENT_SAFE, errors="surrogateescape")


def encode_query(token: str) -> str:
    """Write *token* as a name or a value, as :func:`w3lib.url.canonicalize_url` does."""
    return quote_plus(token, errors="surrogateescape")


def segments_of(path: str) -> tuple[tuple[str, ...], bool]:
    """Split a path of a rule file into decoded segments and whether it ends in a slash."""
    raw = path.split("/")[1:]
    slash = bool(raw) and not raw[-1]
    return tuple(map(decode, raw[:-1] if slash else raw)), slash


def path_text(path: Iterable[str], *, slash: bool = False) -> str:
    """Write segments as a path; the root is ``/``."""
    text = "/" + "/".join(map(encode_segment, path))
    return text + "/" if slash and text != "/" else text


def is_bare(name: str, value: str) -> bool:
    """Whether a parameter is a token on its own, such as ``?12345`` or ``?thread-423``."""
    return not value and any("0" <= character <= "9" for character in name)


def is_segment(slot: str) -> bool:
    """Whether *slot* is a path segment, counted from the first."""
    return slot[0] == "s" and slot[1:].isdigit()


def is_path(slot: str) -> bool:
    """Whether *slot* is a path segment or the final slash."""
    return slot == "slash" or is_segment(slot)


def is_param(slot: str) -> bool:
    """Whether *slot* is part of the query."""
    return slot == "?" or slot[:2] == "q:"


def segment_slots(count: int) -> Sequence[str]:
    """Return the slots of the first *count* path segments: ``s0``, ``s1``, ..."""
    return _NAMES[:count] if count <= len(_NAMES) else [f"s{at}" for at in range(count)]


def segments(slots: Slots) -> list[str]:
    found: list[str] = []
    for name in _NAMES:
        value = slots.get(name)
        if value is None:
            return found
        found.append(value)
    while (value := slots.get(f"s{len(found)}")) is not None:
        found.append(value)
    return found


def place(slots: Slots, slot: str) -> str:
    """Return the slot that *slot* names here: ``s-1`` is the last segment, ``s-2`` that before.

    ``"s-1"`` itself comes back where the path is too short.
    """
    if slot[:2] != "s-":
        return slot
    number = len(segments(slots)) + int(slot[1:])
    return f"s{number}" if number >= 0 else slot


def with_segments(slots: Slots, path: Sequence[str], *, slash: bool) -> Slots:
    new = {n: value for n, value in slots.items() if n[0] != "s" or not is_path(n)}
    new.update(zip(segment_slots(len(path)), path, strict=True))
    if slash and path:
        new["slash"] = "1"
    return new


def with_value(slots: Slots, slot: str, value: str) -> Slots:
    """Return the slots with another value of one, and a path long enough for it."""
    if slot[0] != "s" or slot in ("scheme", "slash"):
        return slots | {slot: value}
    path = segments(slots)
    number = int(slot[1:])
    path += ["x"] * ((number + 1 if number >= 0 else -number) - len(path))
    path[number] = value
    return with_segments(slots, path, slash="slash" in slots)


def parts(value: str) -> list[str]:
    """Return the values of a slot: several for a parameter that is given more than once."""
    return value.split(REPEAT) if REPEAT in value else [value]


def count_params(slots: Slots) -> int:
    """Count the parameters, repeated ones as often as they stand there."""
    count = 0
    for name, value in slots.items():
        if name[:2] == "q:" or name == "?":  # as `is_param`: the miner counts them often
            count += value.count(REPEAT) + 1
    return count


def without(slots: Slots, names: Container[str]) -> Slots:
    """Return the slots without those named; one parameter alone has no separator."""
    new = {name: value for name, value in slots.items() if name not in names}
    if "sep" in new and count_params(new) < 2:
        del new["sep"]
    return new


def exchanged(slots: Slots, gone: Container[str], put: Slots) -> Slots:
    """Return the slots with those of *put* in place of those named; the separator stays."""
    new = without(slots, gone) | put
    if "sep" in slots and count_params(new) > 1:
        new["sep"] = ";"
    return new


#: One parameter: its slot, its value there, and the piece of the query they came from.
_Param = tuple[str, str, str]


class Form:
    """A URL as ``slots``; immutable. `changed` gives it other slots, `to_url` its text.

    *named* are parameters that rules name: these have a slot of their own even where they stand
    alone like a token.
    """

    __slots__ = ("_named", "_old", "_params", "_texts", "_url", "slots")

    def __init__(self, url: Url, named: Container[str] = ()) -> None:
        self._url = url
        self._named = named
        texts = url.path.split("/")
        del texts[0]
        slots = {"scheme": url.scheme or "", "host": url.host or ""}
        if url.port is not None:
            slots["port"] = url.port
        if url.userinfo is not None:
            slots["userinfo"] = url.userinfo
        slash = bool(texts) and not texts[-1]
        if slash:
            del texts[-1]
        decoded = map(decode, texts) if "%" in url.path else texts
        slots.update(zip(segment_slots(len(texts)), decoded, strict=True))
        if slash and texts:
            slots["slash"] = "1"
        self._texts = texts
        self._params: list[_Param] = []
        if url.query:
            self._read_query(url.query, slots)
        self.slots = self._old = slots

    def _read_query(self, query: str, slots: Slots) -> None:
        pieces = _semicolon_pieces(query)
        if pieces is not None:
            slots["sep"] = ";"
        params, size = self._params, len(slots)
        known: dict[str, _Param] = {}  # a query that was made to keep us busy repeats its pieces
        for piece in query.split("&") if pieces is None else pieces:
            param = known.get(piece)
            if param is None:
                name, _, value = piece.partition("=")
                if "%" in piece or "+" in piece:
                    name, value = decode(name.replace("+", " ")), decode(value.replace("+", " "))
                if value or name in self._named or not is_bare(name, value):
                    param = known[piece] = f"q:{name}", value, piece
                else:
                    param = known[piece] = "?", name, piece
            params.append(param)
            slots[param[0]] = param[1]
        if len(slots) < size + len(params):  # a parameter is repeated
            values: dict[str, list[str]] = {}
            for slot, value, _ in params:
                values.setdefault(slot, []).append(value)
            slots.update((slot, REPEAT.join(found)) for slot, found in values.items())

    def changed(self, slots: Slots) -> Form:
        new = object.__new__(Form)
        new._url, new._named, new._old = self._url, self._named, self._old
        new._texts, new._params = self._texts, self._params
        new.slots = slots
        return new

    def of(self, url: Url) -> Form:
        return Form(url, self._named)

    def last_segment(self) -> str | None:
        """Return the last path segment of the URL that the form was made of."""
        return self._old[f"s{len(self._texts) - 1}"] if self._texts else None

    def to_url(self) -> Url:
        """Return the URL of the slots, with the text of every slot that did not change."""
        url, old, slots = self._url, self._old, self.slots
        if slots is old:
            return url
        changed = [slot for slot, value in slots.items() if old.get(slot) != value]
        touched = changed + [slot for slot in old if slot not in slots]
        kinds = {slot[0] if slot != "scheme" else slot for slot in touched}
        new: dict[str, Any] = {}
        if "s" in kinds:
            texts = _segment_texts(segments(old), self._texts, segments(slots))
            end = "/" if "slash" in slots or not texts else ""
            new["path"] = "".join(["/" + text for text in texts]) + end
        if "q" in kinds or "?" in kinds or "sep" in touched:
            values = {slot: parts(slots[slot]) for slot in changed if is_param(slot)}
            pieces = _new_pieces(self._params, slots, values)
            new["query"] = (";" if "sep" in slots else "&").join(pieces) if pieces else None
        if "h" in kinds or "scheme" in kinds:
            new |= {"host": slots["host"], "scheme": slots["scheme"]}
        return url._replace(**new)


def _semicolon_pieces(query: str) -> list[str] | None:
    """Return the parameters of ``a=1;b=2``, which form encoding may have made ``a=1%3Bb%3D2``.

    ``None`` unless every piece is one ``name=value``, or a name alone and the first value a number:
    ``topic=7.0;all`` has two parameters, ``q=tl;dr`` one.
    """
    if ";" not in query and "%3B" not in query and "%3b" not in query:
        return None
    first, *others = (_EQUALS.split(piece) for piece in _SEMICOLON.split(query))
    if len(first) != 2:
        return None
    is_number = _NUMBER.fullmatch(first[1])
    for halves in others:
        if len(halves) != 2 and not (is_number and len(halves) == 1 and _NAME.fullmatch(halves[0])):
            return None
    return ["=".join(halves) for halves in (first, *others)]


def _segment_texts(before: list[str], texts: list[str], path: list[str]) -> list[str]:
    """Return the text of each segment of *path*; known ones are spelled as in the URL."""
    start, end = common_ends(before, path)
    known = dict(zip(before, texts, strict=True))
    middle = (known.get(token) or encode_segment(token) for token in path[start : len(path) - end])
    return [*texts[:start], *middle, *texts[len(texts) - end :]]


def _new_pieces(params: list[_Param], slots: Slots, changed: dict[str, list[str]]) -> list[str]:
    """Return the parameters of *slots* as text; *changed* are the slots with other values.

    The values of a slot take the places of those it had. What is new stands where the first
    parameter went that is no longer there, or at the end.
    """
    if not changed:
        return [raw for slot, _, raw in params if slot in slots]
    known = {slot for slot, _, _ in params}
    added = [
        _new_raw(s, value) for s, found in changed.items() if s not in known for value in found
    ]
    pieces: list[str] = []
    last = {slot: at for at, (slot, _, _) in enumerate(params)}
    rest = {slot: iter(values) for slot, values in changed.items()}
    for at, (slot, value, raw) in enumerate(params):
        if slot not in slots:
            pieces += added
            added = []
        elif slot not in changed:
            pieces.append(raw)
        else:
            taken = rest[slot] if at == last[slot] else islice(rest[slot], 1)
            pieces += [raw if text == value else _new_raw(slot, text, raw) for text in taken]
    return pieces + added


def _new_raw(slot: str, value: str, raw: str = "=") -> str:
    if slot == "?":
        return encode_query(value) + ("=" if "=" in raw else "")
    return f"{encode_query(slot[2:])}={encode_query(value)}"


def path_and_query(slots: Slots) -> str:
    """Write path and query of *slots*, with every token encoded anew."""
    text = path_text(segments(slots), slash="slash" in slots)
    named = [(slot, parts(value)) for slot, value in slots.items() if is_param(slot)]
    query = [_new_raw(slot, value) for slot, values in named for value in values]
    return f"{text}?{(';' if 'sep' in slots else '&').join(query)}" if query else text
