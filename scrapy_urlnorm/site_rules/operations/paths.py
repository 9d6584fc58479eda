"""Kinds of rules about the path: its beginning, segments in it, its end."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

from scrapy_urlnorm.exceptions import SiteRuleError
from scrapy_urlnorm.site_rules.context import TITLE, Context, Is, Pair, Path
from scrapy_urlnorm.site_rules.form import (
    Slots,
    is_segment,
    path_text,
    segments,
    segments_of,
    with_segments,
)
from scrapy_urlnorm.site_rules.operation import (
    LEARNED_PREFIX,
    SHAPES,
    Operation,
    Twins,
    Word,
    begins,
    check_path,
    checked,
    folder,
    numbered,
    refuse,
    same_digits,
)
from scrapy_urlnorm.text import common_ends
from scrapy_urlnorm.url import DOT_SEGMENTS

if TYPE_CHECKING:
    from collections.abc import Iterator


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
        shared, _ = common_ends(long[::-1], short[::-1])
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
        literal = any(
            (isinstance(c, Path) and (c.literals() or TITLE in c.before))
            or (isinstance(c, Is) and is_segment(c.slot))
            for c in context
        )
        if self.names and not (literal and all(slot[0] == "s" for slot in self.names)):
            raise SiteRuleError(
                "a drop-segment rule has slots like 's0' and a path with a literal segment or '*-*', or "
                "'when' with one, or it would swallow any path"
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
        at, _ = common_ends(long, short)
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


@dataclass(frozen=True)
class StripTail(Operation):
    """A path may end in the segments ``tail``, or in what stood before them and ``by``."""

    words = (Word("strip-tail", "“{tail}” at the end of a path is the same as “{by}”", "tail by"),)
    readers: ClassVar = {"tail": _tail, "by": checked(("", "/").__contains__, "'' or '/'")}
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
        means_nothing = f"“{self.tail}” at the end of a path means nothing"
        return super().sentence() if self.by else means_nothing
