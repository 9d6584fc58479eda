"""What stands beside the rules that a miner proves: exceptions from the catalogue, and proposals.

The catalogue is wrong where a parameter that it drops selects content on a site: ``sid`` is a
session in nearly every forum, and the stored result of a search in some. What the log refutes, the
site's rules switch off; where it is noise all the same, the learner finds out.

What is not proven is for people to look at, with what evidence it lacks. None of these rules is
active. A log without contents gives nothing else.
"""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from typing import TYPE_CHECKING

from scrapy_urlnorm.learning import coverage
from scrapy_urlnorm.learning.candidates import order
from scrapy_urlnorm.learning.corpus import Corpus, Hasher, Item, slots_of
from scrapy_urlnorm.learning.cover import risk_of
from scrapy_urlnorm.learning.evidence import gather, items_of
from scrapy_urlnorm.learning.media import ENOUGH_FILES
from scrapy_urlnorm.learning.priors import is_listed, is_session, prior
from scrapy_urlnorm.learning.risk import Limits, accepted, support_needed, wrong
from scrapy_urlnorm.learning.rules import evidence_of, examples_of, said
from scrapy_urlnorm.learning.trials import Count, count, made_one, sources, trials_of
from scrapy_urlnorm.normalizer import Normalizer
from scrapy_urlnorm.site_rules import SiteRule
from scrapy_urlnorm.site_rules.form import is_param
from scrapy_urlnorm.site_rules.operations import DropParam, Operation, Replace, StripTail

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from scrapy_urlnorm.learning.miner import Miner
    from scrapy_urlnorm.logs import Observation

#: How likely a listed parameter is noise before the site has said anything, as in `priors`.
_NOISE = 0.95
_WITHOUT_LIST = Normalizer("default", rules={"drop-params": False})
_BARE = Normalizer("default", rules={"drop-params": False, "remove-session-ids": False})
_UNSEEN = Counter([0])  # the content of every URL of a list
#: Proposals for one site, and parameters looked at for them, at most (choices).
_MAX, _MAX_NAMES = 20, 200
#: Contents that must agree before anybody need look.
_WORTH = 3
#: Parameters less likely to be noise than this are not proposed from URLs alone.
_LIKELY = 0.6
_INDEX = ("index.html", "index.php", "index.htm", "default.aspx", "index.jsp")


# --- exceptions from the catalogue -------------------------------------------------------------


def exceptions(
    site: str, rows: Sequence[Observation], key: Callable[[str], str], limits: Limits
) -> list[SiteRule]:
    """Return rules that keep the parameters which the catalogue would drop wrongly.

    *key* is that of the plain catalogue. Needed by
    test_a_parameter_that_the_catalogue_drops_wrongly_is_kept.
    """
    suspects = {row.url for row in rows if is_suspect(row.url)}
    dropped = _dropped(suspects, key)
    if not dropped:
        return []
    keys = {key(url) for url in suspects}
    hasher = Hasher()
    concerned = [row for row in rows if key(row.url) in keys]
    items = items_of(gather(concerned, _BARE.normalize), _BARE.normalize, hasher)
    corpus = Corpus(items, hasher)
    refuted: dict[str, Count] = {}
    for name in sorted(dropped):
        counted = count(trials_of(DropParam((name,)), corpus))
        tolerated = limits.tolerates(counted.conflicts, counted.compared)
        if not tolerated and wrong(counted.support, counted.conflicts, _NOISE) > 0.5:
            refuted[name] = counted
    listed = [name[2:] for name in refuted if dropped[name]]
    sessions = [name[2:] for name in refuted if not dropped[name]]
    options: dict[str, object] = {"drop-params": {"except": listed}} if listed else {}
    if sessions:
        options["remove-session-ids"] = False
    hosts = {item.slots["host"] for item in items}
    return [
        SiteRule(
            site=next(iter(hosts)) if len(hosts) == 1 else f"*.{site}",
            kind=kind,
            option=option,
            source="content",
            support=sum(counted.conflicts for counted in refuted.values()),
            conflicts=sum(int(counted.support) for counted in refuted.values()),
            note=f"different pages differ in these alone: {', '.join(listed + sessions)}",
        )
        for kind, option in options.items()
    ]


def is_exception(rule: SiteRule) -> bool:
    """Whether *rule* is one of `exceptions`: it tells URLs apart that the catalogue merges."""
    return rule.kind in ("drop-params", "remove-session-ids")


def is_suspect(url: str) -> bool:
    """Whether the query has a parameter that the catalogue may drop."""
    return bool(_suspects(url))


def _suspects(url: str) -> list[str]:
    query = url.partition("?")[2]
    names = (piece.partition("=")[0] for piece in query.split("&")) if query else ()
    return [name for name in names if _may_be_dropped(name)]


@lru_cache(maxsize=65_536)
def _may_be_dropped(name: str) -> bool:
    # A name that is written with escapes is rare: looked at anyway.
    return "%" in name or is_session(name) or is_listed(name)


def _dropped(urls: Iterable[str], key: Callable[[str], str]) -> dict[str, bool]:
    """Return the parameters that the catalogue drops, and whether its list of names does it."""
    found: dict[str, bool] = {}
    for url in sorted(urls):
        if all(f"q:{name}" in found for name in _suspects(url)):
            continue  # most URLs of a site have the same few
        bare = _BARE.normalize(url)
        before, after = slots_of(bare), slots_of(key(url))
        if bare == key(url) or before is None or after is None:
            continue
        names = [n for n in before if is_param(n) and n != "?" and n not in after]
        if not found.keys() >= set(names):
            kept = slots_of(_WITHOUT_LIST.normalize(url)) or {}
            for name in names:
                found.setdefault(name, name in kept)
    return found


# --- proposals ---------------------------------------------------------------------------------


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
    parsed = [(slots, url) for url in sorted(set(urls)) if (slots := slots_of(key(url)))]
    items = (Item(slots, hasher.of(slots), _UNSEEN, 0, url) for slots, url in parsed)
    corpus = Corpus(items, hasher)
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
