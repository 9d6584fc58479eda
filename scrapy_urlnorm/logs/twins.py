"""Twins: rows that surely have one content, because their bytes or their words are equal."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_NAMES = 1_000_000
"""Digests remembered, in about 130 MB. Later rows are compared by their lines alone."""

_DIGESTS = ("bag_digest", "digest")


class Twins:
    """Classes of rows of one site that share a ``digest`` or a ``bag_digest``.

    A page that prints its own URL has another text under the URL of a mirror, although its bytes
    are the same. A listing in one block has another line in another order, although its words are
    the same. Equality is transitive: each digest points to one that it was seen with (a forest of
    disjoint sets; Cormen and others, "Introduction to Algorithms", chapter 21).
    """

    def __init__(self) -> None:
        self._parents: dict[int, int] = {}

    def add(self, site: str, row: Mapping[str, Any]) -> None:
        """Record that the digests of a row name one content of *site*."""
        roots = {self._root(name) for name in _names(site, row)}
        if len(roots) > 1 and len(self._parents) < MAX_NAMES:
            parent = min(roots)
            self._parents.update((root, parent) for root in roots if root != parent)

    def of(self, site: str, row: Mapping[str, Any]) -> int | None:
        """Return the class of a row; None for a row without digests."""
        return next((self._root(name) for name in _names(site, row)), None)

    def _root(self, name: int) -> int:
        parents = self._parents
        root = name
        while (parent := parents.get(root, root)) != root:
            root = parent
        while name != root:  # shorten the way for the next question
            parents[name], name = root, parents[name]
        return root


def _names(site: str, row: Mapping[str, Any]) -> list[int]:
    return [
        int.from_bytes(
            blake2b(
                f"{site} {key} {name}".encode("utf-8", "surrogatepass"), digest_size=8
            ).digest(),
            "big",
        )
        for key in _DIGESTS
        if (name := row.get(key))
    ]
