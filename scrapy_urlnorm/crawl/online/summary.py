"""What a crawl says: the evidence of a rule in words, and a summary at the end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from scrapy_urlnorm.crawl.settings import FAMILY_LIMIT, REPORT
from scrapy_urlnorm.masking import placeholders
from scrapy_urlnorm.text import counted, percent

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from scrapy_urlnorm.site_rules import SiteRule

_EVIDENCE = {
    "redirect": "{} say so",
    "content": "{} had the same content under two URLs",
    "user": "a rule file proposes it, and {} had the same content under two URLs",
    "robots": "robots.txt says so, and {} had the same content under two URLs",
    "canonical": "{} name the other as the canonical one",
}


def why(rule: SiteRule) -> str:
    """Say why *rule* is in force, or why it is not any more. Secrets in URLs are masked."""
    if not rule.active:
        return " ".join(placeholders((rule.note or "no reason is known").split(" ")))
    said = _EVIDENCE.get(rule.source, "")
    things = "permanent redirect" if rule.source == "redirect" else "page"
    words = said.format(counted(rule.support, things)) if said and rule.support else "no evidence"
    if rule.examples:
        one, other = rule.masked().examples[0]
        words += f", such as {one} and {other}"
    if rule.false_merge_upper:
        words += f"; at most {percent(rule.false_merge_upper)} of what it merges may be wrong"
    return words


class Bound(NamedTuple):
    """What the samples of a test proved."""

    held: int  #: requests that were not sent
    wrong: int  #: of these, how many may have been other pages, at most
    tested: int  #: requests of the samples that were sent, and agreed


def summary(
    stats: Mapping[str, Any],
    counts: Mapping[str, int],
    bound: Bound | None = None,
    barren: Mapping[str, int] | None = None,
    *,
    is_finer: bool = False,
) -> Iterator[str]:
    """Yield what a crawl says at its end: at most four lines, none where there is nothing to say.

    *stats* are its statistics, *counts* what else was counted, *bound* what its end proved of what
    was not sent. *barren* has the places of which so many pages brought nothing new. With keys that are finer than those of stock
    Scrapy (*is_finer*), it is not known what that would have sent.
    """
    saved, sent = int(stats["urlnorm/saved"]), int(stats.get("downloader/request_count", 0))
    if sent:
        stock = "" if is_finer else f"; stock Scrapy would have sent at least {sent + saved:,}"
        yield f"This crawl sent {counted(sent, 'request')}{stock}."
    elif saved > 0:  # DOWNLOADER_STATS is off
        yield f"This crawl sent {counted(saved, 'request')} fewer than stock Scrapy would have sent."
    yield from _tests(stats, counts)
    if bound is not None:
        yield (
            f"Of {counted(bound.held, 'request')} that {_were(bound.held)} held and not sent, at most "
            f"{bound.wrong:,} may have been other pages, not counting what only they lead to (with 95 % confidence: "
            f"{bound.tested:,} of the tests {_were(bound.tested)} drawn at random, and agreed). To look: {REPORT}, "
            f"or with JOBDIR scrapy urlnorm why URL."
        )
    if barren:
        (place, most), *others = sorted(barren.items(), key=lambda item: (-item[1], item[0]))
        more = f", and so did those of {counted(len(others), 'other place')}" if others else ""
        dropped = int(stats.get("urlnorm/learned/dropped", 0))
        what = (
            f"{dropped:,} like them {_were(dropped)} dropped"
            if dropped
            else f"set {FAMILY_LIMIT} to drop such pages"
        )
        yield f"{counted(most, 'page')} below {place} brought nothing new{more}; {what}."


def _tests(stats: Mapping[str, Any], counts: Mapping[str, int]) -> Iterator[str]:
    def number(name: str) -> int:
        return int(stats.get(f"urlnorm/learned/{name}", counts.get(f"learned/{name}", 0)))

    audits, differed, gone, released = map(
        number, ("audits", "audits_differed", "retracted", "released")
    )
    if not audits + gone:
        return
    found = f"{differed:,} of them found" if differed else "none of them found"
    after = [f"{counted(gone, 'rule')} {_were(gone)} retracted"] if gone else []
    if gone and released:
        after.append(f"{counted(released, 'request')} that had been held {_were(released)} sent")
    followed = f"; {' and '.join(after)}" if after else ""
    yield (
        f"{counted(audits, 'request')} {_were(audits)} sent to test what was learned; {found} "
        f"another page{followed}."
    )


def _were(number: int) -> str:
    return "was" if number == 1 else "were"
