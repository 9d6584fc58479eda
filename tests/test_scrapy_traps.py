"""Crawls over the traps that normalization sets: no page lost, each fetched once."""

from __future__ import annotations

import pytest
from loopback import Site, crawl, page, redirect
from simulation.plan import Plan
from simulation.walk import Walk

HOST = "http://shop.test"
HOME = HOST + "/"
ADDON = {"ADDONS": {"scrapy_urlnorm.crawl.addon.Addon": 900}}
PROFILES = ("safe", "default", "aggressive")


def with_addon(**settings):
    return {**ADDON, **{f"URLNORM_{name}": value for name, value in settings.items()}}


# --- 1: a redirect onto an equal URL -------------------------------------------------------

#: What a site redirects permanently, and the rule that makes the two URLs one.
REDIRECTS = {
    "sorted": ("/p?b=1&a=2", "/p?a=2&b=1", {}),
    "escape case": ("/p%c3%a4", "/p%C3%A4", {}),
    "unreserved": ("/%7Eann", "/~ann", {}),
    "dot segments": ("/x/../p", "/p", {}),
    "add slash": ("/p", "/p/", {"trailing-slash": "add"}),
    "remove slash": ("/p/", "/p", {"trailing-slash": "remove"}),
    "add www": ("/p", "http://www.shop.test/p", {"www": "remove"}),
    "remove www": ("http://www.shop.test/p", "/p", {"www": "add"}),
    "https": ("/p", "https://shop.test/p", {"force-scheme": "https"}),
    "http": ("https://shop.test/p", "http://shop.test/p", {"force-scheme": "http"}),
    "tracking": ("/p?utm_source=mail&id=1", "/p?id=1", {}),
    "session": ("/p;jsessionid=0123456789ABCDEF0123456789ABCDEF", "/p", {}),
    "index": ("/d/index.html", "/d/", {"remove-directory-index": True}),
    "duplicate slashes": ("/a//p", "/a/p", {"remove-duplicate-slashes": True}),
    "case": ("/P", "/p", {"lowercase-path": True}),
}


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("name", REDIRECTS)
def test_a_redirect_onto_an_equal_url_is_followed(name, profile):
    source, target, rules = REDIRECTS[name]
    source = source if "://" in source else HOST + source
    target = target if "://" in target else HOST + target
    pages = {HOME: page("home", source), source: redirect(target), target: page("the page")}
    settings = {"URLNORM_PROFILE": profile, "URLNORM_RULES": rules}
    found = Walk(pages.__getitem__, HOME, Plan(1), **settings).crawl()
    assert found.pages == ["home", "the page"]
    assert found.sent == [HOME, source, target]


#: URLs that redirect to each other, how many requests stock Scrapy sends, and how many more we may.
LOOPS = {
    "itself": (["/a"], 2, 1),
    "two": (["/a", "/b"], 3, 2),
    "two spellings": (["/a?x=1&y=2", "/a?y=2&x=1"], 2, 2),
    "two for Scrapy": (["/a", "/a?utm_source=x"], 3, 2),
    "two and one": (["/a", "/b", "/b?utm_source=x"], 4, 2),
    "three": (["/a", "/b", "/c"], 4, 2),
    "three spellings": (["/a?x=1&y=2", "/a?y=2&x=1", "/a?x=1&y=2&"], 2, 2),
    "seven": ([f"/{n}" for n in range(7)], 8, 2),
}


@pytest.mark.parametrize(("urls", "stock", "more"), LOOPS.values(), ids=LOOPS)
def test_a_loop_of_redirects_is_left_soon(urls, stock, more):
    nexts = zip(urls, [*urls[1:], urls[0]], strict=True)
    pages = {HOME: page("home", urls[0])} | {HOST + url: redirect(to) for url, to in nexts}
    sent = Walk(pages.__getitem__, HOME, Plan(1)).crawl().sent
    assert stock < len(sent) <= stock + more
    assert max(map(sent.count, sent)) <= 2


@pytest.mark.parametrize(
    "chain",
    [
        ["/a", "/a"],
        ["/a", "/cookie", "/a"],
        ["/a", "/a/", "/cookie", "/a", "/a/"],
        ["/a", "/a?utm_source=x", "/a"],
        ["/a?x=1&y=2", "/a?y=2&x=1", "/a?x=1&y=2"],
        ["/a", *(f"/a?utm_source={n}" for n in range(15))],
    ],
)
def test_a_page_behind_a_chain_of_redirects_that_ends(chain):
    left = [*chain]

    def answer(url):
        if url == HOME:
            return page("home", chain[0])
        assert url == HOST + left.pop(0)
        return redirect(left[0]) if left else page("the page")

    settings = {"URLNORM_RULES": {"trailing-slash": "remove"}}
    assert Walk(answer, HOME, Plan(1), **settings).crawl().pages == ["home", "the page"]


