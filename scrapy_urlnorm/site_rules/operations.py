"""What each kind of rule does to a `Form`.

``OPERATIONS[kind](rule)`` returns a function ``Form -> bool`` that edits the form and says
whether it changed something. An operation either does all it says or nothing, and is done after
one call: calling it again on its own result changes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy_urlnorm.site_rules import path_operations as path
from scrapy_urlnorm.site_rules.form import Form, new_param
from scrapy_urlnorm.site_rules.kinds import SYMBOLS
from scrapy_urlnorm.site_rules.paths import segments_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy_urlnorm.site_rules.model import SiteRule

    Operation = Callable[[Form], bool]
    Edit = Callable[[str], str]


def resolver(rule: SiteRule) -> Callable[[Form, str], str | None]:
    """Return the function that gives a symbol its text in a form; ``None`` if it has none.

    >>> # prefix="/doku.php", separator=":", /doku.php/a/b/c: {namespace} is a:b, {page} a:b:c
    """
    prefix, _ = segments_of(rule.prefix or "/")
    separator = rule.separator or ":"

    def resolve(form: Form, symbol: str) -> str | None:
        segments = list(form.segments)
        if segments[: len(prefix)] != prefix:
            return None
        tokens = segments[len(prefix) :]
        if symbol == "{namespace}":
            tokens = tokens[:-1]
        return separator.join(tokens) or None

    return resolve


# --- values of one slot ---------------------------------------------------------------------


def _edit_slot(slot: str, edit: Edit) -> Operation:
    """Apply *edit* to the value of *slot*; for a parameter, to each of its values."""
    if slot.startswith("q:"):
        name = slot[2:]

        def apply_to_param(form: Form) -> bool:
            changed = False
            for i, param in enumerate(form.params):
                if param.name == name and (value := edit(param.value)) != param.value:
                    form.set_value(i, value)
                    changed = True
            return changed

        return apply_to_param
    if slot == "?":
        return _edit_bare(edit)
    position = int(slot[1:])

    def apply_to_segment(form: Form) -> bool:
        segments = form.segments
        if not -len(segments) <= position < len(segments):
            return False
        i = position % len(segments)
        value = edit(segments[i])
        return value != segments[i] and form.replace_segments(i, i + 1, [value])

    return apply_to_segment


def _edit_bare(edit: Edit) -> Operation:
    """Apply *edit* to the tokens that stand alone, which stay such tokens."""

    def apply(form: Form) -> bool:
        changed = False
        for i, param in enumerate(form.params):
            name = edit(param.name) if is_bare(param.name, param.value) else param.name
            if name != param.name and is_bare(name, ""):
                form.rename(i, name)
                changed = True
        return changed

    return apply


def _strip_suffix(rule: SiteRule) -> Operation:
    suffix = rule.suffix or ""

    def edit(value: str) -> str:
        end = len(value)
        while end > len(suffix) and value.endswith(suffix, 0, end):
            end -= len(suffix)
        return value[:end]

    strip = _edit_slot(rule.slot or "", edit)
    if not rule.slash:
        return strip

    def strip_and_add_slash(form: Form) -> bool:
        return not form.slash and strip(form) and (form.set_slash(True) or True)

    return strip_and_add_slash


def _replace_text(rule: SiteRule) -> Operation:
    text, by = rule.text or "", rule.by or ""

    def edit(value: str) -> str:
        value = value.replace(text, by)
        # Taking "ab" from "aabb" makes another one; "by" shares no character with "text".
        return value if text not in value else _without(value, text)

    return _edit_slot(rule.slot or "", edit)


def _without(value: str, text: str) -> str:
    """Take *text* out of *value* until it is not in it, in one pass."""
    wanted, size = list(text), len(text)
    kept: list[str] = []
    for character in value:
        kept.append(character)
        if kept[-size:] == wanted:
            del kept[-size:]
    return "".join(kept)


def _keep_number(rule: SiteRule) -> Operation:
    before = rule.side == "before"

    def edit(value: str) -> str:
        number, dash, words = value.partition("-") if before else value.rpartition("-")[::-1]
        if dash and words and number.isascii() and number.isdigit():
            return number
        return value

    return _edit_slot(rule.slot or "", edit)


def _lowercase_first(rule: SiteRule) -> Operation:
    operations = [_edit_slot(slot, lower_first) for slot in rule.slots]
    return lambda form: sum(operation(form) for operation in operations) > 0


def lower_first(value: str) -> str:
    """Return the value with its first letter in lower case, as a wiki's titles compare."""
    return value[:1].lower() + value[1:]


def _lowercase_param(rule: SiteRule) -> Operation:
    operations = [_edit_slot(f"q:{name}", str.lower) for name in rule.param]
    return lambda form: sum(operation(form) for operation in operations) > 0


def _ignore_value(rule: SiteRule) -> Operation:
    operations = [_edit_slot(slot, lambda value: "*" if value else value) for slot in rule.slots]
    return lambda form: sum(operation(form) for operation in operations) > 0


