"""LiveRules: what learning during a crawl means for keys, queue and store.

A rule that comes into force gives other keys to URLs that were seen before. So that it loses
nothing and costs little:

- a request to a site with learned rules is looked up twice: by its key under the configured
  rules, and by a second key that belongs to the rules learned for that site. When these change,
  the second keys of before are void, the first are not;
- every page fetched from the site so far gets its second key, so that a new spelling of its URL
  is a duplicate from now on;
- a queued request is dropped that a rule makes equal to a page fetched meanwhile, or to the
  canonical URL, when that is queued as well;
- what is filtered by its second key alone is kept in a file, and put back when a page
  contradicts the rule;
- some of it is sent all the same, in every section of a site first the first, then ever fewer:
  the audit that a rule has to stand.
"""

from __future__ import annotations

import json
import logging
import os
import pickle
import re
import tempfile
from collections import OrderedDict, deque
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from scrapy import Request
from scrapy.http.request import NO_CALLBACK
from scrapy.utils.request import request_from_dict

from .domains import registrable_domain
from .learning.online import RedirectLearner
from .settings import LEARNED_PATH
from .shared_rules import SharedRules
from .site_rules import save_site_rules
from .url import split

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy import Spider
    from scrapy.crawler import Crawler

    from .dupefilter import UrlNormDupeFilter
    from .fingerprinter import UrlNormRequestFingerprinter
    from .settings import Config
    from .site_rules import SiteRule

logger = logging.getLogger(__name__)

_DIGITS = re.compile(r"\d+")

#: URLs of pages that are remembered, for one domain and for all: what is beyond may be fetched once more.
FETCHED_OF_A_DOMAIN = 2_000
FETCHED_AT_ALL = 100_000
#: Sections told apart for audits.
MAX_SECTIONS = 10_000
SUPPRESSED_FILE = "urlnorm-suppressed"


