"""Kinds of rules about the path: its beginning, segments in it, its end, a parameter in it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from scrapy_urlnorm.exceptions import SiteRuleError
from scrapy_urlnorm.site_rules.context import Path
from scrapy_urlnorm.site_rules.form import (
    DOT_SEGMENTS,
    REPEAT,
    Slots,
    decode,
    encode_segment,
    is_param,
    path_text,
    segments,
    segments_of,
    with_segments,
    without,
)
from scrapy_urlnorm.site_rules.operands import SHAPES, check_path, folder, refuse
from scrapy_urlnorm.site_rules.operations.base import (
    LEARNED_PREFIX,
    Operation,
    Word,
    begins,
    numbered,
    same_digits,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy_urlnorm.site_rules.context import Context, Pair
    from scrapy_urlnorm.site_rules.operations.base import Twins

#: Learning looks for these separators of segments (what applications use): inside a segment, and
#: inside the value of a parameter.
_LEARNED_SPLITS = ":;,|"
_LEARNED_PARAM_SPLITS = (":", "/")
#: A parameter that comes into the path takes at most two others with it (a choice).
_MAX_MOVED = 3


def _folder(name: str, value: object) -> tuple[str, ...]:
    path = folder(name, value)
    if any(segment in DOT_SEGMENTS for segment in path):
        raise refuse(name, value, "a path like '/docs/latest', without empty or dot segments")
    return path


@dataclass(frozen=True)
class PrefixAlias(Operation):
    """What lies below the path ``prefix`` lies below the path ``by``, too."""

    words = (Word("prefix-alias", "what is below {prefix} is the same below {by}", "prefix by"),)
    readers: ClassVar = {"prefix": _folder, "by": _folder}
    answers = ("by",)

    prefix: tuple[str, ...]
    by: tuple[str, ...]

    def __post_init__(self) -> None:
        if self.by[: len(self.prefix)] == self.prefix:
            old, new = self.write().values()
            raise SiteRuleError(f"this rule acts on its own result for ever: {old!r} by {new!r}")

    def image(self, slots: Slots) -> Slots | None:
        if not begins(slots, self.pairs()):
            return None
        path = [*self.by, *segments(slots)[len(self.prefix) :]]
        return with_segments(slots, path, slash="slash" in slots)

    def pairs(self) -> list[Pair]:
        return numbered(self.prefix)

    @classmethod
    def between(cls, twins: Twins) -> Iterator[PrefixAlias]:
        if not (twins.by_path and twins.same_slash):
            return
        long, short = twins.long, twins.short
        shared = 0
        while shared < len(short) and long[-1 - shared] == short[-1 - shared]:
            shared += 1
        old, new = long[: len(long) - shared], short[: len(short) - shared]
        if not shared or len(old) < 2 - bool(new) or max(len(old), len(new)) > LEARNED_PREFIX:
            return
        if len(old) == len(new) and sum(a != b for a, b in zip(old, new, strict=True)) == 1:
            return  # one segment for another: `Replace` says that
        if new[: len(old)] != old and not any(text in DOT_SEGMENTS for text in (*old, *new)):
            yield cls(tuple(old), tuple(new))


@dataclass(frozen=True)
class StripSegment(Operation):
    """Some segments mean nothing.

    With ``prefix``, those right after it, known by text or by shape. With ``names``, those at
    these places, all counted before one of them goes. With nothing, those right after the same
    segment, as a relative link without a slash before it makes them without end:
    ``/a/rel/rel/rel/``. Of these, one without a letter stays: ``/2011/11/11`` is a day.
    """

    words = (
        Word(
            "strip-segment",
            "the segment {segment} after {prefix} means nothing",
            *("prefix", "segment shape min_length"),
        ),
        Word("drop-segment", "{slots} means nothing", "slots"),
        Word("drop-repeated-segment", "a segment right after the same segment means nothing"),
    )

    prefix: tuple[str, ...] | None = None
    segment: str | None = None
    shape: str | None = None
    min_length: int | None = None
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.prefix is not None and (self.segment is None) == (self.shape is None):
            raise SiteRuleError("a strip-segment rule needs either 'segment' or 'shape'")
        if (self.shape is None) != (self.min_length is None):
            raise SiteRuleError("'shape' and 'min_length' go together: how long is the segment?")
        if any("-" in slot for slot in self.names):
            accepted = "segments counted from the first: 's0', 's1', …"
            raise refuse("slots", list(self.names), accepted)

    @property
    def word(self) -> str:
        at = 0 if self.prefix is not None else 1 if self.names else 2
        return self.words[at].word

    def image(self, slots: Slots) -> Slots | None:
        if self.prefix and not begins(slots, numbered(self.prefix)):
            return None
        path = segments(slots)
        gone = self._gone(path)
        kept = [segment for at, segment in enumerate(path) if at not in gone]
        if len(kept) == len(path):
            return None
        return with_segments(slots, kept, slash="slash" in slots)

    def _gone(self, path: list[str]) -> range | set[int]:
        if self.names:
            return {int(slot[1:]) for slot in self.names}
        if self.prefix is not None:
            end = start = len(self.prefix)
            while end < len(path) and self._means_nothing(path[end]):
                end += 1
            return range(start, end)
        same = (at for at in range(1, len(path)) if path[at] == path[at - 1])
        return {at for at in same if any(map(str.isalpha, path[at]))}

    def _means_nothing(self, segment: str) -> bool:
        if self.shape is None:
            return segment == self.segment
        shape = SHAPES[self.shape]
        return len(segment) >= (self.min_length or 1) and shape.fullmatch(segment) is not None

    def pairs(self) -> list[Pair]:
        return numbered((*(self.prefix or ()), *([self.segment] if self.segment else ())))

    def example(self, slots: Slots) -> Slots:
        path, slash = segments(slots), "slash" in slots
        if self.prefix is not None:
            segment = self.segment or "1" * (self.min_length or 1)
            return with_segments(slots, [*self.prefix, segment, "x"], slash=slash)
        return slots if self.names else with_segments(slots, [*path, "x", "x"], slash=slash)

    def check_context(self, context: Context) -> None:
        literal = any(isinstance(c, Path) and c.literals() for c in context)
        if self.names and not (literal and all(slot[0] == "s" for slot in self.names)):
            raise SiteRuleError(
                "a drop-segment rule has slots like 's0' and a path with a literal segment, "
                "or it would swallow any path"
            )

    @classmethod
    def between(cls, twins: Twins) -> Iterator[StripSegment]:
        long, short = twins.long, twins.short
        if not (twins.by_path and twins.same_slash):
            return
        repeated = cls()
        one, other = (repeated.image(slots) or slots for slots in (twins.one, twins.other))
        if segments(one) == segments(other):
            yield repeated
        at = next((i for i, text in enumerate(short) if text != long[i]), len(short))
        if at < len(short) and at <= LEARNED_PREFIX and long[at + 1 :] == short[at:] and long[at]:
            yield cls(tuple(long[:at]), long[at])

    @property
    def family(self) -> object:
        return self.word, self.prefix, self.segment and same_digits(self.segment)

    def sentence(self) -> str:
        if self.shape is None:
            return super().sentence()
        what = f"that looks like {self.shape} of {self.min_length} characters or more"
        return f"the segment {what} after {path_text(self.prefix or ())} means nothing"


def _tail(name: str, value: object) -> str:
    path, slash = segments_of(check_path(name, value))
    if not path or any(segment in DOT_SEGMENTS for segment in path):
        raise refuse(name, value, "the end of a path, like '/index.html' or '/page/1/'")
    return path_text(path, slash=slash)


def _tail_by(name: str, value: object) -> str:
    if value not in ("", "/"):
        raise refuse(name, value, "'' or '/'")
    return str(value)


@dataclass(frozen=True)
class StripTail(Operation):
    """A path may end in the segments ``tail``, or in what stood before them and ``by``."""

    words = (Word("strip-tail", "“{tail}” at the end of a path is the same as “{by}”", "tail by"),)
    readers: ClassVar = {"tail": _tail, "by": _tail_by}
    answers = ("by",)

    tail: str
    by: str

    @cached_property
    def last(self) -> tuple[str, ...]:
        """The segments at the end."""
        return segments_of(self.tail)[0]

    def image(self, slots: Slots) -> Slots | None:
        slash = self.tail[-1] == "/"
        path, size = segments(slots), len(self.last)
        if ("slash" in slots) is not slash or tuple(path[-size:]) != self.last:
            return None
        while tuple(path[-size:]) == self.last:
            del path[-size:]
            # What is left must end as the rule says, before it may be stripped again.
            if slash is not bool(self.by):
                break
        return with_segments(slots, path, slash=bool(self.by))

    def pairs(self) -> list[Pair]:
        return [("s-1", self.last[-1])]

    def example(self, slots: Slots) -> Slots:
        return with_segments(slots, ["x", *self.last], slash=self.tail[-1] == "/")

    @classmethod
    def between(cls, twins: Twins) -> Iterator[StripTail]:
        long, short = twins.long, twins.short
        extra = long[len(short) :]
        if not twins.by_path or long[: len(short)] != short or len(extra) not in (1, 2):
            return
        # The root ends in a slash, whatever the rule says.
        ends = ["/" if "slash" in twins.other else ""] if short else ["/", ""]
        for by in ends if "" not in extra else ():
            yield cls(path_text(extra, slash="slash" in twins.one), by)

    @property
    def family(self) -> object:
        return self.word, tuple(map(same_digits, self.last))

    def sentence(self) -> str:
        return (
            super().sentence() if self.by else f"“{self.tail}” at the end of a path means nothing"
        )


class _Target(NamedTuple):
    """The path of a page: segments before and after its name, and the text around the name."""

    before: tuple[str, ...]
    after: tuple[str, ...]
    left: str
    right: str
    slash: bool

    @classmethod
    def of(cls, path: str) -> _Target:
        raw = path.removesuffix("/").split("/")[1:]
        hole = next(at for at, segment in enumerate(raw) if "{}" in segment)
        before, after = (tuple(map(decode, each)) for each in (raw[:hole], raw[hole + 1 :]))
        left, right = map(decode, raw[hole].split("{}"))
        return cls(before, after, left, right, path[-1] == "/")

    def text(self) -> str:
        hole = f"{encode_segment(self.left)}{{}}{encode_segment(self.right)}"
        parts = [*map(encode_segment, self.before), hole, *map(encode_segment, self.after)]
        return "/" + "/".join(parts) + ("/" if self.slash else "")


def _by(name: str, value: object) -> str:
    if not isinstance(value, str) or not value.startswith("/") or value.count("{}") != 1:
        raise refuse(name, value, "a path with one {}, like '/wiki/{}'")
    return _Target.of(value).text()


def _base(name: str, value: object) -> str:
    path = check_path(name, value)
    if "*" in path or "#" in path:
        raise refuse(name, path, "the one path that has the parameter, without wildcards")
    return _base_text(*segments_of(path))


def _base_text(path: tuple[str, ...], slash: bool) -> str:
    return path_text(path, slash=slash).replace("*", "%2A")


@dataclass(frozen=True)
class ParamToPath(Operation):
    """The value of a parameter at ``path`` is the ``{}`` in the path ``by``.

    A ``separator`` cuts the value into several segments. The parameters of ``default`` stand at
    these values beside it, and go with it. Without a parameter, the separator inside a segment
    below ``prefix`` is the same as a slash.
    """

    words = (
        Word(
            "param-to-path",
            "the parameter {param} of {path} is the same as {{}} in {by}",
            *("param path by", "separator default"),
        ),
        Word(
            "split-segment",
            "“{separator}” is the same as a slash in the path",
            *("separator", "prefix"),
        ),
    )
    readers: ClassVar = {"path": _base, "by": _by}
    answers = ("by",)

    param: tuple[str, ...] = ()
    path: str = ""
    by: str = ""
    separator: str = ""
    default: tuple[Pair, ...] = ()
    prefix: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if not self.param and "/" in self.separator:
            raise refuse("separator", self.separator, "a text without '/'")

    @classmethod
    def read(cls, word: str, operands: dict[str, Any]) -> ParamToPath:
        if word == "split-segment":
            return cls(**{"prefix": (), **operands})
        (param, *others), beside = operands["param"], operands.pop("default", {})
        if others:
            raise refuse("param", [param, *others], "one parameter")
        for name, value in beside.items():
            if name == param or not isinstance(value, str):
                raise refuse(f"default.{name}", value, f"one text, of another one than {param!r}")
        return cls(**operands, default=tuple(sorted(beside.items())))

    @property
    def word(self) -> str:
        return self.words[not self.param].word

    @cached_property
    def _base(self) -> tuple[tuple[str, ...], bool]:
        path, slash = segments_of(self.path)
        return path, slash and bool(path)

    @cached_property
    def _target(self) -> _Target:
        return _Target.of(self.by)

    @cached_property
    def _pairs(self) -> list[Pair]:
        return numbered(self.prefix or ()) + [(f"q:{name}", value) for name, value in self.default]

    @cached_property
    def slots(self) -> frozenset[str]:
        return frozenset(f"q:{name}" for name in (*self.param, *dict(self.default)))

    def pairs(self) -> list[Pair]:
        return self._pairs

    def any_of(self) -> tuple[str, ...]:
        return tuple(f"q:{name}" for name in self.param)

    def image(self, slots: Slots) -> Slots | None:
        if not begins(slots, self._pairs):
            return None
        return self._moved(slots) if self.param else self._split(slots)

    def _moved(self, slots: Slots) -> Slots | None:
        value = slots.get(f"q:{self.param[0]}")
        if not value or REPEAT in value or (tuple(segments(slots)), "slash" in slots) != self._base:
            return None
        tokens = value.split(self.separator) if self.separator else [value]
        # The value may not vanish into its surroundings: "" and ".." are no page.
        if any(token in DOT_SEGMENTS for token in tokens):
            return None
        target = self._target
        tokens[0] = target.left + tokens[0]
        tokens[-1] += target.right
        path = [*target.before, *tokens, *target.after]
        return with_segments(without(slots, self.slots), path, slash=target.slash)

    def _split(self, slots: Slots) -> Slots | None:
        path, at = segments(slots), len(self.prefix or ())
        new = path[:at]
        for segment in path[at:]:
            tokens = segment.split(self.separator)
            new += [segment] if any(token in DOT_SEGMENTS for token in tokens) else tokens
        return None if new == path else with_segments(slots, new, slash="slash" in slots)

    def example(self, slots: Slots) -> Slots:
        if self.param:
            path, slash = self._base
            return (
                with_segments(slots, path, slash=slash)
                | dict.fromkeys(self.slots, "x")
                | dict(self._pairs)
            )
        path = (*(self.prefix or ()), f"x{self.separator}x")
        return with_segments(slots, path, slash="slash" in slots)

    @classmethod
    def between(cls, twins: Twins) -> Iterator[ParamToPath]:
        names = {name for name in twins.names if is_param(name)}
        if not names:
            yield from cls._splits(twins)
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
        default = tuple(sorted((each[2:], given[each]) for each in beside))
        if not value or any(REPEAT in text for text in (value, *dict(default).values())):
            return
        if not path or path == base or len(base) > LEARNED_PREFIX:
            return
        where = _base_text(tuple(base), "slash" in given)
        for separator in ("", *_LEARNED_PARAM_SPLITS):
            tokens = value.split(separator) if separator else [value]
            if (separator and len(tokens) == 1) or any(t in DOT_SEGMENTS for t in tokens):
                continue
            for by in _targets(path, tokens, slash="slash" in other):
                # Without a separator here, values may hold one elsewhere.
                for each in (separator,) if separator else ("", *_LEARNED_PARAM_SPLITS):
                    yield cls((name[2:],), where, by, each, default)

    @classmethod
    def _splits(cls, twins: Twins) -> Iterator[ParamToPath]:
        long, short = twins.long, twins.short
        if not (twins.by_path and twins.same_slash and len(long) > len(short)):
            return
        for separator in _LEARNED_SPLITS:
            if [token for segment in short for token in segment.split(separator)] == long:
                at = next(i for i, segment in enumerate(short) if separator in segment)
                for size in range(min(at, LEARNED_PREFIX) + 1):
                    yield cls(separator=separator, prefix=tuple(short[:size]))


def _targets(path: list[str], tokens: list[str], *, slash: bool) -> Iterator[str]:
    """Yield where *tokens* stand in *path*."""
    for start in range(min(len(path) - len(tokens), LEARNED_PREFIX) + 1):
        end = start + len(tokens)
        hole = _hole(path[start:end], tokens)
        if hole is not None and len(path) - end <= 1:
            yield _Target(tuple(path[:start]), tuple(path[end:]), *hole, slash).text()


def _hole(found: list[str], tokens: list[str]) -> tuple[str, str] | None:
    """Return the text around *tokens* in *found*: ``story_12`` for ``12`` is ("story_", "")."""
    if len(tokens) == 1:
        left, held, right = found[0].partition(tokens[0])
        return (left, right) if held else None
    first, last = found[0], found[-1]
    if found[1:-1] != tokens[1:-1] or not first.endswith(tokens[0]):
        return None
    left = first.removesuffix(tokens[0])
    return (left, last[len(tokens[-1]) :]) if last.startswith(tokens[-1]) else None
