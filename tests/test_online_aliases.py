"""What is known of page aliases goes from one run of a crawl to the next."""

from __future__ import annotations

import json
import logging
from contextlib import closing

import pytest
from online_parts import Parts
from scrapy import Request
from scrapy.http import HtmlResponse

from scrapy_urlnorm.crawl.requests import asked_for
from scrapy_urlnorm.learning.aliases import VOTES, SiteAliases, permalink
from scrapy_urlnorm.stores.sqlite import Database
from scrapy_urlnorm.url import get_fingerprint

HOST = "http://a.test"


@pytest.fixture
def begin(tmp_path):
    """Begins a run of one crawl; what an earlier one knew of a site is written down first."""

    def begin(*rows):
        with Database(tmp_path / "db") as database:
            for row in rows:
                insert = "INSERT OR REPLACE INTO alias_site (site, state) VALUES (?, ?)"
                database.write(insert, *row)
        return Parts(database=Database(tmp_path / "db"), has_miner=False, has_audits=False)

    begin().close()  # there are tables now
    return begin


def knows(parts):
    """Whether a name of a page is known: it is held when that page has arrived."""
    assert parts.fetch(page := f"{HOST}/t/{VOTES}") == "fetched"
    parts.schedule(Request(f"{HOST}/p/{VOTES}"))
    held = parts.database.read("SELECT behind, is_alias FROM held")
    assert held in ([], [(page, True)])
    return bool(held)


def state():
    """The pages of a site named others, and all but the last of these arrived as they said."""
    site = SiteAliases("a.test")
    for number in range(VOTES + 1):
        page, name = f"{HOST}/t/{number}", f"{HOST}/p/{number}"
        named = [(get_fingerprint(name), permalink(page, name, f"p{number}"))]
        site.names((get_fingerprint(page), page), f"content {number}", named, lambda _: None)
        if number < VOTES:
            site.arrives(get_fingerprint(name), f"content {number}")
    assert list(site.accepted())
    return site.state


KNOWN = "a.test", json.dumps(state())


def test_it_is_handed_over_at_each_proper_end(begin):
    """Also where nothing new is learned."""
    begin(KNOWN).close()
    begin().close()
    with closing(begin()) as parts:
        assert knows(parts)


def test_a_run_after_a_kill_learns_anew(begin):
    """An audit may have refuted what was known."""
    parts = begin(KNOWN)
    parts.database.commit()
    parts.kill()
    with closing(begin()) as parts:
        assert not knows(parts)


def test_a_kill_before_the_first_commit_takes_nothing(begin):
    """The run has sent nothing yet."""
    begin(KNOWN).kill()
    with closing(begin()) as parts:
        assert knows(parts)


def test_what_cannot_be_read_is_learned_anew(begin, caplog):
    """One damaged site takes no other along."""
    damaged = [(f"{n}.test", t) for n, t in enumerate(("", "[]", "{}", '{"patterns": [[1]]}'))]
    with caplog.at_level(logging.WARNING), closing(begin(KNOWN, *damaged)) as parts:
        assert knows(parts)
    assert [record.args["site"] for record in caplog.records] == [site for site, _ in damaged]


@pytest.mark.parametrize(
    ("url", "canonical", "counts"),
    [
        ("/post", "/post", True),
        ("/post#respond", "/post", True),
        ("/post", "", True),
        ("/post?replytocom=7", "/post", False),
    ],
)
def test_the_short_link_of_a_page_that_repeats_another_one_is_of_that(
    begin, url, canonical, counts
):
    """WordPress has the short link of a post on each page with a form to reply."""
    links = '<link rel="shortlink" href="/?p=5">'
    links += f'<link rel="canonical" href="{canonical}">' if canonical else ""
    body = f"<html><head>{links}</head><body>a post</body></html>".encode()
    with closing(begin()) as parts:
        said = parts.learner._aliases.read(
            asked_for(HOST + url), HtmlResponse(HOST + url.split("#")[0], body=body)
        )
    assert bool(said.links) == counts
