"""Witnesses as a state machine: whatever happens in a crawl, nothing is lost and nothing hangs."""

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
from live_model import Crawl
from live_sites import SITES, content_of
from scrapy import Request

from scrapy_urlnorm.learning import aliases
from scrapy_urlnorm.logs.page_identity import Identity

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

    on_disk = False

    @initialize(
        shared=st.booleans(),
        has_audits=st.booleans(),
        rules=_rules,
        urls=st.sampled_from((URLS, NAMES)),
    )
    def begin(self, shared, has_audits, rules, urls):
        self.urls = urls
        self.folder = tempfile.TemporaryDirectory() if self.on_disk else None
        path = Path(self.folder.name, "pending") if self.folder else None
        self.crawl = Crawl(path, has_audits=has_audits)
        self.crawl.shared = {} if shared else None
        self.crawl.change_rules(SITES[0], rules)
        self.changes = 0

    def url(self, number):
        return self.urls[number % len(self.urls)]

    def chosen(self, which):
        under_way = sorted(self.crawl.under, key=lambda request: request.url)
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

    @precondition(lambda self: self.crawl.under)
    @step(which=_which, fate=st.sampled_from((*FATES, "changed")))
    def a_request_ends(self, which, fate):
        self.end(self.chosen(which), fate)

    def end(self, request, fate):
        if fate == "page":
            self.crawl.page(request, content_of(request.url))
        elif fate == "changed":
            self.changes += 1
            changed = f"changed {self.changes}"
            self.crawl.page(request, Identity(changed, None, changed))
        elif fate == "error":
            self.crawl.end(request)
        elif fate == "retry":
            self.crawl.retry(request)

    @precondition(lambda self: self.crawl.under)
    @step(which=_which, url=_urls)
    def a_redirect_leads_elsewhere(self, which, url):
        self.crawl.redirect(self.chosen(which), self.url(url))

    @precondition(lambda self: self.crawl.under)
    @step(which=_which, www=st.booleans(), scheme=st.sampled_from(("http", "https")))
    def a_redirect_leads_to_another_spelling(self, which, www, scheme):
        request = self.chosen(which)
        tail = request.url.partition("://")[2].removeprefix("www.")
        self.crawl.redirect(request, f"{scheme}://{'www.' * www}{tail}")

    @step(url=_urls)
    def a_page_arrives_at_another_crawler(self, url):
        self.crawl.page_elsewhere(self.url(url))

    @precondition(lambda self: self.crawl.shared is not None)
    @step(url=_urls)
    def another_crawler_asks(self, url):
        self.crawl.asked_elsewhere(self.url(url))

    # --- rules, time, trouble ---------------------------------------------------------------

    @step(site=_sites, names=_rules)
    def other_rules(self, site, names):
        self.crawl.change_rules(site, names)

    @precondition(lambda self: self.crawl.witnesses.is_working)
    @step()
    def work_goes_on_for_one_step(self):
        self.crawl.work(steps=1)

    @precondition(lambda self: self.crawl.witnesses.is_working)
    @step()
    def work_is_done(self):
        self.crawl.work(steps=1_000)

    @precondition(lambda self: self.crawl.kept() and not (len(self.crawl) or self.crawl.under))
    @step()
    def the_crawl_is_idle(self):
        self.crawl.idle()

    @step(url=_urls, what=st.sampled_from(("free", "free", "free", "full", "unreadable")))
    def trouble(self, url, what):
        if what == "unreadable":
            self.crawl.unreadable.add(self.url(url))
        else:
            self.crawl.database.refuses = what == "full"

    @precondition(lambda self: self.on_disk)
    @step(names=st.none() | _rules, is_killed=st.booleans())
    def the_crawl_stops_and_is_resumed(self, names, is_killed):
        if is_killed:
            self.crawl.kill()
        else:
            self.crawl.stop()
        self.crawl.unreadable.clear()
        if names is not None:
            self.crawl.rules = {SITES[0]: tuple(names), SITES[1]: ()}
        self.crawl.open()

    # --- what always holds ------------------------------------------------------------------

    @invariant()
    def a_claim_is_of_its_request(self):
        crawl = getattr(self, "crawl", None)
        for learned, claim in crawl.witnesses._claims.items() if crawl else ():
            if claim.request is not None:
                assert crawl.register.keys(claim.request).learned == learned
                assert crawl.witnesses._watched[claim.request].learned == learned

    def teardown(self):
        if not hasattr(self, "crawl"):
            return
        try:
            self.check_the_end()
        finally:
            self.crawl.close()
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
            crawl.unreadable.clear()
            crawl.close()
            crawl.open()
            crawl.run_to_the_end()
            self.check_rest()

    def check_rest(self):
        crawl = self.crawl
        assert not (lost := crawl.lost()), lost
        parked = set(crawl.kept(parked=True).values())
        assert parked <= crawl.unreadable
        assert not crawl.witnesses._claims
        assert not crawl.witnesses._watched
        assert not crawl.witnesses.open_audits
        assert not crawl.witnesses._kept_back._waited
        assert not crawl.witnesses._with_parked
        assert not crawl.witnesses.is_working


class MachineOnDisk(Machine):
    """The same with JOBDIR: it can be killed, and resumed under other rules."""

    on_disk = True


@pytest.mark.parametrize(
    ("machine", "examples"), [(Machine, 300), (MachineOnDisk, 200)], ids=["memory", "disk"]
)
def test_nothing_is_lost_and_nothing_hangs(machine, examples, monkeypatch):
    """Every key asked for was sent, or stands behind a page with its learned key; see `Crawl`."""
    monkeypatch.setattr(aliases, "VOTES", 1)
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
