"""Files: the pictures and scripts of pages. A mirror serves its own, so their bytes are compared.

A link counts as where it leads to, because rules are tested on what stands there. Nothing tests the
address of a picture: it may be all in which two pages differ, or the same picture at a mirror.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING

from scrapy_urlnorm.crawl.requests import asked_for, site_of

if TYPE_CHECKING:
    from scrapy_urlnorm.crawl.frontier import Fetches
    from scrapy_urlnorm.logs.whole import Node, Whole

#: Attributes of what a browser loads with a page, and does not ask its reader for.
_LOADED = ("@src", "@srcset", "@poster", "@background", "@style", "object@data")
#: So many files of a page are fetched, of so many bytes each. Pages with more are taken for two.
_MOST, _LARGEST = 20, 16 * 1024 * 1024
_MAX_KNOWN = 50_000


class Files:
    """Knows files by their bytes, for pages that differ in where they are."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}  # digests by address; of what does not come, another one

    def by_bytes(self, page: Whole) -> Whole:
        """Return *page* with digests of known files in place of their addresses."""
        known = self._known

        def shown(node: Node) -> Node:
            value = known.get(node.value)
            return node._replace(value=value) if value and _file_in(node) else node

        return page._replace(nodes=[*map(shown, page.nodes)]) if known else page

    def unknown(self, one: Whole, two: Whole) -> list[tuple[str, str]]:
        """Return the addresses in which two pages differ of files with one name, if they may be one.

        None of another site, not the page itself (``<img src="#">``), and none where two such files are known to differ, or where there are
        too many.
        """
        first, second = (
            {
                url
                for url in map(_file_in, page.nodes)
                if url and site_of(url) == site_of(page.url) and url.partition("#")[0] != page.url
            }
            for page in (one, two)
        )
        named = {_name(url): url for url in sorted(first - second)}
        others = sorted(url for url in second - first if _name(url) in named)
        pairs = [(named[_name(url)], url) for url in others]
        digests = [(self._known.get(url), self._known.get(other)) for url, other in pairs]
        if len(pairs) > _MOST or any(all(both) and both[0] != both[1] for both in digests):
            return []
        return [pair for pair, both in zip(pairs, digests, strict=True) if not all(both)]

    def fetch(self, pairs: list[tuple[str, str]]) -> Fetches[None]:
        """Fetch files until two differ, and know them."""
        for pair in pairs:
            for address in pair:
                response = yield asked_for(address, download_maxsize=_LARGEST), False
                body = address.encode() if response is None else response.body
                # Of a picture in a file of many, the fragment says which it is.
                what = body + address.partition("#")[2].encode()
                self._known[address] = blake2b(what, digest_size=16).hexdigest()
            if len({self._known.get(address) for address in pair}) > 1:
                break
        if len(self._known) > _MAX_KNOWN:
            self._known.clear()  # it costs some fetches


def _file_in(node: Node) -> str:
    is_file = node.fragment is None and node.place.endswith(_LOADED)
    return node.value if is_file and node.value.startswith(("http://", "https://")) else ""


def _name(url: str) -> str:
    return url.rpartition("/")[2]
