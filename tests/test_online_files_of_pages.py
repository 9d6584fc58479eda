"""Pictures and scripts of two pages that rules make one: a mirror serves its own, and bytes decide."""

from __future__ import annotations

from contextlib import closing

import pytest
from online_parts import Parts, page_of
from scrapy import Request
from scrapy.http import Response
from twisted.internet.defer import Deferred

from scrapy_urlnorm.crawl.online import verdicts
from scrapy_urlnorm.crawl.online.files import Files
from scrapy_urlnorm.crawl.requests import request_in
from scrapy_urlnorm.logs.whole import Node, Whole
from scrapy_urlnorm.site_rules import SiteRule

HERE, MIRROR = "http://shop.test/docs/3", "http://shop.test/docs/latest"
ALIAS = SiteRule(
    kind="prefix-alias", site="shop.test", prefix="/docs/3", by="/docs/latest", source="content",
    support=400,
)  # fmt: skip
#: Bodies of files of the first page and of the mirror, by their name; and what the audit says, with
#: how many pages and files are fetched again. ``None`` stands for what does not come.
FILES = {
    "the same": ({"a.png": ("x", "x"), "b.js": ("y", "y")}, "agreed", 4),
    "one is another": ({"a.png": ("x", "x"), "b.js": ("y", "z"), "c.js": "yz"}, "differed", 7),
    "one does not come": ({"a.png": ("x", None)}, "differed", 5),
    "none comes": ({"a.png": (None, None)}, "differed", 5),
    "one may be all": ({"1.jpg": ("three", "four")}, "differed", 5),
}


def shown(url, names, more=""):
    folder = url.rpartition("/")[0]
    return "the page" + "".join(f'<img src="{folder}/{name}">' for name in names) + more


@pytest.mark.parametrize("case", FILES)
def test_files_of_a_mirror_are_compared_by_their_bytes(case):
    bodies, said, fetched = FILES[case]

    def download(request):
        name = request.url.rpartition("/")[2]
        if name not in bodies:
            return page_of(request, shown(request.url, bodies))
        body = bodies[name][request.url.startswith(MIRROR)]
        return page_of(request, body).replace(status=200 if body else 404)

    with closing(Parts(has_miner=False, URLNORM_LEARN="content")) as crawl:
        crawl.download = download
        crawl.fetch(f"{MIRROR}/p", shown(f"{MIRROR}/p", bodies))
        crawl.found(ALIAS)
        crawl.fetch(f"{HERE}/p", shown(f"{HERE}/p", bodies))
        assert (crawl.stats[f"audits_{said}"], crawl.stats["second_fetches"]) == (1, fetched)
        crawl.fetch(f"{MIRROR}/q", shown(f"{MIRROR}/q", bodies))
        crawl.fetch(f"{HERE}/q", shown(f"{HERE}/q", bodies))
        assert crawl.stats["second_fetches"] == fetched  # they are known
        assert len(crawl.in_force()) == (said == "agreed")


def test_no_file_is_fetched_where_that_does_not_pay(monkeypatch):
    monkeypatch.setattr(verdicts, "_FREE", 0)
    names = FILES["the same"][0]
    with closing(Parts(has_miner=False, URLNORM_LEARN="content")) as crawl:
        crawl.fetch(f"{MIRROR}/p", shown(f"{MIRROR}/p", names))
        crawl.found(ALIAS)
        crawl.fetch(f"{HERE}/p", shown(f"{HERE}/p", names))
        assert (crawl.stats["audits_unstable"], crawl.stats["second_fetches"]) == (1, 0)


def test_audits_that_wait_for_files_share_them():
    """Then the second has but its own to wait for."""
    shared, waiting = ["a.png", "b.js"], []

    def download(request):
        waiting.append((request, Deferred()))
        return waiting[-1][1]

    def page_at(url):
        return shown(url, [*shared, url[-1] + ".png"])

    with closing(Parts(has_miner=False, URLNORM_LEARN="content")) as crawl:
        crawl.download = download
        for name in "p7":
            crawl.fetch(f"{MIRROR}/{name}", page_at(f"{MIRROR}/{name}"))
        crawl.found(ALIAS)
        audits = [Request(f"{HERE}/{name}") for name in "p7"]
        assert all(map(crawl.schedule, audits))
        for audit in [crawl.leave() for _ in audits]:
            crawl.arrive(audit, page_at(audit.url))
        for request, answer in waiting:  # there come more meanwhile
            answer.callback(page_of(request, request.url.rpartition("/")[2]))
        assert crawl.stats["audits_agreed"] == 2
        names = sorted(request.url.rpartition("/")[2] for request, _ in waiting)
        assert names == sorted([*shared, "p.png", "7.png"] * 2)


