"""Where the catalogue is wrong: parameters it drops that select content on a site.

``sid`` is a session in nearly every forum, and the stored result of a search in some. What the
log refutes, the site's rules switch off.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from ..normalizer import Normalizer
from ..site_rules import SiteRule
from .corpus import Corpus
from .evidence import gather, items_of
from .ops import Drop
from .priors import is_listed
from .risk import upper_bound, wrong
from .slots import Hasher
from .trials import count, trials_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..logs import Observation
    from .risk import Limits

_LISTED = 0.95


def exceptions(site: str, rows: Sequence[Observation], limits: Limits) -> list[SiteRule]:
    """Return a rule that keeps the parameters which the catalogue would drop wrongly."""
    names = _listed_names(rows)
    if not names:
        return []
    bare = Normalizer("default", rules={"drop-params": False, "remove-session-ids": False})
    hasher = Hasher()
    evidence = gather(rows, bare.normalize)
    items = items_of(evidence, bare.normalize, hasher)
    corpus = Corpus(items, hasher)
    refuted = []
    conflicts = support = 0
    for name in sorted(names):
        counted = count(trials_of(Drop((f"q:{name}",)), corpus))
        if limits.tolerates(counted.conflicts, counted.compared):
            continue
        if wrong(counted.support, counted.conflicts, _LISTED) > 0.5:
            refuted.append(name)
            conflicts += int(counted.support)
            support += counted.conflicts
    if not refuted:
        return []
    hosts = {item.slots["host"] for item in items}
    return [
        SiteRule(
            site=next(iter(hosts)) if len(hosts) == 1 else f"*.{site}",
            kind="drop-params",
            option={"except": refuted},
            source="content",
            support=support,
            conflicts=conflicts,
            false_merge_upper=round(upper_bound(0, 1), 4),
            note="different pages differ in these parameters alone",
        )
    ]


def _listed_names(rows: Sequence[Observation]) -> set[str]:
    names: Counter[str] = Counter()
    for row in rows:
        query = row.url.partition("?")[2]
        if query:
            for piece in query.split("&"):
                names[piece.partition("=")[0]] += 1
    return {name for name, n in names.items() if n > 1 and "%" not in name and is_listed(name)}
