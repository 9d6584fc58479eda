"""What is looked at of a large site: a sample of its rows, and the URLs that could teach something.

All samples are by path, all URLs of a path or none. Most pages of a large site are seen once, under one URL, and there are more of them than it takes to
refute a wrong rule. What a rule does to the others, the audit finds out, which looks at all.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING
from zlib import crc32

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scrapy_urlnorm.learning.corpus import Item

#: Of a site with more rows than this, a sample is looked at (a choice, for memory).
MAX_ROWS = 300_000
#: Of a site with no more URLs than this, all are looked at; of a larger one, so many of those that
#: share no content (a choice: more than the largest log has that the learner was built with).
MOST = 50_000


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

    A parameter that selects pages is refuted by
    URLs of one path, and where it does so beside others that it does not, none of them is missing.
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
