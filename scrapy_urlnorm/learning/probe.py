"""Probing: decides a proposed rule by pages that are fetched for it, and only beyond doubt.

A pair are two URLs that the rule makes one. Both are fetched, one right after the other. Where
they differ, the first is fetched again: pages that change by themselves say nothing. If it does not
change, the second is fetched again as well, so that one bad answer refutes no rule.

A rule becomes active when `_ENOUGH` contents agree and no pair differs. One that is wrong for a tenth
of its pairs or more gets there with a probability of 4 % at most. It becomes rejected when two pairs
differ, and a tenth of all at least: where fewer do, it may be right but for a few pages.

A rule may have fewer pairs. When all of them agree, and bear the rule by the miner's own test
without anything that the log said (`risk.accepted`), it becomes active too. In every other case it
stays proposed.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple

from scrapy_urlnorm.exceptions import ConfigError
from scrapy_urlnorm.learning.evidence import site_of, site_of_host
from scrapy_urlnorm.learning.priors import prior
from scrapy_urlnorm.learning.risk import accepted, risk
from scrapy_urlnorm.normalizer import Normalizer

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from scrapy_urlnorm.logs import Observation
    from scrapy_urlnorm.site_rules import SiteRule

#: Contents that make a rule active if they agree and no pair differs: 0.9 ** 31 is 0.04.
_ENOUGH = 31
#: Pairs of one rule, at most.
MOST_PAIRS = 80
#: Contents that must agree where there are fewer pairs than that.
_FEWEST = 6
#: Pairs that say nothing (errors, pages that change), before the rule is given up; where fewer
#: than as many said something.
_HOPELESS = 10
#: Groups of URLs that are kept of a log for one rule: those with the smallest hashes.
_GROUPS = 2_000


class Pair(NamedTuple):
    """Two URLs that a rule makes one."""

    url: str
    twin: str


@dataclass
class Probe:
    """The test of one proposed rule. Who fetches the pairs writes down what they say.

    *limit* is the expected share of wrong merges that a rule may have.
    """

    rule: SiteRule
    pairs: list[Pair]
    limit: float = 0.02
    is_complete: bool = True  #: whether *pairs* are all that the log has for this rule
    agreed: set[Any] = field(default_factory=set)  #: names of contents: one content, one vote
    differed: list[Pair] = field(default_factory=list)  #: where neither page changes by itself
    silent: int = 0  #: pairs of which a page could not be fetched, is no page, or changes
    fetches: int = 0
    asked: int = 0

    def next_pair(self) -> Pair | None:
        """Return the next pair to fetch; ``None`` when the rule is decided, or cannot be."""
        agreed, differed = len(self.agreed), len(self.differed)
        is_decided = agreed >= _ENOUGH or differed >= 2
        is_hopeless = self.silent >= max(_HOPELESS, agreed + differed)
        if is_decided or is_hopeless or self.asked >= len(self.pairs):
            return None
        self.asked += 1
        return self.pairs[self.asked - 1]

    def agree(self, content: Any) -> None:
        if content in self.agreed:  # a login page for all of them, say
            self.silent += 1
        self.agreed.add(content)

    @property
    def _prior(self) -> float:
        return prior(self.rule.operation, self.rule.context)

    @property
    def status(self) -> str:
        agreed, differed = len(self.agreed), len(self.differed)
        if differed:
            return "rejected" if differed > 1 and 10 * differed >= agreed + differed else "proposed"
        all_agree = (
            self.is_complete
            and self.asked == len(self.pairs)
            and agreed >= max(_FEWEST, self.silent + 1)
            and accepted(agreed, 0, self._prior, self.limit)
        )
        return "active" if agreed >= _ENOUGH or all_agree else "proposed"

    def decided(self) -> SiteRule:
        """Return the rule with its new status, and what was found as its evidence."""
        agreed, differed, status = len(self.agreed), len(self.differed), self.status
        note = (
            f"probed: {agreed} contents agree, {differed} pairs differ, {self.silent} say nothing"
        )
        if status == "proposed":
            return self.rule.replace(note=f"{note}; {self.rule.note}" if self.rule.note else note)
        examples = self.differed[:3] if status == "rejected" else self.rule.examples
        return self.rule.replace(
            status=status,
            source="content",
            support=agreed,
            conflicts=differed,
            false_merge_upper=round(risk(agreed, differed, self._prior), 4),
            examples=tuple(map(tuple, examples)),
            note=note,
        )


def fitted(
    decided: Sequence[SiteRule], active: Iterable[SiteRule], rows: Sequence[Observation]
) -> list[SiteRule]:
    """Return the *decided* rules; one that does not fit to the *active* ones stays proposed.

    All are rules of one site, and *rows* are its rows. A rule may be right and yet do harm: it
    takes from other rules the URLs that they know. So it must not add keys on the log, nor keys
    with several contents.
    """
    rules, result = list(active), []
    keys, wrong = _keys_and_wrong(rules, rows)
    for rule in decided:
        if rule.active:
            objection = "but the rules that are active find less beside it"
            try:
                more = _keys_and_wrong([*rules, rule], rows)
            except ConfigError as error:
                objection, more = str(error), (keys + 1, wrong)
            if more[0] <= keys and more[1] <= wrong:
                rules.append(rule)
                keys, wrong = more
            else:
                rule = rule.replace(status="proposed", note=f"{rule.note}; {objection}")
        result.append(rule)
    return result


def _keys_and_wrong(rules: Iterable[SiteRule], rows: Iterable[Observation]) -> tuple[int, int]:
    """Return how many keys *rows* have under *rules*, and how many keys have several contents."""
    normalize = Normalizer("default", site_rules=rules).normalize
    contents: defaultdict[str, set[str | None]] = defaultdict(set)
    for row in rows:
        contents[normalize(row.url)].update([row.content] if row.is_page else [])
    return len(contents), sum(len(found) > 1 for found in contents.values())


# --- pairs, from a log ------------------------------------------------------------------------


def probes_for(
    rules: Iterable[SiteRule], rows: Iterable[Observation], limit: float = 0.02
) -> list[Probe]:
    """Return a probe of each of the proposed *rules*, with pairs from *rows*, the log.

    Pairs that the log knows as different come first: they refute a wrong rule at once, and if they
    were pages that changed, the rule goes on.
    """
    finders = [_PairFinder(rule) for rule in rules if rule.status == "proposed"]
    by_site: defaultdict[str, list[_PairFinder]] = defaultdict(list)
    for finder in finders:
        by_site[site_of_host(finder.rule.site.removeprefix("*."))].append(finder)
    for row in rows:
        for finder in by_site.get(site_of(row.url), ()) if row.status in (200, None) else ():
            finder.see(row)
    return [finder.probe(limit) for finder in finders]


class _PairFinder:
    """Collects the pairs of one rule. The ``safe`` profile is around it, which changes no page."""

    def __init__(self, rule: SiteRule) -> None:
        self.rule = rule
        #: By hash and image, URLs that the rule makes one, with contents: two at most, of different
        #: contents if the log has them.
        self._groups: dict[tuple[bytes, str], list[tuple[str, str | None]]] = {}
        self._end: tuple[bytes, str] | None = None  # groups from here on are not kept
        self._plain = Normalizer("safe")
        try:
            self._ruled = Normalizer("safe", site_rules=[rule.replace(status="active")])
        except ConfigError:
            self._ruled = self._plain

    def see(self, row: Observation) -> None:
        image = self._ruled.normalize(row.url)
        name = blake2b(image.encode("utf-8", "surrogatepass"), digest_size=8).digest(), image
        if image == self._plain.normalize(row.url) or (self._end and name >= self._end):
            return
        group = self._groups.setdefault(name, [])
        if len(group) < 2:
            if not group or group[0][0] != row.url:
                group.append((row.url, row.content))
        elif not _differs(group) and row.content not in (None, group[0][1]):
            group[1] = row.url, row.content
        if len(self._groups) > 2 * _GROUPS:
            self._cut()

    def _cut(self) -> None:
        kept = sorted(self._groups)[: _GROUPS + 1]
        if len(kept) > _GROUPS:
            self._end = kept.pop()
        self._groups = {name: self._groups[name] for name in kept}

    def probe(self, limit: float) -> Probe:
        self._cut()
        pairs = list(dict.fromkeys(self._pairs()))
        is_complete = self._end is None and len(pairs) <= MOST_PAIRS
        return Probe(self.rule, pairs[:MOST_PAIRS], limit, is_complete)

    def _pairs(self) -> Iterator[Pair]:
        for group in sorted(self._groups.values(), key=_differs, reverse=True):
            if len(group) == 2:
                yield Pair(group[0][0], group[1][0])
        if not self.rule.operation.key_only:  # or nobody can fetch the image
            for (_, image), group in self._groups.items():
                if image not in (url for url, _ in group):
                    yield Pair(group[0][0], image)


def _differs(group: list[tuple[str, str | None]]) -> bool:
    contents = {content for _, content in group}
    return len(contents) > 1 and None not in contents
