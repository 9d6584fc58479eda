"""Real crawls over the traps that normalization sets: no page lost, each fetched once."""

from __future__ import annotations

import pytest
from loopback import Site, crawl, page, redirect

HOST = "http://shop.test"
HOME = HOST + "/"
ADDON = {"ADDONS": {"scrapy_urlnorm.crawl.addon.Addon": 900}}
PROFILES = ("safe", "default", "aggressive")


def with_addon(**settings):
    """Settings of a crawl with the add-on; names come without their prefix."""
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
    """The page behind a redirect is fetched once, whatever rule makes the two URLs equal."""
    source, target, rules = REDIRECTS[name]
    source = source if "://" in source else HOST + source
    target = target if "://" in target else HOST + target
    pages = {HOME: page("home", source), source: redirect(target), target: page("the page")}
    with Site(pages) as site:
        result = crawl(site, [HOME], with_addon(PROFILE=profile, RULES=rules))
    assert result.pages == ["home", "the page"]
    assert site.requests == [HOME, source, target]


def test_stock_scrapy_loses_that_page():
    """The trap is there: without the add-on the same crawl loses the page."""
    source, target, _ = REDIRECTS["sorted"]
    pages = {HOME: page("home", source), HOST + source: redirect(target), HOST + target: page("x")}
    with Site(pages) as site:
        assert crawl(site, [HOME]).pages == ["home"]


def site_of_redirects():
    """A site on which every link to every page is a redirect onto an equal URL."""
    pages = {}
    links = []
    for name, (source, target, _) in REDIRECTS.items():
        if name in ("remove slash", "add www", "remove www", "https", "http", "case"):
            continue  # one rule set cannot hold a rule and its opposite
        source, target = (f"{HOST}/{name.replace(' ', '-')}{part}" for part in (source, target))
        links += [source, target, source]
        pages[source] = redirect(target)
        pages[target] = page(name, *links)
    pages[HOME] = page("home", *links)
    return pages


@pytest.mark.parametrize("profile", PROFILES)
def test_a_site_full_of_redirects_loses_no_page_and_fetches_each_once(profile):
    """Links to source and target of every redirect, in any order: every page once."""
    pages = site_of_redirects()
    rules = {"trailing-slash": "add", "remove-directory-index": True}
    with Site(pages) as site:
        result = crawl(site, [HOME], with_addon(PROFILE=profile, RULES=rules))
    names = {reply.body for reply in pages.values() if reply.status == 200}
    assert len(set(result.pages)) == len(names)
    if profile == "aggressive":
        assert len(result.pages) == len(names)
    assert len(site.requests) == len(set(site.requests))


def test_a_chain_of_redirects_within_one_key():
    """Several redirects in a row that never leave their key end at the page."""
    first, second, third = (HOST + path for path in ("/p?b=1&a=2#x", "/p?a=2&b=1&", "/p?a=2&b=1"))
    pages = {
        HOME: page("home", first),
        first[:-2]: redirect(second),
        second: redirect(third),
        third: page("the page"),
    }
    with Site(pages) as site:
        result = crawl(site, [HOME], with_addon())
    assert result.pages == ["home", "the page"]
    assert result.stats["urlnorm/redirects/passed"] == 2


def test_a_redirect_loop_ends():
    """Two equal URLs that redirect to each other are visited twice each; then the chain ends."""
    one, other = HOST + "/p?b=1&a=2", HOST + "/p?a=2&b=1"
    pages = {HOME: page("home", one), one: redirect(other), other: redirect(one)}
    with Site(pages) as site:
        result = crawl(site, [HOME], {**with_addon(), "REDIRECT_MAX_TIMES": 20})
    assert result.reason == "finished"
    assert site.requests == [HOME, one, other, one, other]


def test_a_meta_refresh_onto_an_equal_url_is_followed():
    """A page that sends the browser on by a meta element counts as a redirect."""
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
    with Site(pages) as site:
        assert crawl(site, [HOME], with_addon()).pages == ["home", "the page"]


def test_a_redirect_to_a_page_seen_elsewhere_is_still_filtered():
    """Only the own chain counts: a redirect to a page that was fetched is a duplicate."""
    pages = {
        HOME: page("home", "/p"),
        HOST + "/p": page("p", "/old"),
        HOST + "/old": redirect("/p?utm_source=x"),
    }
    with Site(pages) as site:
        result = crawl(site, [HOME], with_addon())
    assert site.requests == [HOME, HOST + "/p", HOST + "/old"]
    assert result.stats["dupefilter/filtered"] == 1


