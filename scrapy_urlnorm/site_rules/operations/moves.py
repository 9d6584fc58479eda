"""A kind of rule that brings the value of a parameter into the path."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from scrapy_urlnorm.site_rules.form import (
    REPEAT,
    Slots,
    decode,
    encode_segment,
    is_param,
    path_text,
    segment_slots,
    segments,
    segments_of,
    with_segments,
    without,
)
from scrapy_urlnorm.site_rules.operation import (
    LEARNED_PREFIX,
    Operation,
    Word,
    begins,
    check_path,
    numbered,
    refuse,
)
from scrapy_urlnorm.url import DOT_SEGMENTS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy_urlnorm.site_rules.context import Pair
    from scrapy_urlnorm.site_rules.operation import Twins

#: Learning looks for these separators of segments (what applications use): inside a segment, and
#: inside the value of a parameter.
_LEARNED_SPLITS = ":;,|"
_LEARNED_PARAM_SPLITS = (":", "/")
#: A parameter that comes into the path takes at most two others with it (a choice).
_MAX_MOVED = 3
#: Where the value comes: like `REPEAT`, a character that no URL can bring along.
_HOLE = "\ud801"


def _by(name: str, value: object) -> str:
    if not isinstance(value, str) or not value.startswith("/") or value.count("{}") != 1:
        raise refuse(name, value, "a path with one {}, like '/wiki/{}'")
    return "{}".join(
        "/".join(encode_segment(decode(s)) for s in p.split("/")) for p in value.split("{}")
    )


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
    def _target(self) -> tuple[str, bool]:
        """The segments of ``by`` in one text, and whether it ends in a slash."""
        path, slash = segments_of(self.by.replace("{}", _HOLE))
        return REPEAT.join(path), slash

    @cached_property
    def _gone(self) -> frozenset[str]:
        return self.slots | {"slash", *segment_slots(len(self._base[0]))}

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
        path, slash = self._base
        if not value or ("slash" in slots) is not slash or f"s{len(path)}" in slots:
            return None
        if REPEAT in value or not begins(slots, numbered(path)):
            return None
        tokens = value.split(self.separator) if self.separator else [value]
        # The value may not vanish into its surroundings: "" and ".." are no page.
        if any(token in DOT_SEGMENTS for token in tokens):
            return None
        target, slash = self._target
        new = target.replace(_HOLE, REPEAT.join(tokens)).split(REPEAT)
        image = without(slots, self._gone)
        image.update(zip(segment_slots(len(new)), new, strict=True))
        return image | {"slash": "1"} if slash else image

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
        left, held, right = REPEAT.join(path[start:end]).partition(REPEAT.join(tokens))
        if held and len(path) - end <= 1:  # "story_12" holds 12, after "story_"
            before, after = (*path[:start], left), (right, *path[end:])
            sides = ("/".join(map(encode_segment, side)) for side in (before, after))
            yield "/" + "{}".join(sides) + ("/" if slash else "")
