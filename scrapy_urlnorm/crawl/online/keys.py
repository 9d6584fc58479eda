"""The keys of a request: its fingerprint, and its cluster key under the rules in force."""

from __future__ import annotations

import json
from functools import partial
from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple

from scrapy_urlnorm.caches import BoundedCache
from scrapy_urlnorm.crawl.requests import asked_for, site_of
from scrapy_urlnorm.exceptions import SiteRuleError
from scrapy_urlnorm.url import get_fingerprint

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from scrapy_urlnorm.crawl.fingerprinter import UrlNormRequestFingerprinter
    from scrapy_urlnorm.crawl.requests import Asked
    from scrapy_urlnorm.normalizer import Normalizer
    from scrapy_urlnorm.site_rules import SiteRule


class Keys(NamedTuple):
    """The two keys of a request."""

    site: str  #: the registrable domain, or the host if it has none
    fingerprint: bytes  #: from what the user configured
    cluster: bytes  #: made from the URL as the rules in force for the site change it further

    @property
    def is_plain(self) -> bool:
        """Whether the site has no rules: both keys are one."""
        return self.cluster == self.fingerprint


class _Site:
    """The rules in force for one site, and the numbers of those that act on a URL."""

    def __init__(
        self, rules: tuple[SiteRule, ...], normalizer: Normalizer, plain: BoundedCache[str]
    ) -> None:
        from scrapy_urlnorm.learning.audit import Blame  # most sites have no rules

        self.rules = rules
        self.normalizer, self._plain = normalizer, plain
        text = json.dumps(sorted(rule.identity for rule in rules))
        self._salt = blake2b(text.encode(), digest_size=16).digest()
        self._blame = Blame(rules)

        def key_of(url: str) -> str:
            return normalizer.normalize(plain[url])  # the catalogue changes a key no more: faster

        #: By URL: the key under what the user configured and these rules.
        self.key_of = BoundedCache(key_of, most=4_096, longest=2_000)
        #: By URL: a representative is asked for with each URL that it stands for.
        self.acting = BoundedCache(self._acting, most=4_096, longest=2_000)

    def salted(self, fingerprint: bytes) -> bytes:
        """Return the cluster key of what has this fingerprint after the rules have acted."""
        return blake2b(fingerprint, key=self._salt, digest_size=16).digest()

    def changes(self, url: str) -> bool:
        return self.key_of[url] != self._plain[url]

    def _acting(self, url: str) -> frozenset[int]:
        if not self.changes(url):
            return frozenset()  # so with most URLs, and to explain one takes long
        return frozenset(self._blame.of(self._plain[url], self.normalizer))


