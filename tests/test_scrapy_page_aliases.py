"""Page aliases in crawls: what pages rightly say of their names saves requests, and only that.

Each site is a forum of topics with posts. A topic names its posts: ``<p id=p7><a href=?post=7#p7>``.
"""

from __future__ import annotations

import html
from collections import Counter
from urllib.parse import parse_qs, urlsplit

import pytest
from hostile_base import IN_ORDER
from loopback import Reply, Site, crawl, redirect
from simulation.plan import Plan
from simulation.walk import Walk

from scrapy_urlnorm.learning.aliases import VOTES

HOST = "http://forum.test"
HOME = f"{HOST}/"
TOPICS = range(25)
POSTS = range(4)
THREADS = range(60)
#: Without rules from equal pages, which would say of all posts what names say of each.
NAMES_ALONE = {"URLNORM_LEARN": "redirects"}


def doc(name, body=""):
    text = f"<html><body><h1>{name}</h1>{body}</body></html>"
    return Reply(200, text.encode(), {"Content-Type": "text/html; charset=utf-8"})


def linked(*urls):
    return "".join(f'<a href="{html.escape(url)}">.</a>' for url in urls)


def topic_url(topic):
    return f"{HOST}/topic/{topic}/"


def post_url(topic, post):
    return f"{topic_url(topic)}?post={topic}{post}"


def names(urls):
    """Elements of a page, each with a link ``url#name`` to itself."""
    return "".join(
        f'<p id="{name}"><a href="{html.escape(url)}#{name}">.</a></p>' for url, name in urls
    )


def posts_of(topic):
    return [(post_url(topic, post), f"p{topic}{post}") for post in POSTS]


class Forum:
    """Lists link to the topics, and then to their posts."""

    def __call__(self, url):
        parts = urlsplit(url)
        if parts.path == "/":
            topics = [topic_url(topic) for topic in TOPICS]
            posts = [post_url(topic, post) for topic in TOPICS for post in POSTS]
            return doc("home", linked(*topics, *posts))
        number = parts.path.split("/")[2]
        post = parse_qs(parts.query).get("post")
        return self.post(number, post[0]) if post else self.topic(number)

    def topic(self, number):
        return doc(f"topic {number}", names(posts_of(number)))

    def post(self, number, post):
        return self.topic(number)


class PartsOfTopics(Forum):
    """A post is shown with what answers it, and not with its topic."""

    def post(self, number, post):
        return doc(f"part {post}", names([(post_url(number, post[-1]), f"p{post}")]))


class SomePartsOfTopics(Forum):
    """As that, but in every fifth topic only; audits have to find it."""

    def post(self, number, post):
        return (
            PartsOfTopics.post(self, number, post) if int(number) % 5 == 4 else self.topic(number)
        )


class LoginWall(Forum):
    """Posts are for members."""

    def post(self, number, post):
        return doc("Log in", "<form><input type=password></form>")


class ToVariants(Forum):
    """A post leads to its topic under a URL that shows which post to mark."""

    def __call__(self, url):
        if "?post=" in url:
            return redirect(url.replace("?post=", "?mark="), 302)
        return super().__call__(url)


class ToTopics(Forum):
    def __call__(self, url):
        return redirect(url.partition("?")[0], 302) if "?post=" in url else super().__call__(url)


class ToOtherTopics(Forum):
    def __call__(self, url):
        if "?post=" in url:
            number = (int(urlsplit(url).path.split("/")[2]) + 1) % len(TOPICS)
            return redirect(topic_url(number), 302)
        return super().__call__(url)


class OldVersions(Forum):
    """An older page links to the sections of the new one, which it has too."""

    def topic(self, number):
        return doc(f"topic {number} now")

    def post(self, number, post):
        links = [(topic_url(number), f"section-{at}") for at in range(3)]
        return doc(f"topic {number} before {post}", names(links))


class Lines(Forum):
    """A commit links to the lines of a file."""

    def topic(self, number):
        links = [(f"{HOST}/topic/{number}/?post={number}0", f"l{line}") for line in range(20, 40)]
        return doc(f"commit {number}", names(links))

    def post(self, number, post):
        links = [(f"{HOST}/topic/{number}/?post={post}", f"l{line}") for line in range(50)]
        return doc(f"file {number} {post}", names(links))


