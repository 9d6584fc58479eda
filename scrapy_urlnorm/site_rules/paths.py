"""Paths in rules: literal ones, and templates that many paths have."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from scrapy_urlnorm.exceptions import SiteRuleError
from scrapy_urlnorm.site_rules.form import (
    Slots,
    decode,
    encode_segment,
    segment_slots,
    segments,
    with_segments,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

#: A slot with its value; an item of a template with its text.
Pair = tuple[str, str]


def refuse(what: str, value: object, accepted: str) -> SiteRuleError:
    """Return the error for a value that a rule may not hold."""
    return SiteRuleError(f"{what} = {value!r} is not accepted; accepted: {accepted}")


def check_path(name: str, value: object) -> str:
    """Return a path of a rule file; `SiteRuleError` if it is none."""
    if not isinstance(value, str) or not value.startswith("/"):
        raise refuse(name, value, "a path that starts with '/'")
    if "?" in value:
        raise refuse(name, value, "a path without '?' (write %3F if it is part of a segment)")
    return value


def segments_of(path: str) -> tuple[tuple[str, ...], bool]:
    """Split a path of a rule file into decoded segments and whether it ends in a slash."""
    raw = path.split("/")[1:]
    slash = bool(raw) and not raw[-1]
    return tuple(map(decode, raw[:-1] if slash else raw)), slash


def path_text(path: Iterable[str], *, slash: bool = False) -> str:
    """Write segments as a path; the root is ``/``."""
    text = "/" + "/".join(map(encode_segment, path))
    return text + "/" if slash and text != "/" else text


class Path(NamedTuple):
    """The path has this template: ``before`` and, with ``**`` between, ``after`` (else ``None``).

    An item is ``("=", text)``, ``("*", extension)`` for any segment or ``("#", extension)`` for
    digits; the extension may be empty. ``slash`` says whether the path ends in a slash; ``None``
    accepts both.
    """

    before: tuple[Pair, ...]
    after: tuple[Pair, ...] | None = None
    slash: bool | None = None
    kind: str = "path"

    def holds(self, slots: Slots) -> bool:
        slash = self.slash
        if slash is not None and ("slash" in slots) is not slash:
            return False
        before, after = self.before, self.after
        if before and before[0][0] == "=" and slots.get("s0") != before[0][1]:
            return False
        path = segments(slots)
        if after is None:
            return len(path) == len(before) and all(map(_is_item, path, before))
        rest = len(path) - len(after)
        return (
            rest >= len(before)
            and all(map(_is_item, path, before))
            and all(map(_is_item, path[rest:], after))
        )

    def pairs(self) -> list[Pair]:
        numbered = zip(segment_slots(len(self.before)), self.before, strict=True)
        found = [(slot, text) for slot, (kind, text) in numbered if kind == "="]
        if self.after and self.after[-1][0] == "=":
            found.append(("s-1", self.after[-1][1]))
        return found

    def example(self, slots: Slots) -> Slots:
        path = segments(slots)
        wanted = [*self.before, *(self.after or ())]
        if len(path) < len(wanted) or (self.after is None and len(path) > len(wanted)):
            path = (path + ["x"] * len(wanted))[: len(wanted)]
        for at, item in enumerate(self.before):
            path[at] = _example_of(item, path[at])
        for at, item in enumerate(reversed(self.after or ()), 1):
            path[-at] = _example_of(item, path[-at])
        slash = "slash" in slots if self.slash is None else self.slash
        return with_segments(slots, path, slash=slash)

    def without_slash(self) -> Path:
        """Return the template that accepts a path with and without a final slash."""
        return self._replace(slash=None)

    def literals(self) -> list[str]:
        """Return the segments whose text is fixed."""
        return [text for kind, text in (*self.before, *(self.after or ())) if kind == "="]

    def text(self) -> str:
        """Return the template as a rule file holds it."""
        items = [_item_text(item) for item in self.before]
        if self.after is not None:
            items += ["**", *map(_item_text, self.after)]
        text = "/" + "/".join(items)
        return text + "/" if self.slash and items else text


def _is_item(segment: str, item: Pair) -> bool:
    kind, text = item
    if kind == "=":
        return segment == text
    if text:
        if not segment.endswith(text) or len(segment) == len(text):
            return False
        segment = segment[: -len(text)]
    return kind == "*" or (segment.isascii() and segment.isdigit())


def _example_of(item: Pair, segment: str) -> str:
    kind, text = item
    if kind == "=":
        return text
    return segment if _is_item(segment, item) else f"{'1' if kind == '#' else 'x'}{text}"


def _item_text(item: Pair) -> str:
    kind, text = item
    if kind == "=":
        return encode_segment(text).replace("*", "%2A")
    return kind + encode_segment(text)


@lru_cache(maxsize=4096)
def parse_path(path: str) -> Path:
    """Read a path template; `SiteRuleError` for a wildcard that is only part of a segment."""
    raw = path.split("/")[1:]
    slash: bool | None = not raw[-1]
    if slash:
        del raw[-1]
    if raw.count("**") > 1:
        raise SiteRuleError(f"path = {path!r} is not accepted; accepted: one '**' at most")
    if not raw or raw[-1] == "**":  # the root always ends in a slash
        slash = None
    items = [_parse_item(segment, path) for segment in raw if segment != "**"]
    if "**" not in raw:
        return Path(tuple(items), None, slash)
    gap = raw.index("**")
    return Path(tuple(items[:gap]), tuple(items[gap:]), slash)


def _parse_item(segment: str, path: str) -> Pair:
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
