"""Closing: what becomes of held requests when a crawl has nothing else to do.

No number of audits makes it certain that all that is held repeats a page: a rule may be right but
for one page in a thousand. So the end of a crawl has steps of its own:

1. A page that several URLs show, which no rule makes one, may be an outage, or a page for robots. If
   requests are held behind it, one of these URLs is fetched again.
2. A crawl that runs dry right after rules came into force, and holds more than it fetched, may hold
   the way to the rest of the site: so it is where an empty day stands for all days. If these rules
   hold half as much as was fetched behind one page, all that is sent, once. Not what says in its URL
   where to come back to: that is a place that the crawl has. Nor what looks like an act: a visitor
   who may not do it gets one page at every URL.
3. Audits are drawn, the latest request of each crowded kind and a sample in which every held request
   is as likely as any other. Of it the summary says how many of the requests that were not sent may
   have been other pages (`learning.risk.at_most`). It is as large as it takes to bring that below
   `SHARE_OF_PAGES` of the pages that were found, as far as `MOST_DRAWS` go. What came to be held
   after it is drawn from by the same share: all samples together are one test, until a page of them
   differs. If a page leads to pages that nothing else has led to, all of its kind are sent; so is all
   that is held where that is less than a sample. Few that came after it are all tested: a way through
   held pages is found step by step.
4. Where the settings say "last", all that is held is sent, those in most doubt
   first.
5. What was put last is sent, some at a time. What comes of it goes before the rest.
"""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import dataclass
from itertools import chain, groupby
from typing import TYPE_CHECKING, NamedTuple

from scrapy_urlnorm.crawl.online.summary import Bound
from scrapy_urlnorm.crawl.requests import site_of
from scrapy_urlnorm.learning.media import looks_like_an_act
from scrapy_urlnorm.learning.risk import at_most, draws_for
from scrapy_urlnorm.report.filtered import LAST, SUPPRESSED
from scrapy_urlnorm.stores.sqlite import from_json
from scrapy_urlnorm.url import holds_address, params_of, query_of

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator

    from scrapy_urlnorm.crawl.frontier import CrawlFrontier
    from scrapy_urlnorm.crawl.online.held import Held, HeldRequests
    from scrapy_urlnorm.crawl.online.rules import RuleRegistry
    from scrapy_urlnorm.crawl.online.suppression import Suppression
    from scrapy_urlnorm.crawl.online.tables import Pages
    from scrapy_urlnorm.crawl.online.verdicts import Verdicts
    from scrapy_urlnorm.crawl.online.yields import Yields

#: How likely the bound of one crawl is wrong. Each sample spends so much of what is left.
ERROR, SPENT = 0.05, 0.8
#: The bound is to be below this share of the pages that were found; of few pages, so many requests.
SHARE_OF_PAGES, LEAST_ALLOWED = 0.03, 5
#: All samples of a test together have so many draws, and one of them no fewer than this. If no more
#: is held, all that is sent. The tests of a crawl draw twice as often as it found pages, at most.
MOST_DRAWS, LEAST_DRAWS = 300, 19
#: So many of the sample are compared as a whole, whatever their kind.
_PROOFS = 12
#: A kind with so many held requests is crowded. So many crowded kinds are looked at.
_CROWD, _MAX_CROWDED = 20, 30
#: A rule is new if it came into force during this share of the pages, the last ones.
_NEW = 0.1
#: A content of so many cluster keys is one of several pages. So many such contents are looked at.
_SEVERAL, _MAX_RECHECKED = 4, 20
#: How many requests are sent at a time that are sent last, and that were put last.
_BATCH, _LAST_BATCH = 200, 16

_Kind = tuple[str, int]  #: the rules that hold a request, and the number of its kind


class _Sample(NamedTuple):
    test: int  #: the number of its test
    held: int  #: how many requests it was drawn from
    drawn: frozenset[bytes]  #: their fingerprints


