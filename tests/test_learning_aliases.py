"""Page aliases: which links are of one pattern, how pages vote, and what an alias needs."""

from __future__ import annotations

import json

import pytest

from scrapy_urlnorm.crawl.online.aliases import in_words
from scrapy_urlnorm.learning import aliases
from scrapy_urlnorm.learning.aliases import VOTES, SiteAliases, permalink, shortlink

HOST = "http://a.test"


def look(page, link):
    url, _, name = (HOST + link).partition("#")
    return permalink(HOST + page, url, name).look


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("/t/a/?x=1", "/t/a/?post=9#9"), ("/t/b/", "/t/b/?post=123#123")),
        (("/t", "/t?a=1;b=2#p1"), ("/t?c=3", "/t?b=5&a=4&c=3#p77")),
        (
            ("/topic,5.html", "/topic,5.msg77.html#msg77"),
            ("/topic,6.html", "/topic,6.msg8.html#msg8"),
        ),
        (("/my-post/", "/my-post/?reply=5#respond"), ("/other/", "/other/?reply=6#respond")),
        (("/d/1", "/d/1?r=2#0123456789abcdef"), ("/d/2", "/d/2?r=2#abcdef0123456789")),
    ],
)
def test_links_of_one_pattern(one, other):
    """Numbers, words of a path and the page itself differ; the kind of link does not."""
    assert look(*one) == look(*other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("/t", "/t?post=9#9"), ("/t", "/t?post=9#p9")),  # another kind of place
        (("/t", "/t?post=9#9"), ("/t", "/t?post=9&sid=1#9")),  # one more parameter
        (("/t", "/t?post=9#9"), ("/s", "/t?post=9#9")),  # another path than the page
        (("/a/t", "/a/t?p=9#9"), ("/b/t", "/b/t?p=9#9")),  # another application on the host
        (("/t", "/t?p=9#9"), ("/t", "/t?p=9#the-name-of-a-long-section")),
        (("/t", "/t/#9"), ("/t", "/t.html#9")),
        (("/a/1/flat/", "/a/2/flat/#u"), ("/a/1/flat/", "/a/2/nested/#u")),  # another kind of page
    ],
)
def test_links_of_two_patterns(one, other):
    assert look(*one) != look(*other)


@pytest.mark.parametrize(
    ("page", "link", "counts"),
    [
        ("/2024/post/", "/?p=5", True),
        ("/2024/post/comment-page-2/", "/?p=5", False),
        ("/2024/post/?page=2", "/?p=5", False),
        ("/2024/post/?page=2", "/?p=5&page=2", True),
        ("/5", ".other/5", False),  # another host
    ],
)
def test_which_short_links_say_something_of_a_page(page, link, counts):
    assert (shortlink(HOST + page, HOST + link) is not None) == counts


class Pages:
    """Pages of one site that arrive: topics that name ``?post=N``."""

    def __init__(self):
        self.aliases = SiteAliases("a.test")
        self.contents = {}

    def arrives(self, url, content, *posts):
        key = url.encode()
        doubts = self.aliases.arrives(key, content)
        self.contents[key] = content
        links = [permalink(HOST + url, HOST + post, f"p{post[-1]}") for post in posts]
        keyed = [(link.url.removeprefix(HOST).encode(), link) for link in links]
        more, contested = self.aliases.names((key, HOST + url), content, keyed, self.contents.get)
        return doubts + more, contested

    def arrives_beside(self, url, content):
        self.contents[url.encode()] = content
        self.aliases.arrives(url.encode(), content)
        links = [
            each for each in self.aliases.beside(HOST + url) if self.aliases.is_open(each.look)
        ]
        keyed = [(link.url.removeprefix(HOST).encode(), link) for link in links]
        self.aliases.names((url.encode(), HOST + url), content, keyed, self.contents.get)

    def accept(self, votes=VOTES):
        for number in range(votes):
            self.arrives(f"/t/{number}", f"content {number}", f"/t/{number}?post={number}")
            self.arrives(f"/t/{number}?post={number}", f"content {number}")

    def stands_for(self, url):
        found = self.aliases.alias(url.encode())
        return None if found is None else found.page.decode()