# --- sets of slots --------------------------------------------------------------------------


def _replace(rule: SiteRule) -> Operation:
    old, new = rule.old or {f"q:{k}": v for k, v in rule.default.items()}, rule.new
    names = {slot[2:]: value for slot, value in old.items() if slot.startswith("q:")}
    new_names = {slot[2:]: value for slot, value in new.items() if slot.startswith("q:")}
    added_names = new_names.keys() - names.keys()
    segments = {
        int(s[1:]): v for s, v in old.items() if s[0] == "s" and s[1:].lstrip("-").isdigit()
    }
    by = {int(s[1:]): v for s, v in new.items() if s[0] == "s" and s[1:].lstrip("-").isdigit()}
    fixed = [(slot, old[slot]) for slot in ("host", "scheme") if slot in old]
    slash_before, slash_after = "slash" in old, "slash" in new
    resolve = resolver(rule)

    def texts(form: Form, value: str | list[str]) -> list[str] | None:
        values = [value] if isinstance(value, str) else value
        found = [resolve(form, v) if v in SYMBOLS else v for v in values]
        return None if None in found else [text for text in found if text is not None]

    def matches(form: Form) -> bool:
        if any(getattr(form, slot) != value for slot, value in fixed):
            return False
        size = len(form.segments)
        for position, value in segments.items():
            if not -size <= position < size or form.segments[position] != value:
                return False
        if slash_before != slash_after and form.slash is not slash_before:
            return False
        if slash_before and not form.slash:
            return False
        if added_names and any(param.name in added_names for param in form.params):
            return False
        for name, value in names.items():
            wanted = texts(form, value)
            if wanted is None or sorted(form.values(name)) != sorted(wanted):
                return False
        return True

    def apply(form: Form) -> bool:
        if not matches(form):
            return False
        added = []
        for name, value in new_names.items():
            values = texts(form, value)
            if values is None:
                return False
            added += [new_param(name, text) for text in values]
        size = len(form.segments)
        if slash_before and not slash_after and not size:
            return False  # the slash of the root cannot go
        for position, value in by.items():
            i = position % size
            form.replace_segments(i, i + 1, [value])
        if names or added:
            at = next((i for i, p in enumerate(form.params) if p.name in names), len(form.params))
            kept = [param for param in form.params if param.name not in names]
            form.set_params([*kept[:at], *added, *kept[at:]])
        if slash_before != slash_after:
            form.set_slash(slash_after)
        form.host = new.get("host", form.host)
        form.scheme = new.get("scheme", form.scheme)
        return True

    return apply


def _drop_param(rule: SiteRule) -> Operation:
    names = frozenset(rule.param)

    def apply(form: Form) -> bool:
        kept = [
            param
            for param in form.params
            if param.name not in names and not (rule.bare and is_bare(param.name, param.value))
        ]
        changed = len(kept) < len(form.params)
        if changed:
            form.set_params(kept)
        if rule.semicolons and form.semicolons:
            form.join_by_ampersand()
            changed = True
        if rule.slash and form.slash:
            changed |= form.set_slash(False)
        return changed

    return apply


def is_bare(name: str, value: str) -> bool:
    """Whether a parameter is a token on its own, such as ``?12345`` or ``?thread-423``."""
    return not value and any("0" <= character <= "9" for character in name)


def _keep_param(rule: SiteRule) -> Operation:
    names = frozenset(rule.param)

    def apply(form: Form) -> bool:
        kept = [param for param in form.params if param.name in names]
        if len(kept) == len(form.params):
            return False
        form.set_params(kept)
        return True

    return apply


def _dedupe_param(rule: SiteRule) -> Operation:
    names = frozenset(rule.param)

    def apply(form: Form) -> bool:
        seen = set()
        kept = []
        for param in form.params:
            pair = (param.name, param.value)
            if param.name not in names or pair not in seen:
                kept.append(param)
            seen.add(pair)
        if len(kept) == len(form.params):
            return False
        form.set_params(kept)
        return True

    return apply


OPERATIONS: dict[str, Callable[[SiteRule], Operation]] = {
    "host-alias": path.host_alias,
    "prefix-alias": path.prefix_alias,
    "param-to-path": path.param_to_path,
    "split-segment": path.split_segment,
    "drop-path-param": path.drop_path_param,
    "strip-segment": path.strip_segment,
    "drop-segment": path.drop_segment,
    "strip-tail": path.strip_tail,
    "strip-suffix": _strip_suffix,
    "replace-text": _replace_text,
    "keep-number": _keep_number,
    "lowercase-first": _lowercase_first,
    "lowercase-param": _lowercase_param,
    "replace": _replace,
    "drop-default": _replace,
    "drop-param": _drop_param,
    "keep-param": _keep_param,
    "dedupe-param": _dedupe_param,
    "ignore-value": _ignore_value,
}