class LiveRules:
    """Applies what a `RedirectLearner` learns to the fingerprinter, the store and the queue."""

    def __init__(
        self,
        crawler: Crawler,
        config: Config,
        fingerprinter: UrlNormRequestFingerprinter,
        dupefilter: UrlNormDupeFilter,
    ) -> None:
        self._crawler = crawler
        self._fingerprinter = fingerprinter
        self._dupefilter = dupefilter
        self._path = config.learned_path
        self._learner = RedirectLearner(config.normalizer, config.learned)
        self._salts: dict[str, bytes] = {}  # of domains with learned rules
        self._fetched_urls: OrderedDict[str, deque[str]] = OrderedDict()
        self._fetched_count = 0
        self._fetched_keys: OrderedDict[bytes, None] = OrderedDict()
        self._audits: dict[str, int] = {}  # suppressed requests by section
        self._audited: OrderedDict[bytes, None] = OrderedDict()
        self._suppressed = _Suppressed(config.jobdir)
        self._shared = SharedRules(dupefilter.store)
        self._apply()

    def _apply(self) -> None:
        self._fingerprinter.normalizer = self._learner.normalizer
        rules: dict[str, list[str]] = {}
        for rule in self._learner.active:
            rules.setdefault(_domain(rule.site), []).append(rule.identity)
        self._salts = {
            domain: blake2b(json.dumps(sorted(of_domain)).encode(), digest_size=16).digest()
            for domain, of_domain in rules.items()
        }

    # --- evidence ---------------------------------------------------------------------------

    def redirect(self, request: Request, target: str) -> None:
        """A permanent redirect came back for *request*."""
        self._exchange()
        if _is_plain(request):
            rules = self._learner.redirect(request.url, target)
            if rules:
                self._changed(rules, "learned/rules", "Learned from redirects: %(rule)s")

    def page(self, request: Request) -> None:
        """A page came back for *request*."""
        self._exchange()
        if not _is_plain(request):
            return
        rules = self._learner.page(request.url)
        if rules:
            self._changed(rules, "learned/retracted", "Took back: %(rule)s (%(note)s)")
        self._fetched(request)
        if rules:
            self._put_back({_domain(rule.site) for rule in rules})

    def _fetched(self, request: Request) -> None:
        """Remember the URL of a page.

        Of a URL that was only sent it is not known whether the page was fetched: the request
        that its redirect led to may still be in the queue.
        """
        if not self._fingerprinter.is_direct:
            return
        self._remember_keys(self.keys(request))
        self._remember_url(_domain_of(request), request.url)

    def _changed(self, rules: list[SiteRule], stat: str, message: str) -> None:
        self._apply()
        for domain in {_domain(rule.site) for rule in rules}:
            self._rekey(domain)
        for rule in rules:
            self._count(stat)
            arguments = {"rule": rule, "note": rule.note}
            logger.info(message, arguments, extra={"spider": self._crawler.spider})
        self._save()
        self._shared.tell(self._learner.rules)

    # --- other crawlers at the same store ---------------------------------------------------

    def idle(self) -> None:
        """There is nothing to do, unless another crawler took back a rule in the meantime."""
        self._exchange(at_once=True)

    def _exchange(self, *, at_once: bool = False) -> None:
        """Take over the rules that others learned, every few seconds; tell them of ours."""
        news = self._shared.news(at_once=at_once)
        if not news:
            return
        learned, retracted = self._learner.adopt(news)
        if learned:
            self._changed(learned, "learned/shared", "Learned by another crawler: %(rule)s")
        if retracted:
            message = "Taken back by another crawler: %(rule)s (%(note)s)"
            self._changed(retracted, "learned/retracted", message)
            self._put_back({_domain(rule.site) for rule in retracted})
        self._shared.tell(self._learner.rules)  # a rule rejected here stays so for all

    # --- requests on their way --------------------------------------------------------------

    def is_obsolete(self, request: Request) -> bool:
        """Whether a rule learned since *request* was queued makes it a duplicate.

        What carries ``dont_filter``, a retry or a redirect never is.
        """
        if not self._salts or not self._fingerprinter.is_direct or not _is_plain(request):
            return False
        meta = request.meta
        if request.dont_filter or "redirect_urls" in meta or "retry_times" in meta:
            return False
        keys = self.keys(request)
        if keys is None:
            return False
        first, second = keys
        if not self._dupefilter.knows(first):  # it did not come from the queue
            return False
        if first not in self._fetched_keys and (
            not self._has_twin(request, first, second)
            or self._is_audited(request, first)
            or not self._suppressed.add(request, self._crawler.spider, was_queued=True)
        ):
            return False
        self._count("learned/dropped")
        return True

    def _has_twin(self, request: Request, first: bytes, second: bytes) -> bool:
        """Whether a page equal to *request* was fetched, or its canonical URL asked for."""
        if second in self._fetched_keys:
            return True
        canonical = self._fingerprinter.fingerprint(request)
        return canonical != first and self._dupefilter.knows(canonical)

    def _second_key(self, domain: str, fingerprint: bytes) -> bytes | None:
        salt = self._salts.get(domain)
        if salt is None:
            return None
        return blake2b(fingerprint, key=salt, digest_size=20).digest()

    def _remember_url(self, domain: str, url: str) -> None:
        urls = self._fetched_urls.setdefault(domain, deque(maxlen=FETCHED_OF_A_DOMAIN))
        self._fetched_count += len(urls) < FETCHED_OF_A_DOMAIN
        urls.append(url)
        while self._fetched_count > FETCHED_AT_ALL:
            _, oldest = self._fetched_urls.popitem(last=False)
            self._fetched_count -= len(oldest)

    def _remember_keys(self, keys: tuple[bytes, bytes] | None) -> None:
        if keys is not None:
            self._fetched_keys.update(dict.fromkeys(keys))
            while len(self._fetched_keys) > FETCHED_AT_ALL:
                self._fetched_keys.popitem(last=False)

    def _rekey(self, domain: str) -> None:
        """Give the pages of a domain their second keys."""
        if self._fingerprinter.is_direct:
            for url in self._fetched_urls.get(domain, ()):
                keys = self.keys(Request(url))
                self._remember_keys(keys)
                if keys is not None:
                    self._dupefilter.add(keys[1])

    # --- filtering --------------------------------------------------------------------------

    def keys(self, request: Request) -> tuple[bytes, bytes] | None:
        """The key under the configured rules and the second one, for a site with learned rules."""
        if not self._salts:
            return None
        second = self._second_key(_domain_of(request), self._fingerprinter.fingerprint(request))
        if second is None:
            return None
        return self.configured_fingerprint(request), second

    def configured_fingerprint(self, request: Request) -> bytes:
        """The fingerprint of *request* under the configured rules alone."""
        return self._fingerprinter.fingerprint_with(request, self._learner.base)

    def suppress(self, request: Request, first: bytes) -> bool:
        """Keep a request that is filtered by its second key alone; False to send it all the same."""
        if self._is_audited(request, first):
            return False
        if not self._suppressed.add(request, self._crawler.spider):
            return False
        self._count("learned/suppressed")
        return True

    def _is_audited(self, request: Request, first: bytes) -> bool:
        """The first, second, fourth, eighth... of a section, and every fiftieth."""
        if first in self._audited:
            return True
        url = split(request.url)
        section = f"{url.host}/{_DIGITS.sub('#', url.path.split('/', 2)[1])}"
        number = self._audits.get(section, 0) + 1
        if number == 1 and len(self._audits) >= MAX_SECTIONS:
            section = ""  # all the others together
            number = self._audits.get(section, 0) + 1
        self._audits[section] = number
        if number & (number - 1) and number % 50:
            return False
        self._audited[first] = None
        if len(self._audited) > FETCHED_AT_ALL:
            self._audited.popitem(last=False)
        self._count("learned/audited")
        return True

    def _put_back(self, domains: set[str]) -> None:
        """Schedule again what was filtered because of rules that are gone."""
        spider = self._crawler.spider
        assert spider is not None
        assert self._crawler.engine is not None
        for request, was_queued in self._suppressed.take(domains, spider):
            self._count("learned/restored")
            if was_queued:  # its first key was noted when it was queued
                self._dupefilter.let_pass(request)
            self._crawler.engine.crawl(request)

    def _save(self) -> None:
        if self._path is None:
            return
        try:
            save_site_rules(self._path, self._learner.rules)
        except OSError as error:
            logger.error(
                "Learned rules cannot be written to %(setting)s = %(path)s: %(error)s",
                {"setting": LEARNED_PATH, "path": str(self._path), "error": error},
                extra={"spider": self._crawler.spider},
            )

    def close(self) -> None:
        """Write what was learned, close the file of suppressed requests."""
        if self._learner.rules:
            self._save()
        self._suppressed.close()

    def _count(self, stat: str) -> None:
        self._crawler.stats.inc_value(f"urlnorm/{stat}")