# --- 2: rewriting requests -----------------------------------------------------------------


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("filter_start", [False, True])
def test_rewriting_fetches_the_normalized_url_once(profile, filter_start):
    """Rewritten requests are not taken for duplicates of themselves."""
    ugly = HOST + "/x/../p?a=1&b=%7e"
    pages = {HOME: page("home", ugly), HOST + "/p?a=1&b=~": page("the page", "/p?a=1&b=~")}
    with Site(pages) as site:
        result = crawl(
            site,
            [HOST + ":80/"],
            with_addon(PROFILE=profile, REWRITE_REQUESTS=True),
            filter_start=filter_start,
        )
    assert result.pages == ["home", "the page"]
    assert site.requests == [HOME, HOST + "/p?a=1&b=~"]
    assert result.stats["urlnorm/requests/rewritten"] == 2


def test_without_rewriting_the_linked_url_is_fetched():
    """The key is normalized, the request is not."""
    pages = {HOME: page("home", "/p?b=1&a=2&utm_source=x#top")}
    with Site(pages) as site:
        crawl(site, [HOME], with_addon())
    assert site.requests == [HOME, HOST + "/p?b=1&a=2&utm_source=x"]


def test_rewriting_does_not_fight_a_redirect():
    """A site that redirects away from the normalized URL is followed, and the crawl ends."""
    pages = {
        HOME: page("home", "/p?b=1&a=2"),
        HOST + "/p?a=2&b=1": redirect("/p?b=1&a=2"),
        HOST + "/p?b=1&a=2": page("the page"),
    }
    with Site(pages) as site:
        result = crawl(site, [HOME], with_addon(REWRITE_REQUESTS=True))
    assert result.pages == ["home", "the page"]
    assert site.requests == [HOME, HOST + "/p?a=2&b=1", HOST + "/p?b=1&a=2"]


def test_rewriting_keeps_the_offsite_check():
    """A rewritten request is checked as any other against the allowed domains."""
    pages = {HOME: page("home", "http://OTHER.test:80/x", "/a?b=%7e"), HOST + "/a?b=~": page("a")}
    with Site(pages) as site:
        result = crawl(
            site, [HOME], with_addon(REWRITE_REQUESTS=True), allowed_domains=["shop.test"]
        )
    assert result.pages == ["home", "a"]
    assert result.stats["offsite/filtered"] == 1


def test_rewriting_works_with_the_stock_dupefilter():
    """With another dupefilter rewritten requests are not lost either."""
    settings = {
        "REQUEST_FINGERPRINTER_CLASS": "scrapy_urlnorm.crawl.fingerprinter.UrlNormRequestFingerprinter",
        "DOWNLOADER_MIDDLEWARES": {
            "loopback.ViaSite": 740,
            "scrapy_urlnorm.crawl.middleware.UrlNormDownloaderMiddleware": 610,
        },
        "URLNORM_REWRITE_REQUESTS": True,
    }
    pages = {HOME: page("home", "/a?b=%7e"), HOST + "/a?b=~": page("a")}
    with Site(pages) as site:
        assert crawl(site, [HOME], settings, filter_start=True).pages == ["home", "a"]


# --- 3: an exception in fingerprint() ------------------------------------------------------


def test_a_raising_fallback_does_not_end_the_crawl():
    """An exception in the fallback fingerprinter, on a start request too, costs no page."""
    settings = with_addon(
        FALLBACK_REQUEST_FINGERPRINTER_CLASS="test_scrapy_fingerprinter.Broken",
    )
    with Site({HOME: page("home", "/a", "/a#b"), HOST + "/a": page("a")}) as site:
        result = crawl(site, [HOME, HOST + "/a"], settings, filter_start=True)
    assert sorted(result.pages) == ["a", "home"]
    assert result.reason == "finished"
    assert result.stats["urlnorm/requests/fallback_errors"] == 6


# --- 4: the HTTP cache shares the fingerprint ----------------------------------------------


@pytest.mark.parametrize("storage", ["FilesystemCacheStorage", "DbmCacheStorage"])
def test_the_http_cache_does_not_hide_a_page_behind_its_redirect(tmp_path, storage):
    """Source and target of a redirect have one key; from the cache, too, the page comes."""
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


def test_merging_two_pages_makes_the_http_cache_give_one_for_both(tmp_path):
    """What the documentation warns of: a rule that merges different pages shares the cache."""
    pages = {HOST + "/p?color=red": page("red"), HOST + "/p?color=blue": page("blue")}
    cache = {"HTTPCACHE_ENABLED": True, "HTTPCACHE_DIR": str(tmp_path)}
    with Site(pages) as site:
        results = [
            crawl(site, [url], {**with_addon(RULES={"keep-params": []}), **cache}) for url in pages
        ]
    assert [result.pages for result in results] == [["red"], ["red"]]


# --- 6: start requests ---------------------------------------------------------------------


def test_start_urls_are_sent_without_the_dupefilter():
    """Scrapy sends start requests unfiltered; a link back to one is fetched once more."""
    pages = {HOME: page("home", "/?utm_source=x", "/#top"), HOME + "?utm_source=x": page("home")}
    with Site(pages) as site:
        result = crawl(site, [HOME], with_addon())
    assert site.requests == [HOME, HOME + "?utm_source=x"]
    assert result.stats["urlnorm/merged"] == 1