@pytest.mark.parametrize(("votes", "holds"), [(VOTES - 1, False), (VOTES, True)])
def test_five_contents_accept_a_pattern(votes, holds):
    """Then each name that one page has stands for it."""
    pages = Pages()
    pages.accept(votes)
    pages.arrives("/t/7", "seven", "/t/7?post=7", "/t/7?post=8")
    assert pages.stands_for("/t/7?post=8") == ("/t/7" if holds else None)
    assert len(list(pages.aliases.accepted())) == holds
    assert len(pages.aliases.news) == holds


def test_one_content_has_one_vote():
    """A topic with many posts proves no more than one with a single post."""
    pages = Pages()
    posts = [f"/t/1?post={number}" for number in range(9)]
    for post in posts[:4]:
        pages.arrives(post, "one")
    pages.arrives("/t/1", "one", *posts)
    for post in posts[4:]:
        pages.arrives(post, "one")
    assert not list(pages.aliases.accepted())


@pytest.mark.parametrize("content", ["other", None])
@pytest.mark.parametrize("comes_first", [True, False])
def test_one_disagreement_ends_a_trial(content, comes_first):
    """Other content, or no page at all."""
    pages = Pages()
    if comes_first and content:
        pages.arrives("/t/9?post=9", content)
    pages.arrives("/t/9", "nine", "/t/9?post=9")
    pages.arrives("/t/9?post=9", content)
    pages.accept()
    assert not list(pages.aliases.accepted())
    assert not pages.aliases.is_open(look("/t/1", "/t/1?post=1#p1")) or len(pages.aliases) == 1


def test_a_pattern_in_force_is_doubted_and_not_ended():
    """The page may have changed by itself, so its owner looks again."""
    pages = Pages()
    pages.accept()
    pages.arrives("/t/9", "nine", "/t/9?post=9")
    (doubt,), _ = pages.arrives("/t/9?post=9", "other")
    assert (doubt.key, doubt.page, doubt.url) == (b"/t/9?post=9", b"/t/9", f"{HOST}/t/9?post=9")
    assert pages.stands_for("/t/9?post=9") == "/t/9"
    pages.aliases.kill(doubt.pattern, "no")
    assert pages.stands_for("/t/9?post=9") is None
    assert pages.aliases.news == [doubt.pattern, doubt.pattern]


def test_what_pages_of_two_contents_name_stands_for_neither():
    pages = Pages()
    pages.accept()
    pages.arrives("/t/7", "seven", "/t/7?post=7")
    assert pages.stands_for("/t/7?post=7") == "/t/7"
    assert pages.arrives("/t/8", "eight", "/t/7?post=7") == ([], [f"{HOST}/t/7?post=7"])
    assert pages.stands_for("/t/7?post=7") is None


def test_what_lies_beside_a_page_lies_beside_its_other_names():
    """Seven threads, each under the names of its three mails; beside each, the thread as a file."""
    pages = Pages()
    for number in range(VOTES + 2):
        one, *others = [f"/list/{number}{mail}@b" for mail in "xyz"]
        for mail in (one, others[0]):
            pages.arrives(f"{mail}/T/", f"thread {number}")
        links = [f"{mail}/T/" for mail in (one, *others)]
        pages.arrives(f"{one}/T/", f"thread {number}", *links)
        for view, is_same in (("t.gz", True), ("raw", False), ("2.txt", True)):
            for mail in (others[0], one):
                url = f"{HOST}{mail}/{view}"
                beside = [link.url.removeprefix(HOST) for link in pages.aliases.beside(url)]
                assert (f"{others[1]}/{view}" in beside) == (view != "2.txt")
                what = f"{view} {number}" + mail * (not is_same)
                pages.arrives_beside(url.removeprefix(HOST), what)
    assert pages.stands_for("/list/6z@b/t.gz") in ("/list/6x@b/t.gz", "/list/6y@b/t.gz")
    assert pages.stands_for("/list/6z@b/raw") is None
    pages.arrives("/t/5", "five", "/p/5")
    assert not list(pages.aliases.beside(f"{HOST}/t/all"))  # /t/ is the folder of many pages
    assert pages.stands_for("/list/6z@b/2.txt") is None


