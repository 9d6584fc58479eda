"""What the spider gets out of a page: items and requests, in words, as they come.

`scrapy_urlnorm.crawl.online.yields` compares it. What says where or when it was got is left out: see there.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import date
from functools import cached_property
from hashlib import blake2b
from typing import TYPE_CHECKING
from urllib.parse import unquote

from itemadapter import ItemAdapter, is_item
from scrapy import Request

from scrapy_urlnorm.crawl.requests import Asked, in_words, purpose_of, request_in

if TYPE_CHECKING:
    from scrapy.http import Response

#: What of one page is kept: items, fields of one, and requests.
_MOST_ITEMS, _MOST_FIELDS, _MOST_ASKED = 200, 100, 1_000
#: Characters of a value that is kept as it is; of a longer one, so many and a digest.
LONGEST, SHOWN = 60, 24
_LONGEST_URL = 2_000  # a pattern of a longer one takes long
#: Fields and meta that say how the spider came to a page.
_WAY = re.compile("depth|redirect|referr?er|latency", re.IGNORECASE)
#: Between a value and what it is without URLs of its page: one of them has to be equal.
OR = "\0"
_TYPE = ""  #: the field that names the type of an item
Item = dict[str, str]
Sought = tuple[str, str]  #: the URL of a request, and what it is for


@dataclass(eq=False)
class Got:
    """What comes out of one response, as it comes."""

    number: int
    page: Asked  #: what was asked for
    response: Response
    items: list[Item] = field(default_factory=list)
    asked: list[Sought] = field(default_factory=list)
    error: Exception | None = None

    @cached_property
    def _urls(self) -> re.Pattern[str]:
        urls = {self.response.url, self.page.url, *self.page.redirects}
        if referer := request_in(self.page).headers.get("Referer"):
            urls.add(referer.decode("utf-8", "replace"))
        urls = {url for url in urls if len(url) <= _LONGEST_URL}
        urls |= {unquote(url) for url in urls}
        urls |= {url.split("/", 3)[-1] for url in urls if "?" in url}  # without scheme and host
        said = "|".join(map(re.escape, sorted(urls, key=len, reverse=True))) or "(?!)"
        return re.compile(rf"(?:{said})(?![^\s\"'<>,)\]}}])")

    @cached_property
    def _way(self) -> set[str]:
        """What the meta of the request says of how the spider came to the page."""
        meta = request_in(self.page).meta
        return {self._value(said) for name, said in meta.items() if _WAY.search(name)}

    def add(self, each: object) -> None:
        """Take note of an item or a request. No error of an object of the spider's own leaves it."""
        try:
            self._add(each)
        except Exception as error:  # noqa: BLE001 - whatever its fields raise
            self.error = error

    def _add(self, each: object) -> None:
        if isinstance(each, Request):
            if len(self.asked) < _MOST_ASKED:
                body = f"{each.method} {_digest(each.body.hex())}" if each.body else ""
                self.asked.append((each.url, purpose_of(each, is_strict=False) + body))
        elif is_item(each) and len(self.items) < _MOST_ITEMS:
            fields = list(ItemAdapter(each).items())[:_MOST_FIELDS]
            item = {str(name): self._value(value) for name, value in fields}
            way = {name for name in item if _WAY.search(name) and item[name] in self._way}
            kept = {name: value for name, value in item.items() if name not in way}
            self.items.append({_TYPE: type(each).__name__, **kept})

    def _value(self, value: object) -> str:
        if isinstance(value, date):
            value = value.isoformat()  # its order is that of the times
        text = value if isinstance(value, str) else in_words(value)
        return OR.join(map(_cut, dict.fromkeys((text, self._urls.sub("{url}", text)))))


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:SHOWN]}... {_digest(text)}"


def _digest(text: str) -> str:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
