"""Where the catalogue is wrong: parameters it drops that select content on a site.

``sid`` is a session in nearly every forum, and the stored result of a search in some. What the
log refutes, the site's rules switch off; where it is noise all the same, the learner finds out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..normalizer import Normalizer
from ..site_rules import SiteRule
from .corpus import Corpus
from .evidence import gather, items_of
from .ops import Drop
from .risk import upper_bound, wrong
from .slots import Hasher, is_param, slots_of
from .trials import count, trials_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ..logs import Observation
    from .risk import Limits

_LISTED = 0.95
_FULL = Normalizer("default")
_WITHOUT_LIST = Normalizer("default", rules={"drop-params": False})
_BARE = Normalizer("default", rules={"drop-params": False, "remove-session-ids": False})


def exceptions(site: str, rows: Sequence[Observation], limits: Limits) -> list[SiteRule]:
    """Return rules that keep the parameters which the catalogue would drop wrongly."""
    dropped = _dropped(row.url for row in rows if "?" in row.url)
    if not dropped:
        return []
    hasher = Hasher()
    items = items_of(gather(rows, _BARE.normalize), _BARE.normalize, hasher)
    corpus = Corpus(items, hasher)
    listed: list[str] = []
    sessions: list[str] = []
    clean = conflicts = 0
    for name in sorted(dropped):
        counted = count(trials_of(Drop((name,)), corpus))
        if limits.tolerates(counted.conflicts, counted.compared):
            continue
        if wrong(counted.support, counted.conflicts, _LISTED) > 0.5:
            (listed if dropped[name] else sessions).append(name[2:])
            clean += int(counted.support)
            conflicts += counted.conflicts
    hosts = {item.slots["host"] for item in items}
    scope = next(iter(hosts)) if len(hosts) == 1 else f"*.{site}"
    found: list[tuple[str, object]] = []
    if listed:
        found.append(("drop-params", {"except": listed}))
    if sessions:
        found.append(("remove-session-ids", False))
    return [
        SiteRule(
            site=scope,
            kind=kind,
            option=option,
            source="content",
            support=conflicts,
            conflicts=clean,
            false_merge_upper=round(upper_bound(clean, clean + conflicts), 4),
            note=f"different pages differ in these alone: {', '.join(listed + sessions)}",
        )
        for kind, option in found
    ]


def _dropped(urls: Iterable[str]) -> dict[str, bool]:
    """Return the parameters that the catalogue drops, and whether its list of names does it."""
    found: dict[str, bool] = {}
    for url in urls:
        bare, full = _BARE.normalize(url), _FULL.normalize(url)
        if bare == full:
            continue
        before, after = slots_of(bare), slots_of(full)
        if before is None or after is None:
            continue
        kept = slots_of(_WITHOUT_LIST.normalize(url)) or {}
        for name in before:
            if is_param(name) and name != "?" and name not in after:
                found[name] = name in kept
    return found
