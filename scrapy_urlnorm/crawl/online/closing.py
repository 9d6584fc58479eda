"""Closing: what becomes of held requests when a crawl has nothing else to do.

No number of audits makes it certain that all that is held repeats a page: a rule may be right but
for one page in a thousand. So the end of a crawl has steps of its own:

1. A page that several URLs show, which no rule makes one, may be an outage, or a page for robots. If
   requests are held behind it, one of these URLs is fetched again.
2. A crawl that runs dry right after rules came into force, and holds more than it fetched, may hold
   the way to the rest of the site: so it is where an empty day stands for all days. If these rules
   hold half as much as was fetched behind one page, all that is sent, once.
3. Audits are drawn, the latest request of each crowded kind and, over all rules together, a sample
   in which every held request is as likely as any other. Of this sample the summary says how many
   of the requests that were not sent may have been other pages (`learning.risk.at_most`). Where
   more is held than was fetched, most of the site may hang behind one request: the sample is as
   large as it takes to bring that below a tenth of the pages that were found, no larger than half
   of these. Of a small rest it is no smaller than half, up to `LEAST_SAMPLE`.
4. Where the settings say "last", all that is held is sent, those in most doubt
   first.
5. What was put last is sent, some at a time. What comes of it goes before the rest.
"""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from scrapy_urlnorm.crawl.components import site_of
from scrapy_urlnorm.crawl.online.summary import Bound
from scrapy_urlnorm.learning.risk import at_most, draws_for
from scrapy_urlnorm.learning.strata import Place
from scrapy_urlnorm.report.filtered import LAST, SUPPRESSED
from scrapy_urlnorm.stores.sqlite import from_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from scrapy_urlnorm.crawl.online.frontier import CrawlFrontier
    from scrapy_urlnorm.crawl.online.rules import RuleRegistry
    from scrapy_urlnorm.crawl.online.suppression import Suppression
    from scrapy_urlnorm.crawl.online.tables import HeldRequests, Pages
    from scrapy_urlnorm.crawl.online.verdicts import Verdicts

#: Of the samples: a crawl of a site that answers alike draws the same ones.
SEED = 0
#: How likely the bound of one crawl is wrong. Each further sample spends half of what is left.
ERROR = 0.05
#: Where more is held than was fetched, the bound is below this share of the pages that were found,
#: if a sample of so large a share of them can show it.
SHARE_OF_PAGES, LARGEST_SAMPLE, LEAST_SAMPLE = 0.1, 0.5, 150
#: The sample is at least one held request in so many, but no more than this for that reason.
_ONE_IN, _ENOUGH = 20, 49
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
#: So large a share of requests that were held after the sample was drawn asks for another one.
_GREW = 0.1


class _Sample(NamedTuple):
    held: int  #: how many requests it was drawn from
    suppressed: int  #: how many this crawl had suppressed before
    drawn: frozenset[bytes]  #: their fingerprints


