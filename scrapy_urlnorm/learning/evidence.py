"""From the rows of a log to the items of a site.

Of a large site a sample is looked at, and the URLs that could teach something. All samples are by
path, all URLs of a path or none. Most pages of a large site are seen once, under one URL, and there
are more of them than it takes to refute a wrong rule. What a rule does to the others, the audit
finds out, which looks at all.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from hashlib import blake2b
from itertools import chain
from typing import TYPE_CHECKING
from zlib import crc32

from scrapy_urlnorm.caches import BoundedCache
from scrapy_urlnorm.domains import domain_or_host
from scrapy_urlnorm.learning.corpus import OTHER, Hasher, Item, most_common, slots_of
from scrapy_urlnorm.learning.media import FIRST_FILE, OF_WALL, doors
from scrapy_urlnorm.site_rules.form import Slots, is_param
from scrapy_urlnorm.url import split

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator, Mapping, Sequence

    from scrapy_urlnorm.logs import Observation

_REDIRECTS = frozenset((301, 302, 303, 307, 308))
#: A page to which more URLs redirect than this says nothing about them: it is a login page or
#: the home page (a choice).
_MAX_FAN_IN = 20
#: Redirects followed one after the other (a choice).
_MAX_HOPS = 5
#: So many URLs must have been fetched twice to say how many pages change by themselves: of fewer,
#: a rate of one per cent would not show. More noise than _MAX_NOISE is not believed: it would
#: tolerate what is wrong (test_noise_that_was_not_told_merges_nothing_wrong goes up to it).
_MIN_REVISITS, _MAX_NOISE = 100, 0.03
#: A site with more parameter names makes them up; the rarest say nothing (a choice, for memory).
_MAX_NAMES = 2_000
#: Of a site with more rows than this, a sample is looked at (a choice, for memory).
MAX_ROWS = 300_000
#: Of a site with no more URLs than this, all are looked at; of a larger one, so many of those that
#: share no content (a choice: more than the largest log has that the learner was built with).
MOST = 50_000


@dataclass
class Evidence:
    """What the log says about the URLs of one site.

    Contents are numbers: from 0 those that were seen, below 0 those known only as the target of a
    redirect (they may agree, but never disagree), from `FIRST_FILE` those that are no HTML.
    """

    urls: dict[str, Counter[int]]
    pages: int
    redirects: int
    #: Contents that ask for a password, or stand at every URL of several forms.
    walls: frozenset[int] = frozenset()
    #: Pairs of contents that verdicts found to be two.
    two: frozenset[frozenset[int]] = frozenset()

    def noise(self, told: float) -> float:
        """Return the share of pages that change by themselves, from those fetched twice.

        At least what was *told*; more only if many revisits say so (a difference between two
        fetches may be the fault of either). Capped: beyond that, nothing is learned anyway.
        """
        again = [contents for contents in self.urls.values() if contents.total() > 1]
        if len(again) < _MIN_REVISITS:
            return told
        changed = sum(len(contents) > 1 for contents in again)
        return max(told, min(_MAX_NOISE, changed / (2 * len(again))))


def gather(
    rows: Sequence[Observation], key: Callable[[str], str], *, canonical: bool = False
) -> Evidence:
    """Collect the contents of every URL; a redirect has that of its target.

    With *canonical*, what a page declares as its canonical URL stands for its content. The
    order of rows decides nothing: contents are numbered by their names.
    """
    pages: list[tuple[str, str]] = []
    redirects: dict[str, str] = {}
    of_html: set[str] = set()
    count = 0
    for row in rows:
        content = row.content if row.is_page else None
        if canonical and row.canonical is not None and row.location is None:
            content = key(row.canonical)
            pages.append((row.canonical, content))
        if content is not None:
            pages.append((row.url, content))
            count += 1
            if not row.is_file:
                of_html.add(content)
        elif row.status in _REDIRECTS and row.location:
            redirects[row.url] = min(row.location, redirects.get(row.url, row.location))
    names = sorted({content for _, content in pages})
    numbers = {
        name: number if name in of_html else FIRST_FILE + number
        for number, name in enumerate(names)
    }
    urls: defaultdict[str, Counter[int]] = defaultdict(Counter)
    for url, content in pages:
        urls[url][numbers[content]] += 1
    sites = {site_of(row.url) for row in rows} if redirects else set()
    followed = _follow(redirects, urls, sites, key) if redirects else []
    for url, shared in followed:
        urls[url][shared] += 1
    closed = doors([page for page in pages if page[1] in of_html])
    walls = frozenset(numbers[n] for n in names if n.startswith(OF_WALL) or n in closed)
    two = frozenset(_made_two(urls, {row.url: row.other for row in rows if row.other}, len(names)))
    redirected = sum(url in redirects for url, _ in followed)
    return Evidence(dict(urls), count, redirected, walls, two)


def _made_two(
    urls: dict[str, Counter[int]], others: Mapping[str, str], first: int
) -> Iterator[frozenset[int]]:
    """Yield the contents of pages and of *others*. One that has the same gets a number, from *first*.

    By what is left out of its name by now, it may look like the other.
    """
    for number, (url, other) in enumerate(sorted(others.items()), first):
        if url in urls and other in urls:
            if most_common(urls[url]) == most_common(urls[other]):
                urls[url] = Counter({number: 1})
            yield frozenset((most_common(urls[url]), most_common(urls[other])))


def _follow(
    redirects: Mapping[str, str],
    urls: Mapping[str, Counter[int]],
    sites: Container[str],
    key: Callable[[str], str],
) -> list[tuple[str, int]]:
    """Return the redirected URLs with the contents of their targets.

    A target that was not seen gets a number below 0, and is returned with it, too.
    """
    by_key: defaultdict[str, list[str]] = defaultdict(list)
    for url in urls:
        by_key[key(url)].append(url)
    contents: dict[str, int] = {}
    fan_in = Counter(redirects.values())
    unseen: dict[str, int] = {}
    found = []
    for source, location in sorted(redirects.items()):
        if source in urls or fan_in[location] > _MAX_FAN_IN or site_of(location) not in sites:
            continue
        target, end = key(location), location
        if target == key(source):
            continue
        hops = 0
        while target not in by_key and end in redirects and hops < _MAX_HOPS:
            end = redirects[end]
            target, hops = key(end), hops + 1
        if target in by_key:
            if target not in contents:
                each = chain.from_iterable(urls[url].elements() for url in by_key[target])
                contents[target] = most_common(Counter(each))
            found.append((source, contents[target]))
        elif site_of(end) in sites:
            content = -1 - unseen.setdefault(target, len(unseen))
            found += [(end, content), (source, content)]
    return found


def site_of(url: str) -> str:
    """Return the registrable domain of a URL, or its host where it has none."""
    end = url.find("/", url.find("://") + 3)
    return _sites[url[:end] if end >= 0 else url]


#: By scheme and authority: a log has many URLs of few hosts (choices, for memory).
_sites = BoundedCache(
    lambda head: domain_or_host((split(head).host or "").lower()), most=65_536, longest=256
)


def items_of(evidence: Evidence, key: Callable[[str], str], hasher: Hasher) -> list[Item]:
    """Make items, in the order of their URLs so that the order of rows never matters."""
    parsed = [(url, slots) for url in sorted(evidence.urls) if (slots := slots_of(key(url)))]
    if len(set().union(*(slots for _, slots in parsed))) > _MAX_NAMES:
        names = Counter(name for _, slots in parsed for name in slots if is_param(name))
        ranked = sorted(names.items(), key=lambda pair: (-pair[1], pair[0]))
        kept = {name for name, _ in ranked[:_MAX_NAMES]}
        parsed = [(url, _folded(slots, kept)) for url, slots in parsed]
    return [
        Item(slots, hasher.of(slots), evidence.urls[url], most_common(evidence.urls[url]), url)
        for url, slots in parsed
    ]


def _folded(slots: Slots, kept: Container[str]) -> Slots:
    """Fold the parameters whose names are not *kept* into one slot that nothing touches."""
    new = {name: value for name, value in slots.items() if not is_param(name) or name in kept}
    if len(new) < len(slots):
        others = sorted(pair for pair in slots.items() if pair[0] not in new)
        new[OTHER] = blake2b(repr(others).encode(), digest_size=16).hexdigest()
    return new


# --- samples of a large site ------------------------------------------------------------------


def parts(count: int) -> int:
    """Return into how many parts the paths of a site with *count* rows fall; one is looked at."""
    return -(-count // MAX_ROWS)


def path_hash(url: str) -> int:
    """Return the 32 bits by which a path is in the sample, all its URLs or none.

    Sampled by URL, the pairs that refute a rule would be torn apart.
    """
    path = url.partition("://")[2].partition("?")[0].partition("/")[2]
    return crc32(path.rstrip("/").encode("utf-8", "surrogatepass"))


def selected(items: Sequence[Item]) -> Sequence[Item]:
    """Return the items with a content of several URLs, all others of their paths, and a sample.

    A parameter that selects pages is refuted by URLs of one path, and where it does so beside
    others that it does not, none of them is missing.
    """
    if len(items) <= MOST:
        return items
    sizes = Counter(item.content for item in items)
    paths = [path_hash(item.url) for item in items]
    shared = {path for item, path in zip(items, paths, strict=True) if sizes[item.content] > 1}
    alone = sum(path not in shared for path in paths)
    parts = max(1, -(-alone // MOST))
    return [
        item for item, path in zip(items, paths, strict=True) if path in shared or path % parts == 0
    ]
