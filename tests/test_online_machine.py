"""A crawl as a state machine: whatever happens in it, nothing is lost and nothing hangs."""

from __future__ import annotations

import tempfile
from functools import wraps
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from online_model import UNREADABLE, Crawl, SharedKeys
from online_sites import SITES, key_of
from scrapy import Request

from scrapy_urlnorm.crawl.online import families, safe_points
from scrapy_urlnorm.learning import aliases
from scrapy_urlnorm.report.filtered import SUPPRESSED

#: Few, so that they meet: spellings of two pages, two pages with one number each, another site.
URLS = [
    *(f"{scheme}://{www}{SITES[0]}/a" for scheme in ("http", "https") for www in ("", "www.")),
    *(f"{scheme}://{SITES[0]}/{path}" for scheme in ("http", "https") for path in ("a/", "b?n=1")),
    f"http://{SITES[0]}/b?n=2",
    f"http://{SITES[0]}/b?n=1&utm_source=x",
    f"http://{SITES[1]}/a",
    f"https://{SITES[1]}/a",
]
#: Two topics, and what they name: posts, which are right, parts, of which one is not, and one name
#: that both have. With two more spellings of the first.
NAMES = [
    *(
        f"http://{SITES[0]}/t?topic={topic}{more}"
        for topic in (1, 2)
        for more in ("", f"&post={topic}", f"&sub={topic}")
    ),
    *(f"http://{SITES[0]}/t?short={number}" for number in (1, 2)),
    f"https://{SITES[0]}/t?topic=1",
    f"https://{SITES[0]}/t?topic=1&post=1",
    f"http://{SITES[0]}/t?topic=1&post=1&utm_source=x",
]
#: How requests end, or that they stay under way.
FATES = ("page", "page", "page", "stay", "error", "retry")
_urls = st.integers(0, len(URLS) - 1)
#: A link to a URL, or the next request and its fate.
EVENTS = (*range(len(URLS)), *FATES, *FATES)
_rules = st.sampled_from([("https",), ("https", "www"), ("https", "number"), ("slash", "www"), ()])
_sites = st.sampled_from(SITES)
_which = st.integers(0, 5)


def step(**strategies):
    """A step of the machine, after which the crawl goes on for a while."""

    def decorate(method):
        @wraps(method)
        def take(self, events, **values):
            method(self, **values)
            self.go_on(events)

        del take.__wrapped__  # its signature is another one
        return rule(events=st.lists(st.sampled_from(EVENTS), max_size=12), **strategies)(take)

    return decorate


