"""Spiders for the keys that a request brings along, and for media."""

from __future__ import annotations

import re

from loopback import Collect, Follow
from scrapy import Spider


class ByNumber(Follow):
    """Gives each product its number as key."""

    def parse(self, response):
        Collect.items.append({"page": response.url})
        for link in response.css("a::attr(href)").getall():
            key = re.search(r"\d+$", link)[0]
            yield response.follow(link, meta={"urlnorm_key": f"product {key}"})


class TakesMedia(Spider):
    """Hands URLs to a media pipeline."""

    name = "takes_media"
    urls: list[str]
    kind: str
    media: list[str]

    @property
    def start_urls(self):
        return self.urls

    def parse(self, response):
        key = {"files": "file_urls", "images": "image_urls"}[self.kind]
        yield {key: self.media}
