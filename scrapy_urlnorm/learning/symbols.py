"""Values that repeat the path: ``idx=a:b`` on ``/doku.php/a/b/page`` is ``{namespace}``.

With a symbol in place of the text, an exchange that differs from page to page becomes one and
the same for all. Needed by app_doku (0.972 with this, 0.951 without).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy_urlnorm.site_rules.context import SYMBOLS, PathText
from scrapy_urlnorm.site_rules.form import REPEAT, is_param, is_path, segments

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy_urlnorm.learning.contexts import Vocabulary
    from scrapy_urlnorm.site_rules.form import Slots
    from scrapy_urlnorm.site_rules.paths import Pair

Pairs = tuple["Pair", ...]
#: Old pairs, new pairs, and what symbols among them stand for: the fields of `Replace`.
Exchange = tuple[Pairs, Pairs, PathText | None]

#: Segments before the text at most (a choice).
_MAX_PREFIX = 2


def directed(left: Pairs, right: Pairs, path_text: PathText | None = None) -> Exchange:
    """Return the exchange of the larger side for the smaller."""
    if _size(left) < _size(right):
        left, right = right, left
    return left, right, path_text


def _size(pairs: Pairs) -> tuple[int, int, Pairs]:
    return len(pairs), sum(len(value) for _, value in pairs), pairs


def symbolic(slots: Slots, left: Pairs, right: Pairs, vocabulary: Vocabulary) -> Iterator[Exchange]:
    """Yield the exchanges of *left* and *right* with symbols for text of the path."""
    path = segments(slots)
    pairs = left + right
    if not path or any(is_path(name) for name, _ in pairs):
        return
    texts = {value for name, value in pairs if is_param(name) and value and REPEAT not in value}
    separators = sorted({vocabulary.separator(name) for name, _ in pairs if is_param(name)})
    for start in range(min(_MAX_PREFIX + 1, len(path))):
        if start and (start - 1, path[start - 1]) not in vocabulary.directories:
            return
        for separator in separators:
            path_text = PathText(tuple(path[:start]), separator)
            for symbol in SYMBOLS:
                text = path_text.of(slots, symbol)
                if text in texts:
                    yield directed(
                        _named(left, text, symbol), _named(right, text, symbol), path_text
                    )


def _named(pairs: Pairs, text: str, symbol: str) -> Pairs:
    return tuple((name, symbol if value == text else value) for name, value in pairs)
