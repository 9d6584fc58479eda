"""Probing: decides a proposed rule by pages that are fetched for it, and only beyond doubt.

A pair are two URLs that the rule makes one. Both are fetched, one right after the other. Where
they differ, and now and then where they agree, the first is fetched again (A/A): pages that change
by themselves say nothing. Where they differ and the first does not change, the second is fetched
again as well, so that one bad answer refutes no rule.

The test is sequential (Wald, "Sequential Tests of Statistical Hypotheses", 1945). It ends as soon
as the pairs decide between `_RIGHT` and `_WRONG`, the shares of pairs that differ under a rule that
holds and under one that does not. A rule that is wrong for `_WRONG` of its pairs or more becomes
active with a probability of at most `_ERROR`, and so does a rule that holds become rejected. That
takes 31 pairs that agree, or two early ones that differ. Where fewer differ than `_WRONG`, a rule is
not rejected: it may be right but for a few pages.

A rule may have fewer pairs. When all of them agree, and bear the rule by the miner's own test
without anything that the log said (`risk.accepted`), it becomes active too. In every other case it
stays proposed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import blake2b
from math import log
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

_RIGHT, _WRONG = 0.01, 0.10
_ERROR = 0.05
_AGREES = log((1 - _RIGHT) / (1 - _WRONG))
_DIFFERS = log(_RIGHT / _WRONG)
_ENOUGH = log((1 - _ERROR) / _ERROR)

#: Pairs of one rule, at most.
MOST_PAIRS = 80
#: Contents that must agree where the pairs run out before the sequential test ends.
_FEWEST = 6
#: One pair in so many is fetched again although it agrees.
_CONTROL_EVERY = 5
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
    """The sequential test of one proposed rule.

    *limit* is the expected share of wrong merges that a rule may have.
    """

    rule: SiteRule
    pairs: list[Pair]
    limit: float = 0.02
    is_complete: bool = True  #: whether *pairs* are all that the log has for this rule
    agreed: set[Any] = field(default_factory=set)  #: names of contents: one content, one vote
    differed: list[Pair] = field(default_factory=list)
    silent: int = 0  #: pairs that said nothing
    fetches: int = 0
    _evidence: float = 0.0
    _asked: int = 0

    def next_pair(self) -> Pair | None:
        """Return the next pair to fetch; ``None`` when the rule is decided, or cannot be."""
        if self._asked >= len(self.pairs) or abs(self._evidence) >= _ENOUGH:
            return None
        said = len(self.agreed) + len(self.differed)
        if self.silent >= max(_HOPELESS, said):
            return None
        self._asked += 1
        return self.pairs[self._asked - 1]

    @property
    def wants_control(self) -> bool:
        """Whether the pair that was handed out last is to be fetched again even if it agrees."""
        return self._asked % _CONTROL_EVERY == 1

    def agree(self, content: Any) -> None:
        """The pages of a pair agree; *content* names what they show."""
        if content in self.agreed:  # a login page for all of them, say
            self.silent += 1
            return
        self.agreed.add(content)
        self._evidence += _AGREES

    def differ(self, pair: Pair) -> None:
        """The pages of a pair differ, and neither changes by itself."""
        self.differed.append(pair)
        self._evidence += _DIFFERS

    def say_nothing(self) -> None:
        """A page of a pair could not be fetched, is no page, or changes with each fetch."""
        self.silent += 1

    @property
    def status(self) -> str:
        """What the rule is now: active, rejected or still proposed."""
        compared = len(self.agreed) + len(self.differed)
        if self._evidence <= -_ENOUGH and len(self.differed) >= _WRONG * compared:
            return "rejected"
        if self._evidence >= _ENOUGH or self._all_agree():
            return "active"
        return "proposed"

    def _all_agree(self) -> bool:
        """Whether all pairs that there are were fetched, and bear the rule by themselves."""
        return (
            self.is_complete
            and self._asked == len(self.pairs)
            and not self.differed
            and self.silent < len(self.agreed)
            and len(self.agreed) >= _FEWEST
            and accepted(len(self.agreed), 0, self._prior(), self.limit)
        )

    def _prior(self) -> float:
        return prior(self.rule.operation, self.rule.context)

    def decided(self) -> SiteRule:
        """Return the rule with its new status, and what was found as its evidence."""
        agreed, differed = len(self.agreed), len(self.differed)
        note = (
            f"probed: {agreed} contents agree, {differed} pairs differ, {self.silent} say nothing"
        )
        status = self.status
        if status == "proposed":
            return self.rule.replace(note=f"{note}; {self.rule.note}" if self.rule.note else note)
        examples = self.differed[:3] if status == "rejected" else self.rule.examples
        return self.rule.replace(
            status=status,
            source="content",
            support=agreed,
            conflicts=differed,
            false_merge_upper=round(risk(agreed, differed, self._prior()), 4),
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
    rules = list(active)
    keys, wrong = _keys_and_wrong(rules, rows)
    result = []
    for rule in decided:
        if rule.status == "active":
            try:
                now = _keys_and_wrong([*rules, rule], rows)
            except ConfigError as error:
                result.append(rule.replace(status="proposed", note=f"{rule.note}; {error}"))
                continue
            if now[0] > keys or now[1] > wrong:
                note = f"{rule.note}; but the rules that are active find less beside it"
                result.append(rule.replace(status="proposed", note=note))
                continue
            rules.append(rule)
            keys, wrong = now
        result.append(rule)
    return result


def _keys_and_wrong(rules: Iterable[SiteRule], rows: Iterable[Observation]) -> tuple[int, int]:
    """Return how many keys *rows* have under *rules*, and how many keys have several contents."""
    normalize = Normalizer("default", site_rules=rules).normalize
    contents: dict[str, set[str | None]] = {}
    for row in rows:
        found = contents.setdefault(normalize(row.url), set())
        if row.is_page:
            found.add(row.content)
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
    by_site: dict[str, list[_PairFinder]] = {}
    for finder in finders:
        site = site_of_host(finder.rule.site.removeprefix("*."))
        by_site.setdefault(site, []).append(finder)
    for row in rows:
        if row.status in (200, None):
            for finder in by_site.get(site_of(row.url) or "", ()):
                finder.see(row)
    return [finder.probe(limit) for finder in finders]


class _Group:
    """URLs of a log that a rule makes one: two of them at most, of different contents if it can."""

    def __init__(self) -> None:
        self.members: list[tuple[str, str | None]] = []

    def add(self, url: str, content: str | None) -> None:
        if len(self.members) < 2:
            if not self.members or self.members[0][0] != url:
                self.members.append((url, content))
        elif not self.differs and content not in (None, self.members[0][1]):
            self.members[1] = (url, content)

    @property
    def differs(self) -> bool:
        contents = {content for _, content in self.members}
        return len(contents) > 1 and None not in contents


class _PairFinder:
    """Collects the pairs of one rule. The ``safe`` profile is around it, which changes no page."""

    def __init__(self, rule: SiteRule) -> None:
        self.rule = rule
        self._groups: dict[bytes, _Group] = {}
        self._images: dict[bytes, str] = {}
        self._most = b"\xff" * 9  # groups from this hash on are not kept
        self._is_complete = True
        self._plain = Normalizer("safe")
        try:
            self._ruled = Normalizer("safe", site_rules=[rule.replace(status="active")])
        except ConfigError:
            self._ruled = self._plain

    def see(self, row: Observation) -> None:
        plain, image = self._plain.normalize(row.url), self._ruled.normalize(row.url)
        if plain == image:
            return
        name = blake2b(image.encode("utf-8", "surrogatepass"), digest_size=8).digest()
        if name >= self._most:
            return
        self._groups.setdefault(name, _Group()).add(row.url, row.content)
        self._images[name] = image
        if len(self._groups) > 2 * _GROUPS:
            self._cut()

    def _cut(self) -> None:
        self._most = sorted(self._groups)[_GROUPS]
        self._groups = {n: g for n, g in self._groups.items() if n < self._most}
        self._images = {name: self._images[name] for name in self._groups}
        self._is_complete = False

    def probe(self, limit: float) -> Probe:
        if len(self._groups) > _GROUPS:
            self._cut()
        pairs = list(dict.fromkeys(self._pairs()))
        is_complete = self._is_complete and len(pairs) <= MOST_PAIRS
        return Probe(self.rule, pairs[:MOST_PAIRS], limit, is_complete)

    def _pairs(self) -> Iterator[Pair]:
        groups = [self._groups[name] for name in sorted(self._groups)]
        twins = [group for group in groups if len(group.members) == 2]
        for group in sorted(twins, key=lambda group: not group.differs):
            yield Pair(group.members[0][0], group.members[1][0])
        if not self.rule.operation.key_only:  # or nobody can fetch the image
            for name in sorted(self._groups):
                url, image = self._groups[name].members[0][0], self._images[name]
                if all(url != image for url, _ in self._groups[name].members):
                    yield Pair(url, image)
