"""Likely: which kinds of URLs bring pages that were there already, before a rule says why.

A *kind* is coarse: the host, the first folder, how deep the path is, and the names of the
parameters. Where most pages of a kind had the content of another page of the site, the next ones
likely have too. That proves nothing about any one of them, so none is withheld for it: they are
sent after all others (`deferral`). By then a rule may be known that says which of them to send.
"""

from __future__ import annotations

import re

from scrapy_urlnorm.url import split

#: A kind is likely to repeat what is known after so many duplicates, if so large a share of its
#: pages are (measured on ten applications: with half of the pages, too much waits that is new).
LEAST, SHARE = 6, 0.7
#: Kinds of one site, and of all (65 MB): further ones are never likely.
MAX_KINDS, MAX_KINDS_OF_ALL = 500, 500_000
#: Paths that are deeper are of one kind.
_DEEP = 4

_PARAM = re.compile(r"[^&;]+")


class Likely:
    """Counts the pages of each kind, and those that were duplicates."""

    def __init__(self) -> None:
        self._counts: dict[str, dict[int, tuple[int, int]]] = {}
        self._likely: dict[str, set[int]] = {}
        self._total = 0  # kinds of all sites

    def add(self, site: str, url: str, *, is_duplicate: bool) -> None:
        """Take note of a page of *site*, and whether its content was there already."""
        kinds = self._counts.get(site, {})
        kind = kind_of(url)
        if kind not in kinds:
            if len(kinds) >= MAX_KINDS or self._total >= MAX_KINDS_OF_ALL:
                return
            self._counts[site] = kinds
            self._total += 1
        pages, duplicates = kinds.get(kind, (0, 0))
        pages, duplicates = kinds[kind] = pages + 1, duplicates + is_duplicate
        if duplicates >= LEAST and duplicates >= SHARE * pages:
            self._likely.setdefault(site, set()).add(kind)
        elif site in self._likely:
            self._likely[site].discard(kind)

    def __call__(self, site: str, url: str) -> bool:
        """Return whether *url* is of a kind that likely brings nothing new."""
        kinds = self._likely.get(site)
        return kind_of(url) in kinds if kinds else False


def kind_of(url: str) -> int:
    """Return the number of the kind of *url*, the same for all URLs of the kind in this run."""
    parts = split(url)
    folders = [folder for folder in parts.path.split("/") if folder]
    names = {param.partition("=")[0] for param in _PARAM.findall(parts.query or "")}
    first = folders[0] if len(folders) > 1 else ""
    return hash((parts.scheme, parts.host, first, min(len(folders), _DEEP), frozenset(names)))
