"""The loopback site itself: what the other crawl tests stand on."""

from __future__ import annotations

from loopback import Reply, Site, crawl, page, redirect

HOME = "http://www.shop.test/"


def test_serves_several_hosts_over_http_and_https():
    pages = {
        HOME: page("home", "https://cdn.shop.test/a?b=1#frag"),
        "https://cdn.shop.test/a?b=1": page("secure"),
    }
    with Site(pages) as site:
        result = crawl(site, [HOME])
    assert result.error is None
    assert result.pages == ["home", "secure"]
    assert site.requests == [HOME, "https://cdn.shop.test/a?b=1"]
    assert result.reason == "finished"


def test_redirects_are_followed_and_unknown_urls_are_404():
    with Site({HOME: page("home", "/old", "/gone"), HOME + "old": redirect("/new")}) as site:
        result = crawl(site, [HOME])
    assert result.pages == ["home"]
    assert sorted(site.requests) == [HOME, HOME + "gone", HOME + "new", HOME + "old"]
    assert result.stats["downloader/response_status_count/404"] == 2


def test_answers_from_a_function():
    with Site(lambda url: page(url) if url.endswith("/a") else Reply(500)) as site:
        result = crawl(site, [HOME + "a", HOME + "b"])
    assert result.pages == [HOME + "a"]
    assert result.stats["downloader/response_status_count/500"] == 1


def test_a_crawl_that_cannot_start_reports_its_error():
    with Site({}) as site:
        result = crawl(site, [HOME], {"SCHEDULER": "loopback.Nothing"})
    assert result.error is not None
    assert result.error.startswith("NameError")
    assert site.requests == []
