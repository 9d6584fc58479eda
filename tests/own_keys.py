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
    """Hands URLs to the pipeline of files."""

    name = "takes_media"
    urls: list[str]
    media: list[str]

    @property
    def start_urls(self):
        return self.urls

    def parse(self, response):
        yield {"file_urls": self.media}
