"""Candidates for structural operations: how the paths of two URLs of one content relate."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy_urlnorm.learning.ops import (
    Cut,
    Dedupe,
    First,
    Lower,
    Number,
    Op,
    Prefix,
    Slashes,
    Split,
    Suffix,
    Tail,
    Text,
    ToPath,
    number_of,
)
from scrapy_urlnorm.learning.slots import REPEAT, Slots, is_param, is_segment, segments
from scrapy_urlnorm.site_rules.operations import lower_first

if TYPE_CHECKING:
    from collections.abc import Iterator

_SEPARATORS = ":;,|"
_ALIKE = ((" ", "_"), ("-", "_"), (" ", "-"))
_MAX_PREFIX = 3
_MAX_SUFFIX = 13
_DOTS = ("", ".", "..")


def candidates(one: Slots, other: Slots, names: set[str]) -> Iterator[Op]:
    """Yield the operations that make one form of two."""
    if names == {"sep"} or names & {"host", "scheme"}:
        return
    path_differs = any(is_segment(name) for name in names)
    query = {name for name in names if is_param(name)}
    if path_differs and not query:
        yield from _paths(one, other)
    elif path_differs and len(query) == 1 and "?" not in query:
        name = next(iter(query))
        if name in one and name not in other:
            yield from _to_path(name, one, other)
        elif name in other and name not in one:
            yield from _to_path(name, other, one)
    if len(names) == 1:
        yield from _values(next(iter(names)), one, other)


def _longer_first(one: Slots, other: Slots) -> tuple[Slots, Slots]:
    a, b = segments(one), segments(other)
    if (len(a), sum(map(len, a)), a) < (len(b), sum(map(len, b)), b):
        return other, one
    return one, other


def _paths(one: Slots, other: Slots) -> Iterator[Op]:
    one, other = _longer_first(one, other)
    long, short = segments(one), segments(other)
    slashes = "slash" in one, "slash" in other
    extra = len(long) - len(short)
    if extra in (1, 2) and long[: len(short)] == short and "" not in long[-extra:]:
        tail = tuple(long[-extra:])
        if short:
            yield Tail(tail, *slashes)
        else:  # the root ends in a slash, whatever the rule says
            yield Tail(tail, slashes[0], True)
            yield Tail(tail, slashes[0], False)
    if [segment for segment in long if segment] == [segment for segment in short if segment]:
        yield Slashes()
    if slashes[0] is not slashes[1]:
        if extra == 0 and slashes[1] and long[:-1] == short[:-1]:
            yield from _suffixes("s-1", long[-1], short[-1], slash=True)
        return
    if extra == 1:
        at = next((i for i, (a, b) in enumerate(zip(long, short, strict=False)) if a != b), None)
        if at is not None and at <= _MAX_PREFIX and long[at + 1 :] == short[at:] and long[at]:
            yield Cut(tuple(long[:at]), long[at])
    yield from _prefixes(long, short)
    if extra > 0:
        for separator in _SEPARATORS:
            if _split(short, separator) == long:
                yield from _splits(separator, short)
    elif [s.lower() for s in long] == [s.lower() for s in short]:
        if Lower().told_by((one, other)):
            yield Lower()
        else:
            # Counted from the left: a page below this one may be another matter.
            yield First(tuple(f"s{i}" for i, s in enumerate(long) if s != short[i]))


def _split(path: list[str], separator: str) -> list[str]:
    return [token for segment in path for token in segment.split(separator)]


def _splits(separator: str, path: list[str]) -> Iterator[Op]:
    at = next(i for i, segment in enumerate(path) if separator in segment)
    for size in range(min(at, _MAX_PREFIX) + 1):
        yield Split(separator, tuple(path[:size]))


def _prefixes(long: list[str], short: list[str]) -> Iterator[Op]:
    shared = 0
    while shared < len(short) and long[-1 - shared] == short[-1 - shared]:
        shared += 1
    old, new = long[: len(long) - shared], short[: len(short) - shared]
    if not shared or not old or not new or max(len(old), len(new)) > _MAX_PREFIX:
        return
    if len(old) == len(new) and sum(a != b for a, b in zip(old, new, strict=True)) == 1:
        return  # one segment for another: a plain exchange
    if any(segment in _DOTS for segment in (*old, *new)):
        return
    yield Prefix(tuple(old), tuple(new))


def _to_path(name: str, with_param: Slots, other: Slots) -> Iterator[Op]:
    value = with_param[name]
    base, path = segments(with_param), segments(other)
    if not value or REPEAT in value or len(base) > _MAX_PREFIX or not path:
        return
    slash, base_slash = "slash" in other, "slash" in with_param
    for separator in ("", ":", "/"):
        tokens = value.split(separator) if separator else [value]
        if (separator and len(tokens) == 1) or any(token in _DOTS for token in tokens):
            continue
        for start in range(len(path) - len(tokens) + 1):
            place = _hole(path[start : start + len(tokens)], tokens)
            if place is None or start > _MAX_PREFIX:
                continue
            after = path[start + len(tokens) :]
            if len(after) > 1:
                continue
            made = ToPath(
                name,
                tuple(base),
                base_slash,
                tuple(path[:start]),
                tuple(after),
                *place,
                separator,
                slash,
            )
            yield made
            if not separator:  # the same for the values that hold a separator
                for other_separator in (":", "/"):
                    yield ToPath(
                        name,
                        tuple(base),
                        base_slash,
                        tuple(path[:start]),
                        tuple(after),
                        *place,
                        other_separator,
                        slash,
                    )


def _hole(found: list[str], tokens: list[str]) -> tuple[str, str] | None:
    """Return the text around *tokens* in *found*: ``story_12`` for ``12`` is ("story_", "")."""
    if found == tokens:
        return "", ""
    if not found[0].endswith(tokens[0]) or not found[-1].startswith(tokens[-1]):
        if len(tokens) > 1 or tokens[0] not in found[0]:
            return None
        left, _, right = found[0].partition(tokens[0])
        return left, right
    left = found[0][: len(found[0]) - len(tokens[0])]
    right = found[-1][len(tokens[-1]) :]
    if len(tokens) == 1 and left + tokens[0] + right != found[0]:
        left, _, right = found[0].partition(tokens[0])
    return left, right


def _values(slot: str, one: Slots, other: Slots) -> Iterator[Op]:
    left, right = one.get(slot), other.get(slot)
    if left is None or right is None or slot == "slash" or slot == "sep":
        return
    if set(left.split(REPEAT)) == set(right.split(REPEAT)):
        if slot != "?":
            yield Dedupe(slot)
        return
    if REPEAT in left or REPEAT in right:
        return
    if left.lower() == right.lower() and is_param(slot) and slot != "?":
        yield First((slot,)) if lower_first(left) == lower_first(right) else Lower(slot)
    if len(left) < len(right):
        left, right = right, left
    last = f"s{len(segments(one)) - 1}"
    yield from _suffixes("s-1" if slot == last else slot, left, right)
    for side in ("before", "after"):
        number = number_of(left, side)
        if number and number in (right, number_of(right, side)):
            yield Number(slot, side)
    for text, by in _ALIKE:
        if left.replace(text, by) == right.replace(text, by):
            yield Text(slot, text, by)


def _suffixes(slot: str, left: str, right: str, *, slash: bool = False) -> Iterator[Op]:
    if len(left) < len(right):
        left, right = right, left
    suffix = left[len(right) :]
    if (
        right
        and left.startswith(right)
        and 2 <= len(suffix) <= _MAX_SUFFIX
        and suffix[0] in "-_.,;/:~"
        and suffix[1:].isalnum()
    ):
        yield Suffix(slot, suffix, slash)