@dataclass(eq=False)
class Closing:
    """Sends what is held, as far as it has to be, before a crawl ends. *sends_all*: everything."""

    suppression: Suppression
    held: HeldRequests
    pages: Pages
    registry: RuleRegistry
    verdicts: Verdicts
    frontier: CrawlFrontier
    sends_all: bool

    def __post_init__(self) -> None:
        self._job: Iterator[bool] | None = None
        self._sample: _Sample | None = None
        self._samples = 0
        self._looked_at: set[tuple[str, int]] = set()  # crowded kinds
        self._has_put_back = self._has_rechecked = False
        self._random = random.Random(SEED)
        #: ``None`` before a sample was drawn, and where nothing is self.held.
        self.bound: Bound | None = None

    def idle(self, is_over: Callable[[], bool]) -> bool:
        self._job = self._job or chain(self._steps(), self._send_last())
        for has_sent in self._job:
            if has_sent or is_over():
                return True
        self._job = None
        return False

    def _steps(self) -> Iterator[bool]:
        """Do what comes next; yield true when something was sent, false to pause."""
        while held := self.held.count(SUPPRESSED):
            if not self._has_rechecked:
                self._has_rechecked = True
                for pages in self.pages.shared(_SEVERAL)[:_MAX_RECHECKED]:
                    site = site_of(pages[0].url)
                    self.frontier.begin("verdict", site, self.verdicts.recheck(pages))
                    yield True
            if not self._has_put_back and held > len(self.pages) > 0:
                yield from self._put_back()
            if self.sends_all:
                yield from self._send_all()
            elif self._sample is not None and self._is_proved(self._sample):
                return
            else:
                yield from self._draw(held)
        self.bound = None

    # --- 2: the newest rules ----------------------------------------------------------------

    def _put_back(self) -> Iterator[bool]:
        newest = self.registry.newest(since=(1 - _NEW) * len(self.pages))
        numbers: defaultdict[str, list[int]] = defaultdict(list)
        for held in self.held.find(SUPPRESSED):
            if newest.intersection(from_json(held.rules)):
                numbers[held.behind].append(held.number)
            yield False
        most = max(numbers.values(), key=len, default=[])
        if 2 * len(most) > len(self.pages):
            self._has_put_back = True
            for held in self.held.numbered(most):
                self.frontier.count("learned/ran_dry", self.suppression.send_at_last(held))
            yield True

    # --- 3: audits --------------------------------------------------------------------------

    def _is_proved(self, sample: _Sample) -> bool:
        """Say what a sample proves; return whether no other one is needed."""
        now = self.held.count(SUPPRESSED)
        later = min(now, self.held.suppressed - sample.suppressed)
        if self.verdicts.has_differed or later > max(10, _GREW * sample.held):
            return False
        agreed = len(sample.drawn & self.verdicts.agreed)
        unproved = len(sample.drawn) - agreed
        error = ERROR / 2**self._samples
        wrong = at_most(sample.held, agreed, error, unproved) + later
        self.bound = Bound(now, min(now, wrong), agreed)
        return True

    def _draw(self, held: int) -> Iterator[bool]:
        self._samples += 1
        self.verdicts.agreed.clear()
        self.verdicts.has_differed = False
        pages, size = len(self.pages), min(_ENOUGH, held // _ONE_IN)
        if held > pages:
            wanted = draws_for(held, SHARE_OF_PAGES * pages, ERROR / 2**self._samples)
            least = min(LEAST_SAMPLE, held // 2) if held < 4 * LEAST_SAMPLE else 0
            size = max(least, min(wanted, int(LARGEST_SAMPLE * pages)))
        before = self.held.suppressed
        numbers, crowds = [], defaultdict[tuple[str, int], list[int]](list)
        for each in self.held.find(SUPPRESSED):
            numbers.append(each.number)
            kind = Place(each.url, each.behind).kind((), lambda *_: True)
            crowds[each.rules, kind].append(each.number)
            yield False
        sample = self._random.sample(numbers, min(size, len(numbers)))
        proofs = set(sample[:_PROOFS])
        drawn, has_sent = set(), False
        for each in self.held.numbered(sorted({*sample, *self._latest(crowds)})):
            has_sent = True
            if self.suppression.audit(each, needs_proof=each.number in proofs):
                self.frontier.count("learned/closing_audits")
                if each.number in sample:
                    drawn.add(each.fingerprint)
            yield False
        self._sample = _Sample(len(numbers), before, frozenset(drawn))
        if has_sent:
            yield True

    def _latest(self, crowds: dict[tuple[str, int], list[int]]) -> set[int]:
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
        sent = 0
        for held in () if self.frontier.queued() else self.held.find(LAST):
            sent += self.suppression.send_last(held)
            if sent == _LAST_BATCH:
                break
            yield False
        if sent:
            self._job = None  # all steps come again
            yield True
