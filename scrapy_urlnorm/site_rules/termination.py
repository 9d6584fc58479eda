"""Whether a set of rules comes to an end on every URL, decided before any URL is seen.

The proof is a lexicographic ranking, found greedily. A *measure* counts something in a URL (its
parameters, the segments that read ``latest``, the capitals of one value…). If no rule of a set
ever raises a measure, then the rules that lower it can act a finite number of times only, and
the others are left to be proven in the same way. What cannot be ranked by any measure may go
round in a circle and is refused. A set that ends is idempotent, because its result is by
definition a URL on which no rule acts.

(The method is that of termination proofs by ranking functions: Alias, Darte, Feautrier, Gonnord,
"Multi-dimensional Rankings, Program Termination, and Complexity Bounds", SAS 2010.)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from scrapy_urlnorm.exceptions import SiteRuleError
from scrapy_urlnorm.site_rules.context import listed
from scrapy_urlnorm.site_rules.kinds import KINDS, SYMBOLS
from scrapy_urlnorm.site_rules.paths import parse_pattern, segments_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from scrapy_urlnorm.site_rules.model import SiteRule


class Measure(NamedTuple):
    """Something to count: ``what``, in which parameter (if in one), of which text."""

    what: str
    name: str = ""
    text: str = ""


#: The effect of one action of a rule on a measure: -1 always lowers it, 0 never raises it,
#: +1 may raise it.
Effect = Callable[[Measure], int]

_PATH = ("segments", "segment", "path-text", "prefix", "path-length", "path-capitals", "path-stars")
_TAKES_PARAMS_AWAY = ("drop-default", "drop-param", "keep-param", "dedupe-param")
_QUERY = ("params", "param", "pair", "value-length", "value-text", "capitals", "stars")


class Step(NamedTuple):
    """One thing that a rule may do at a time."""

    rule: SiteRule
    effect: Effect


def check_termination(rules: Sequence[SiteRule]) -> None:
    """Raise `SiteRuleError`, naming two rules, if *rules* may go on for ever on some URL."""
    if all(rule.kind in _TAKES_PARAMS_AWAY for rule in rules):
        return  # the most usual set; every one of its rules lowers the number of parameters
    stuck = _unranked([step for rule in rules for step in steps(rule)])
    for group in _acting_together(stuck):
        if _unranked(group):
            first, *others = dict.fromkeys(step.rule for step in group)
            if not others:
                raise SiteRuleError(f"this rule acts on its own result for ever: ({first})")
            raise SiteRuleError(
                f"these two rules may undo each other for ever: ({first}) and ({others[0]})"
            )


def _unranked(steps: Iterable[Step]) -> list[Step]:
    """Return the steps that no lexicographic ranking covers."""
    pending = list(steps)
    found = {measure for step in pending for measure in _measures(step.rule)}
    # What counts for many rules comes before what counts for the one that has this text.
    measures = sorted(found, key=lambda measure: (measure.text != "", measure))
    before = len(pending) + 1
    while len(pending) < before:
        before = len(pending)
        for measure in measures:
            effects = [_effect(step, measure) for step in pending]
            if effects and max(effects) <= 0:
                pending = [s for s, e in zip(pending, effects, strict=True) if e == 0]
    return pending


def _effect(step: Step, measure: Measure) -> int:
    if measure.what == "catalogue":  # "there is work for this one rule of the catalogue"
        return -1 if measure.name == step.rule.identity else 1
    return step.effect(measure)


def _acting_together(steps: list[Step]) -> list[list[Step]]:
    """Group steps whose rules may act on one URL: those of disjoint paths never meet.

    That holds where none of them moves a URL from one path to another.
    """
    if any(step.effect(Measure("prefix")) > 0 for step in steps):
        return [steps] if steps else []
    groups: list[list[Step]] = []
    for step in steps:
        met = [group for group in groups if not all(_disjoint(step, other) for other in group)]
        groups = [group for group in groups if group not in met]
        groups.append([*(other for group in met for other in group), step])
    return groups


def _disjoint(step: Step, other: Step) -> bool:
    if step.rule.path is None or other.rule.path is None:
        return False
    return parse_pattern(step.rule.path).disjoint(parse_pattern(other.rule.path))


# --- what rules do to measures ----------------------------------------------------------------


def _measures(rule: SiteRule) -> list[Measure]:
    """The measures that may prove *rule* to end."""
    found = [
        Measure("params"),
        Measure("segments"),
        Measure("path-length"),
        Measure("path-capitals"),
        Measure("slash"),
        Measure("no-slash"),
        Measure("semicolons"),
        Measure("bare-length"),
        Measure("scheme", text="http"),
        Measure("scheme", text="https"),
    ]
    for slot, value in (*rule.old.items(), *((f"q:{n}", v) for n, v in rule.default.items())):
        if slot.startswith("q:"):
            found += [Measure("param", slot[2:]), Measure("value-length", slot[2:])]
            found += [Measure("pair", slot[2:], v) for v in listed(value) if v not in SYMBOLS]
        elif slot not in ("scheme", "slash"):
            found.append(Measure("segment", text=value))
    if rule.prefix and rule.kind == "prefix-alias":
        found.append(Measure("prefix", text=rule.prefix))
        found += [Measure("segment", text=token) for token in segments_of(rule.prefix)[0]]
    if rule.kind == "split-segment" and rule.separator:
        found.append(Measure("path-text", text=rule.separator))
    for name in (*rule.param, *_param_slots(rule)):
        found += [Measure("capitals", name), Measure("value-length", name), Measure("stars", name)]
        if rule.text:
            found.append(Measure("value-text", name, rule.text))
    if rule.text:
        found.append(Measure("path-text", text=rule.text))
    found += [Measure("path-stars", text=slot) for slot in rule.slots if slot[:2] != "q:"]
    if rule.kind not in KINDS:
        found.append(Measure("catalogue", rule.identity))
    return found


def _param_slots(rule: SiteRule) -> list[str]:
    return [s[2:] for s in (*rule.slots, rule.slot or "") if s.startswith("q:")]


def steps(rule: SiteRule) -> list[Step]:
    """Take a rule apart into what it may do at a time, each with its effect."""
    kind = rule.kind
    if kind == "drop-param":
        parts = []
        if rule.param or rule.bare:
            parts.append(_shrinks_query("params"))
        if rule.slash:
            parts.append(_slash(to=False))
        if rule.semicolons:
            parts.append(_table({"semicolons": -1}))
        return [Step(rule, effect) for effect in parts]
    if kind == "ignore-value":
        return [Step(rule, _ignores(slot)) for slot in rule.slots]
    if kind == "lowercase-first":
        return [Step(rule, _lowers_first(slot)) for slot in rule.slots]
    if kind == "lowercase-param":
        return [Step(rule, _lowers(name)) for name in rule.param]
    return [Step(rule, _EFFECTS.get(kind, _catalogue)(rule))]


def _table(known: dict[str, int]) -> Effect:
    return lambda measure: known.get(measure.what, 0)


def _shrinks_query(lowered: str) -> Effect:
    return _table({lowered: -1})


def _slash(*, to: bool) -> Effect:
    return _table({"slash": 1, "no-slash": -1} if to else {"slash": -1, "no-slash": 1})


def _shrinks_path(rule: SiteRule) -> Effect:
    """Segments go: what stood behind them moves up, so that any prefix may appear."""
    known = {"segments": -1, "path-length": -1, "prefix": 1, "path-stars": 1, "slash": 1}
    if rule.kind == "strip-tail" and (rule.by == "/") != (rule.tail or "").endswith("/"):
        known |= {"slash": 1, "no-slash": -1} if rule.by == "/" else {"slash": -1, "no-slash": 1}
    return _table(known)


def _drops_path_param(rule: SiteRule) -> Effect:
    known = {"path-length": -1, "segment": 1, "prefix": 1, "path-stars": 1}
    return lambda measure: (
        int(";" in measure.text) if measure.what == "path-text" else known.get(measure.what, 0)
    )


def _param_to_path(rule: SiteRule) -> Effect:
    known = dict.fromkeys(_PATH, 1) | {"params": -1, "slash": 1, "no-slash": 1}
    return _table(known)


def _splits(rule: SiteRule) -> Effect:
    def effect(measure: Measure) -> int:
        if measure.what == "path-text":
            return -1 if measure.text == rule.separator else 0
        return 1 if measure.what in ("segments", "segment", "prefix", "path-stars") else 0

    return effect


def _edits_slot(rule: SiteRule) -> Effect:
    slot = rule.slot or ""
    in_query = slot.startswith("q:")
    put, taken = rule.by or "", rule.text or ""
    growth = _sign(len(put) - len(taken)) if taken else -1

    if slot == "?":
        return _table({"bare-length": growth, "param": 1, "pair": 1})

    def effect(measure: Measure) -> int:
        what = measure.what
        if what not in (_QUERY if in_query else _PATH) or measure.name != slot[2:] * in_query:
            return int(what == "slash") - int(what == "no-slash") if rule.slash else 0
        if what in ("path-text", "value-text"):
            if measure.text == taken:
                return -1
            # What stood apart may come together once the text between is gone.
            return int(bool(taken) and (len(measure.text) > 1 or measure.text in put))
        known = {"pair": 1, "segment": 1, "prefix": 1, "value-length": growth}
        known |= {"path-length": growth, "path-stars": int(bool(taken))}
        known |= {"params": 0, "param": 0, "segments": 0}
        return known.get(what, int(put != put.lower() or (what == "stars" and bool(taken))))

    return effect


def _lowers(name: str) -> Effect:
    # One capital may become two characters, hence the length.
    known = {"capitals": -1, "pair": 1, "value-length": 1, "value-text": 1, "stars": 0}
    return lambda measure: known.get(measure.what, 0) if measure.name == name else 0


def _lowers_first(slot: str) -> Effect:
    if slot[:2] == "q:":
        return _lowers(slot[2:])
    return _table(_CATALOGUE_EFFECTS["lowercase-path"])


def _ignores(slot: str) -> Effect:
    def effect(measure: Measure) -> int:
        what = measure.what
        if slot.startswith("q:"):
            if measure.name != slot[2:]:
                return 0
            return {"stars": -1, "pair": 1, "value-text": int("*" in measure.text)}.get(what, 0)
        if what == "path-stars":
            return -1 if measure.text == slot else 0
        return int(what in ("segment", "prefix", "path-text") and "*" in measure.text)

    return effect


def _aliases_prefix(rule: SiteRule) -> Effect:
    old, new = segments_of(rule.prefix or "")[0], segments_of(rule.by or "")[0]

    def effect(measure: Measure) -> int:
        what, text = measure.what, measure.text
        if what == "prefix":
            wanted = segments_of(text)[0]
            size = min(len(wanted), len(new))
            if wanted[:size] == new[:size]:
                return 1
            return -1 if old[: len(wanted)] == wanted else 0
        if what in ("path-stars", "slash"):
            return int(what == "path-stars" or not new)
        return _difference(what, text, old, new)

    return effect


def _difference(what: str, text: str, old: list[str], new: list[str]) -> int:
    """The effect on the path of putting the segments *new* in place of *old*."""
    count: Callable[[list[str]], int]
    if what == "segments":
        count = len
    elif what == "segment":
        count = lambda tokens: tokens.count(text)
    elif what == "path-length":
        count = lambda tokens: sum(map(len, tokens)) + len(tokens)
    elif what == "path-text":
        count = lambda tokens: sum(token.count(text) for token in tokens)
    elif what == "path-capitals":
        count = lambda tokens: sum(c != c.lower() for token in tokens for c in token)
    else:
        return 0
    return _sign(count(new) - count(old))


def _sign(number: int) -> int:
    return (number > 0) - (number < 0)


def _replaces(rule: SiteRule) -> Effect:
    old = dict(rule.old) or {f"q:{name}": value for name, value in rule.default.items()}
    new = dict(rule.new)
    old_segments = [v for s, v in old.items() if s[0] == "s" and s[1:].lstrip("-").isdigit()]
    new_segments = [v for s, v in new.items() if s[0] == "s" and s[1:].lstrip("-").isdigit()]

    def values(table: dict[str, str], name: str = "") -> list[str]:
        found = []
        for slot, value in table.items():
            if slot.startswith("q:") and (not name or slot[2:] == name):
                found += listed(value)
        return found

    def effect(measure: Measure) -> int:
        what, name, text = measure
        if what == "scheme":
            return (new.get(what) == text) - (old.get(what) == text)
        if what in ("slash", "no-slash"):
            change = ("slash" in new) - ("slash" in old)
            return change if what == "slash" else -change
        if what == "params":
            return _sign(len(values(new)) - len(values(old)))
        if what == "param":
            return _sign(len(values(new, name)) - len(values(old, name)))
        if what == "prefix":
            return int(bool(new_segments))
        if what in _PATH:
            return (
                1
                if what == "path-stars" and new_segments
                else _difference(what, text, old_segments, new_segments)
            )
        before, after = values(old, name), values(new, name)
        if any(value in SYMBOLS for value in after):
            return int(what != "semicolons")
        if what == "pair":
            return _sign(after.count(text) - before.count(text))
        if what == "value-length":
            symbolic = any(value in SYMBOLS for value in before)
            return 0 if symbolic and not after else _sign(_length(after) - _length(before))
        return int(bool(after)) if what in ("value-text", "capitals", "stars") else 0

    return effect


def _length(values: list[str]) -> int:
    return sum(map(len, values))


_SAME_TOKENS = {"prefix": 0}
_OTHER_SEGMENTS = {"segments": -1, "path-length": -1, "prefix": 1, "path-stars": 1, "slash": 1}
#: What the rules of the catalogue do, in so far as it is known; any other is feared for all.
_CATALOGUE_EFFECTS: dict[str, dict[str, int]] = {
    "sort-query": _SAME_TOKENS,
    "form-encode-query": _SAME_TOKENS,
    "remove-empty-query": _SAME_TOKENS,
    "remove-fragment": _SAME_TOKENS,
    "decode-path-reserved": _SAME_TOKENS,
    "drop-params": {"params": -1},
    "keep-params": {"params": -1},
    "drop-default-params": {"params": -1},
    "remove-duplicate-slashes": _OTHER_SEGMENTS,
    "remove-directory-index": _OTHER_SEGMENTS,
    "strip-amp": _OTHER_SEGMENTS | {"no-slash": 1},
    "lowercase-path": {
        "path-capitals": -1,
        "segment": 1,
        "prefix": 1,
        "path-text": 1,
        "path-length": 1,
    },
}


def _catalogue(rule: SiteRule) -> Effect:
    if rule.kind == "trailing-slash":
        return _slash(to=rule.option == "add")
    known = _CATALOGUE_EFFECTS.get(rule.kind)
    return _table(known) if known is not None else lambda measure: 1


_EFFECTS: dict[str, Callable[[SiteRule], Effect]] = {
    "prefix-alias": _aliases_prefix,
    "param-to-path": _param_to_path,
    "split-segment": _splits,
    "drop-path-param": _drops_path_param,
    "strip-segment": _shrinks_path,
    "drop-segment": _shrinks_path,
    "strip-tail": _shrinks_path,
    "strip-suffix": _edits_slot,
    "replace-text": _edits_slot,
    "keep-number": _edits_slot,
    "replace": _replaces,
    "drop-default": _replaces,
    "keep-param": lambda rule: _shrinks_query("params"),
    "dedupe-param": lambda rule: _shrinks_query("params"),
}