NAMES = [f"{number:02}.png" for number in range(21)]


@pytest.mark.parametrize(
    ("one", "other", "found"),
    [
        ([("p/img@src", "a.png")], [("p/img@src", "a.png")], ["a.png", "a.png"]),
        ([("p/img@src", "a.png")], [("p/img@src", "b.png")], []),
        ([("p/img@src", "a.svg#a")], [("p/img@src", "a.svg#b")], []),
        ([("p/object@data", "a.svg")], [("p/object@data", "a.svg")], ["a.svg", "a.svg"]),
        ([("p/b@data", "buy")], [("p/b@data", "buy")], []),
        ([("p/img@src", "a.png?2")], [("p/img@src", "a.png?3")], []),
        ([("p/i@style", "a.png")], [("p/img@srcset", "a.png")], ["a.png", "a.png"]),
        # These no browser asks for by itself: a text, what a button does, and a link.
        ([("p", "a.png")], [("p", "a.png")], []),
        ([("p/b@data-to", "buy")], [("p/b@data-to", "buy")], []),
        ([("p/a@href", "a.png", "")], [("p/a@href", "a.png", "")], []),
        *(
            ([("p/img@src", name) for name in names],) * 2 + (sorted(names * 2) * is_few,)
            for names, is_few in ((NAMES, False), (NAMES[1:], True))
        ),
    ],
)
def test_files_have_one_name_and_are_loaded_with_their_page(one, other, found):
    pages = (
        Whole(here, [Node(place, f"{here}/{name}", *more) for place, name, *more in nodes], [])
        for here, nodes in ((HERE, one), (MIRROR, other))
    )
    names = (url.rpartition("/")[2] for pair in Files().unknown(*pages) for url in pair)
    assert sorted(names) == found


def test_no_file_of_another_site_is_fetched():
    """A page may name any host, which the crawl has never asked."""
    hosts = ("http://10.0.0.1", "http://10.0.0.2")
    one, two = (
        Whole(here, [Node("img@src", f"{host}/a.png")], [])
        for here, host in zip((HERE, MIRROR), hosts, strict=True)
    )
    assert not Files().unknown(one, two)


def test_a_page_is_no_picture_of_itself():
    """Its bytes change with a token in it; where the two differ, they say their own URLs."""
    one, two = (
        Whole(url, [Node("img@src", f"{url}#")], [])
        for url in (f"http://shop.test/login/?to=/{where}" for where in ("", "list/"))
    )
    assert not Files().unknown(one, two)
    urls = [f"{each.url}a.png" for each in (one, two)]
    others = (
        each._replace(nodes=[Node("img@src", url)])
        for each, url in zip((one, two), urls, strict=True)
    )
    assert Files().unknown(*others) == [tuple(urls)]


def test_a_file_is_known_where_it_is_loaded_and_by_its_fragment():
    """What a page says of it is a text, and of a file of many pictures it is one."""
    files, places = Files(), ("p", "img@src")
    sprites = [f"{folder}/a.svg#{which}" for folder in (HERE, MIRROR) for which in "ab"]
    fetches = files.fetch([*zip(sprites[:2], sprites[2:], strict=True)])
    asked, _ = next(fetches)
    assert asked.url == f"{HERE}/a.svg#a"
    assert request_in(asked).meta["download_maxsize"]
    for _ in sprites[1:]:
        fetches.send(Response("http://shop.test/", body=b"sprites"))
    with pytest.raises(StopIteration):
        fetches.send(Response("http://shop.test/", body=b"sprites"))
    pages = [Whole(HERE, [Node(place, url) for url in sprites], []) for place in places]
    text, shown = ([node.value for node in files.by_bytes(page).nodes] for page in pages)
    assert text == sprites
    assert (shown[0], shown[1]) == (shown[2], shown[3])
    assert shown[0] != shown[1]
