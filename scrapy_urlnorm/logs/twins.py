"""Rows that are one content whatever else is known: equal bytes, or equal words."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_NAMES = 1_000_000
"""Digests remembered, in about 130 MB; what comes later is compared by its lines alone."""

_DIGESTS = ("bag_digest", "digest")


class Twins:
    """Classes of rows of one site that share a ``digest`` or a ``bag_digest``.

    The page that prints its own URL has another text under its mirror's, although the bytes are
    the same; a listing in one block has another line in another order, although the words are.
    Equality goes on through chains: each digest points to one that it was seen with (a forest of
    disjoint sets; Cormen and others, "Introduction to Algorithms", chapter 21).
    """

    def __init__(self) -> None:
        self._parents: dict[int, int] = {}

    def add(self, site: str, row: Mapping[str, Any]) -> None:
        """Take note that the digests of a row name one content of *site*."""
        roots = {self._root(name) for name in _names(site, row)}
        if len(roots) > 1 and len(self._parents) < MAX_NAMES:
            parent = min(roots)
            self._parents.update((root, parent) for root in roots if root != parent)

    def of(self, site: str, row: Mapping[str, Any]) -> int | None:
        """Name the class of a row; None for one without digests."""
        return next((self._root(name) for name in _names(site, row)), None)

    def _root(self, name: int) -> int:
        parents = self._parents
        root = name
        while (parent := parents.get(root, root)) != root:
            root = parent
        while name != root:  # the next one to ask has a short way
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
