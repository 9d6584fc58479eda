"""RowFigures: what the rows of a crawl log say, counted in one pass."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from scrapy_urlnorm.report.figures import Group, Host, Left, Point, Suspicion
from scrapy_urlnorm.report.filtered import rule_in_words
from scrapy_urlnorm.url import split

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from scrapy_urlnorm.logs import Observation
    from scrapy_urlnorm.normalizer import Normalizer

#: What is kept at most, of each kind. Counts go on beyond.
MAX_PATTERNS, MAX_SUSPICIOUS, MAX_GROUPS, MAX_HOSTS = 20_000, 1_000, 200, 5_000
MAX_POINTS = 400
EXAMPLES = 5
OTHER_PATTERNS = "(other pages)"
#: To find the rules between two URLs takes longer than all else. So of each host a few spared requests
#: tell: more where there are few hosts. Of twice as many every second tells, and so on.
SAMPLE, LEAST_SAMPLE = 1_024, 4

_DIGITS, _PAIRS = re.compile(r"\d+"), re.compile("[&;]")


class _First(NamedTuple):
    """The row that came first under a key."""

    url: str
    content: int | None


class _Host:
    """Counts of one host."""

    __slots__ = ("distinct", "left", "pages", "requests", "spared")

    def __init__(self) -> None:
        self.requests = self.pages = self.distinct = self.spared = self.left = 0


class RowFigures:
    """Counts rows. With a *normalizer*, also the rows that a crawl with its rules would not fetch.

    A row is *spared* when an earlier one has its key and another URL. A redirect onto its own key is
    followed by such a crawl, so its target is not spared. Contents are compared by their names;
    content and key are kept as hashes, 8 bytes each beside the first URL.
    """

    def __init__(self, normalizer: Normalizer | None = None) -> None:
        self._normalizer = normalizer
        rules = normalizer.site_rules if normalizer is not None else ()
        self._names = {str(rule): rule_in_words(rule) for rule in rules}
        self.requests = self.pages = self.spared = self.left = self.suspicions = 0
        self._kept = self._kept_distinct = 0  # of a crawl that fetches no spared row
        self._hosts: dict[str, _Host] = {}
        self._firsts: dict[int, _First] = {}
        self._contents: dict[int, list[str] | str] = {}
        self._numbers: Counter[int] = Counter()
        self._fetched: set[int] = set()  # contents of rows that were not spared
        self._targets: set[str] = set()  # of redirects onto their own key
        self._patterns: dict[str, list[int]] = {}  # redundant pages, and all
        self._pairs: dict[str, tuple[str, str]] = {}
        self._credit: Counter[str] = Counter()
        self._examples: dict[str, tuple[str, str]] = {}
        self._suspicious: list[Suspicion] = []
        self._points: list[tuple[int, int, int, int]] = []
        self._step = 1

    def add_all(self, rows: Iterable[Observation]) -> None:
        """Count *rows*."""
        for row in rows:
            self.add(row)

    def add(self, row: Observation) -> None:
        """Count *row*."""
        self.requests += 1
        host = self._host(row.url)
        host.requests += 1
        content = hash(row.content) if row.is_page else None
        is_spared = self._normalizer is not None and self._is_spared(row, content, host)
        if content is not None:
            self._page(row.url, content, host, is_spared=is_spared)
        if not is_spared:
            self._kept += 1
        if self.requests % self._step == 0:
            self._point()

    def _host(self, url: str) -> _Host:
        name = (split(url).host or "").lower()
        host = self._hosts.get(name)
        if host is None:
            host = self._hosts[name] = _Host()
        return host

    def _page(self, url: str, content: int, host: _Host, *, is_spared: bool) -> None:
        self.pages += 1
        host.pages += 1
        seen = self._contents.get(content)
        if seen is None:
            host.distinct += 1
            self._contents[content] = url  # most contents have one page: no list for them
        else:
            self._numbers[content] += 1
            if isinstance(seen, str):
                seen = self._contents[content] = [seen]
            if len(seen) < EXAMPLES:
                seen.append(url)
        if is_spared:
            return
        pattern = self._pattern(url)
        pattern[1] += 1
        if content not in self._fetched:
            self._fetched.add(content)
            self._kept_distinct += 1
        elif seen is not None and url not in seen[:1]:
            self.left += 1
            host.left += 1
            pattern[0] += 1
            self._pairs.setdefault(pattern_of(url), (seen[0], url))

    def _pattern(self, url: str) -> list[int]:
        name = pattern_of(url)
        counts = self._patterns.get(name)
        if counts is None:
            if len(self._patterns) >= MAX_PATTERNS:
                name = OTHER_PATTERNS
            counts = self._patterns.setdefault(name, [0, 0])
        return counts

    def _is_spared(self, row: Observation, content: int | None, host: _Host) -> bool:
        assert self._normalizer is not None
        url = row.url
        normalized = self._normalizer.normalize(url)
        key = hash(normalized)
        first = self._firsts.get(key)
        if row.location is not None and self._normalizer.normalize(row.location) == normalized:
            self._targets.add(row.location)
        if first is None:
            self._firsts[key] = _First(url, content)
            return False
        if url in self._targets:
            self._targets.discard(url)
            if first.content is None:
                self._firsts[key] = _First(first.url, content)
            return False
        if url == first.url:
            return False
        self.spared += 1
        host.spared += 1
        is_doubtful = content is not None and first.content is not None and content != first.content
        self._explain(first.url, url, host.spared, is_doubtful=is_doubtful)
        return True

    def _explain(self, first: str, url: str, number: int, *, is_doubtful: bool) -> None:
        """Credit the rules that make two URLs one, if this pair is of the sample."""
        weight = 1
        size = max(LEAST_SAMPLE, SAMPLE // len(self._hosts))
        while number >= 2 * size * weight:
            weight *= 2
        is_sampled = number % weight == 0
        shows = is_doubtful and len(self._suspicious) < MAX_SUSPICIOUS
        self.suspicions += is_doubtful
        if not (is_sampled or shows):
            return
        rules = self._rules_between(first, url)
        if is_sampled:
            for rule in rules:
                self._credit[rule] += weight
                self._examples.setdefault(rule, (first, url))
        if shows:
            reason = "different contents under one key"
            self._suspicious.append(Suspicion(reason, first, url, ", ".join(rules)))

    def _rules_between(self, first: str, url: str) -> list[str]:
        """Return the rules that changed one of two URLs and not the other; or else all."""
        one, other = (dict.fromkeys(self._acted(each)) for each in (first, url))
        return [*(n for n in other if n not in one), *(n for n in one if n not in other)] or [*one]

    def _acted(self, url: str) -> Iterator[str]:
        assert self._normalizer is not None
        for step in self._normalizer.explain(url).steps:
            rule, _, source = step.reason.removeprefix("site rule: ").rpartition("; source ")
            yield self._names.get(rule, step.rule) if source else step.rule

    def _point(self) -> None:
        distinct = len(self._contents)
        self._points.append((self.requests, distinct, self._kept, self._kept_distinct))
        if len(self._points) > MAX_POINTS:
            self._points = self._points[1::2]
            self._step *= 2

    # --- results ----------------------------------------------------------------------------

    @property
    def distinct(self) -> int:
        """How many different contents there are."""
        return len(self._contents)

    @property
    def credit(self) -> dict[str, int]:
        """By rule in words, how many rows it spared, about: some are a sample, some have two."""
        return dict(self._credit)

    def example(self, rule: str) -> tuple[str, str]:
        """Return two URLs that *rule* makes one; empty texts if none was met."""
        return self._examples.get(rule, ("", ""))

    def hosts(self) -> list[Host]:
        """Return the hosts, those with most requests first."""
        rows = [
            Host(name, h.requests, h.pages, h.distinct, h.spared, h.left)
            for name, h in self._hosts.items()
        ]
        return sorted(rows, key=lambda host: (-host.requests, host.host))[:MAX_HOSTS]

    def suspicious(self) -> list[Suspicion]:
        """Return the first rows that were spared although their content was another."""
        return self._suspicious

    def groups(self) -> list[Group]:
        """Return the contents with most pages."""
        groups = []
        for content, more in self._numbers.most_common(MAX_GROUPS):
            urls = self._contents[content]
            hosts = len({split(url).host for url in urls})
            groups.append(Group(more + 1, hosts, "\n".join(urls)))
        return groups

    def patterns(self) -> list[Left]:
        """Return the looks of pages that were fetched although their content had come before."""
        rows = [
            Left(name, redundant, pages, *self._pairs.get(name, ("", "")))
            for name, (redundant, pages) in self._patterns.items()
            if redundant
        ]
        return sorted(rows, key=lambda left: (-left.redundant, left.pattern))

    def course(self, log: str, kept: str | None) -> list[Point]:
        """Return how the distinct pages grew, in a line called *log* and one without spared rows."""
        end = (self.requests, self.distinct, self._kept, self._kept_distinct)
        points = [(0, 0, 0, 0), *self._points, end]
        lines = [Point(log, requests, distinct) for requests, distinct, _, _ in points]
        if kept is not None:
            lines += [Point(kept, requests, distinct) for _, _, requests, distinct in points]
        return lines


def pattern_of(url: str) -> str:
    """Return the look of a URL: host, first folder, depth, and names of parameters.

    >>> pattern_of("http://shop.test/forum/topic-7/page-2/?sort=up&id=3")
    'shop.test/forum/*/*/?id=&sort='
    >>> pattern_of("http://shop.test/doku.php?id=start")
    'shop.test/doku.php?id='
    """
    parts = split(url)
    segments = parts.path.split("/")
    last = len(segments) - 1
    shown = [
        _DIGITS.sub("N", segment) if at == 1 and (at < last or "." in segment) else segment and "*"
        for at, segment in enumerate(segments)
    ]
    query = ""
    if parts.query:
        names = {_DIGITS.sub("N", pair.partition("=")[0]) for pair in _PAIRS.split(parts.query)}
        query = "?" + "&".join(f"{name}=" for name in sorted(names))
    return f"{parts.host or ''}{'/'.join(shown)}{query}"
