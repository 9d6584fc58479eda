"""Trials: candidates for rules that a site itself published, and the pages that decide about them.

A candidate changes nothing. Pages that arrive anyway are compared: two URLs that it makes one are
a witness for it if their contents are equal, one witness a content. After three it is in force,
and audits go on testing it. Two such URLs with different contents end its trial: the site was
wrong about it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from scrapy_urlnorm.crawl.live.comparing import same_content
from scrapy_urlnorm.crawl.live.known_rules import MAX_REJECTED, KnownRules
from scrapy_urlnorm.crawl.sites import domain_of
from scrapy_urlnorm.exceptions import SiteRuleError
from scrapy_urlnorm.learning.clean_param import clean_params
from scrapy_urlnorm.site_rules.form import Form
from scrapy_urlnorm.url import split

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scrapy_urlnorm.logs.page_identity import Identity
    from scrapy_urlnorm.normalizer import Normalizer
    from scrapy_urlnorm.site_rules import SiteRule
    from scrapy_urlnorm.site_rules.form import Slots

SOURCE = "robots"
#: Contents that must agree with a candidate.
NEEDED = 3
#: Hosts with candidates. The oldest one without a rule in force is forgotten for a new one.
MAX_HOSTS = 1_000
#: Pages remembered, of all hosts; for a new one the oldest is forgotten.
MAX_PAGES = 20_000


class _Page(NamedTuple):
    url: str
    content: Identity


class _Candidate:
    """A rule on trial: the contents that agreed, and a pair of URLs for each."""

    __slots__ = ("contents", "examples", "rule")

    def __init__(self, rule: SiteRule) -> None:
        self.rule = rule
        self.contents: set[str] = set()
        self.examples: list[tuple[str, str]] = []

    def is_about(self, one: Slots, other: Slots) -> bool:
        """Return whether the rule makes both equal in a slot in which they differ."""
        names = self.rule.operation.slots
        return any(one.get(name) != other.get(name) for name in names) and (
            self.rule.image(one) is not None or self.rule.image(other) is not None
        )

    def agrees(self, one: _Page, other: _Page) -> bool:
        """Count a witness. Return whether there are enough now."""
        name = one.content.bag_digest or one.content.digest
        if name not in self.contents:
            self.contents.add(name)
            self.examples.append((other.url, one.url))
        return len(self.contents) >= NEEDED

    def proven(self) -> SiteRule:
        """Return the rule as it comes into force."""
        support, examples = len(self.contents), tuple(self.examples)
        return self.rule.replace(status="active", support=support, conflicts=0, examples=examples)


class _Host:
    """The candidates of one host, and the keys that all of them together make."""

    def __init__(self, base: Normalizer, site: str, rules: Iterable[SiteRule]) -> None:
        self._base = base
        self._site = site
        self._rules = {rule.identity: rule.replace(status="active") for rule in rules}
        self.on_trial = {name: _Candidate(rule) for name, rule in self._rules.items()}
        self._normalizer = base.for_site(site, self._rules.values())
        self._changes = 0

    def key(self, url: str) -> tuple[str, int, str]:
        """Return the key of *url*. It equals none that was made with other rules."""
        return self._site, self._changes, self._normalizer.normalize(url)

    def compare(self, page: _Page, other: _Page) -> list[SiteRule]:
        """Let two pages with one key decide; return the rules that they prove."""
        one, two = (Form(split(self._base.normalize(each.url))).slots for each in (page, other))
        concerned = [c for c in self.on_trial.values() if c.is_about(one, two)]
        if not same_content(page.content, other.content):
            for candidate in concerned:  # any of them may be wrong
                self.drop(candidate.rule.identity)
            return []
        proven = [candidate.proven() for candidate in concerned if candidate.agrees(page, other)]
        for rule in proven:
            del self.on_trial[rule.identity]
        return proven

    def drop(self, identity: str) -> None:
        """Forget a rule that is wrong, and make keys without it from now on."""
        self.on_trial.pop(identity, None)
        if self._rules.pop(identity, None) is not None:
            self._normalizer = self._base.for_site(self._site, self._rules.values())
            self._changes += 1


class Trials(KnownRules):
    """Tries candidates, and holds those that are in force and those that audits refuted.

    *base* is what the user configured. *rules* were learned before.
    """

    def __init__(self, base: Normalizer, rules: Iterable[SiteRule] = ()) -> None:
        super().__init__(rules)
        self._base = base
        self._hosts: dict[str, _Host] = {}
        self._pages: dict[tuple[str, int, str], _Page] = {}

    def reject(self, rule: SiteRule, note: str) -> SiteRule | None:
        """Take back a rule that is wrong, and end its trial."""
        rejected = super().reject(rule, note)
        host = self._hosts.get(rule.site)
        if rejected is not None and host is not None:
            host.drop(rule.identity)
        return rejected

    # --- candidates -------------------------------------------------------------------------

    def robots_txt(self, url: str, body: bytes) -> None:
        """Begin the trial of what a file says of its host, if *url* is that of a robots.txt."""
        parts = split(url)
        if parts.path == "/robots.txt" and parts.host:
            self.propose(parts.host, clean_params(body, parts.host))

    def propose(self, host: str, candidates: Iterable[SiteRule]) -> None:
        """Begin the trial of *candidates* for *host*, without those that are decided already."""
        site = domain_of(host)
        refuted = self.rejected(site)
        decided = {rule.identity for rule in self.active(site)} | refuted.keys()
        rules = [rule for rule in candidates if rule.identity not in decided]
        if not rules or host in self._hosts or len(refuted) >= MAX_REJECTED:
            return
        if len(self._hosts) >= MAX_HOSTS and not self._forget_oldest():
            return
        try:
            self._hosts[host] = _Host(self._base, site, rules)
        except SiteRuleError:  # they do not go with the rules of the user
            return

    def _forget_oldest(self) -> bool:
        """Forget the oldest host whose site has no rule in force; return whether there is one."""
        for host in self._hosts:
            if not self.active(domain_of(host)):
                del self._hosts[host]
                return True
        return False

    def wants(self, url: str) -> bool:
        """Return whether the content of *url* may decide about a candidate."""
        if not self._hosts:
            return False
        host = self._hosts.get(split(url).host or "")
        return host is not None and bool(host.on_trial)

    def page(self, url: str, content: Identity | None) -> list[SiteRule]:
        """Take note of a page; return the rules that are in force from now on.

        Ask `wants` whether its *content* is of interest.
        """
        url = url.partition("#")[0]
        name = split(url).host or ""
        host = self._hosts.get(name)
        if host is None or not host.on_trial or content is None or content.kind:
            return []
        key, page = host.key(url), _Page(url, content)
        other = self._pages.get(key)
        if other is None:
            self._pages[key] = page
            if len(self._pages) > MAX_PAGES:
                del self._pages[next(iter(self._pages))]
            return []
        proven = host.compare(page, other)
        self.put(proven)
        return proven
