"""Keys that a request brings along, and keys of files, in real crawls."""

from __future__ import annotations

import base64
import re

from loopback import Collect, Follow, Reply, crawl, page, redirect

HOME = "http://shop.test/"
SETTINGS = {"ADDONS": {"scrapy_urlnorm.Addon": 900}}
GIF = base64.b64decode("R0lGODlhAQABAAAAACH5BAEAAAAALAAAAAABAAEAAAI=")
MEDIA = [HOME + "a.gif?v=1&utm_source=x", HOME + "a.gif?v=1"]


class ByNumber(Follow):
    def parse(self, response):
        Collect.items.append({"page": response.url})
        for link in response.css("a::attr(href)").getall():
            key = re.search(r"\d+$", link)[0]
            yield response.follow(link, meta={"urlnorm_key": f"product {key}"})


class TakesMedia(Follow):
    def parse(self, response):
        yield {"file_urls": self.media}


def shop(url):
    if url == HOME:
        return page("home", "/item/red-shoe-42", "/item/shoe-42", "/item/blue-shoe-43")
    if ".gif" in url:
        return Reply(200, GIF, {"Content-Type": "image/gif"})
    return page(url)


def test_of_pages_with_one_key_one_is_fetched_and_its_redirect_followed():

    def moved(url):
        return redirect("/new/42") if url.endswith("shoe-42") else shop(url)

    result = crawl(moved, [HOME], SETTINGS, spider="test_scrapy_own_keys.ByNumber")
    assert len(result.requests) == 4
    assert {HOME, HOME + "new/42", HOME + "item/blue-shoe-43"} < set(result.requests)
    assert result.stats["urlnorm/merged"] == 1
    assert result.stats["urlnorm/merged/urlnorm_key"] == 1


def test_media_keep_their_own_keys(tmp_path):
    """Files, as all of Scrapy's media pipelines."""
    pipelines = {"ITEM_PIPELINES": {"scrapy.pipelines.files.FilesPipeline": 1}}
    settings = {**SETTINGS, **pipelines, "FILES_STORE": str(tmp_path)}
    result = crawl(shop, [HOME], settings, spider="test_scrapy_own_keys.TakesMedia", media=MEDIA)
    assert sorted(url for url in result.requests if ".gif" in url) == sorted(MEDIA)
