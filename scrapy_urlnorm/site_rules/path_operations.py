"""The operations on host and path; see :mod:`scrapy_urlnorm.site_rules.operations`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy_urlnorm.site_rules.form import DOT_SEGMENTS, Form
from scrapy_urlnorm.site_rules.paths import segments_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy_urlnorm.site_rules.model import SiteRule

    Operation = Callable[[Form], bool]

_HEX = frozenset("0123456789abcdefABCDEF")


def host_alias(rule: SiteRule) -> Operation:
    hosts, target = frozenset(rule.host), rule.by or ""

    def apply(form: Form) -> bool:
        if form.host not in hosts:
            return False
        form.host = target
        return True

    return apply


def prefix_alias(rule: SiteRule) -> Operation:
    old, _ = segments_of(rule.prefix or "")
    new, _ = segments_of(rule.by or "")

    def apply(form: Form) -> bool:
        if list(form.segments[: len(old)]) != old:
            return False
        return form.replace_segments(0, len(old), new)

    return apply


def param_to_path(rule: SiteRule) -> Operation:
    name = rule.param[0]
    base, base_slash = segments_of(rule.path or "")
    target, slash = segments_of(rule.by or "")
    hole = next(i for i, segment in enumerate(target) if "{}" in segment)
    left, right = target[hole].split("{}")

    def apply(form: Form) -> bool:
        if form.slash is not base_slash or list(form.segments) != base:
            return False
        values = form.values(name)
        if len(values) != 1:
            return False
        tokens = values[0].split(rule.separator) if rule.separator else [values[0]]
        # The value may not vanish into its surroundings: "" and ".." are no page.
        if any(token in DOT_SEGMENTS for token in tokens):
            return False
        tokens[0] = left + tokens[0]
        tokens[-1] += right
        if not form.replace_segments(0, len(base), [*target[:hole], *tokens, *target[hole + 1 :]]):
            return False
        form.set_slash(slash)
        form.set_params([param for param in form.params if param.name != name])
        return True

    return apply


def split_segment(rule: SiteRule) -> Operation:
    prefix, _ = segments_of(rule.prefix or "/")
    separator = rule.separator or ""

    def apply(form: Form) -> bool:
        if list(form.segments[: len(prefix)]) != prefix:
            return False
        return form.replace_each(
            {
                i: segment.split(separator)
                for i, segment in enumerate(form.segments)
                if i >= len(prefix) and separator in segment
            }
        )

    return apply


def drop_path_param(rule: SiteRule) -> Operation:
    names = frozenset(rule.param)

    def apply(form: Form) -> bool:
        cleaned = {}
        for i, segment in enumerate(form.segments):
            if ";" in segment:
                head, *rest = segment.split(";")
                kept = ";".join([head, *(p for p in rest if p.partition("=")[0] not in names)])
                if kept != segment:
                    cleaned[i] = [kept]
        return form.replace_each(cleaned)

    return apply


def strip_segment(rule: SiteRule) -> Operation:
    prefix, _ = segments_of(rule.prefix or "/")
    at = len(prefix)
    means_nothing = segment_test(rule)

    def apply(form: Form) -> bool:
        segments = form.segments
        if list(segments[:at]) != prefix:
            return False
        end = at
        while end < len(segments) and means_nothing(segments[end]):
            end += 1
        return end > at and form.replace_segments(at, end, [])

    return apply


def segment_test(rule: SiteRule) -> Callable[[str], bool]:
    if rule.segment is not None:
        return rule.segment.__eq__
    shape, length = rule.shape, rule.min_length or 1

    def test(segment: str) -> bool:
        if len(segment) < length or not segment.isascii():
            return False
        if shape == "digits":
            return segment.isdigit()
        return _HEX.issuperset(segment) if shape == "hex" else segment.isalnum()

    return test


def drop_segment(rule: SiteRule) -> Operation:
    """Take away the segments at some places, all counted before one of them goes."""
    places = sorted((int(slot[1:]) for slot in rule.slots), reverse=True)

    def apply(form: Form) -> bool:
        there = [place for place in places if place < len(form.segments)]
        for place in there:
            form.replace_segments(place, place + 1, [])
        return bool(there)

    return apply


def strip_tail(rule: SiteRule) -> Operation:
    tail, tail_slash = segments_of(rule.tail or "")
    size, slash = len(tail), rule.by == "/"

    def apply(form: Form) -> bool:
        if form.slash is not tail_slash:
            return False
        segments = list(form.segments)
        end = len(segments)
        while end >= size and segments[end - size : end] == tail:
            end -= size
            # What is left must end as the rule says, before it may be stripped again.
            if slash is not tail_slash:
                break
        if end == len(segments):
            return False
        form.replace_segments(end, len(segments), [])
        form.set_slash(slash)
        return True

    return apply
