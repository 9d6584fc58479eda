"""SharedPages: crawlers at one store tell each other which pages arrived."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy_urlnorm.crawl.live.comparing import TOLD_WORDS
from scrapy_urlnorm.crawl.live.file_uses import is_file
from scrapy_urlnorm.crawl.live.ledger import Page
from scrapy_urlnorm.exceptions import StoreError
from scrapy_urlnorm.logs.page_identity import Identity

if TYPE_CHECKING:
    from scrapy_urlnorm.crawl.live.register import Keys
    from scrapy_urlnorm.stores import Seen

#: An entry of the table has 48 bytes: own key, digest of the page, digest of its words.
_OWN_KEY = slice(0, 20)
_DIGEST = slice(20, 36)
_WORDS = slice(36, None)
#: Other crawlers are not told the depth of a page. With DEPTH_LIMIT, none that is as deep as this
#: stands for a request.
_DEPTH_UNKNOWN = 1 << 30


class SharedPages:
    """Pages by learned key, in a shared *store*. A store of one's own has none."""

    def __init__(self, store: Seen) -> None:
        self._table = store.witness_table() if store.is_shared else None

    def tell(self, keys: Keys, page: Page) -> None:
        """Tell the others of *page*, if there are any and its content is known.

        They are not told of files: an entry does not say that it is one.
        """
        if self._table is not None and page.content is not None and not is_file(page):
            self._table.put(keys.learned, _entry(page.own, page.content))

    def find(self, keys: Keys) -> Page | None:
        """Return a page with this learned key and another own key. It has no URL.

        A store that does not answer knows of none.
        """
        if self._table is None:
            return None
        try:
            entry = self._table.get(keys.learned)
        except StoreError:
            return None
        if entry is None or entry[_OWN_KEY] == keys.own:
            return None
        content = Identity(entry[_DIGEST].hex(), None, entry[_WORDS].hex())
        return Page(entry[_OWN_KEY], "", content, _DEPTH_UNKNOWN)


def _entry(own: bytes, content: Identity) -> bytes:
    words = (content.bag_digest or content.digest)[:TOLD_WORDS]
    return own + bytes.fromhex(content.digest) + bytes.fromhex(words)
