"""What is no HTML in a running crawl: withheld behind its own kind, and refuted for its own kind."""

from __future__ import annotations

import asyncio

import pytest
from live_parts import BARE, SITE, Parts
from loopback import Reply, Site, crawl
from scrapy import Request
from scrapy.http import HtmlResponse, Response
from twisted.internet.defer import Deferred

from scrapy_urlnorm import SiteRule, save_site_rules
from scrapy_urlnorm.crawl.live import audit_results, live_rules, mining
from scrapy_urlnorm.crawl.live.file_uses import FileUses
from scrapy_urlnorm.crawl.live.ledger import Page
from scrapy_urlnorm.learning.on_files import FILES_ALONE, OnFiles, on_files
from scrapy_urlnorm.learning.worker import OF_FILE, Job, mined
from scrapy_urlnorm.logs import Observation
from scrapy_urlnorm.logs.page_identity import FILE, Identity

VIA = SiteRule(
    site=SITE, kind="drop-param", param="via", source="content", support=500, conflicts=0
)
VIA_ELSEWHERE = SiteRule(site="other.test", kind="drop-param", param="via")


@pytest.fixture
def begun(tmp_path, monkeypatch):
    """Begins a crawl to which pages have proved a rule already, in the mode that is asked for."""
    monkeypatch.setattr(audit_results, "deferred_from_coro", asyncio.run)
    monkeypatch.setattr(live_rules, "SLICE_SECONDS", 60.0)
    monkeypatch.setattr(mining, "in_thread", lambda *_: Deferred())  # it never answers
    path = tmp_path / "rules.toml"
    save_site_rules(path, [VIA])
    crawls = []

    def begin(learn="content"):
        settings = {"URLNORM_LEARN": learn, "URLNORM_LEARNED_PATH": str(path)}
        parts = Parts(**settings, URLNORM_DEFER_DUPLICATES=False)
        crawls.append(parts)
        return parts

    yield begin
    for parts in crawls:
        parts.close()


def body(name, size=1_000):
    return (name.encode() * size)[:size]


def response_of(request, content, kind=Response):
    return kind(request.url, body=content, request=request)


def fetch(parts, url, content, kind=Response):
    """Find a link, send it, have its answer arrive; whether it was sent."""
    parts.rules.asked_by_queue()
    request = Request(url)
    if not parts.schedule(request):
        return False
    request = parts.leave()
    if request is None:
        return False
    parts.rules.page(request, response_of(request, content, kind))
    parts.under_way.discard(request)
    parts.rules.work()
    return True


def sent_of(parts, number, folder="file", kind=Response, size=1_000):
    """Fetch so many contents under two URLs each; return how often the second one was sent."""
    sent = 0
    for n in range(number):
        content = body(f"<p>{folder} {n}</p>", size)
        assert fetch(parts, f"{BARE}/{folder}/{n}", content, kind)
        sent += fetch(parts, f"{BARE}/{folder}/{n}?via=a", content, kind)
    return sent


def test_files_are_withheld_once_their_own_audits_have_agreed(begun):
    """Five hundred pages say little of files: of a hundred, the first are all sent."""
    parts = begun()
    assert sent_of(parts, 4, "first") == 4
    assert 13 <= sent_of(parts, 100, "then") <= 25
    assert sent_of(parts, 100, "page", HtmlResponse) < 10
    assert parts.in_force() == (VIA,)


@pytest.mark.parametrize(("learn", "size", "sent"), [("content", 127, 0), ("redirects", 1_000, 60)])
def test_small_files_and_other_modes_keep_nothing_back(begun, learn, size, sent):
    """An empty file says nothing of its name, and without equal contents files are not compared."""
    parts = begun(learn)
    assert sent_of(parts, 60, size=size) == sent
    parts.rules.idle()
    assert sent + len(parts.queued()) == 60
    assert parts.stats["audited"] == 0


def test_a_huge_file_is_always_sent(begun, monkeypatch):
    """Its digest would hold the event loop."""
    monkeypatch.setattr("scrapy_urlnorm.crawl.live.comparing.LARGEST_FILE", 999)
    parts = begun()
    assert sent_of(parts, 60) == 0
    parts.rules.idle()
    assert len(parts.queued()) == 60


def test_a_file_that_differs_takes_the_rule_back_for_files_alone(begun):
    """All files behind others are sent then, and pages are withheld as before."""
    parts = begun()
    sent = sent_of(parts, 100)
    parts.download = lambda request: response_of(request, body("a table"))
    assert fetch(parts, f"{BARE}/new/table", body("a table"))
    assert fetch(parts, f"{BARE}/new/table?via=a", body("another table"))
    assert len(parts.queued()) == 100 - sent
    assert parts.in_force() == (VIA,)
    for request in tuple(parts.queue):
        assert parts.leave() is request  # it is not kept back again
    assert sent_of(parts, 30, "other") == 30
    assert sent_of(parts, 30, "page", HtmlResponse) < 10
    assert parts.stats["retracted"] == 0


def test_what_waits_behind_a_file_is_an_audit_of_files_too(begun):
    """Parked while the first one is under way, then sent to compare."""
    parts = begun()
    parts.rules.asked_by_queue()
    first, second = Request(f"{BARE}/a.pdf"), Request(f"{BARE}/a.pdf?via=a")
    assert parts.schedule(first)
    assert parts.schedule(second)
    assert parts.leave() is first
    assert parts.leave() is None
    parts.rules.page(first, response_of(first, body("a")))
    assert parts.queued() == [second.url]
    assert parts.stats["audited"] == 1