def test_the_pages_of_a_folder_leave_room_for_other_patterns(monkeypatch):
    """Each is a look of its own: the old and the new version of a manual, say, name each other."""
    monkeypatch.setattr(aliases, "MAX_PATTERNS", 8)
    pages = Pages()
    pages.arrives("/v1/a.html", "a", "/v2/a.html")
    for name in "bcdefghi":
        pages.arrives_beside(f"/v1/{name}.html", name)
    looks = [pattern.look for pattern in pages.aliases._patterns.values()]
    assert sum(look[0] == "beside" for look in looks) == 3
    assert pages.aliases.is_open(look("/t", "/t?post=9#9"))


def test_memory_is_bounded(monkeypatch):
    for bound in ("MAX_PATTERNS", "MAX_NAMES", "MAX_PLACES"):
        monkeypatch.setattr(aliases, bound, 10)
    site = SiteAliases("a.test")
    for number in range(100):
        link = permalink(f"{HOST}/p", f"{HOST}/p?n{'x' * number}={number}", f"p{number}")
        key = b"%d" % number
        site.names((b"page %d" % (number % 20), HOST), f"c{number}", [(key, link)], {}.get)
        site.names((b"page", HOST), f"c{number}", [(b"same", link)], {}.get)
    assert len(site) <= 10
    assert len(site._patterns) <= 10
    assert len(site._places) <= 10
    assert all(len(claims) <= aliases.MAX_CLAIMS for claims in site._claims.values())


def test_the_log_shows_no_secret_of_a_name():
    """The examples of a pattern are URLs of the site as they stand."""
    site = SiteAliases("a.test")
    url = f"{HOST}/t?post=1&password=geheim"
    link = permalink(f"{HOST}/t?password=geheim", url, "1")
    site.names((b"page", f"{HOST}/t?password=geheim"), "content", [(b"name", link)], {}.get)
    pattern = site._pattern(link)
    assert "geheim" in str(pattern.examples)
    assert "geheim" not in in_words(pattern)


# --- from one run to the next ---------------------------------------------------------------------


def learned():
    """A site with an accepted pattern, a dead one, and a contested name."""
    site = SiteAliases("a.test")
    for number in range(8):
        page = f"{HOST}/t/{number}"
        link = permalink(page, f"{HOST}/p/{number}?x=1", f"p{number}")
        wrong = permalink(page, f"{page}?old=1", "top")
        shared = permalink(page, f"{HOST}/p/99?x=1", f"p99{number}")
        of = {link.url: link, wrong.url: wrong, shared.url: shared}
        links = [(url.encode(), each) for url, each in of.items()]
        site.names((page.encode(), page), f"content {number}", links, lambda _: None)
        if number < VOTES:
            site.arrives(link.url.encode(), f"content {number}")
        site.arrives(wrong.url.encode(), "another")
    site.news.clear()
    return site


def test_a_later_run_knows_what_an_earlier_one_knew():
    """Its state goes through JSON; every answer is the same."""
    before = learned()
    after = SiteAliases.from_state("a.test", json.loads(json.dumps(before.state)))
    assert after.state == before.state
    assert len(after) == len(before) > 8
    assert [p.identity for p in after.accepted()] == [p.identity for p in before.accepted()] != []
    for number in (*range(8), 99):
        name = f"{HOST}/p/{number}?x=1"
        one, other = before.alias(name.encode()), after.alias(name.encode())
        assert (one and (one.page, one.pattern.identity)) == (
            other and (other.page, other.pattern.identity)
        )
        assert (one is None) == (number == 99)
    wrong = permalink(f"{HOST}/t/9", f"{HOST}/t/9?old=1", "top")
    assert after.is_open(wrong.look) is before.is_open(wrong.look)
    doubts = after.arrives(f"{HOST}/p/7?x=1".encode(), "another")
    assert [doubt.url for doubt in doubts] == [f"{HOST}/p/7?x=1"]


def test_a_vote_is_the_same_in_every_process():
    """Not so the `hash` of a text."""
    pattern = next(learned().accepted())
    assert min(pattern.agreed) == 848_404_098