class MailArchive(Forum):
    """A thread is shown under the name of each of its mails, and beside it lies a file of it."""

    def __call__(self, url):
        mail, *view = urlsplit(url).path.split("/")[2:] or [""]
        if not mail:
            mails = [f"{HOST}/list/m{each}x{post}/" for post in POSTS for each in THREADS]
            return doc("home", linked(*mails))
        thread = mail[1:].partition("x")[0]
        mails = [(f"{HOST}/list/m{thread}x{post}/T/", f"p{post}") for post in POSTS]
        if view == ["T", ""]:
            return doc(f"thread {thread}", names(mails))
        if view == ["thread.gz"]:
            return Reply(
                200, f"The file of {thread}".encode() * 100, {"Content-Type": "text/plain"}
            )
        if view == ["raw"]:
            return Reply(200, f"The mail {mail}".encode() * 100, {"Content-Type": "text/plain"})
        return doc(f"mail {mail}", linked("T/#p0", "thread.gz", "raw"))


def visit(forum, **settings):
    """Crawl *forum* in virtual time, one page after the other."""
    found = Walk(forum, HOME, Plan(1, concurrency=1), **settings).crawl()
    assert not found.trouble
    return found


def test_posts_are_suppressed_behind_their_topics():
    """Five contents agree, and two further votes and audits: the rest is not fetched."""
    result = crawl(Forum(), [HOME], IN_ORDER)
    requests = result.requests
    assert set(result.pages) == {"home", *(f"topic {number}" for number in TOPICS)}
    assert result.counts["learned/aliases"] == 1
    assert result.counts["learned/suppressed"] >= 60
    everything = 1 + len(TOPICS) * (1 + len(POSTS))
    assert len(requests) == everything - result.stats["urlnorm/saved"]
    assert (
        "Learned from what pages say of themselves: permalinks forum.test/topic/#/?post#p#"
        in result.log
    )


def test_a_resumed_crawl_knows_the_names_that_the_first_run_met(tmp_path):
    """The first run ends when the topics and some posts are there; the second needs no more votes."""
    job = {**IN_ORDER, **NAMES_ALONE, "JOBDIR": str(tmp_path / "job")}
    with Site(Forum()) as site:
        stopped = crawl(site, [HOME], {**job, "CLOSESPIDER_PAGECOUNT": 50})
        first = len(site.requests)
        result = crawl(site, [HOME], job)
    assert stopped.stats["finish_reason"] == "closespider_pagecount"
    assert result.stats["finish_reason"] == "finished"
    assert "urlnorm/errors" not in result.stats
    # Without what the first run wrote down, nothing tells of which topic a post is. Of sixty posts
    # only audits are sent, and the start page, for which Scrapy asks in every run.
    audits = result.stats["urlnorm/learned/audits"]
    at_the_end = result.counts.get("learned/closing_audits", 0)
    assert audits == result.counts["learned/audits_agreed"] <= 7 + at_the_end
    assert len(site.requests) - first == 1 + audits


@pytest.mark.parametrize("forum", [ToTopics, ToVariants])
def test_what_arrives_behind_a_redirect_is_compared(forum):
    """The post is another name of the topic, whatever URL it is redirected to."""
    result = visit(forum())
    assert set(result.pages) == {"home", *(f"topic {number}" for number in TOPICS)}
    assert result.counts["learned/aliases"] == 1
    assert result.counts["learned/suppressed"] >= 50
    assert "learned/aliases_retracted" not in result.counts


@pytest.mark.parametrize("forum", [PartsOfTopics, LoginWall, ToOtherTopics, OldVersions, Lines])
def test_what_is_not_the_page_is_fetched(forum):
    """One vote says that the names are wrong; then nothing is suppressed."""
    result = visit(forum())
    assert "learned/suppressed" not in result.counts
    posts = {post_url(topic, post) for topic in TOPICS for post in POSTS}
    assert posts <= set(result.sent)


def test_a_file_beside_a_page_is_that_beside_its_other_names():
    """All mails are fetched, and what is theirs alone; a file of each thread, and few more."""
    result = visit(MailArchive(), **NAMES_ALONE | {"URLNORM_LEARN": "content"})
    sent = Counter(url.rpartition("/")[2] for url in result.sent)
    assert sent["raw"] == len(THREADS) * len(POSTS)
    files = [url for url in result.sent if url.endswith("thread.gz")]
    assert len({url.partition("x")[0] for url in files}) == len(THREADS)
    assert len(files) <= len(THREADS) + VOTES + result.counts["learned/audits_agreed"]


def test_what_an_audit_finds_wrong_comes_back():
    """Every page is fetched in the end, those too that had been suppressed before."""
    result = visit(SomePartsOfTopics())
    wanted = {"home", *(f"topic {number}" for number in TOPICS)}
    wanted |= {f"part {number}{post}" for number in TOPICS if number % 5 == 4 for post in POSTS}
    assert set(result.pages) == wanted


def test_nothing_of_it_without_learning():
    requests = visit(Forum(), URLNORM_LEARN="off").sent
    assert len(requests) == 1 + len(TOPICS) * (1 + len(POSTS))
