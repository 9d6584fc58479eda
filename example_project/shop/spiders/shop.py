"""Follows every link of the shop."""

from __future__ import annotations

import scrapy

from shop.site import HOST, Site


class ShopSpider(scrapy.Spider):
    name = "shop"
    start_urls = [HOST + "/"]  # noqa: RUF012

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.site = Site()
        self.pages = []

    def parse(self, response):
        self.pages.append(response.headers["X-Page"].decode())
        for href in response.css("a::attr(href)").getall():
            yield response.follow(href)
