"""The vocabulary of site rules: the kinds, their operands, and the words of the other fields."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Only an active rule changes a URL.
STATUSES = ("active", "proposed", "rejected")
SOURCES = ("user", "redirect", "canonical", "content", "url-list")
#: What a path segment may look like where its text is not known beforehand (``strip-segment``).
SHAPES = ("digits", "hex", "alphanumeric")
#: Values that stand for text of the same URL: the segments after ``prefix`` joined by
#: ``separator``, up to the last but one (the namespace of a wiki page) or the last (its name).
SYMBOLS = ("{namespace}", "{page}")
WHEN_KEYS = (
    "has",
    "no",
    "params",
    "among",
    "segments",
    "slash",
    "host",
    "scheme",
    "rest",
)


@dataclass(frozen=True)
class Kind:
    """What one kind of rule needs (`required`), may have besides, and does (`summary`)."""

    required: tuple[str, ...]
    optional: tuple[str, ...]
    summary: str


#: The kinds of this language. Every rule of the catalogue is a kind too, with an ``option``.
KINDS: Mapping[str, Kind] = MappingProxyType(
    {
        "host-alias": Kind(("host", "by"), (), "the hosts are the host `by`"),
        "prefix-alias": Kind(("prefix", "by"), (), "what lies below `prefix` lies below `by`"),
        "param-to-path": Kind(
            ("param", "path", "by"),
            ("separator",),
            "the value of `param` at `path` is the {} in the path `by`",
        ),
        "split-segment": Kind(
            ("separator",), ("prefix",), "`separator` inside a segment is the same as a slash"
        ),
        "drop-path-param": Kind(("param",), (), "`;param=value` inside the path means nothing"),
        "strip-segment": Kind(
            ("prefix",),
            ("segment", "shape", "min_length"),
            "the segment after `prefix` means nothing",
        ),
        "drop-segment": Kind(
            ("slots", "path"), (), "the segments at these places, counted together, mean nothing"
        ),
        "strip-tail": Kind(("tail", "by"), (), "a path may end in `tail` or in `by`"),
        "strip-suffix": Kind(
            ("slot", "suffix"), ("slash",), "the end of the slot's value means nothing"
        ),
        "replace-text": Kind(
            ("slot", "text", "by"), (), "`text` inside the slot's value is the same as `by`"
        ),
        "keep-number": Kind(
            ("slot", "side"), (), "of `12-any-words` only the number before (after) them counts"
        ),
        "lowercase-first": Kind(
            ("slots",), (), "upper and lower case of the first letter are the same"
        ),
        "lowercase-param": Kind(("param",), (), "upper and lower case are the same"),
        "replace": Kind(
            ("old",), ("new", "prefix", "separator"), "all slots of `old` are those of `new`"
        ),
        "drop-default": Kind(("default",), (), "these parameters, all at these values, are void"),
        "drop-param": Kind(
            (), ("param", "slash", "semicolons", "bare"), "the parameters mean nothing"
        ),
        "keep-param": Kind((), ("param",), "all other parameters mean nothing"),
        "dedupe-param": Kind(("param",), (), "the same pair twice is the pair once"),
        "ignore-value": Kind(("slots",), (), "the value of the slots means nothing"),
    }
)

#: The fields of a rule that say what it does.
OPERANDS = (
    "param",
    "default",
    "old",
    "new",
    "host",
    "by",
    "prefix",
    "segment",
    "shape",
    "min_length",
    "tail",
    "suffix",
    "slot",
    "slots",
    "side",
    "text",
    "separator",
    "slash",
    "semicolons",
    "bare",
    "option",
)
