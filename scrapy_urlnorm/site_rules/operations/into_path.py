"""Kinds of rules that make path segments: of a parameter, or of one segment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scrapy_urlnorm.site_rules.context import check_table
from scrapy_urlnorm.site_rules.form import (
    DOT_SEGMENTS,
    REPEAT,
    Slots,
    encode_segment,
    is_param,
    segments,
    with_segments,
    without,
)
from scrapy_urlnorm.site_rules.operations.base import (
    LEARNED_PREFIX,
    Operation,
    begins,
    numbered,
)
from scrapy_urlnorm.site_rules.paths import path_text, refuse, segments_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from scrapy_urlnorm.site_rules.operations.base import Twins
    from scrapy_urlnorm.site_rules.paths import Pair


#: Learning looks for these separators of segments (what applications use): inside a segment, and
#: inside the value of a parameter.
_LEARNED_SPLITS = ":;,|"
_LEARNED_PARAM_SPLITS = (":", "/")
#: A parameter that comes into the path takes at most two others with it (a choice).
_MAX_MOVED = 3


@dataclass(frozen=True)
class ParamToPath(Operation):
    """The value of a parameter at the path ``base`` stands in the path ``before`` ... ``after``.

    ``left`` and ``right`` are the texts around the value in its segment. A ``separator`` cuts
    the value into several segments. The parameters of ``beside`` stand at these values beside it,
    and go with it.
    """

    kind = "param-to-path"
    summary = "the value of `param` at `path` is the {} in the path `by`"
    required = ("param", "path", "by")
    optional = ("separator", "default")
    owns_path = True

    param: str
    base: tuple[str, ...]
    base_slash: bool
    before: tuple[str, ...]
    after: tuple[str, ...]
    left: str
    right: str
    separator: str
    slash: bool
    beside: tuple[Pair, ...] = ()

    @classmethod
    def read(cls, operands: Mapping[str, Any]) -> ParamToPath:
        by, path, params = operands["by"], operands["path"], operands["param"]
        if not by.startswith("/") or by.count("{}") != 1:
            raise refuse("by", by, "a path with one {}, like '/wiki/{}'")
        if len(params) != 1:
            raise refuse("param", list(params), "one parameter")
        if "*" in path or "#" in path:
            raise refuse("path", path, "the one path that has the parameter, without wildcards")
        base, base_slash = segments_of(path)
        target, slash = segments_of(by)
        hole = next(at for at, segment in enumerate(target) if "{}" in segment)
        left, right = target[hole].split("{}")
        return cls(
            f"q:{params[0]}",
            base,
            base_slash and bool(base),
            target[:hole],
            target[hole + 1 :],
            left,
            right,
            operands.get("separator", ""),
            slash,
            cls._read_beside(operands.get("default", {}), params[0]),
        )

    @staticmethod
    def _read_beside(table: object, param: str) -> tuple[Pair, ...]:
        found = []
        for name, value in check_table("default", table).items():
            if name == param or not isinstance(value, str):
                raise refuse(f"default.{name}", value, f"one text, of another one than {param!r}")
            found.append((f"q:{name}", value))
        return tuple(sorted(found))

    def write(self) -> dict[str, Any]:
        hole = f"{encode_segment(self.left)}{{}}{encode_segment(self.right)}"
        parts = [*map(encode_segment, self.before), hole, *map(encode_segment, self.after)]
        said: dict[str, Any] = {
            "param": (self.param[2:],),
            "path": path_text(self.base, slash=self.base_slash).replace("*", "%2A"),
            "by": "/" + "/".join(parts) + ("/" if self.slash else ""),
        }
        said |= {"separator": self.separator} if self.separator else {}
        beside = {name[2:]: value for name, value in self.beside}
        return said | ({"default": beside} if beside else {})

    def image(self, slots: Slots) -> Slots | None:
        if not begins(slots, self.beside):
            return None
        value = slots.get(self.param)
        if not value or REPEAT in value or ("slash" in slots) is not self.base_slash:
            return None
        if tuple(segments(slots)) != self.base:
            return None
        tokens = value.split(self.separator) if self.separator else [value]
        # The value may not vanish into its surroundings: "" and ".." are no page.
        if any(token in DOT_SEGMENTS for token in tokens):
            return None
        tokens[0] = self.left + tokens[0]
        tokens[-1] += self.right
        path = [*self.before, *tokens, *self.after]
        gone = self.slots if self.beside else (self.param,)
        return with_segments(without(slots, gone), path, slash=self.slash)

    @property
    def slots(self) -> frozenset[str]:
        return frozenset((self.param, *(name for name, _ in self.beside)))

    @property
    def key(self) -> object:
        return self.param, self.base, self.base_slash, self.separator, self.beside

    def pairs(self) -> list[Pair]:
        return list(self.beside)

    def any_of(self) -> tuple[str, ...]:
        return (self.param,)

    def example(self, slots: Slots) -> Slots:
        moved = {self.param: "x", **dict(self.beside)}
        return with_segments(slots, self.base, slash=self.base_slash) | moved

    @classmethod
    def between(cls, twins: Twins) -> Iterator[ParamToPath]:
        names = {name for name in twins.names if is_param(name)}
        if not 0 < len(names) <= _MAX_MOVED or "?" in names or len(names) == len(twins.names):
            return
        given, other = twins.one, twins.other
        if not names <= given.keys():
            given, other = other, given
        if names <= given.keys() and not names & other.keys():
            for name in sorted(names):
                yield from cls._moves(name, names - {name}, given, other)

    @classmethod
    def _moves(
        cls, name: str, beside: set[str], given: Slots, other: Slots
    ) -> Iterator[ParamToPath]:
        """Yield how the value of a parameter comes into the path, and the others go."""
        value, base, path = given[name], segments(given), segments(other)
        constants = tuple(sorted((each, given[each]) for each in beside))
        if not value or any(REPEAT in text for text in (value, *dict(constants).values())):
            return
        if not path or path == base or len(base) > LEARNED_PREFIX:
            return
        slashes = "slash" in given, "slash" in other
        for separator in ("", *_LEARNED_PARAM_SPLITS):
            tokens = value.split(separator) if separator else [value]
            if (separator and len(tokens) == 1) or any(t in DOT_SEGMENTS for t in tokens):
                continue
            for place in _places(path, tokens):
                # Without a separator here, values may hold one elsewhere.
                for each in (separator,) if separator else ("", *_LEARNED_PARAM_SPLITS):
                    yield cls(name, tuple(base), slashes[0], *place, each, slashes[1], constants)


def _places(
    path: list[str], tokens: list[str]
) -> Iterator[tuple[tuple[str, ...], tuple[str, ...], str, str]]:
    """Yield where *tokens* stand in *path*: the segments before and after, the texts around."""
    for start in range(min(len(path) - len(tokens), LEARNED_PREFIX) + 1):
        end = start + len(tokens)
        hole = _hole(path[start:end], tokens)
        if hole is not None and len(path) - end <= 1:
            yield tuple(path[:start]), tuple(path[end:]), *hole


def _hole(found: list[str], tokens: list[str]) -> tuple[str, str] | None:
    """Return the text around *tokens* in *found*: ``story_12`` for ``12`` is ("story_", "")."""
    if len(tokens) == 1:
        left, held, right = found[0].partition(tokens[0])
        return (left, right) if held else None
    if found[1:-1] != tokens[1:-1] or not found[0].endswith(tokens[0]):
        return None
    if not found[-1].startswith(tokens[-1]):
        return None
    return found[0][: len(found[0]) - len(tokens[0])], found[-1][len(tokens[-1]) :]


@dataclass(frozen=True)
class SplitSegment(Operation):
    """A separator inside a segment, below the path ``prefix``, is the same as a slash."""

    kind = "split-segment"
    summary = "`separator` inside a segment is the same as a slash"
    required = ("separator",)
    optional = ("prefix",)

    separator: str
    prefix: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if "/" in self.separator:
            raise refuse("separator", self.separator, "a text without '/'")

    @classmethod
    def read(cls, operands: Mapping[str, Any]) -> SplitSegment:
        return cls(operands["separator"], segments_of(operands.get("prefix", "/"))[0])

    def write(self) -> dict[str, Any]:
        return {"separator": self.separator, "prefix": path_text(self.prefix)}

    def image(self, slots: Slots) -> Slots | None:
        if not begins(slots, numbered(self.prefix)):
            return None
        path, at = segments(slots), len(self.prefix)
        new = path[:at]
        for segment in path[at:]:
            tokens = segment.split(self.separator)
            new += [segment] if any(token in DOT_SEGMENTS for token in tokens) else tokens
        return None if new == path else with_segments(slots, new, slash="slash" in slots)

    def pairs(self) -> list[Pair]:
        return list(numbered(self.prefix))

    def example(self, slots: Slots) -> Slots:
        path = [*self.prefix, f"x{self.separator}x"]
        return with_segments(slots, path, slash="slash" in slots)

    @classmethod
    def between(cls, twins: Twins) -> Iterator[SplitSegment]:
        long, short = twins.long, twins.short
        if not (twins.by_path and twins.same_slash and len(long) > len(short)):
            return
        for separator in _LEARNED_SPLITS:
            if [token for segment in short for token in segment.split(separator)] == long:
                at = next(i for i, segment in enumerate(short) if separator in segment)
                for size in range(min(at, LEARNED_PREFIX) + 1):
                    yield cls(separator, tuple(short[:size]))
