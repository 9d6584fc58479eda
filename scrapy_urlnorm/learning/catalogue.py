"""Where the catalogue is wrong: parameters it drops that select content on a site.

``sid`` is a session in nearly every forum, and the stored result of a search in some. What the
log refutes, the site's rules switch off; where it is noise all the same, the learner finds out.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from scrapy_urlnorm.learning.corpus import Corpus, Hasher, slots_of
from scrapy_urlnorm.learning.evidence import gather, items_of
from scrapy_urlnorm.learning.priors import is_listed, is_session
from scrapy_urlnorm.learning.risk import Limits, wrong
from scrapy_urlnorm.learning.trials import Count, count, trials_of
from scrapy_urlnorm.normalizer import Normalizer
from scrapy_urlnorm.site_rules import SiteRule
from scrapy_urlnorm.site_rules.form import is_param
from scrapy_urlnorm.site_rules.operations import DropParam

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from scrapy_urlnorm.logs import Observation

#: How likely a listed parameter is noise before the site has said anything, as in `priors`.
_LISTED = 0.95
_WITHOUT_LIST = Normalizer("default", rules={"drop-params": False})
_BARE = Normalizer("default", rules={"drop-params": False, "remove-session-ids": False})


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
        if not tolerated and wrong(counted.support, counted.conflicts, _LISTED) > 0.5:
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