class _Suppressed:
    """Requests filtered because of learned rules, in a file: memory does not grow with them."""

    def __init__(self, jobdir: str | None) -> None:
        self._path = Path(jobdir, SUPPRESSED_FILE) if jobdir else None
        self._file: IO[bytes] | None = None

    def add(self, request: Request, spider: Spider | None, *, was_queued: bool = False) -> bool:
        """Keep *request*; False for one that cannot be written down, like a request on a queue."""
        try:
            entry = pickle.dumps((_domain_of(request), was_queued, request.to_dict(spider=spider)))
        except Exception:  # noqa: BLE001 - pickle raises what the objects in the request raise
            return False
        file = self._open()
        file.seek(0, os.SEEK_END)
        file.write(entry)
        file.flush()  # a killed crawl shall not lose it
        return True

    def take(self, domains: set[str], spider: Spider) -> list[tuple[Request, bool]]:
        """Remove and return the requests of *domains*, and whether each came from the queue."""
        if self._file is None and (self._path is None or not self._path.exists()):
            return []
        file = self._open()
        entries = list(_entries(file))
        file.seek(0)
        file.truncate()
        taken = []
        for entry in entries:
            domain, was_queued, request = entry
            if domain in domains:
                taken.append((request_from_dict(request, spider=spider), was_queued))
            else:
                pickle.dump(entry, file)
        return taken

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _open(self) -> IO[bytes]:
        if self._file is None:
            if self._path is None:
                self._file = tempfile.TemporaryFile()  # noqa: SIM115 - closed by close()
            else:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                self._file = self._path.open("a+b")
        return self._file


def _entries(file: IO[bytes]) -> Iterator[tuple[str, bool, dict[str, Any]]]:
    file.seek(0)
    with suppress(EOFError, pickle.UnpicklingError):  # the end, or a tail torn by a crash
        while True:
            yield pickle.load(file)


def _is_plain(request: Request) -> bool:
    """Whether *request* says something about its URL and nothing else."""
    return (
        request.method == "GET"
        and not request.body
        and "urlnorm" not in request.meta
        and "verbatim_url" not in request.meta
        and request.callback is not NO_CALLBACK  # robots.txt, images: not the spider's
    )


def _domain_of(request: Request) -> str:
    return _domain(split(request.url).host or "")


def _domain(site: str) -> str:
    host = site.removeprefix("*.").lower()
    return registrable_domain(host) or host