# --- what mining says of files -------------------------------------------------------------------


def rows(number, name, is_file=True, odd=()):
    """So many contents under four URLs each, in one folder; those *odd* are others under each."""
    mark = OF_FILE if is_file else ""
    return [
        (f"{BARE}/in/{name}{n}{via}", 200, f"{mark}{name} {n} {via if n in odd else ''}", None)
        for n in range(number)
        for via in ("", "?via=a", "?via=b", "?via=c")
    ]


PAGES = rows(100, "page", is_file=False)


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (PAGES, None),
        (PAGES + rows(5, "file"), OnFiles(5, 0, is_alone=False)),
        (rows(30, "file"), OnFiles(30, 0, is_alone=True)),
        (PAGES + rows(50, "file"), OnFiles(50, 0, is_alone=False)),
    ],
)
def test_the_miner_says_what_files_say(rows, expected):
    """By the rules of a job: contents that agree, groups that differ, and whether files are all."""
    answer = mined(Job(SITE, rows, (), {}))
    [rule] = answer.rules
    assert answer.on_files.get(rule.identity) == expected


def observed(rows):
    return [Observation(url, status, content, mime="") for url, status, content, _ in rows]


def test_files_say_whether_they_are_one():
    """Of rules that do not act on them, nothing."""
    found = on_files([VIA], observed(rows(9, "file", odd=(1, 2))))
    assert found == {VIA.identity: OnFiles(7, 2)}
    assert on_files([VIA_ELSEWHERE], observed(rows(9, "file"))) == {}
    assert on_files([VIA], []) == on_files([], observed(rows(9, "file"))) == {}


def page(kind):
    return Page(b"own", BARE, Identity("bytes", kind=kind), 0)


@pytest.mark.parametrize(
    ("found", "of_files", "of_pages"),
    [
        (OnFiles(), True, True),
        (OnFiles(3, 0), True, True),
        (OnFiles(3, 1), False, True),
        (OnFiles(30, 0, is_alone=True), True, False),
    ],
)
def test_what_mining_says_decides(found, of_files, of_pages):
    uses = FileUses()
    assert uses.learn({VIA.identity: found}) is not (of_files and of_pages)
    assert uses.learn({VIA.identity: found}) is False  # nothing is new
    assert uses.allow(page(FILE), [VIA]) is of_files
    assert uses.allow(page(None), [VIA]) is of_pages
    assert uses.of(VIA).support == found.agree


def test_that_files_alone_have_proved_a_rule_goes_with_it():
    """To the next crawl, until pages prove it too."""
    [rule] = mined(Job(SITE, rows(30, "file"), (), {})).rules
    assert rule.note == FILES_ALONE
    assert not FileUses().allow(page(None), [rule])
    assert FileUses().allow(page(FILE), [rule])
    [rule] = mined(Job(SITE, rows(30, "file") + PAGES, (rule,), {})).rules
    assert rule.note is None
    assert FileUses().allow(page(None), [rule])


def test_what_an_audit_refuted_stays_refuted():
    """Also when the rule goes and comes again."""
    uses = FileUses()
    uses.refute(uses.of(VIA))
    uses.forget(VIA)
    uses.learn({VIA.identity: OnFiles(30, 0)})
    assert not uses.allow(page(FILE), [VIA])
    assert uses.allow(page(None), [VIA])


# --- a real crawl --------------------------------------------------------------------------------

NUMBER, NAMES = 40, ("", "?via=a", "?via=b", "?via=c")


def shop(url):
    """Pages and documents under four names each; tables that are others under each name."""
    path, _, query = url.removeprefix(f"{BARE}/").partition("?")
    kind = path.partition("/")[0]
    if kind == "doc":
        return Reply(200, body(path), {"Content-Type": "application/pdf"})
    if kind == "table":
        return Reply(200, body(f"{path} {query}"), {"Content-Type": "text/csv"})
    kinds = () if path else ("item", "doc", "table")
    links = [f"/{kind}/{n}{name}" for kind in kinds for n in range(NUMBER) for name in NAMES]
    anchors = "".join(f'<a href="{link}">.</a>' for link in links)
    text = f"<html><body><h1>this is {path}</h1>{anchors}</body></html>"
    return Reply(200, text.encode(), {"Content-Type": "text/html"})


def test_a_rule_of_pages_spares_documents_and_loses_no_table(tmp_path):
    """The first audit of a table takes the rule back for all files, documents too.

    Another one may be under way by then, if the crawl is slow.
    """
    save_site_rules(tmp_path / "rules.toml", [VIA])
    settings = {
        "ADDONS": {"scrapy_urlnorm.Addon": 900},
        "URLNORM_LEARN": "content",
        "URLNORM_LEARNED_PATH": str(tmp_path / "rules.toml"),
        "SCHEDULER_MEMORY_QUEUE": "scrapy.squeues.FifoMemoryQueue",
        "CONCURRENT_REQUESTS": 1,
    }
    with Site(shop) as site:
        result = crawl(site, [f"{BARE}/"], settings=settings)
        asked = [url.removeprefix(f"{BARE}/") for url in site.requests]
    sent = {
        kind: {url for url in asked if url.startswith(kind)} for kind in ("item", "doc", "table")
    }
    assert len({url.partition("?")[0] for url in sent["item"]}) == NUMBER
    assert len(sent["item"]) < 2 * NUMBER
    assert len(sent["table"]) == len(sent["doc"]) == NUMBER * len(NAMES)
    assert 1 <= result.stats["urlnorm/learned/audits_disagreed"] < 5
    assert result.stats["urlnorm/learned/put_back"] > NUMBER
