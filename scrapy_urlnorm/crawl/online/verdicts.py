"""Verdicts: what the answer to an audit says about the rules, and to a name about its pattern.

A verdict compares pages as a whole (`logs.whole`): names only propose.

1. The page is what its representative was when it arrived: it agrees.
2. Else the representative is fetched again, then the page, then the representative, at most twice.
   The page agrees if it differs from these fetches no more than they do from one another, or if
   the last of them differs from fetches of the page no more than these do.
3. If the representative has not changed at all, or it still differs, the page differs.

Two fetches differ with time, too. So what differs between one fetch and another counts if they came
one right after the other, or where pages of the family were seen to change at each fetch. Where an
audit has proved so much for pages of a family, the latter is enough for others of it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise
from typing import TYPE_CHECKING

from scrapy_urlnorm.crawl.online.safe_points import STEPS, Work
from scrapy_urlnorm.crawl.online.tables import Page, same_content
from scrapy_urlnorm.crawl.online.whole_pages import Shown, shown_in_crawl
from scrapy_urlnorm.crawl.requests import Asked, asked_for, site_of
from scrapy_urlnorm.learning.media import looks_like_an_act
from scrapy_urlnorm.logs.differences import family_of
from scrapy_urlnorm.logs.whole import referer_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from scrapy_urlnorm.crawl.frontier import CrawlFrontier, Fetches
    from scrapy_urlnorm.crawl.online.audits import Audit, Audits
    from scrapy_urlnorm.crawl.online.families import Question
    from scrapy_urlnorm.crawl.online.keys import ClusterKeys
    from scrapy_urlnorm.crawl.online.names import Names
    from scrapy_urlnorm.crawl.online.rules import RuleRegistry
    from scrapy_urlnorm.crawl.online.suppression import Suppression
    from scrapy_urlnorm.crawl.online.tables import Pages
    from scrapy_urlnorm.crawl.online.whole_pages import WholePages
    from scrapy_urlnorm.crawl.online.yields import Other

#: How many times a page and its representative are fetched in turns; and at most, where they differ
#: in what moves on some pages of their family at a fetch: both may have held still by chance.
_TURNS, _MOST_TURNS = 2, 5
#: Pages that verdicts may fetch again on a site, and how many more for each request that is held.
_FREE, _SHARE = 20, 0.5
_LAST = 20  #: audits that say what the next ones take
#: Representatives of which it is remembered what they showed when they were fetched again.
_MAX_AGAIN = 200
#: Steps that end a turn.
_TURN = (False,) * STEPS
#: What so many other clusters have shown may be an outage.
_OUTAGE = 3


class Verdict(Enum):
    """What two pages say of the rules that make their URLs one."""

    AGREES = "agrees"
    DIFFERS = "differs"
    UNSTABLE = "unstable"  #: one of them has changed by itself, so nothing is proved


@dataclass(eq=False)
class Verdicts:
    """Tells `Audits` how each audit ended, and `RuleRegistry` which reasons are wrong, and why."""

    keys: ClusterKeys
    pages: Pages
    audits: Audits
    names: Names
    whole_pages: WholePages
    registry: RuleRegistry
    suppression: Suppression
    frontier: CrawlFrontier

    def __post_init__(self) -> None:
        #: Audits that wait until their representative is fetched again, by its fingerprint and
        #: whether layout counts.
        self._waiting: dict[tuple[bytes, bool], list[tuple[Audit, Shown]]] = {}
        #: What representatives showed when they were fetched again, as in `_waiting`.
        self._again: dict[tuple[bytes, bool], list[Shown]] = {}
        self._long: dict[str, list[tuple[Audit, Shown]]] = {}  # by site: they wait for a safe point
        #: Audits that wait until files of their pages are fetched, by site.
        self._with_files: defaultdict[str, list[tuple[Audit, Shown]]] = defaultdict(list)
        #: Audits of a sample that wait until the crawl knows all that pages link to.
        self._open: list[tuple[Audit, Shown]] = []
        #: How many pairs of pages that no rule makes one were found to be one, by site.
        self.paired: Counter[str] = Counter()
        #: Pages that were fetched again for audits: by site, and how many each of the last ones took.
        self._fetched: Counter[str] = Counter()
        self._fetched_since = 0  # the last verdict
        self.fetches_an_audit = 0.5
        #: Fingerprints of audits that agreed, and whether one differed, since somebody cleared them.
        self.agreed: set[bytes] = set()
        self.has_differed = False

    # --- audits -----------------------------------------------------------------------------

    def redirected(self, audit: Audit, onto: Asked, *, is_known: bool) -> None:
        """Decide about an audit that was answered with a redirect to the URL of *onto*.

        One to the representative agrees. One that leads elsewhere may be the only way to a page,
        however temporary it is. One between these proves at most some of the rules, so the audit
        goes on with the page of *onto*. If the dupefilter knows that (*is_known*), it may be there.
        """
        match, fingerprint = audit.match, self.keys.fingerprint(onto)
        cluster_url = self.keys.cluster_url
        if fingerprint == match.page.fingerprint:
            self.say(audit, Verdict.AGREES)
        elif not match.is_alias and cluster_url(onto.url) != cluster_url(audit.url):
            self.say(audit, Verdict.DIFFERS, f"redirects elsewhere: {onto.url}")
        elif is_known and (page := self.pages.get(fingerprint)) is not None:
            self.page(audit, self.stored(page, onto.url))
        elif not self.audits.move(audit, fingerprint):
            self.audits.ended(audit)

    def page(self, audit: Audit, found: Shown) -> None:
        page = self.pages.get(audit.match.page.fingerprint) or audit.match.page
        before = self.stored(page, with_layout=bool(audit.veto))
        found.known = self.whole_pages.known_links(found, before, self._is_known)
        if not found.is_long and not before.is_long:
            self._decide(audit, found, page, before)
            return
        site = site_of(found.url)
        self._long.setdefault(site, []).append((audit, found))
        if not self.names.safe_points.has(site, Work.VERDICTS):
            self.names.safe_points.put(site, Work.VERDICTS, self._decide_long(site))

    def seem_two(self, before: Shown, found: Shown) -> bool:
        """Whether two pages that arrived differ in what nobody knows to change: fetches decide."""
        pages = self.whole_pages
        found.known = pages.known_links(found, before, self._is_known)
        return bool(before.whole and found.whole) and not (
            pages.same(found, [before])
            or pages.same_but_for_links(found, [before])
            or pages.explains(before, found)
        )

    def _is_known(self, url: str) -> bool:
        return self.frontier.is_seen(self.keys.fingerprint_of(url)) or self.pages.has_cluster(url)

    def decide_open(self) -> bool:
        """Decide what waited until nothing else is left; return whether anything did."""
        waiting, self._open = self._open, []
        for audit, found in waiting:
            self.page(audit, found)
        return bool(waiting)

    def _decide_long(self, site: str) -> Iterator[bool]:
        """Decide about long pages, a part of the work in each turn of the event loop.

        Nothing else happens meanwhile on their site, not even where they are fetched again.
        """
        while waiting := self._long.get(site):
            audit, found = waiting.pop(0)
            page = self.pages.get(audit.match.page.fingerprint) or audit.match.page
            before = self.stored(page, with_layout=bool(audit.veto))
            for each in (found, before):
                _ = each.whole
                yield from _TURN
            for _ in self.whole_pages.catch_up():
                yield from _TURN
            if self.audits.is_proved(audit) and not self.whole_pages.same(found, [before]):
                for _ in self.whole_pages.read_beside(before, found):
                    yield from _TURN
            self._decide(audit, found, page, before)
            yield from _TURN
            yield bool(self.frontier.under_way(site))  # it may be fetched again

    def _decide(self, audit: Audit, found: Shown, page: Page, before: Shown) -> None:
        if not page.url or any(reason.is_door for reason in audit.match.rules):
            # The page of another crawler is known by its name alone. A door is a page that says that
            # there is nothing; where it is open, what may be an act is not asked for again.
            is_moving = not page.url and self._is_restless(found.url)
            other = Verdict.UNSTABLE if is_moving else Verdict.DIFFERS
            is_same = same_content(before.content, found.content)
            self.say(audit, Verdict.AGREES if is_same else other)
            return
        key = page.fingerprint, before.with_layout
        known = [[before], *filter(None, [self._again.get(key)])]
        if any(self._agrees(audit, [found], before, fetches) for fetches in known):
            self.say(audit, Verdict.AGREES)
        elif (audit.is_drawn or self._pays(page)) and (
            pairs := self.whole_pages.unknown_files(before, found)
        ):
            site = site_of(found.url)
            self._with_files[site].append((audit, found))
            if len(self._with_files[site]) == 1:
                self.frontier.fetch("files", site, self._fetch_files(site, pairs))
        elif self._goes_on(found) and self.whole_pages.same_but_for_links(found, [before]):
            if (said := self._until_known(audit, found)) is not None:
                self.say(audit, said)
        elif before.has_expiring_links or (audit.veto and looks_like_an_act(page.url)):
            self.say(audit, Verdict.DIFFERS)  # to ask for it again might do something
        elif looks_like_an_act(page.url):
            other = Verdict.UNSTABLE if self._is_restless(page.url) else Verdict.DIFFERS
            self.say(audit, Verdict.AGREES if self._is_of_time(before, found) else other)
        elif not audit.is_drawn and not self._pays(page):
            self.say(audit, Verdict.UNSTABLE)
        else:
            waiting = self._waiting.setdefault(key, [])
            waiting.append((audit, found))
            if len(waiting) == 1:
                self.frontier.fetch("verdict", site_of(page.url), self._fetch_again(page, before))

    def _fetch_files(self, site: str, pairs: list[tuple[str, str]]) -> Fetches[None]:
        """Decide about all audits that wait for files of their pages, once some are known."""
        self._fetched[site] += 2 * len(pairs)
        try:
            yield from self.whole_pages.files.fetch(pairs)
        finally:
            waiting = self._with_files.pop(site)
        for audit, found in waiting:
            self.page(audit, found)

    def _until_known(self, audit: Audit, found: Shown) -> Verdict | None:
        """Return what is said of a page before the crawl knows its links; ``None`` if that waits."""
        if not audit.is_drawn:
            return Verdict.UNSTABLE
        self._open.append((audit, found))
        return None

    def _goes_on(self, found: Shown) -> bool:
        """Whether there are other requests. A queue that is empty may fill with what is under way."""
        return bool(self.frontier.queued()) or self.frontier.under_way(site_of(found.url)) > 1

    def _pays(self, page: Page) -> bool:
        """Whether what is held on the site of a page is worth one more page that is fetched again."""
        site = site_of(page.url)
        held = self.suppression.held.suppressed[site]
        return self._fetched[site] < _FREE + _SHARE * held

    def _agrees(
        self, audit: Audit, shown: Sequence[Shown], before: Shown, fetches: Sequence[Shown]
    ) -> bool:
        """Whether a page is what *fetches* of its representative showed, but for what changes there.

        It has *shown* the last of these. What the spider got out of it is no change if it stays.

        What differs between *before* and these may have changed with time. It counts where pages of
        the family change at each fetch. Where nearly all of them do, that is enough if it was proved
        for pages like this. What changes on the page alone says nothing of a representative that holds
        still: it may have become another page just then.
        """
        pages, found = self.whole_pages, shown[-1]
        if audit.veto and self._stays(audit.veto, audit.match.page, shown, (before, *fetches)):
            return False
        is_same = pages.same(found, fetches, shown)
        if not is_same and before not in fetches:
            moves = not all(pages.same(each, [before]) for each in fetches)
            is_same = (len(shown) > 1 and moves and pages.same(fetches[-1], shown, fetches)) or (
                any(pages.explains(each, found) for each in fetches)
                and pages.same(found, (before, *fetches), shown)
            )
        if is_same:
            self.audits.proved(audit)
        return is_same or (
            self.audits.is_proved(audit)
            and (
                any(pages.surely_explains(each, found) for each in fetches)
                or (before in fetches and self._is_of_time(before, found))
            )
        )

    @staticmethod
    def _stays(veto: Other, page: Page, *shown: Sequence[Shown]) -> bool:
        """Whether it is on all fetches of the later of two pages alone; *page* is the second one."""
        found, others = ([each.whole for each in pages if each.whole] for pages in shown)
        if veto.later == page.fingerprint:
            found, others = others, found
        return veto.stays(found, others)

    def _fetch_again(self, page: Page, before: Shown) -> Fetches[None]:
        """Decide about all audits that wait for *page*, with as few fetches as that takes."""
        key = page.fingerprint, before.with_layout
        waiting = self._waiting[key]
        try:
            now = yield from self._shown(page, with_layout=before.with_layout)
        finally:
            del self._waiting[key]
        fetches = [] if now is None else [now]
        for audit, found in waiting:
            said: Verdict | None = Verdict.UNSTABLE
            if fetches:
                said = yield from self._in_turns(page, audit, found, before, fetches)
            if said is None:
                continue
            # That it is what the representative has become, and was not before, proves no rule.
            proves = not audit.match.rules and self.names.are_one(before, now or before)
            has_changed = before.content and not self._has_stayed(before, *fetches)
            if said is Verdict.AGREES and has_changed and not proves:
                said = Verdict.UNSTABLE
            self.say(audit, said)
            if said is Verdict.UNSTABLE and fetches and not self._has_stayed(before, *fetches):
                self.suppression.representative_changed(page)
        self._learn(page, fetches)
        if fetches and self._has_stayed(before, *fetches):
            self._again[key] = fetches
            if len(self._again) > _MAX_AGAIN:
                del self._again[next(iter(self._again))]

    def _in_turns(
        self, page: Page, audit: Audit, found: Shown, before: Shown, fetches: list[Shown]
    ) -> Fetches[Verdict | None]:
        """Decide about a page: it and its representative are fetched in turns, as long as it pays.

        ``None`` says that it waits until the crawl knows what the page links to.
        """
        is_act = looks_like_an_act(found.url) or found.has_expiring_links  # not asked for again
        request = None if found.response is None else found.response.request
        asked = asked_for(found.url) if request is None else Asked(request)
        shown = [found]
        if self._agrees(audit, shown, before, fetches):
            return Verdict.AGREES
        for turn in range(_MOST_TURNS):
            beside: Shown | None = found
            if not is_act:
                beside = yield from self._shown_at(asked, with_layout=before.with_layout)
            if beside is None:
                break
            if not is_act:
                # Those of the page that arrived are seen by now: the spider has them.
                links = self.whole_pages.known_links(beside, before, self._is_known)
                beside.known = links | found.known
                if self.names.are_one(shown[-1], beside):
                    self.whole_pages.learn(shown[-1], beside)
                shown.append(beside)
                if self._agrees(audit, shown, before, fetches):
                    return Verdict.AGREES
            if turn or len(fetches) == 1:
                after = yield from self._shown(page, at_once=is_act, with_layout=before.with_layout)
                if after is None or not self.names.are_one(fetches[-1], after):
                    return Verdict.UNSTABLE
                fetches.append(after)
                if self._agrees(audit, shown, before, fetches):
                    return Verdict.AGREES
            holds_still = all(self.whole_pages.same(each, [before]) for each in fetches)
            if is_act:
                if not holds_still and self.whole_pages.same(found, (before, *fetches)):
                    return Verdict.UNSTABLE  # time may explain it
                break
            is_chance = self.whole_pages.may_be_chance(fetches[-1], shown[-1])
            if not is_chance and (holds_still or turn + 1 >= _TURNS):
                break
        if self.frontier.queued() and self.whole_pages.same_but_for_links(found, fetches):
            return self._until_known(audit, found)
        return self._other(page, audit, found, before, *fetches)

    def _other(
        self, page: Page, audit: Audit, found: Shown, before: Shown, *fetches: Shown
    ) -> Verdict:
        """Note that a page is not its representative, unless that shows an outage now."""
        now = fetches[-1]
        if now.blocks and not self._has_stayed(before, now):
            urls = self.names.urls_showing(site_of(page.url), now.blocks)
            clusters = {*map(self.keys.cluster_url, urls)} - {self.keys.cluster_url(page.url)}
            if len(clusters) >= _OUTAGE:
                return Verdict.UNSTABLE
        pages = self.whole_pages
        is_alike = not audit.veto and pages.same_but_for_links(found, fetches, of_list=True)
        if audit.match.rules and not is_alike:
            self.registry.evidence.are_two(site_of(found.url), found.url, page.url)
            if self._has_stayed(before, found):  # else their names tell them apart
                fingerprint = audit.match.keys.fingerprint or self.keys.fingerprint_of(found.url)
                self.names.set_apart(fingerprint, audit.slots or ("?",))
                self.names.judged(found.url, audit.slots, is_other=True)
        return Verdict.DIFFERS

    def _learn(self, page: Page, fetches: Sequence[Shown]) -> None:
        known = self.names.page(page.fingerprint)
        if known is None:
            return
        for now, after in pairwise(fetches):
            if self.names.learn(known.family, now, after):
                self.whole_pages.learn(now, after)
        if fetches and fetches[0].blocks:
            self.names.learn_late(known, fetches[0].blocks)
            self.whole_pages.learn(
                self.whole_pages.shown(page.fingerprint), fetches[0], is_late=True
            )

    def say(self, audit: Audit, said: Verdict, note: str = "") -> None:
        if not audit.match.rules:
            if said is Verdict.AGREES:
                self._have_one_name(audit)
            return
        self.fetches_an_audit += (self._fetched_since - self.fetches_an_audit) / _LAST
        self._fetched_since = 0
        if said is Verdict.AGREES:
            self.names.judged(audit.url, audit.slots, is_other=False)
            if audit.match.keys.fingerprint:  # else no request was sent to test the rules
                self.agreed.add(audit.match.keys.fingerprint)
                self.frontier.count("learned/audits_agreed")
                self.audits.agreed(audit)
            return
        if said is Verdict.UNSTABLE:
            self.frontier.count("learned/audits_unstable")
        else:
            self.has_differed = True
            self.frontier.count("learned/audits_differed")
            other = audit.match.page.url or "its twin"
            what = audit.veto.words if audit.veto else "other content"
            note = note or f"{what} than {other}: {audit.url}"
            self.registry.contradicted(audit.match.rules, note)
        # Last: a full disk refuses it, and the rule has to go all the same.
        self.audits.ended(audit)

    def _have_one_name(self, audit: Audit) -> None:
        """Have a page count as the other one: they were fetched one after the other, and agree."""
        site, fingerprint = site_of(audit.url), self.keys.fingerprint_of(audit.url)
        self.paired[site] += 1
        self.names.copies(fingerprint, audit.match.page.fingerprint)
        self.registry.evidence.mine_again(site)

    # --- pages that are fetched again -------------------------------------------------------

    def stored(self, page: Page, url: str = "", *, with_layout: bool = False) -> Shown:
        shown, response = self.names.page(page.fingerprint), self.whole_pages.get(page.fingerprint)
        blocks = shown.blocks if shown else None
        return Shown(url or page.url, page.content, response, blocks, with_layout)

    def _shown(self, page: Page, **how: bool) -> Fetches[Shown | None]:
        """Return what the URL of a page shows now: its request is sent again as it was."""
        known = self.names.page(page.fingerprint)
        asked = self.frontier.unpack(known.request) if known and known.request else None
        if asked is None:
            kept = self.whole_pages.get(page.fingerprint)
            asked = asked_for(page.url, referer_of(kept) if kept else "")
        return (yield from self._shown_at(asked, **how))

    def _shown_at(
        self, asked: Asked, *, at_once: bool = False, with_layout: bool = False
    ) -> Fetches[Shown | None]:
        self._fetched[asked.site] += 1
        self._fetched_since += 1
        response = yield asked, at_once
        if response is None:
            return None
        content, blocks = shown_in_crawl(response)
        if content is not None and blocks is not None:
            name = self.names.units(asked.site).name(blocks, ())
            content = content._replace(bag_digest=name)
        return Shown(asked.url, content, response, blocks, with_layout)

    def _is_restless(self, url: str) -> bool:
        return bool(self.names.units(site_of(url)).different)

    def _is_of_time(self, before: Shown, found: Shown) -> bool:
        """Whether two pages differ by what changes with time, on a site where anything does."""
        is_restless = self._is_restless(found.url)
        return is_restless and self.whole_pages.explains_by_time(before, found)

    def _has_stayed(self, before: Shown, *fetches: Shown) -> bool:
        """Whether a page still has the name that it had, without what changes by itself."""
        for now in fetches:
            if same_content(before.content, now.content):
                return True
            if before.blocks and now.blocks:
                units = self.names.units(site_of(now.url))
                if units.same(before.blocks, now.blocks, units.left_out(family_of(now.url))):
                    return True
        return False

    def _unchanged(self, page: Page) -> Fetches[Shown | None]:
        now = yield from self._shown(page)
        return now if now is not None and self._has_stayed(self.stored(page), now) else None

    def recheck(self, pages: Sequence[Page]) -> Fetches[None]:
        """Fetch one of some representatives with one content again: it may have been an outage."""
        if (yield from self._unchanged(pages[0])) is None:
            for page in pages:
                self.suppression.representative_changed(page)

    def answer(self, question: Question) -> Fetches[None]:
        """Find out what `Families` wants to know, and answer it."""
        is_endless = False
        if (now := (yield from self._unchanged(question.page))) is not None:
            if question.other is None:
                is_endless = True
            else:
                other = Page(self.keys.fingerprint_of(question.other), question.other, None, 0)
                beside = yield from self._shown(other)
                is_endless = beside is not None and not self._has_stayed(beside, now)
        question.answer(is_endless)
