"""What a crawl says of its learning: the evidence of a rule in words, and a summary at the end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy_urlnorm.masking import placeholders
from scrapy_urlnorm.text import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from scrapy_urlnorm.report.filtered import HeldFigures
    from scrapy_urlnorm.site_rules import SiteRule

#: Rules that the summary names, those that saved most.
NAMED_RULES = 5
#: Sites whose pages change by themselves, and places on them, that it names.
NAMED_SITES, NAMED_UNITS = 3, 5

#: Why a request brought no page: statistics below `urlnorm/requeued`, in words.
_WHY_NONE = {
    "robots": "robots.txt forbids the first spelling",
    "ignored": "a middleware dropped the first spelling",
    "error": "the first spelling could not be downloaded",
    "redirect": "the first spelling is redirected elsewhere",
    "no_body": "the first spelling has an empty page",
    "other": "the first spelling brought no page",
}
_HTTP = "http_"  #: begins the name of a status

_LEAST_SHARE = 0.001  #: as a percentage with one digit: never "0.0%"
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
        share = max(rule.false_merge_upper, _LEAST_SHARE)
        words += f"; {share:.1%} of what it merges may be wrong"
    return words


def summary(
    stats: Mapping[str, float],
    saved: HeldFigures,
    moving: Mapping[str, list[str]] | None = None,
    endless: Sequence[str] = (),
) -> str:
    """Say in one paragraph what a crawl saved beyond stock Scrapy, by what, and at which price.

    *stats* are the statistics of the crawl, *saved* is what is suppressed at its end, *moving* what
    changes by itself on the pages of each site, *endless* has a URL of each family that brought
    nothing new for long.
    """

    def number(name: str) -> int:
        return int(stats.get(f"urlnorm/{name}", 0))

    merged, again = number("merged"), number("learned/second_fetches")
    total = merged + saved.total
    fewer = counted(total - again, "request") + " fewer" if total > again else "no fewer requests"
    sentences = [f"This crawl sent {fewer} than stock Scrapy would have sent."]
    if again:
        sentences.append(
            f"{counted(total, 'request')} {_were(total)} saved, and {counted(again, 'page')} "
            f"{_were(again)} fetched again, to know what changes by itself."
        )
    if merged:
        prefix = "urlnorm/merged/"
        by_rule = {k.removeprefix(prefix): int(n) for k, n in stats.items() if k.startswith(prefix)}
        said = _listed(by_rule, merged)
        sentences.append(f"{_amount(merged, total)} equal after normalization{said}.")
    if saved.total > 0:
        said = _listed(saved.by_rule, saved.total)
        words = "suppressed because of what was learned"
        sentences.append(f"{_amount(saved.total, total)} {words}{said}.")
    sentences += _requeued(stats)
    sentences += _price(number)
    for site, units in list((moving or {}).items())[:NAMED_SITES]:
        named = units[:NAMED_UNITS]
        if more := len(units) - len(named):
            named = [*named, counted(more, "other place")]
        sentences.append(
            f"Pages of {site} change by themselves, which makes none of them another page: "
            f"{'; '.join(named)}."
        )
    if endless:
        families = counted(len(endless), "family", "families")
        such = ", ".join(endless[:NAMED_SITES])
        sentences.append(f"{families} of URLs brought nothing new for long, such as {such}.")
        if last := number("learned/put_last"):
            sentences.append(f"{last:,} of them {_were(last)} put last.")
        if dropped := number("learned/dropped"):
            sentences.append(f"{counted(dropped, 'request')} of them {_were(dropped)} dropped.")
    return " ".join(sentences)


def _requeued(stats: Mapping[str, float]) -> Iterator[str]:
    """Yield what was sent although another spelling was sent before, with the reasons."""
    prefix = "urlnorm/requeued/"
    found = {k.removeprefix(prefix): int(n) for k, n in stats.items() if k.startswith(prefix)}
    reasons = [
        f"{counted(number, 'request')}: "
        + _WHY_NONE.get(name, f"the first spelling was answered with {name.removeprefix(_HTTP)}")
        for name, number in sorted(found.items(), key=lambda item: (-item[1], item[0]))
    ]
    if reasons:
        yield f"Sent after all, because no page had come: {'; '.join(reasons[:NAMED_RULES])}."


def _price(number: Callable[[str], int]) -> Iterator[str]:
    """Yield sentences about what learning cost."""
    if audits := number("learned/audits"):
        agreed, disagreed = number("learned/audits_agreed"), number("learned/audits_differed")
        yield (
            f"To test what was learned, {counted(audits, 'request')} that could have been "
            f"suppressed {_were(audits)} sent: {agreed:,} found what the rules say, "
            f"{disagreed:,} did not."
        )
    if tested := number("learned/tested_at_end"):
        held, wrong = number("learned/held_at_end"), number("learned/wrong_at_most")
        yield (
            f"Of {counted(held, 'request')} that {_were(held)} held and not sent, at most "
            f"{wrong:,} may have been other pages, which may lead to further ones (95 %; {tested:,} "
            f"{_were(tested)} tested at the end and agreed)."
        )
    if gone := number("learned/retracted"):
        yield f"{counted(gone, 'rule')} {_were(gone)} retracted."
    if requeued := number("learned/requeued"):
        had = counted(requeued, "request")
        yield f"{had} that had been held {_were(requeued)} sent after all."


def _were(number: int) -> str:
    return "was" if number == 1 else "were"


def _amount(number: int, total: int) -> str:
    """Return the subject and verb of a sentence about a part of *total* requests."""
    if number == total:
        return "It was" if number == 1 else "All of them were"
    return "One of them was" if number == 1 else f"{number:,} of them were"


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