class ClusterKeys:
    """Makes the keys of requests, with the learned rules in force for each site.

    A cluster key is salted with the rules that it was made with. So a key that was made before a
    rule came or went equals no key that is made afterwards.
    """

    def __init__(self, fingerprinter: UrlNormRequestFingerprinter) -> None:
        self._fingerprinter = fingerprinter
        self._base = fingerprinter.normalizer
        self._key_of = BoundedCache(self._base.normalize, most=4_096, longest=2_000)
        if self._base.site_rules:
            self._base.for_site("", ())  # sorts the rules by site: slow, so now and not later
        site_of("http://host.test/")  # reads the list of public suffixes: slow too
        self._sites: dict[str, _Site] = {}
        self._with_aliases: set[str] = set()
        self._forget()

    def replace(self, site: str, rules: Iterable[SiteRule]) -> None:
        """Put *rules*, and no others, in force for *site*.

        Raises `SiteRuleError`, and changes nothing, for rules that do not go together.
        """
        rules = tuple(rules)
        if rules:
            self._sites[site] = _Site(rules, self._base.for_site(site, rules), self._key_of)
        else:
            self._sites.pop(site, None)
        self._forget()

    def accepts(self, site: str, rule: SiteRule) -> bool:
        try:
            self._base.for_site(site, (rule,))
        except SiteRuleError:
            return False
        return True

    def give_keys(self, site: str, *, has_aliases: bool) -> None:
        """Give requests to *site* keys even if it has no rules, as long as it *has_aliases*."""
        change = self._with_aliases.add if has_aliases else self._with_aliases.discard
        change(site)
        self._forget()

    def _forget(self) -> None:
        """Forget the keys by URL: they belong to the rules and aliases that there were."""

        def make_keys(url: str) -> Keys | None:
            return self._make_keys(url, lambda key_of: get_fingerprint(key_of[url]))

        #: A request is asked about on arrival, when it leaves the queue, and with its page.
        self._keys_of_get = BoundedCache(make_keys, most=4_096, longest=2_000)

    def has_keys(self, site: str) -> bool:
        return site in self._sites or site in self._with_aliases

    def rules(self, site: str) -> tuple[SiteRule, ...]:
        found = self._sites.get(site)
        return () if found is None else found.rules

    def sites(self) -> Iterator[str]:
        return iter(tuple({**self._sites, **dict.fromkeys(self._with_aliases)}))

    def __bool__(self) -> bool:
        """Whether any site has rules or aliases."""
        return bool(self._sites or self._with_aliases)

    def keys(self, asked: Asked) -> Keys | None:
        """Return the keys of a request; ``None`` if its site has neither rules nor aliases."""
        if not self:
            return None
        if asked.is_evidence and self.by_url:
            return self._keys_of_get[asked.url]
        return self._make_keys(asked.url, partial(self._fingerprint, asked))

    def plain_keys(self, asked: Asked) -> Keys:
        fingerprint = self.fingerprint(asked)
        return Keys(asked.site, fingerprint, fingerprint)

    def _make_keys(
        self, url: str, fingerprint: Callable[[BoundedCache[str]], bytes]
    ) -> Keys | None:
        site = site_of(url)
        if not self.has_keys(site):
            return None
        plain, found = fingerprint(self._key_of), self._sites.get(site)
        cluster = plain if found is None else found.salted(fingerprint(found.key_of))
        return Keys(site, plain, cluster)

    @property
    def by_url(self) -> bool:
        """Whether a URL alone makes a key, so that a page can get a new key for its URL."""
        return self._fingerprinter.is_direct

    def keys_of(self, url: str) -> Keys | None:
        return self._keys_of_get[url] if self.by_url else self.keys(asked_for(url))

    def cluster_url(self, url: str) -> str:
        """Return the URL that what the user configured and the rules in force make of *url*."""
        found = self._sites.get(site_of(url))
        return self._key_of[url] if found is None else found.key_of[url]

    def cluster_of_plain(self, site: str, plain: str, fingerprint: bytes) -> bytes | None:
        """Return the cluster key of a request for a URL of *site* of which the first key is *plain*."""
        found = self._sites.get(site)
        if found is None:
            return fingerprint if self.has_keys(site) else None
        key = found.normalizer.normalize(plain)
        return found.salted(fingerprint if key == plain else get_fingerprint(key))

    def fingerprint_of_cluster(self, site: str, url: str) -> bytes | None:
        """Return the fingerprint of the URL that the rules in force for *site* make of *url*.

        ``None`` without rules, or where a URL alone does not make a key.
        """
        found = self._sites.get(site)
        if found is None or not self.by_url:
            return None
        return self.fingerprint_of(found.key_of[url])

    def fingerprint(self, asked: Asked) -> bytes:
        return self._fingerprint(asked, self._key_of)

    def _fingerprint(self, asked: Asked, key_of: BoundedCache[str]) -> bytes:
        return self._fingerprinter.fingerprint_with(asked, key_of.__getitem__)

    def normalized(self, url: str) -> str:
        return self._key_of[url]

    def fingerprint_of(self, url: str) -> bytes:
        """Return the fingerprint of a request that asks for *url* and nothing else."""
        by_url = self.by_url
        return get_fingerprint(self._key_of[url]) if by_url else self.fingerprint(asked_for(url))

    def acting_on(self, url: str) -> tuple[SiteRule, ...]:
        site = self._sites.get(site_of(url))
        return () if site is None else tuple(site.rules[n] for n in sorted(site.acting[url]))

    def between(self, name: str, url: str, other: str) -> tuple[SiteRule, ...]:
        """Return the rules in force for the site *name* that make the two URLs one; *other* is "" if it is not known.

        These are the rules that act on one of the two, and not on both. Where there are none,
        return those that act on both (``?sid=1`` and ``?sid=2``), or else all; and nothing where no
        rule changes either: a rule that did is out of force by now.
        """
        site = self._sites.get(name)
        if site is None or (other and not (site.changes(url) or site.changes(other))):
            return ()
        if len(site.rules) == 1:
            return site.rules
        numbers = site.acting[url]
        if other:
            numbers = (numbers ^ site.acting[other]) or numbers
        return tuple(site.rules[number] for number in sorted(numbers)) or site.rules