class Machine(RuleBasedStateMachine):
    """Steps of a crawl in any order; `teardown` runs it to its end and looks for what is lost."""

    on_disk = is_shared = False

    @initialize(
        has_audits=st.booleans(),
        rules=_rules,
        urls=st.sampled_from((URLS, NAMES)),
        is_slow=st.booleans(),
    )
    def begin(self, has_audits, rules, urls, is_slow):
        safe_points.STEPS = 1 if is_slow else 10**6  # one step at a time, or all
        self.urls = urls
        self.folder = tempfile.TemporaryDirectory() if self.on_disk else None
        folder = Path(self.folder.name) if self.folder else None
        store = SharedKeys() if self.is_shared else None
        self.crawl = Crawl(folder, store, has_audits=has_audits)
        self.crawl.change_rules(SITES[0], rules)
        self.changes = 0

    def url(self, number):
        return self.urls[number % len(self.urls)]

    def chosen(self, which):
        under_way = sorted(self.crawl.under_way, key=lambda request: request.url)
        return under_way[which % len(under_way)]

    # --- requests ---------------------------------------------------------------------------

    def go_on(self, events):
        for event in events:
            if isinstance(event, int):
                self.crawl.find(Request(self.url(event)))
            elif (request := self.crawl.leave()) is not None:
                self.end(request, event)

    @step()
    def requests_come_and_go(self):
        pass

    @precondition(lambda self: self.crawl.under_way)
    @step(which=_which, fate=st.sampled_from((*FATES, "changed")))
    def a_request_ends(self, which, fate):
        self.end(self.chosen(which), fate)

    def end(self, request, fate):
        if fate == "page":
            self.crawl.page(request)
        elif fate == "changed":
            self.changes += 1
            self.crawl.page(request, f"changed {self.changes}")
        elif fate == "error":
            self.crawl.end(request)
        elif fate == "retry":
            self.crawl.retry(request)

    @precondition(lambda self: self.crawl.fetched_again)
    @step(is_lost=st.booleans())
    def a_representative_is_fetched_again(self, is_lost):
        self.crawl.is_fetched_again(is_lost=is_lost)

    @precondition(lambda self: self.crawl.under_way)
    @step(which=_which, url=_urls)
    def a_redirect_leads_elsewhere(self, which, url):
        self.crawl.redirect(self.chosen(which), self.url(url))

    @precondition(lambda self: self.crawl.under_way)
    @step(which=_which, www=st.booleans(), scheme=st.sampled_from(("http", "https")))
    def a_redirect_leads_to_another_spelling(self, which, www, scheme):
        request = self.chosen(which)
        tail = request.url.partition("://")[2].removeprefix("www.")
        self.crawl.redirect(request, f"{scheme}://{'www.' * www}{tail}")

    @precondition(lambda self: self.is_shared)
    @step(url=_urls)
    def a_page_arrives_at_another_crawler(self, url):
        self.crawl.page_elsewhere(self.url(url))

    @precondition(lambda self: self.is_shared)
    @step(url=_urls)
    def another_crawler_asks(self, url):
        self.crawl.asked_elsewhere(self.url(url))

    # --- rules, time, trouble ---------------------------------------------------------------

    @step(site=_sites, names=_rules, support=st.sampled_from((9, 100_000)))
    def other_rules(self, site, names, support):
        self.crawl.change_rules(site, names, support)

    @step()
    def work_goes_on(self):
        self.crawl.learner.work()

    @precondition(lambda self: not (len(self.crawl.queue) or self.crawl.under_way))
    @step()
    def the_crawl_is_idle(self):
        self.crawl.learner.idle()

    @step(url=_urls)
    def a_request_cannot_be_read(self, url):
        self.crawl.has_trouble = True
        UNREADABLE.add(self.url(url))

    @precondition(lambda self: not self.on_disk)
    @step(is_full=st.booleans())
    def the_disk_is_full_or_free_again(self, is_full):
        self.crawl.has_trouble |= is_full
        self.crawl.database.refuses = is_full

    @precondition(lambda self: self.on_disk)
    @step(names=st.none() | _rules, is_killed=st.booleans())
    def the_crawl_stops_and_is_resumed(self, names, is_killed):
        before = self.crawl.rules(SITES[0])
        if is_killed:
            self.crawl.kill()
        else:
            self.crawl.stop()
        UNREADABLE.clear()
        is_edited = names is not None and self.crawl.edit_rules(names)
        self.crawl.begin()
        if is_edited or not is_killed:
            assert set(self.crawl.rules(SITES[0])) == set(names if is_edited else before)

    # --- what always holds ------------------------------------------------------------------

    @invariant()
    def nothing_fails_without_trouble(self):
        if hasattr(self, "crawl") and not self.crawl.has_trouble:
            assert self.crawl.parts.stats["errors"] == 0

    def teardown(self):
        if not hasattr(self, "crawl"):
            return
        try:
            self.check_the_end()
        finally:
            UNREADABLE.clear()
            self.crawl.parts.close()
            if self.folder:
                self.folder.cleanup()

    def check_the_end(self):
        crawl = self.crawl
        crawl.run_to_the_end()  # on a disk that may still be full
        assert not (lost := crawl.lost()), lost
        crawl.database.refuses = False
        crawl.run_to_the_end()
        self.check_rest()
        if self.on_disk:  # another run can read it all
            crawl.stop()
            UNREADABLE.clear()
            crawl.begin()
            crawl.run_to_the_end()
            self.check_rest()

    def check_rest(self):
        crawl = self.crawl
        assert not (lost := crawl.lost()), lost
        waiting = {url for url, state in crawl.held().items() if state != SUPPRESSED}
        # A row that a full disk kept stays until the next one leaves; its request was sent.
        assert {url for url in waiting if key_of(url) not in crawl.ended} <= UNREADABLE
        assert crawl.parts.state().startswith("queued 0, in flight 0, ")
        if not crawl.has_trouble:  # a full disk keeps rows
            assert crawl.database.read("SELECT * FROM audit") == []


class MachineOnDisk(Machine):
    """The same with JOBDIR: it can be killed, and resumed under other rules."""

    on_disk = True


class MachineOfTwo(Machine):
    """The same with a store that another crawler uses too."""

    is_shared = True


@pytest.mark.parametrize(
    ("machine", "examples"),
    [(Machine, 60), (MachineOnDisk, 50), (MachineOfTwo, 30)],
    ids=["memory", "disk", "shared"],
)
def test_nothing_is_lost_and_nothing_hangs(machine, examples, monkeypatch):
    """Every URL asked for was sent, or stands behind a page that is equal to it; see `Crawl`."""
    monkeypatch.setattr(aliases, "VOTES", 1)
    monkeypatch.setattr(families, "LEAST_DUPLICATES", 1)  # much is deferred
    monkeypatch.setattr(safe_points, "STEPS", 10**6)  # is as it was when this ends
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            report_multiple_bugs=False,
            stateful_step_count=25,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
