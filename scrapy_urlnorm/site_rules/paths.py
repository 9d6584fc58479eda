"""Paths in rules: literal ones, and templates that many paths match."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from scrapy_urlnorm.exceptions import SiteRuleError
from scrapy_urlnorm.site_rules.form import decode

if TYPE_CHECKING:
    from scrapy_urlnorm.site_rules.form import Form


def segments_of(path: str) -> tuple[list[str], bool]:
    """Split a path field of a rule into decoded segments and its final slash."""
    segments, slash = _split(path)
    return list(segments), slash


@lru_cache(maxsize=4096)
def _split(path: str) -> tuple[tuple[str, ...], bool]:
    raw = path.split("/")[1:]
    slash = bool(raw) and not raw[-1]
    return tuple(map(decode, raw[:-1] if slash else raw)), slash


class PathPattern(NamedTuple):
    """A path template: ``before`` and, with ``**`` between them, ``after`` (else ``None``).

    An item is a literal, ``*`` (any segment), ``#`` (digits), or one of the two with an
    extension (``*.html``).
    """

    before: tuple[tuple[str, str], ...]
    after: tuple[tuple[str, str], ...] | None
    slash: bool | None

    def matches(self, form: Form) -> bool:
        """Whether the path of *form* is of this template."""
        if self.slash is not None and form.slash is not self.slash:
            return False
        segments = form.segments
        if self.after is None:
            return len(segments) == len(self.before) and all(map(_matches, segments, self.before))
        rest = len(segments) - len(self.after)
        return (
            rest >= len(self.before)
            and all(map(_matches, segments, self.before))
            and all(map(_matches, segments[rest:], self.after))
        )

    def literals(self) -> list[str]:
        """The segments that a path of this template has."""
        return [text for kind, text in (*self.before, *(self.after or ())) if kind == "="]

    def disjoint(self, other: PathPattern) -> bool:
        """Whether no path can be of both templates, as far as their beginnings tell."""
        return any(
            mine[0] == theirs[0] == "=" and mine[1] != theirs[1]
            for mine, theirs in zip(self.before, other.before, strict=False)
        )


@lru_cache(maxsize=4096)
def parse_pattern(path: str) -> PathPattern:
    """Read a path template; `SiteRuleError` for a wildcard that is only part of a segment."""
    raw = path.split("/")[1:]
    slash: bool | None = not raw[-1]
    if slash:
        del raw[-1]
    if raw.count("**") > 1:
        raise SiteRuleError(f"path = {path!r} is not accepted; accepted: one '**' at most")
    if raw and raw[-1] == "**":
        slash = None
    items = [_item(segment, path) for segment in raw if segment != "**"]
    if "**" not in raw:
        return PathPattern(tuple(items), None, slash)
    gap = raw.index("**")
    return PathPattern(tuple(items[:gap]), tuple(items[gap:]), slash)


def _item(segment: str, path: str) -> tuple[str, str]:
    if segment in ("*", "#"):
        return segment, ""
    if segment[:2] in ("*.", "#.") and not set(segment[1:]) & set("*#"):
        return segment[0], decode(segment[1:])
    if "*" in segment or "#" in segment:
        raise SiteRuleError(
            f"path = {path!r} is not accepted; accepted in a segment: text, or one of '*', '#', "
            "'*.ext', '#.ext' alone (a literal star is %2A, a literal # is %23)"
        )
    return "=", decode(segment)


def _matches(segment: str, item: tuple[str, str]) -> bool:
    kind, text = item
    if kind == "=":
        return segment == text
    if text:
        if not segment.endswith(text) or len(segment) == len(text):
            return False
        segment = segment[: -len(text)]
    return kind == "*" or (segment.isascii() and segment.isdigit())
