"""Rekeying: makes the learned keys of a site anew when its rules change, a slice at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from scrapy_urlnorm.crawl.live.kept_back import KeptBack
    from scrapy_urlnorm.crawl.live.ledger import Ledger
    from scrapy_urlnorm.crawl.live.pages import Pages
    from scrapy_urlnorm.crawl.live.register import Register

#: Stands for all sites in the table of jobs.
_ALL_SITES = ""
#: The salt of a site in the ledger while its keys are being made: no set of rules has it, so a
#: run that was killed meanwhile begins again.
_UNFINISHED = b"unfinished"


class Rekeying:
    """One job for each site whose rules have changed. Requests without a witness are sent.

    A job is an iterator. Each step of it handles one row of the ledger.
    """

    def __init__(
        self, register: Register, ledger: Ledger, kept_back: KeptBack, pages: Pages
    ) -> None:
        self._register = register
        self._ledger = ledger
        self._kept_back = kept_back
        self._pages = pages
        self._jobs: dict[str, Iterator[None]] = {}
        salts = ledger.salts()
        for site in {*salts, *ledger.sites_with_kept(), *register.sites()}:
            if salts.get(site, b"") != register.salt(site):
                self.begin(site)  # noted at once: requests may be withheld before the job runs
        if ledger.first_parked() is not None:  # an earlier run parked it; its claims are void
            self._jobs[_ALL_SITES] = self._put_back_parked()

    @property
    def is_working(self) -> bool:
        """Whether keys are still to be made."""
        return bool(self._jobs)

    def begin(self, site: str) -> None:
        """Make the keys of *site* anew, from now on and in `work`."""
        self._jobs[site] = self._make_keys(site)
        self._ledger.set_salt(site, _UNFINISHED)

    def work(self, is_time_over: Callable[[], bool]) -> None:
        """Go on until all is done or *is_time_over* says so."""
        while self._jobs:
            site, job = next(iter(self._jobs.items()))
            for _ in job:
                if is_time_over():
                    return
            if self._jobs.get(site) is job:  # no other job has taken its place meanwhile
                del self._jobs[site]

    def finish(self) -> None:
        """Do all that is left. A job that fails is not tried again."""
        for site in tuple(self._jobs):
            for _ in self._jobs.pop(site):
                pass

    def stop(self) -> None:
        """Forget all jobs."""
        self._jobs.clear()

    def _make_keys(self, site: str) -> Iterator[None]:
        self._ledger.set_salt(site, _UNFINISHED)
        is_whole = True
        for kept in list(self._ledger.parked_behind_others(site)):
            self._kept_back.put_back(kept)
            yield
        number = 0
        while rows := self._ledger.pages(site, number):
            keyed: list[tuple[bytes | None, int]] = []
            for number, url in rows:
                learned = None if url is None else self._register.learned_of_page(site, url)
                keyed.append((learned, number))
                yield
            self._ledger.rekey_pages(keyed)
        for kept in self._ledger.withheld(site):
            request = self._kept_back.request_of(kept)
            keys = None if request is None else self._register.keys(request)
            if request is None:
                is_whole = False  # another run may be able to read it
            elif keys is None or self._pages.witness(keys, request) is None:
                self._kept_back.put_back(kept, request)
            else:
                self._ledger.rekey_kept(kept.number, keys.learned)
            yield
        if is_whole:
            self._ledger.set_salt(site, self._register.salt(site))

    def _put_back_parked(self) -> Iterator[None]:
        for kept in list(self._ledger.all_parked()):
            self._kept_back.put_back(kept)
            yield
