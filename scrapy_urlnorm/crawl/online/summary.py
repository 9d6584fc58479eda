"""What a crawl says of its learning: the evidence of a rule in words, and a summary at the end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy_urlnorm.masking import placeholders
from scrapy_urlnorm.text import counted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scrapy_urlnorm.report.filtered import HeldFigures
    from scrapy_urlnorm.site_rules import SiteRule

#: Rules that the summary names, those that saved most.
NAMED_RULES = 5
#: Sites whose pages change by themselves, and places on them, that it names.
NAMED_SITES, NAMED_UNITS = 3, 5

_LEAST_SHARE = 0.001  #: as a percentage with one digit: never "0.0%"
_PREFIX = "urlnorm/"
_MERGED = "urlnorm/merged"
_AGAIN = "urlnorm/learned/second_fetches"
_EVIDENCE = {
    "redirect": "{} say so",
    "content": "{} had the same content under two URLs",
    "robots": "robots.txt says so, and {} had the same content under two URLs",
    "canonical": "{} name the other as the canonical one",
}


def why(rule: SiteRule) -> str:
    """Say why *rule* is in force, or why it is not any more. Secrets in URLs are masked."""
    if rule.active:
        return _evidence(rule)
    return " ".join(placeholders((rule.note or "no reason is known").split(" ")))


def _evidence(rule: SiteRule) -> str:
    said = _EVIDENCE.get(rule.source, "")
    things = "permanent redirect" if rule.source == "redirect" else "page"
    words = [said.format(counted(rule.support, things)) if said and rule.support else "no evidence"]
    if rule.examples:
        one, other = rule.masked().examples[0]
        words.append(f", such as {one} and {other}")
    if rule.false_merge_upper:
        share = max(rule.false_merge_upper, _LEAST_SHARE)
        words.append(f"; {share:.1%} of what it merges may be wrong")
    return "".join(words)


def summary(
    stats: Mapping[str, float], saved: HeldFigures, moving: Mapping[str, list[str]] | None = None
) -> str:
    """Say in one paragraph what a crawl saved beyond stock Scrapy, by what, and at which price.

    *stats* are the statistics of the crawl, *saved* is what is suppressed at its end, *moving* what
    changes by itself on the pages of each site.
    """
    merged = int(stats.get(_MERGED, 0))
    total, again = merged + saved.total, int(stats.get(_AGAIN, 0))
    if total - again <= 0:
        sentences = ["This crawl sent no fewer requests than stock Scrapy would have sent."]
    else:
        fewer = counted(total - again, "request")
        sentences = [f"This crawl sent {fewer} fewer than stock Scrapy would have sent."]
    if again:
        sentences.append(
            f"{counted(total, 'request')} {_were(total)} saved, and {counted(again, 'page')} "
            f"{_were(again)} fetched again, to know what changes by itself."
        )
    if merged:
        sentences.append(f"{_amount(merged, total)} equal after normalization{_by(stats, merged)}.")
    if saved.total > 0:
        sentences.append(
            f"{_amount(saved.total, total)} suppressed because of what was learned"
            f"{_listed(saved.by_rule, saved.total)}."
        )
    sentences += _price(stats)
    sentences += [_moves(site, said) for site, said in list((moving or {}).items())[:NAMED_SITES]]
    return " ".join(sentences)


def _moves(site: str, said: list[str]) -> str:
    """Say what changes by itself on the pages of a site."""
    more = counted(len(said) - NAMED_UNITS, "other place") if len(said) > NAMED_UNITS else ""
    words = "; ".join((*said[:NAMED_UNITS], *filter(None, [more])))
    return f"Pages of {site} change by themselves, which makes none of them another page: {words}."


def _were(number: int) -> str:
    return "was" if number == 1 else "were"


def _amount(number: int, total: int) -> str:
    """Return the subject and verb of a sentence about a part of *total* requests."""
    if number == total:
        return "It was" if number == 1 else "All of them were"
    return "One of them was" if number == 1 else f"{number:,} of them were"


def _by(stats: Mapping[str, float], merged: int) -> str:
    """Name the rules of the catalogue that merged most."""
    prefix = f"{_MERGED}/"
    by_rule = {
        name.removeprefix(prefix): int(n) for name, n in stats.items() if name.startswith(prefix)
    }
    return _listed(by_rule, merged)


def _listed(by_rule: Mapping[str, int], total: int) -> str:
    """Return the first rules by what they saved, with the number of the others."""
    found = sorted(by_rule.items(), key=lambda item: (-item[1], item[0]))
    if not found:
        return ""
    words = [f"{name} ({number:,})" for name, number in found[:NAMED_RULES]]
    if len(found) > NAMED_RULES:
        words.append(counted(len(found) - NAMED_RULES, "other rule"))
    shared = "; rules may share a request" if sum(by_rule.values()) > total else ""
    return f": {', '.join(words)}{shared}"


def _price(stats: Mapping[str, float]) -> list[str]:
    """Return sentences about what learning cost."""

    def number(name: str) -> int:
        return int(stats.get(_PREFIX + name, 0))

    sentences = []
    if audits := number("learned/audits"):
        agreed, disagreed = number("learned/audits_agreed"), number("learned/audits_differed")
        sentences.append(
            f"To test what was learned, {counted(audits, 'request')} that could have been suppressed "
            f"{_were(audits)} sent: {agreed:,} found what the rules say, "
            f"{disagreed:,} did not."
        )
    if tested := number("learned/tested_at_end"):
        held = number("learned/held_at_end")
        sentences.append(
            f"Of {counted(held, 'request')} that {_were(held)} held and not sent, at most "
            f"{number('learned/wrong_at_most'):,} may have been other pages (95 %; {tested:,} "
            f"{_were(tested)} tested at the end, all agreed)."
        )
    if gone := number("learned/retracted") + number("learned/aliases_retracted"):
        sentences.append(f"{counted(gone, 'rule')} {_were(gone)} retracted.")
    if requeued := number("learned/requeued"):
        sentences.append(
            f"{counted(requeued, 'request')} that had been held {_were(requeued)} sent after all."
        )
    if minings := number("learned/minings"):
        seconds = stats.get("urlnorm/learned/mining_seconds", 0)
        sentences.append(f"Mining took {seconds:.1f} s in {counted(minings, 'run')}.")
    return sentences
