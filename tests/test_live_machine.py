"""Witnesses as a state machine: whatever happens in a crawl, nothing is lost and nothing hangs."""

from __future__ import annotations

import tempfile
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
from live_model import RULES, SITES, Crawl, content_of
from scrapy import Request

from scrapy_urlnorm.page_identity import Identity

PATHS = ("/a", "/a/", "/b?n=1", "/b?n=2", "/b?n=1&utm_source=x")
URLS = [
    f"{scheme}://{www}{site}{path}"
    for site, paths in ((SITES[0], PATHS), (SITES[1], PATHS[:1]))
    for path in paths
    for www in ("", "www.")
    for scheme in ("http", "https")
]
#: How requests end that are sent one after the other.
FATES = ("page", "page", "page", "error", "retry")
_urls = st.sampled_from(URLS)
_rules = st.lists(st.sampled_from(RULES), max_size=3, unique=True)
_sites = st.sampled_from(SITES)
_which = st.integers(0, 5)


class Machine(RuleBasedStateMachine):
    """Steps of a crawl in any order; `teardown` runs it to its end and looks for what is lost."""

    on_disk = False

    @initialize(shared=st.booleans(), rules=_rules)
    def begin(self, shared, rules):
        self.folder = tempfile.TemporaryDirectory() if self.on_disk else None
        self.crawl = Crawl(Path(self.folder.name, "pending") if self.folder else None)
        self.crawl.shared = {} if shared else None
        self.crawl.change_rules(SITES[0], rules)
        self.changes = 0

    def chosen(self, which):
        under_way = sorted(self.crawl.under, key=lambda request: request.url)
        return under_way[which % len(under_way)]

    # --- requests ---------------------------------------------------------------------------

    @rule(urls=st.lists(_urls, min_size=1, max_size=6))
    def links_are_found(self, urls):
        for url in urls:
            self.crawl.find(Request(url))

    @precondition(lambda self: len(self.crawl))
    @rule(times=st.integers(1, 4))
    def requests_leave_the_queue(self, times):
        for _ in range(times):
            self.crawl.leave()

    @precondition(lambda self: len(self.crawl))
    @rule(fates=st.lists(st.sampled_from(FATES), min_size=1, max_size=8))
    def requests_are_sent_and_end(self, fates):
        for fate in fates:
            request = self.crawl.leave()
            if request is not None and fate == "page":
                self.crawl.page(request, content_of(request.url))
            elif request is not None:
                getattr(self.crawl, {"error": "end"}.get(fate, fate))(request)

    @precondition(lambda self: self.crawl.under)
    @rule(which=_which)
    def a_page_arrives(self, which):
        request = self.chosen(which)
        self.crawl.page(request, content_of(request.url))

    @precondition(lambda self: self.crawl.under)
    @rule(which=_which)
    def a_page_with_other_content_arrives(self, which):
        self.changes += 1
        changed = f"changed {self.changes}"
        self.crawl.page(self.chosen(which), Identity(changed, None, changed))

    @precondition(lambda self: self.crawl.under)
    @rule(which=_which)
    def a_request_fails(self, which):
        self.crawl.end(self.chosen(which))

    @precondition(lambda self: self.crawl.under)
    @rule(which=_which)
    def a_request_is_tried_again(self, which):
        self.crawl.retry(self.chosen(which))

    @precondition(lambda self: self.crawl.under)
    @rule(which=_which, url=_urls)
    def a_redirect_leads_elsewhere(self, which, url):
        self.crawl.redirect(self.chosen(which), url)

    @precondition(lambda self: self.crawl.under)
    @rule(which=_which, www=st.booleans(), scheme=st.sampled_from(("http", "https")))
    def a_redirect_leads_to_another_spelling(self, which, www, scheme):
        request = self.chosen(which)
        tail = request.url.partition("://")[2].removeprefix("www.")
        self.crawl.redirect(request, f"{scheme}://{'www.' * www}{tail}")

    @rule(url=_urls)
    def a_page_arrives_at_another_crawler(self, url):
        self.crawl.page_elsewhere(url)

    # --- rules, time, trouble ---------------------------------------------------------------

    @rule(site=_sites, names=_rules)
    def other_rules(self, site, names):
        self.crawl.change_rules(site, names)

    @precondition(lambda self: self.crawl.witnesses.is_working)
    @rule()
    def work_goes_on_for_one_step(self):
        self.crawl.work(steps=1)

    @precondition(lambda self: self.crawl.witnesses.is_working)
    @rule()
    def work_is_done(self):
        self.crawl.work(steps=1_000)

    @precondition(lambda self: self.crawl.kept() and not (len(self.crawl) or self.crawl.under))
    @rule()
    def the_crawl_is_idle(self):
        self.crawl.idle()

    @rule(url=_urls)
    def a_row_cannot_be_read(self, url):
        self.crawl.unreadable.add(url)

    @rule(refuses=st.booleans())
    def the_disk_is_full(self, refuses):
        self.crawl.database.refuses = refuses

    @precondition(lambda self: self.on_disk)
    @rule(names=st.none() | _rules, is_killed=st.booleans())
    def the_crawl_stops_and_is_resumed(self, names, is_killed):
        if is_killed:
            self.crawl.kill()
        else:
            self.crawl.under.clear()
            self.crawl.pending.commit()
            self.crawl.last_commit = dict(self.crawl.asked), set(self.crawl.known)
            self.crawl.close()
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
        assert crawl.lost() == []
        crawl.database.refuses = False
        crawl.run_to_the_end()
        self.check_rest()
        crawl.unreadable.clear()
        if self.on_disk:  # another run can read it all
            crawl.close()
            crawl.open()
        crawl.run_to_the_end()
        self.check_rest()

    def check_rest(self):
        crawl = self.crawl
        assert crawl.lost() == []
        parked = set(crawl.kept(parked=True).values())
        assert parked <= crawl.unreadable
        assert not crawl.witnesses._claims
        assert not crawl.witnesses._watched
        assert not crawl.witnesses._open_audits
        assert not crawl.witnesses._waited
        assert not crawl.witnesses._with_parked
        assert not crawl.witnesses.is_working


class MachineOnDisk(Machine):
    """The same with JOBDIR: it can be killed, and resumed under other rules."""

    on_disk = True


@pytest.mark.parametrize(
    ("machine", "examples"), [(Machine, 250), (MachineOnDisk, 150)], ids=["memory", "disk"]
)
def test_nothing_is_lost_and_nothing_hangs(machine, examples):
    """Every key asked for was sent, or stands behind a page with its learned key; see `Crawl`."""
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=40,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
