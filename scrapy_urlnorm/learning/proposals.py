"""What is not proven: rules for people to look at, and what evidence they lack.

None of these is active. A log without contents gives nothing else.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from scrapy_urlnorm.learning import coverage
from scrapy_urlnorm.learning.candidates import order
from scrapy_urlnorm.learning.corpus import Corpus, Hasher, Item, slots_of
from scrapy_urlnorm.learning.cover import risk_of
from scrapy_urlnorm.learning.media import ENOUGH_FILES
from scrapy_urlnorm.learning.priors import prior
from scrapy_urlnorm.learning.risk import accepted, support_needed
from scrapy_urlnorm.learning.rules import evidence_of, examples_of, said
from scrapy_urlnorm.learning.trials import Count, made_one, sources, trials_of
from scrapy_urlnorm.site_rules.operations import DropParam, Operation, Replace, StripTail

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

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
    for op, counted in _ranked(miner.open):
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
        rules += _proposal(miner, op, counted, note)
    fenced: dict[Operation, Count] = {
        op: seen for op, seen in miner.fenced.items() if isinstance(op, DropParam)
    }
    for op, counted in _ranked(fenced)[: _MAX - len(rules)]:
        note = (
            f"{int(counted.support)} contents agree and {counted.conflicts} differ; if these are "
            "pages that change, the rule holds"
        )
        rules += _proposal(miner, op, counted, note)
    return rules


def in_doubt(miner: Miner) -> list[tuple[str, str]]:
    """Return pairs of URLs whose contents differ, and that alone keep rules from being accepted.

    One of the two may be a page that has changed: to fetch both again would tell. The first pairs
    are those of the rule that the most contents support.
    """
    found = []
    for op, counted in _ranked(miner.fenced):
        if accepted(counted.support, 0, prior(op), miner.limits.risk):
            for items in made_one(op, miner.corpus, ()):
                known = [item for item in items if item.content >= 0]
                found += [(known[0].url, o.url) for o in known if o.content != known[0].content]
    return found[:_MAX]


def _ranked(counts: Mapping[Operation, Count]) -> list[tuple[Operation, Count]]:
    return sorted(counts.items(), key=lambda pair: (-pair[1].support, order(pair[0])))


def _proposal(miner: Miner, op: Operation, counted: Count, note: str) -> list[SiteRule]:
    """Return the rule for an operation on this evidence, in the sections it was seen in.

    None where the accepted rules leave nothing to do for it.
    """
    items = sources(op, miner.corpus)
    if not any(op.image(item.slots) is not None for item in items):
        return []
    agreeing = [trial.slots for trial in miner.all_trials(op) if trial.content is not None]
    kept = coverage.sections(op, (), agreeing)
    context = () if kept is None else coverage.narrowed((), kept)
    risk = risk_of(op, (), counted, miner.limits)
    rule = said(miner.site, op, context, evidence_of(counted, risk, status="proposed", note=note))
    if rule is None:
        return []
    return [rule.replace(examples=examples_of(rule, items, miner.corpus, miner.rules))]


def from_urls(urls: Iterable[str], key: Callable[[str], str], site: str) -> list[SiteRule]:
    """Propose from a list of URLs: aliases with twins, and parameters that are mostly noise.

    A twin is a URL of the list that differs in nothing else. What selects content by its name
    (``id``, ``page``, ``q``…) is never proposed.
    """
    hasher = Hasher()
    parsed = ((slots_of(key(url)), url) for url in sorted(set(urls)))
    corpus = Corpus((), hasher)
    for slots, url in parsed:
        if slots is not None:
            item = Item(slots, hasher.of(slots), _NONE, _UNSEEN, url)
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
            rules.append(rule.replace(examples=examples_of(rule, sources(op, corpus), corpus)))
    return rules[:_MAX]


def _likely(corpus: Corpus) -> list[Operation]:
    names = sorted(corpus.by_slot, key=lambda name: (-len(corpus.by_slot[name]), name))
    ops: list[Operation] = [
        DropParam((name,))
        for name in names[:_MAX_NAMES]
        if name[:2] == "q:" and prior(DropParam((name,))) >= _LIKELY
    ]
    hosts = {item.slots["host"] for item in corpus.items}
    ops += [
        Replace((("host", f"www.{host}"),), (("host", host),))
        for host in sorted(hosts)
        if f"www.{host}" in hosts
    ]
    ops.append(Replace((("scheme", "https"),), (("scheme", "http"),)))
    ops += [StripTail(f"/{name}", "/") for name in _INDEX]
    return ops
