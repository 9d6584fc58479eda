"""What is not proven: rules for people to look at, and what evidence they lack.

None of these is active. A log without contents gives nothing else.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from scrapy_urlnorm.learning import tenants
from scrapy_urlnorm.learning.candidates import order
from scrapy_urlnorm.learning.corpus import Corpus, Item
from scrapy_urlnorm.learning.cover import risk_of
from scrapy_urlnorm.learning.files import ENOUGH_FILES
from scrapy_urlnorm.learning.priors import prior
from scrapy_urlnorm.learning.risk import support_needed
from scrapy_urlnorm.learning.rules import evidence_of, examples_of, said
from scrapy_urlnorm.learning.slots import Hasher, slots_of
from scrapy_urlnorm.learning.trials import Count, sources, trials_of
from scrapy_urlnorm.site_rules.operations import (
    DropParam,
    HostAlias,
    Operation,
    Replace,
    StripTail,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from scrapy_urlnorm.learning.miner import Miner
    from scrapy_urlnorm.site_rules import SiteRule

_NONE: Counter[int] = Counter()
_UNSEEN = 0  # the content of every URL of a list
#: Proposals for one site, and parameters looked at for them, at most (choices).
_MAX, _MAX_NAMES = 20, 200
#: Contents that must agree before anybody need look.
_WORTH = 3
#: Parameters less likely to be noise than this are not proposed from URLs alone.
_LIKELY = 0.6
_INDEX = ("index.html", "index.php", "index.htm", "default.aspx", "index.jsp")


def unproven(miner: Miner) -> list[SiteRule]:
    """Return rules for what no URL refutes and too few prove; their notes say what they lack."""
    done = {rule.operation for rule in miner.rules}
    rules: list[SiteRule] = []
    ranked = sorted(miner.open.items(), key=lambda pair: (-pair[1].support, order(pair[0])))
    for op, counted in ranked:
        if op in done or len(rules) >= _MAX:
            continue
        needed = support_needed(prior(op), miner.limits.risk)
        if max(_WORTH, needed / 2) <= counted.support < needed:
            note = f"{int(counted.support)} contents agree and none differs; {needed} would do"
        elif counted.support < needed <= counted.support + counted.files:
            note = (
                f"{int(counted.support)} pages and {counted.files} files agree and none differs; "
                f"{needed} pages or {ENOUGH_FILES} files would do"
            )
            counted = counted._replace(support=counted.support + counted.files)
        else:
            continue  # hardly begun; or refused for another reason: siblings, too few values
        rule = _proposal(miner, op, counted, note)
        if rule is not None:
            rules.append(rule)
    fenced = sorted(miner.fenced.items(), key=lambda pair: (-pair[1].support, order(pair[0])))
    for op, counted in fenced[: _MAX - len(rules)]:
        note = (
            f"{int(counted.support)} contents agree and {counted.conflicts} differ; if these are "
            "pages that change, the rule holds"
        )
        rule = _proposal(miner, op, counted, note)
        if rule is not None:
            rules.append(rule)
    return rules


def _proposal(miner: Miner, op: Operation, counted: Count, note: str) -> SiteRule | None:
    """Return the rule for an operation on this evidence, in the sections it was seen in.

    None where the accepted rules leave nothing to do for it.
    """
    items = sources(op, miner.corpus)
    if not any(op.image(item.slots) is not None for item in items):
        return None
    agreeing = (trial.slots for trial in miner.all_trials(op) if trial.content is not None)
    kept = tenants.sections(op, (), agreeing)
    context = () if kept is None else tenants.narrowed((), kept)
    risk = risk_of(op, (), counted, miner.limits)
    evidence = evidence_of(counted, risk, status="proposed", note=note)
    rule = said(miner.site, op, context, evidence)
    return rule and rule.replace(examples=examples_of(rule, items, miner.corpus, miner.rules))


def from_urls(urls: Iterable[str], key: Callable[[str], str], site: str) -> list[SiteRule]:
    """Propose from a list of URLs: aliases with twins, and parameters that are mostly noise.

    A twin is a URL of the list that differs in nothing else. What selects content by its name
    (``id``, ``page``, ``q``…) is never proposed.
    """
    hasher = Hasher()
    items = []
    for url in sorted(set(urls)):
        slots = slots_of(key(url))
        if slots is not None:
            items.append(Item(slots, hasher.of(slots), _NONE, _UNSEEN, url))
    corpus = Corpus([], hasher)
    for item in items:
        corpus.by_form.setdefault(item.form, item)
    corpus.items = list(corpus.by_form.values())
    rules = []
    for op in _likely(corpus):
        twins = [trial for trial in trials_of(op, corpus) if trial.compared > 1]
        if isinstance(op, DropParam):
            twins = [trial for trial in twins if trial.absent]
        if len(twins) < 2:
            continue
        note = f"{len(twins)} URLs have a twin in the list; no contents were compared"
        counted = Count(float(len(twins)), 0, 0)
        evidence = evidence_of(counted, None, status="proposed", source="url-list", note=note)
        rule = said(site, op, (), evidence)
        if rule is not None:
            examples = examples_of(rule, sources(op, corpus), corpus)
            rules.append(rule.replace(examples=examples))
    return rules[:_MAX]


def _likely(corpus: Corpus) -> list[Operation]:
    names = sorted(corpus.by_slot, key=lambda name: (-len(corpus.by_slot[name]), name))
    ops: list[Operation] = [
        DropParam((name,))
        for name in names[:_MAX_NAMES]
        if name[:2] == "q:" and prior(DropParam((name,))) >= _LIKELY
    ]
    hosts = {item.slots["host"] for item in corpus.items}
    ops += [HostAlias((f"www.{host}",), host) for host in sorted(hosts) if f"www.{host}" in hosts]
    ops.append(Replace((("scheme", "https"),), (("scheme", "http"),)))
    ops += [StripTail((name,), False, True) for name in _INDEX]
    return ops
