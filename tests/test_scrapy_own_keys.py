"""Keys that a request brings along, and keys of files and images, in real crawls."""

from __future__ import annotations

import base64

import pytest
from loopback import Reply, Site, crawl, page, redirect

HOME = "http://shop.test/"
SETTINGS = {"ADDONS": {"scrapy_urlnorm.Addon": 900}}
GIF = base64.b64decode("R0lGODlhAQABAAAAACH5BAEAAAAALAAAAAABAAEAAAI=")
MEDIA = [HOME + "a.gif?v=1&utm_source=x", HOME + "a.gif?v=1"]


def shop(url):
    if url == HOME:
        return page("home", "/item/red-shoe-42", "/item/shoe-42", "/item/blue-shoe-43")
    if ".gif" in url:
        return Reply(200, GIF, {"Content-Type": "image/gif"})
    return page(url)


def test_pages_with_one_key_are_fetched_once():
    with Site(shop) as site:
        result = crawl(site, [HOME], SETTINGS, spider="own_keys.ByNumber")
    assert sorted(site.requests) == [HOME, HOME + "item/blue-shoe-43", HOME + "item/red-shoe-42"]
    assert result.stats["urlnorm/merged"] == 1
    assert result.stats["urlnorm/merged/urlnorm_key"] == 1


def test_a_redirect_of_a_page_with_a_key_is_followed():

    def moved(url):
        if "42" in url and not url.endswith("/new/42"):
            return redirect("/new/42")
        return shop(url)

    with Site(moved) as site:
        crawl(site, [HOME], SETTINGS, spider="own_keys.ByNumber")
    assert len(site.requests) == 4
    assert {HOME, HOME + "new/42", HOME + "item/blue-shoe-43"} < set(site.requests)


@pytest.mark.parametrize("kind", ["files", "images"])
def test_media_keep_their_own_keys(kind, tmp_path):
    if kind == "images":
        pytest.importorskip("PIL")
    name = {"files": "FilesPipeline", "images": "ImagesPipeline"}[kind]
    settings = {
        **SETTINGS,
        "ITEM_PIPELINES": {f"scrapy.pipelines.{kind}.{name}": 1},
        f"{kind.upper()}_STORE": str(tmp_path),
    }
    with Site(shop) as site:
        crawl(site, [HOME], settings, spider="own_keys.TakesMedia", kind=kind, media=MEDIA)
    assert sorted(url for url in site.requests if ".gif" in url) == sorted(MEDIA)
