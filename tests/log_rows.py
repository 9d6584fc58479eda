"""Rows of logs, and what is learned from them, for tests of learning."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scrapy_urlnorm import Normalizer
from scrapy_urlnorm.learning import mine
from scrapy_urlnorm.learning.corpus import PLAIN, Corpus, Hasher
from scrapy_urlnorm.learning.evidence import gather, items_of
from scrapy_urlnorm.logs import Observation

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scrapy_urlnorm import SiteRule

HOST = "http://a.example"


def page(url: str, content: str) -> Observation:
    return Observation(url, 200, content, mime="text/html")


def twins(host: str, param: str, count: int = 30) -> list[Observation]:
    """Return pages of a host, each once more with a parameter that says nothing."""
    return [
        page(f"http://{host}/{n}{query}", f"{host} {n}")
        for n in range(count)
        for query in ("", f"?{param}={n % 7}")
    ]


def corpus_of(rows: Iterable[Observation]) -> Corpus:
    hasher, key = Hasher(), PLAIN.normalize
    return Corpus(items_of(gather(list(rows), key), key, hasher), hasher)


def active(rows: Iterable[Observation], **options: Any) -> list[SiteRule]:
    """Return the rules that are mined from *rows*, without proposals."""
    return [rule for rule in mine(rows, **options) if rule.active]


def taught_by(rows: Iterable[Observation], **options: Any) -> Normalizer:
    return Normalizer("default", site_rules=mine(rows, **options))


def merged(rules: Iterable[SiteRule], *paths: str) -> bool:
    """Return whether *rules* give all *paths* of the host one key."""
    normalize = Normalizer("default", site_rules=rules).normalize
    return len({normalize(HOST + path) for path in paths}) == 1
