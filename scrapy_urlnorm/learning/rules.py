"""Rules as they are learned: made, applied in their order, and joined with those in force."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from scrapy_urlnorm.exceptions import SiteRuleError
from scrapy_urlnorm.learning.priors import exchanges_values
from scrapy_urlnorm.site_rules.context import Among, Condition, Context, Is, Path
from scrapy_urlnorm.site_rules.operations import Operation, ParamToPath
from scrapy_urlnorm.site_rules.rule import Evidence, SiteRule, rule_from_dict

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from scrapy_urlnorm.learning.corpus import Corpus, Item
    from scrapy_urlnorm.learning.trials import Count
    from scrapy_urlnorm.site_rules.form import Slots

#: Passes at most (a choice; rules that have not come to rest by then do not, and the audit takes
#: them back).
_MAX_PASSES = 6
#: Examples kept for a rule (a choice).
_EXAMPLES = 3
_SURROGATE = re.compile("[\ud800-\udfff]")
#: No risk is written as none.
_SMALLEST = 0.0001


def said(site: str, op: Operation, context: Context, evidence: Evidence) -> SiteRule | None:
    """Return the rule as a rule file holds it; None if no file can.

    Hosts with odd characters are refused, and text that a file would read as something else.
    """
    if isinstance(op, ParamToPath):  # its own path is all that a context could say of the path
        context = tuple(condition for condition in context if not isinstance(condition, Path))
    try:
        rule = rule_from_dict(SiteRule.of(site, op, context, evidence).as_dict())
    except SiteRuleError:
        return None
    return rule if rule.operation == op else None


def evidence_of(
    count: Count,
    risk: float | None,
    *,
    status: str = "active",
    source: str = "content",
    note: str | None = None,
) -> Evidence:
    """Return evidence as a rule holds it; *risk* is None where no contents were compared."""
    upper = None if risk is None else max(_SMALLEST, round(risk, 4))
    return Evidence(status, source, int(count.support), count.conflicts, upper, (), note)


def settle(slots: Slots, rules: Iterable[SiteRule]) -> Slots:
    """Apply *rules* in their order, again and again until nothing changes."""
    for _ in range(_MAX_PASSES):
        changed = False
        for rule in rules:
            image = rule.image(slots)
            if image is not None and image != slots:
                slots, changed = image, True
        if not changed:
            break
    return slots


def examples_of(
    rule: SiteRule, items: Iterable[Item], corpus: Corpus, rules: Iterable[SiteRule] = ()
) -> tuple[tuple[str, str], ...]:
    """Return a few pairs of URLs of one content that *rule* (after it, *rules*) makes one.

    *items* are those of *corpus* that it may act on. The other URL of a pair is the one that the
    first becomes, or one that becomes the same: where values are ignored, nothing has the image.
    """
    found: list[tuple[str, str]] = []
    met: dict[int, Item] = {}
    for item in items:
        image = rule.image(item.slots)
        if image is None or image == item.slots:
            continue
        form = corpus.hasher.of(settle(image, rules))
        other = corpus.by_form.get(form) or met.setdefault(form, item)
        is_text = not _SURROGATE.search(item.url + other.url)  # else no file could hold them
        if is_text and other is not item and other.content == item.content:
            found.append((item.url, other.url))
            if len(found) == _EXAMPLES:
                break
    return tuple(found)


# --- beside rules that are in force -----------------------------------------------------------


def joined(
    accepted: Iterable[SiteRule], found: Iterable[SiteRule], banned: Mapping[str, int] | None = None
) -> list[SiteRule]:
    """Return the rules in force, then those *found*, without what another of them says.

    What a rule in force withholds is not fetched, so the next mining may not find it again: it
    stays until the rows speak against it. A rule found again has the larger support of the two.
    Nothing is left out where no rule was in force. *banned* says, by the identity of a rule that an
    audit refuted, how many witnesses it needs now. A rule that says all that it says, and more,
    needs as many. So does one that exchanges the same values elsewhere: where a coincidence has
    ended, any condition explains it.
    """
    accepted = tuple(accepted)
    rules: dict[str, SiteRule] = {}
    for rule in (*accepted, *found):
        known = rules.get(rule.identity)
        if known is None or (known.support or 0) < (rule.support or 0):
            rules[rule.identity] = rule
    for identity, least in (banned or {}).items():
        try:
            refuted = rule_from_dict(json.loads(identity))
        except (SiteRuleError, ValueError, TypeError):
            continue  # the name of a page alias
        for each, rule in tuple(rules.items()):
            if (rule.support or 0) < least and _is_as_doubtful(rule, refuted):
                del rules[each]
    for identity, rule in tuple(rules.items()) if accepted else ():
        if any(other != identity and says(wider, rule) for other, wider in rules.items()):
            del rules[identity]
    return list(rules.values())


def _is_as_doubtful(rule: SiteRule, refuted: SiteRule) -> bool:
    if exchanges_values(rule.operation):
        return rule.operation == refuted.operation
    if rule.operation.has_table:  # another table does not make it more likely
        return rule.operation.family == refuted.operation.family
    return says(rule, refuted)


def says(wider: SiteRule, rule: SiteRule) -> bool:
    """Whether *wider* does the same wherever *rule* does it."""
    return (
        wider.operation.covers(rule.operation)
        and reaches(wider.site, rule.site)
        and all(any(_follows(c, from_) for from_ in rule.context) for c in wider.context)
    )


def has_grown(rule: SiteRule, before: SiteRule) -> bool:
    """Whether *rule* is *before* with the pages that arrived since: what was proved still holds.

    It has a longer table, or longer lists of values in its conditions.
    """
    is_alike = rule.operation == before.operation and len(rule.context) == len(before.context)
    return (is_alike or before.operation.has_table) and says(rule, before)


def reaches(site: str, other: str) -> bool:
    """Whether the site of a rule takes in a host, or the site of another rule."""
    if site[:2] != "*." or site == other:
        return site == other
    return other == site[2:] or other.endswith(site[1:])


def _follows(condition: Condition, other: Condition) -> bool:
    """Whether *condition* holds wherever *other* does."""
    if condition == other:
        return True
    return (
        isinstance(condition, (Is, Among))
        and type(condition) is type(other)
        and condition._replace(values=()) == other._replace(values=())
        and set(condition.values) >= set(other.values)
    )