@dataclass(eq=False)
class Closing:
    """Sends what is held, as far as it has to be, before a crawl ends. *sends_all*: everything."""

    suppression: Suppression
    held: HeldRequests
    pages: Pages
    registry: RuleRegistry
    verdicts: Verdicts
    yields: Yields
    frontier: CrawlFrontier
    sends_all: bool

    def __post_init__(self) -> None:
        self._job: Iterator[bool] | None = None
        self._samples: list[_Sample] = []
        self._errors: list[float] = []  # how likely the bound of each test may be wrong
        self._drawn = self._most_drawn = 0  # of all samples; how far those of this test may go
        self._looked_at: set[_Kind] = set()  # crowded kinds
        self._has_put_back = self._has_rechecked = False
        #: Of the samples. The site is its seed, so one that answers alike is crawled alike.
        self._random = random.Random()

    def idle(self, is_over: Callable[[], bool]) -> bool:
        self._job = self._job or chain(self._steps(), self._send_last())
        for has_sent in self._job:
            if has_sent or is_over():
                return True
        self._job = None
        return False

    def send_last(self, is_over: Callable[[], bool]) -> bool:
        """Do the last step alone: return ``True`` to wait for that, or for the rest of it."""
        return any(has_sent or is_over() for has_sent in self._send_last())

    def _steps(self) -> Iterator[bool]:
        """Do what comes next; yield true when something was sent, false to pause."""
        while True:
            if self.verdicts.decide_open():
                yield True
            if not (held := self.held.count(SUPPRESSED)):
                return
            if not self._has_rechecked:
                self._has_rechecked = True
                for pages in self.pages.shared(_SEVERAL)[:_MAX_RECHECKED]:
                    site = site_of(pages[0].url)
                    self.frontier.fetch("verdict", site, self.verdicts.recheck(pages))
                    yield True
            if not self._has_put_back and held > len(self.pages) > 0:
                yield from self._put_back()
            if self.sends_all:
                yield from self._send_all()
                continue
            if not self._errors or self._wants_another_test():
                self._begin_test()
            elif not self._draws_left or not self._has_newcomers():
                return
            if not (yield from self._draw()):
                return

    # --- 2: the newest rules ----------------------------------------------------------------

    def _put_back(self) -> Iterator[bool]:
        newest = self.registry.newest(since=(1 - _NEW) * len(self.pages))
        numbers: defaultdict[str, list[int]] = defaultdict(list)
        for held in self.held.find(SUPPRESSED):
            is_way_back = any(holds_address(value) for _, value in params_of(query_of(held.url)))
            is_door = is_way_back or looks_like_an_act(held.url)
            if not is_door and newest.intersection(from_json(held.rules)):
                numbers[held.behind].append(held.number)
            yield False
        most = max(numbers.values(), key=len, default=[])
        if 2 * len(most) > len(self.pages):
            self._has_put_back = True
            for held in self.held.numbered(most):
                self.frontier.count("learned/ran_dry", self.suppression.send_at_last(held))
            yield True

    # --- 3: audits --------------------------------------------------------------------------

    @property
    def bound(self) -> Bound | None:
        """What the tests prove of what is held now; ``None`` without one, or if nothing is held.

        The bound of each holds: this is the best one. What was drawn is sent, so it is not held.
        """
        bounds = []
        for test, samples in groupby(self._samples, key=lambda sample: sample.test):
            of, drawn = [], frozenset[bytes]()
            for sample in samples:
                of.append(len(sample.drawn) / sample.held)
                drawn |= sample.drawn
            agreed = len(drawn & self.verdicts.agreed)
            failed = len(drawn) - agreed
            now, later = self.held.count_beside(test)
            wrong = at_most(min(of), self._errors[test - 1], failed, now + failed) - failed + later
            bounds.append(Bound(now, min(now, wrong), agreed))
        best = min(bounds, key=lambda bound: bound.wrong, default=None)
        return best if best is not None and best.held else None

    def _wants_another_test(self) -> bool:
        """Whether one may prove more: not while all that was drawn agrees."""
        may_draw = self.verdicts.has_differed and self._drawn < self._most_of_all
        bound = self.bound if may_draw else None
        return bound is not None and bound.wrong > self._wrong_allowed

    def _has_newcomers(self) -> bool:
        """Whether requests are held that are in no sample; asked when what was put last is sent.

        The pages of a sample may be all that led there.
        """
        return not self.held.count(LAST) and self.held.count_beside(len(self._errors))[1] > 0

    @property
    def _wrong_allowed(self) -> float:
        return max(LEAST_ALLOWED, SHARE_OF_PAGES * self.pages.contents)

    @property
    def _most_of_all(self) -> int:
        """What an endless space leads to is held and drawn for ever: pages found are a measure."""
        return 2 * self.pages.contents

    @property
    def _draws_left(self) -> int:
        return max(0, min(self._most_drawn, self._most_of_all) - self._drawn)

    def _begin_test(self) -> None:
        self.verdicts.has_differed = False
        self._most_drawn = self._drawn + MOST_DRAWS
        self._errors.append(SPENT * (ERROR - sum(self._errors)))
        if len(self._errors) == 1:
            self._random.seed(next((site_of(each.url) for each in self.held.find(SUPPRESSED)), ""))

    def _draw(self) -> Generator[bool, None, bool]:
        """Draw from what is in no sample of this test; return whether anything was sent."""
        test, last_page = len(self._errors), self.pages.last
        kinds, crowds = dict[int, _Kind](), defaultdict[_Kind, list[int]](list)
        for each in self.held.find(SUPPRESSED, beside=test):
            kinds[each.number] = self._kind_of(each)
            crowds[kinds[each.number]].append(each.number)
            yield False
        held, left, numbers = len(kinds), self._draws_left, list(kinds)
        size = max(LEAST_DRAWS, draws_for(held, self._wrong_allowed, self._errors[-1]))
        if not any(sample.test == test for sample in self._samples):
            size = max(LEAST_DRAWS, min(size, left))
        elif min(size, held) > left:
            return False  # fewer would make the samples before say less
        is_few = held < LEAST_DRAWS and self._drawn > 0  # they came one by one, and may go on so
        if not is_few and size * (1 + self.verdicts.fetches_an_audit) >= held:
            self._drawn += held  # to test them takes as many requests
            return (yield from self._send(numbers))
        self.held.note(test)
        numbers = self._random.sample(numbers, min(size, held))
        self._drawn += len(numbers)
        proofs, drawn, sent = set(numbers[:_PROOFS]), set[bytes](), dict[bytes, _Kind]()
        for each in self.held.numbered(sorted({*numbers, *self._latest(crowds)})):
            if self.suppression.audit(each, needs_proof=each.number in proofs):
                self.frontier.count("learned/closing_audits")
                sent[each.fingerprint] = kinds[each.number]
                if each.number in numbers:
                    drawn.add(each.fingerprint)
            yield False
        sample = _Sample(test, held, frozenset(drawn))
        self._samples.append(sample)
        yield bool(sent)
        yield from self._drain(self._that_led_on(sent, last_page))
        return bool(sent)

    def _send(self, numbers: Iterable[int]) -> Generator[bool, None, bool]:
        sent = False
        for each in self.held.numbered(numbers):
            if self.suppression.send_at_last(each):
                self.frontier.count("learned/drained")
                sent = True
            yield False
        if sent:
            yield True
        return sent

    @staticmethod
    def _kind_of(held: Held) -> _Kind:
        from scrapy_urlnorm.learning.strata import Place  # most crawls hold nothing

        return held.rules, Place(held.url, held.behind).kinds((), lambda *_: True).pop()

    def _that_led_on(self, sent: dict[bytes, _Kind], last_page: int) -> set[_Kind]:
        """Return the kinds of which a page led to others, while nothing else was under way."""
        new = self.pages.clusters_since(last_page)
        led_on = (each for each in sent if new and not new.isdisjoint(self.yields.asked(each)))
        return {sent[each] for each in led_on}

    def _drain(self, kinds: set[_Kind]) -> Iterator[bool]:
        numbers = []
        for held in self.held.find(SUPPRESSED) if kinds else ():
            if self._kind_of(held) in kinds:
                numbers.append(held.number)
            yield False
        yield from self._send(numbers)

    def _latest(self, crowds: dict[_Kind, list[int]]) -> set[int]:
        crowded = [
            (len(numbers), kind)
            for kind, numbers in crowds.items()
            if len(numbers) >= _CROWD and kind not in self._looked_at
        ]
        kinds = [kind for _, kind in sorted(crowded, reverse=True)[:_MAX_CROWDED]]
        self._looked_at.update(kinds)
        return {max(crowds[kind]) for kind in kinds}

    # --- 4: everything ----------------------------------------------------------------------

    def _send_all(self) -> Iterator[bool]:
        support = self.registry.support_in_words()
        groups: defaultdict[int, list[int]] = defaultdict(list)
        for held in self.held.find(SUPPRESSED):
            least = min((support.get(rule, 0) for rule in from_json(held.rules)), default=0)
            groups[least].append(held.number)
            yield False
        in_order = [number for _, numbers in sorted(groups.items()) for number in numbers]
        sent = 0
        for held in self.held.numbered(in_order):
            sent += self.suppression.send_at_last(held)
            yield sent % _BATCH == 0
        if not sent:
            self.sends_all = False  # this run cannot read what is left: another one may
        yield True

    # --- 5: what was put last ---------------------------------------------------------------

    def _send_last(self) -> Iterator[bool]:
        """Send some. What repeats a page by now is held: for that, too, all steps come again."""
        sent, before, put_back = 0, self.held.count(LAST), self.held.put_back
        for held in () if self.frontier.queued() else self.held.find(LAST):
            sent += self.suppression.send_last(held)
            if sent == _LAST_BATCH:
                break
            yield False
        if self.held.count(LAST) < before or self.held.put_back > put_back:
            self._job = None
            yield True
