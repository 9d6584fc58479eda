"""Asides: what a page that declares itself to be a copy of another one may say besides.

Such a page may say some words of the other one in another place, and whom one would answer there.
"""

from __future__ import annotations

import re
from collections import Counter
from itertools import chain, pairwise
from typing import TYPE_CHECKING

from scrapy_urlnorm.logs.nodes import OWN, Compared, Leads
from scrapy_urlnorm.url import params_of, query_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    Nodes = list[Compared]

#: Places in which a copy may say something else, and the nodes and words that it may say there.
_ASIDES, _ASIDE_NODES, _ASIDE_WORDS = 4, 4, 24
_NUMBER = re.compile(r"\d")
_SIGNS = re.compile(r"[\W_]+")


def are_asides(parts: Iterable[tuple[Nodes, Nodes, int, int]], base: Nodes, url: str) -> bool:
    """Return whether all that a copy under *url* says elsewhere is a few words in a few places.

    These begin as in the other page, which has all words and links, too; of attributes, only
    numbers of its own URL differ. The same words in another order say something else, and so do as
    many words in the place of others: "Fits: no" for "Fits: yes". What is said points at a part of the
    page (``#comment-7``), which a field names, too: else it may be what the page is about. The words
    that point there by a number of its own URL name whom one would answer, who may stand elsewhere.
    """
    own = {value for _, value in params_of(query_of(url)) if value}
    known: set[object] = own | {" "}
    for node in base:
        if isinstance(node.value, Leads):
            known.add(node.value.key)
        else:
            known.update(word for word in node.words if not _NUMBER.search(word))
    here, there = Counter[object](), Counter[object]()
    says = points = is_named = False
    for number, (one, two, *_) in enumerate(parts):
        rest = [*_without_named(two, own)]
        texts = [[node.words for node in nodes if "@" not in node.place] for nodes in (one, rest)]
        said = [*chain.from_iterable(texts[1])]
        begins = {words[0] for words in texts[0] if words}
        attributes = [node.value for node in two if "@" in node.place]
        links = [value for value in attributes if isinstance(value, Leads)]
        says |= any("@" not in node.place for node in two)
        points |= any(link.fragment and link.key == OWN for link in links)
        is_named |= not own.isdisjoint(value for value in attributes if isinstance(value, str))
        if (
            number == _ASIDES
            or max(len(one), len(two)) > _ASIDE_NODES
            or len(said) > _ASIDE_WORDS
            or not known.issuperset(chain.from_iterable(node.words for node in rest))
            or not known.issuperset(link.key for link in links)
            or not own.issuperset(value for value in attributes if isinstance(value, str))
            or not all(texts[1])  # an element with nothing in it
            or (said and begins.isdisjoint(words[0] for words in texts[1]))
            or any(len(a) == len(b) for a, b in zip(*texts, strict=False) if a != b)
        ):
            return False
        there.update(chain.from_iterable(texts[0]))
        here.update(said)
    return not says or ((here != there or not here) and points and is_named)


def _without_named(nodes: Nodes, own: set[str]) -> Iterator[Compared]:
    """Yield the texts but for whom one would answer: a link to that number of the URL says it."""
    for link, node in pairwise([Compared("", ""), *nodes]):
        is_named = link.place == f"{node.place}@href" and not own.isdisjoint(_pointed_at(link))
        if "@" not in node.place and not is_named:
            yield node


def _pointed_at(link: Compared) -> list[str]:
    """Return the numbers in the fragment of a link to a part of the page itself."""
    leads = link.value
    if isinstance(leads, Leads) and leads.key == OWN:
        return [word for word in _SIGNS.split(leads.fragment) if word.isdigit()]
    return []
