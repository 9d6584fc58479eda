"""Rules in the order in which they were learned."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from scrapy_urlnorm.exceptions import SiteRuleError
from scrapy_urlnorm.site_rules.operations import ParamToPath
from scrapy_urlnorm.site_rules.paths import Path
from scrapy_urlnorm.site_rules.rule import Evidence, SiteRule, rule_from_dict

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scrapy_urlnorm.learning.corpus import Corpus, Item
    from scrapy_urlnorm.learning.trials import Count
    from scrapy_urlnorm.site_rules.context import Context
    from scrapy_urlnorm.site_rules.form import Slots
    from scrapy_urlnorm.site_rules.operations import Operation

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