def test_a_meta_refresh_onto_an_equal_url_is_followed():
    source, target = HOST + "/p?b=1&a=2", HOST + "/p?a=2&b=1"
    refresh = page("refresh")
    body = refresh.body.replace(
        b"<head>", f'<head><meta http-equiv="refresh" content="0;url={target}">'.encode()
    )
    pages = {
        HOME: page("home", source),
        source: type(refresh)(200, body, refresh.headers),
        target: page("the page"),
    }
    assert crawl(pages, [HOME], with_addon()).pages == ["home", "the page"]


# --- 2: rewriting requests -----------------------------------------------------------------


@pytest.mark.parametrize("filter_start", [False, True])
def test_rewriting_fetches_the_normalized_url_once(filter_start):
    ugly = HOST + "/x/../p?a=1&b=%7e"
    pages = {HOME: page("home", ugly), HOST + "/p?a=1&b=~": page("the page", "/p?a=1&b=~")}
    result = crawl(
        pages, [HOST + ":80/"], with_addon(REWRITE_REQUESTS=True), filter_start=filter_start
    )
    assert result.pages == ["home", "the page"]
    assert result.requests == [HOME, HOST + "/p?a=1&b=~"]
    assert result.log.count("Rewrote http") == 2


def test_rewriting_does_not_fight_a_redirect():
    pages = {
        HOME: page("home", "/p?b=1&a=2"),
        HOST + "/p?a=2&b=1": redirect("/p?b=1&a=2"),
        HOST + "/p?b=1&a=2": page("the page"),
    }
    result = crawl(pages, [HOME], with_addon(REWRITE_REQUESTS=True))
    assert result.pages == ["home", "the page"]
    assert result.requests == [HOME, HOST + "/p?a=2&b=1", HOST + "/p?b=1&a=2"]


def test_rewriting_works_with_the_stock_dupefilter():
    settings = {
        "REQUEST_FINGERPRINTER_CLASS": "scrapy_urlnorm.crawl.fingerprinter.UrlNormRequestFingerprinter",
        "DOWNLOADER_MIDDLEWARES": {
            "loopback.ViaSite": 740,
            "scrapy_urlnorm.crawl.middleware.UrlNormDownloaderMiddleware": 610,
        },
        "URLNORM_REWRITE_REQUESTS": True,
    }
    pages = {HOME: page("home", "/a?b=%7e"), HOST + "/a?b=~": page("a")}
    assert crawl(pages, [HOME], settings, filter_start=True).pages == ["home", "a"]


# --- 3: the HTTP cache shares the fingerprint ----------------------------------------------


@pytest.mark.parametrize("storage", ["FilesystemCacheStorage", "DbmCacheStorage"])
def test_the_http_cache_does_not_hide_a_page_behind_its_redirect(tmp_path, storage):
    settings = {
        **with_addon(PROFILE="aggressive"),
        "HTTPCACHE_ENABLED": True,
        "HTTPCACHE_DIR": str(tmp_path),
        "HTTPCACHE_STORAGE": f"scrapy.extensions.httpcache.{storage}",
    }
    chain = [HOST + "/p/?b=1&a=2", HOST + "/p?b=1&a=2", HOST + "/p?a=2&b=1"]
    pages = {
        HOME: page("home", chain[0]),
        chain[0]: redirect(chain[1]),
        chain[1]: redirect(chain[2], 302),
        chain[2]: page("the page"),
    }
    with Site(pages) as site:
        cold = crawl(site, [HOME], settings)
        fetched = list(site.requests)
        warm = crawl(site, [HOME], settings)
        assert site.requests == fetched
    assert cold.pages == warm.pages == ["home", "the page"]
    assert warm.items == cold.items


# --- 4: start requests ---------------------------------------------------------------------


def test_start_urls_are_sent_without_the_dupefilter():
    pages = {HOME: page("home", "/?utm_source=x", "/#top"), HOME + "?utm_source=x": page("home")}
    result = crawl(pages, [HOME], with_addon())
    assert result.requests == [HOME, HOME + "?utm_source=x"]
    assert result.stats["urlnorm/merged"] == 1
