"""Audit: what the rules do to the log, through the normalizer that users run.

There rules run in the order of their kinds, over and over. The miner tried each on what the rules
before it had left, so a set of rules may do what no trial saw. The audit runs all of them over
every URL of the log whose content is known, and takes back, one by one, the rule with the largest
share of wrong merges. It knows the log only: what is wrong elsewhere it cannot see. Files that
differ from each other alone take back nothing that pages proved: a style sheet may name its host.

Needed by test_the_audit_takes_back_what_merges_different_pages, test_learning_miner and
test_names_without_end_do_not_hide_what_is_redundant.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from contextlib import suppress
from typing import TYPE_CHECKING

from scrapy_urlnorm.exceptions import UrlNormError
from scrapy_urlnorm.learning.corpus import PLAIN, keys_by, most_common, plain_key
from scrapy_urlnorm.learning.media import FIRST_FILE
from scrapy_urlnorm.learning.risk import Limits, expected_noise
from scrapy_urlnorm.learning.rules import reaches
from scrapy_urlnorm.learning.trials import proven
from scrapy_urlnorm.site_rules.rule_set import is_switch, reason
from scrapy_urlnorm.url import split

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from scrapy_urlnorm.normalizer import Normalizer
    from scrapy_urlnorm.site_rules import SiteRule

#: A rule may put this share of the URLs that it changes beside other contents: twice the rate of
#: accidents that `risk` expects (a choice).
_TOLERATED = 0.004
#: A URL that does not come to rest weighs more than all wrong merges.
_RESTLESS = 1_000_000


def compiled(
    base: Sequence[SiteRule], rules: Sequence[SiteRule]
) -> tuple[Normalizer, list[SiteRule]]:
    """Compile as many rules as go together, in the order in which they were learned."""
    try:
        return PLAIN.replace_site_rules([*base, *rules]), list(rules)
    except UrlNormError:
        kept: list[SiteRule] = []
    for rule in rules:
        with suppress(UrlNormError):
            PLAIN.replace_site_rules([*base, *kept, rule])
            kept.append(rule)
    return PLAIN.replace_site_rules([*base, *kept]), kept


def grouped(
    urls: Iterable[str], normalizer: Normalizer, key: Callable[[str], str] = plain_key
) -> dict[str, list[str]]:
    """Return URLs by their keys; *key* gives those by the catalogue."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    key_of = keys_by(normalizer)
    for url in urls:
        found[key_of(key(url))].append(url)
    return found


def audited(
    base: Sequence[SiteRule],
    rules: Sequence[SiteRule],
    urls: Mapping[str, Counter[int]],
    key: Callable[[str], str],
    limits: Limits,
    two: Collection[frozenset[int]] = (),
) -> tuple[list[SiteRule], int]:
    """Return the rules without those that merge what differs, or never come to rest.

    *key* is the normalizer with *base* only, and *two* are pairs of contents that verdicts found to
    be two. The number is that of the keys of all URLs whose content was seen.
    """
    kept = list(rules)
    contents = {url: content for url, of in urls.items() if (content := most_common(of)) >= 0}
    contents = {url: min(content, FIRST_FILE) for url, content in contents.items()}
    while True:
        normalizer, kept = compiled(base, kept)
        if not kept:
            return kept, len({key(url) for url in contents})
        groups = grouped(contents, normalizer, key)
        worst = _worst(normalizer, kept, groups, contents, key, limits, two)
        if worst is None:
            return kept, len(groups)
        kept.remove(worst)


def _worst(
    normalizer: Normalizer,
    rules: Sequence[SiteRule],
    groups: Mapping[str, Sequence[str]],
    contents: Mapping[str, int],
    plain: Callable[[str], str],
    limits: Limits,
    two: Collection[frozenset[int]],
) -> SiteRule | None:
    changed = {key: [url for url in urls if plain(url) != key] for key, urls in groups.items()}
    restless = {
        key
        for key, urls in changed.items()
        # Where a URL has it without any rule, it is known to come to rest.
        if urls and len(urls) == len(groups[key]) and normalizer.normalize(key) != key
    }
    is_mixed = any(
        urls and len({contents[url] for url in groups[key]}) > 1 for key, urls in changed.items()
    )
    if not restless and not is_mixed:
        return None  # to explain all that the rules did takes longer than all else
    blame = Blame(rules)
    used: Counter[int] = Counter()
    bad: Counter[int] = Counter()
    for key, urls in changed.items():
        counts = Counter(contents[url] for url in groups[key])
        majority = most_common(counts)
        fired_here: set[int] = set()
        for url in urls:
            fired = blame.of(url, normalizer)
            fired_here |= fired
            used.update(fired)
            if contents[url] != majority:
                bad.update(dict.fromkeys(fired, 1 + proven(counts, two)))
            if key in restless:
                bad.update(dict.fromkeys(fired, _RESTLESS))
        # A rule that moves the majority onto an odd one out is to blame as well.
        odd = counts.total() - counts[majority]
        if odd:
            bad.update({rule: odd for rule in fired_here if not bad[rule]})
    failing = [
        (bad[i] / max(1, used[i]), i)
        for i in bad
        if bad[i] > max(_TOLERATED * used[i], expected_noise(3 * limits.noise, used[i]))
    ]
    return rules[max(failing)[1]] if failing else None


class Blame:
    """Finds the rules that act on a URL, by their number.

    One that switches a rule of the catalogue on (for a whole site) is seen in an explanation only,
    by the name of that rule, on the hosts of the site.
    """

    def __init__(self, rules: Iterable[SiteRule]) -> None:
        self._numbers: dict[str, int] = {}
        self._reasons: dict[str, int] = {}
        self._switches: defaultdict[str, list[tuple[str, int]]] = defaultdict(list)
        for number, rule in enumerate(rules):
            if is_switch(rule):
                self._switches[rule.kind].append((rule.site, number))
            else:
                self._numbers[rule.identity] = number
                self._reasons[reason(rule)] = number

    def of(self, url: str, normalizer: Normalizer) -> set[int]:
        """Return the numbers of the rules with which *normalizer* acts on *url*."""
        acting = None if self._switches else normalizer.site_rules_on(url)
        if acting is not None:  # to explain a URL takes long
            return {n for rule in acting if (n := self._numbers.get(rule.identity)) is not None}
        found = set()
        for step in normalizer.explain(url).steps:
            if step.reason in self._reasons:
                found.add(self._reasons[step.reason])
            elif step.rule in self._switches:
                host = split(step.before).host or ""
                found.update(n for site, n in self._switches[step.rule] if reaches(site, host))
        return found
