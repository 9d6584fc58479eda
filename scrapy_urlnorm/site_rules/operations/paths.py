"""Kinds of rules about path segments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scrapy_urlnorm.exceptions import SiteRuleError
from scrapy_urlnorm.site_rules.form import (
    DOT_SEGMENTS,
    Slots,
    segments,
    with_segments,
)
from scrapy_urlnorm.site_rules.operations.base import (
    LEARNED_PREFIX,
    Operation,
    begins,
    check_no_dots,
    numbered,
    same_digits,
)
from scrapy_urlnorm.site_rules.paths import Path, path_text, refuse, segments_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from scrapy_urlnorm.site_rules.context import Context
    from scrapy_urlnorm.site_rules.operations.base import Twins
    from scrapy_urlnorm.site_rules.paths import Pair

#: What a path segment may look like where its text is not known beforehand.
SHAPES = ("digits", "hex", "alphanumeric")
_HEX = frozenset("0123456789abcdefABCDEF")


def _with_prefix(slots: Slots, prefix: Iterable[str]) -> Slots:
    """Return slots whose path is *prefix* and a segment more."""
    return with_segments(slots, [*prefix, "x"], slash="slash" in slots)


@dataclass(frozen=True)
class PrefixAlias(Operation):
    """What lies below the path ``old`` lies below the path ``new``, too."""

    kind = "prefix-alias"
    summary = "what lies below `prefix` lies below `by`"
    required = ("prefix", "by")

    old: tuple[str, ...]
    new: tuple[str, ...]

    def __post_init__(self) -> None:
        if self.new[: len(self.old)] == self.old:
            old, new = path_text(self.old), path_text(self.new)
            raise SiteRuleError(f"this rule acts on its own result for ever: {old!r} by {new!r}")

    @classmethod
    def read(cls, operands: Mapping[str, Any]) -> PrefixAlias:
        for name in ("prefix", "by"):
            value = operands[name]
            accepted = "a path like '/docs/latest', without empty or dot segments"
            if not value.startswith("/"):
                raise refuse(name, value, accepted)
            check_no_dots(name, value, segments_of(value)[0], accepted)
        return cls(segments_of(operands["prefix"])[0], segments_of(operands["by"])[0])

    def write(self) -> dict[str, Any]:
        return {"prefix": path_text(self.old), "by": path_text(self.new)}

    def image(self, slots: Slots) -> Slots | None:
        if not begins(slots, numbered(self.old)):
            return None
        path = segments(slots)
        path[: len(self.old)] = self.new
        return with_segments(slots, path, slash="slash" in slots)

    @property
    def key(self) -> object:
        return self.old

    def pairs(self) -> list[Pair]:
        return list(numbered(self.old))

    def example(self, slots: Slots) -> Slots:
        return _with_prefix(slots, self.old)

    @classmethod
    def between(cls, twins: Twins) -> Iterator[PrefixAlias]:
        if not (twins.by_path and twins.same_slash):
            return
        long, short = twins.long, twins.short
        shared = 0
        while shared < len(short) and long[-1 - shared] == short[-1 - shared]:
            shared += 1
        old, new = long[: len(long) - shared], short[: len(short) - shared]
        if not shared or not old or not new or max(len(old), len(new)) > LEARNED_PREFIX:
            return
        if len(old) == len(new) and sum(a != b for a, b in zip(old, new, strict=True)) == 1:
            return  # one segment for another: `Replace` says that
        if new[: len(old)] == old or any(segment in DOT_SEGMENTS for segment in (*old, *new)):
            return
        yield cls(tuple(old), tuple(new))


@dataclass(frozen=True)
class StripSegment(Operation):
    """Segments right after the path ``prefix`` mean nothing, known by text or by shape."""

    kind = "strip-segment"
    summary = "the segment after `prefix` means nothing"
    required = ("prefix",)
    optional = ("segment", "shape", "min_length")

    prefix: tuple[str, ...]
    segment: str | None = None
    shape: str | None = None
    min_length: int | None = None

    def __post_init__(self) -> None:
        if (self.segment is None) == (self.shape is None):
            raise SiteRuleError("a strip-segment rule needs either 'segment' or 'shape'")
        if (self.shape is None) != (self.min_length is None):
            raise SiteRuleError("'shape' and 'min_length' go together: how long is the segment?")

    @classmethod
    def read(cls, operands: Mapping[str, Any]) -> StripSegment:
        others = {name: value for name, value in operands.items() if name != "prefix"}
        return cls(segments_of(operands["prefix"])[0], **others)

    def write(self) -> dict[str, Any]:
        said = {name: getattr(self, name) for name in self.optional}
        known = {name: value for name, value in said.items() if value is not None}
        return {"prefix": path_text(self.prefix)} | known

    def image(self, slots: Slots) -> Slots | None:
        if not begins(slots, numbered(self.prefix)):
            return None
        path = segments(slots)
        at = end = len(self.prefix)
        while end < len(path) and self._means_nothing(path[end]):
            end += 1
        if end == at:
            return None
        del path[at:end]
        return with_segments(slots, path, slash="slash" in slots)

    def _means_nothing(self, segment: str) -> bool:
        if self.segment is not None:
            return segment == self.segment
        if len(segment) < (self.min_length or 1) or not segment.isascii():
            return False
        if self.shape == "digits":
            return segment.isdigit()
        return _HEX.issuperset(segment) if self.shape == "hex" else segment.isalnum()

    def pairs(self) -> list[Pair]:
        return list(numbered((*self.prefix, *([self.segment] if self.segment else ()))))

    def example(self, slots: Slots) -> Slots:
        segment = self.segment or "1" * (self.min_length or 1)
        return with_segments(slots, [*self.prefix, segment, "x"], slash="slash" in slots)

    @classmethod
    def between(cls, twins: Twins) -> Iterator[StripSegment]:
        long, short = twins.long, twins.short
        if not (twins.by_path and twins.same_slash and len(long) == len(short) + 1):
            return
        at = next((i for i, text in enumerate(short) if text != long[i]), len(short))
        if at < len(short) and at <= LEARNED_PREFIX and long[at + 1 :] == short[at:] and long[at]:
            yield cls(tuple(long[:at]), long[at])

    @property
    def family(self) -> object:
        return self.kind, self.prefix, self.segment and same_digits(self.segment)


@dataclass(frozen=True)
class DropSegment(Operation):
    """The segments at the ``places``, all counted before one of them goes, mean nothing."""

    kind = "drop-segment"
    summary = "the segments at these places, counted together, mean nothing"
    required = ("slots",)

    places: tuple[str, ...]

    def __post_init__(self) -> None:
        if any("-" in slot for slot in self.places):
            accepted = "segments counted from the first: 's0', 's1', …"
            raise refuse("slots", list(self.places), accepted)

    @classmethod
    def read(cls, operands: Mapping[str, Any]) -> DropSegment:
        return cls(operands["slots"])

    def write(self) -> dict[str, Any]:
        return {"slots": self.places}

    def image(self, slots: Slots) -> Slots | None:
        gone = {int(slot[1:]) for slot in self.places if slot in slots}
        if not gone:
            return None
        path = [segment for at, segment in enumerate(segments(slots)) if at not in gone]
        return with_segments(slots, path, slash="slash" in slots)

    @property
    def slots(self) -> frozenset[str]:
        return frozenset(self.places)

    def check_context(self, context: Context) -> None:
        literal = any(isinstance(c, Path) and c.literals() for c in context)
        if not (literal and all(slot[0] == "s" for slot in self.places)):
            raise SiteRuleError(
                "a drop-segment rule has slots like 's0' and a path with a literal segment, "
                "or it would swallow any path"
            )


@dataclass(frozen=True)
class StripTail(Operation):
    """A path may end in the segments ``tail``, or in what stood before them."""

    kind = "strip-tail"
    summary = "a path may end in `tail` or in `by`"
    required = ("tail", "by")

    tail: tuple[str, ...]
    slash_before: bool
    slash_after: bool

    @classmethod
    def read(cls, operands: Mapping[str, Any]) -> StripTail:
        tail, by = operands["tail"], operands["by"]
        if by not in ("", "/"):
            raise refuse("by", by, "'' or '/'")
        path, slash = segments_of(tail)
        accepted = "the end of a path, like '/index.html' or '/page/1/'"
        check_no_dots("tail", tail, path or [""], accepted)
        return cls(path, slash, by == "/")

    def write(self) -> dict[str, Any]:
        tail = path_text(self.tail, slash=self.slash_before)
        return {"tail": tail, "by": "/" if self.slash_after else ""}

    def image(self, slots: Slots) -> Slots | None:
        if ("slash" in slots) is not self.slash_before:
            return None
        path, size = segments(slots), len(self.tail)
        if tuple(path[-size:]) != self.tail:
            return None
        while tuple(path[-size:]) == self.tail:
            del path[-size:]
            # What is left must end as the rule says, before it may be stripped again.
            if self.slash_before is not self.slash_after:
                break
        return with_segments(slots, path, slash=self.slash_after)

    @property
    def key(self) -> object:
        return self.tail, self.slash_before

    def pairs(self) -> list[Pair]:
        return [("s-1", self.tail[-1])]

    def example(self, slots: Slots) -> Slots:
        return with_segments(slots, ["x", *self.tail], slash=self.slash_before)

    @classmethod
    def between(cls, twins: Twins) -> Iterator[StripTail]:
        long, short = twins.long, twins.short
        extra = len(long) - len(short)
        if not (twins.by_path and extra in (1, 2)) or long[: len(short)] != short:
            return
        if "" in long[-extra:]:
            return
        # The root ends in a slash, whatever the rule says.
        after = ("slash" in twins.other,) if short else (True, False)
        for slash in after:
            yield cls(tuple(long[-extra:]), "slash" in twins.one, slash)

    @property
    def family(self) -> object:
        return self.kind, tuple(map(same_digits, self.tail))
