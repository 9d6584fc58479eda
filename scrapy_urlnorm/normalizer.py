"""Normalizer: a profile, options and site rules, ready to normalize URLs."""

from __future__ import annotations

import json
from functools import cached_property, lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple

from scrapy_urlnorm.domains import domain_or_host
from scrapy_urlnorm.fast_key import LONGEST_QUERY, PlainUrls, memo
from scrapy_urlnorm.rules import PROFILES, RULES, Catalogue
from scrapy_urlnorm.rules.data import lists_digest
from scrapy_urlnorm.rules.host import canonical_host
from scrapy_urlnorm.url import Url, join, parse, split

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from scrapy_urlnorm.caches import BoundedCache
    from scrapy_urlnorm.fast_key import FastKey
    from scrapy_urlnorm.rules import Recorder
    from scrapy_urlnorm.site_rules import RulesByDomain, RuleSet, SiteRule

KEY_VERSION = 3
"""Goes up when the same rules give another key for any URL; part of every digest."""

#: Two passes are enough for nearly every URL. One that needs more was made to keep us busy.
_MAX_PASSES = 8

_PARSE_REASON = "Read as a browser reads it (URL Standard, basic URL parser)."
_UNSETTLED_REASON = (
    f"The rules did not settle after {_MAX_PASSES} passes; the safe profile was used."
)


class Step(NamedTuple):
    """One change of a URL: the rule, the URL before and after, and the reason."""

    rule: str
    before: str
    after: str
    reason: str


class Trace(NamedTuple):
    """What :meth:`Normalizer.explain` returns."""

    url: str
    normalized: str
    steps: tuple[Step, ...]

    def __str__(self) -> str:
        lines = [self.url]
        lines += [f"  {step.rule}: {step.after}  ({step.reason})" for step in self.steps]
        return "\n".join(lines)


class Normalizer:
    """Turns URLs into keys. URLs with equal keys count as one resource.

    *profile* is ``"safe"`` (what RFC 3986 proves), ``"default"`` (also all that stock Scrapy
    merges, tracking parameters and session ids) or ``"aggressive"``. *rules* maps rule names to
    ``True``, ``False`` or an option; they take precedence over those of the profile. Each of
    *site_rules* holds for one site. Site rules run after the catalogue.

    A URL becomes a key in one of two ways. The fast path recognizes a plain URL, and remembers what
    the rules made of its parts (:mod:`~scrapy_urlnorm.fast_key`). For every other URL all rules run,
    pass after pass, until nothing changes. Both ways give the same key.

    A normalizer is immutable. Two are equal if their :attr:`digest` is. Raises :class:`~scrapy_urlnorm.exceptions.\
ConfigError` for an unknown profile, rule or option.
    """

    profile: str
    site_rules: tuple[SiteRule, ...]
    #: 16 hex digits: two normalizers have the same only if they give the same keys.
    digest: str
    _catalogue: Catalogue
    _plain_urls: PlainUrls
    _site: RuleSet | None
    _catalogue_key: FastKey  # the fast path by the catalogue alone
    _fast_key: FastKey  # the fast path by catalogue and site rules
    _hosts_with_rules: BoundedCache[str | None]  # by scheme and authority

    def __init__(
        self,
        profile: str = "default",
        rules: Mapping[str, object] | None = None,
        site_rules: Iterable[SiteRule] = (),
    ) -> None:
        self._set_up(profile, PlainUrls(Catalogue(profile, rules or {})), site_rules, None)

    def _set_up(
        self,
        profile: str,
        urls: PlainUrls,
        site_rules: Iterable[SiteRule],
        told: set[frozenset[SiteRule]] | None,
    ) -> None:
        site_rules = tuple(site_rules)
        site = None
        if site_rules:
            from scrapy_urlnorm.site_rules import RuleSet  # two thirds of the time of an import

            site = RuleSet(site_rules, told)
        catalogue_key = with_site = urls.fast_key()
        if site is not None:
            vars(self)["_hosts_with_rules"] = memo(self._host_with_rules)
            with_site = urls.fast_key(memo(self._head), self._fast_site_key)
        vars(self).update(
            profile=profile,
            site_rules=site_rules,
            digest=_digest(urls.catalogue.options, site_rules),
            _catalogue=urls.catalogue,
            _plain_urls=urls,
            _site=site,
            _catalogue_key=catalogue_key,
            _fast_key=with_site,
        )

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a Normalizer is immutable: cannot set {name!r}")

    def __reduce__(self) -> tuple[Any, ...]:
        return Normalizer, (self.profile, self._catalogue.all_options(), self.site_rules)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Normalizer) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        return f"<Normalizer {self.profile} {self.digest}, {len(self.site_rules)} site rules>"

    def for_requests(self) -> Normalizer:
        """Return a normalizer whose results can be fetched.

        It lacks the rules whose results are good for keys only: those of the catalogue that
        imitate how stock Scrapy compares URLs, and site rules that write a placeholder.
        """
        rules = self._catalogue.all_options() | {r.name: False for r in RULES if r.key_only}
        site_rules = [rule for rule in self.site_rules if not rule.operation.key_only]
        return Normalizer(self.profile, rules, site_rules)

    @property
    def rules(self) -> Mapping[str, object]:
        """The rules that are on, in the order in which they run, with their options."""
        return dict(self._catalogue.options)

    @property
    def rules_left_out(self) -> int:
        """How many keys were made without site rules that undo each other on the URL."""
        return 0 if self._site is None else self._site.rules_left_out

    def replace_site_rules(self, site_rules: Iterable[SiteRule]) -> Normalizer:
        """Return a normalizer with the same catalogue and other site rules."""
        return self._copy(self._plain_urls, site_rules)

    def replace_rules(self, rules: Mapping[str, object]) -> Normalizer:
        """Return a normalizer with the same profile and site rules and other options."""
        return self._copy(PlainUrls(Catalogue(self.profile, rules)), self.site_rules)

    def _copy(self, urls: PlainUrls, site_rules: Iterable[SiteRule]) -> Normalizer:
        made = object.__new__(Normalizer)
        # A circle of site rules that was logged is not logged again.
        told = None if self._site is None else self._site.told
        made._set_up(self.profile, urls, site_rules, told)
        return made

    @cached_property
    def _by_domain(self) -> RulesByDomain:
        from scrapy_urlnorm.site_rules import RulesByDomain

        return RulesByDomain(self.site_rules)

    def for_site(self, domain: str, learned: Iterable[SiteRule]) -> Normalizer:
        """Return a normalizer with the same catalogue that is made for the hosts of *domain*.

        *domain* is a registrable domain, or a host that has none. The new normalizer has the site
        rules that can act on these hosts, and *learned*. The keys of these hosts are those of
        ``replace_site_rules((*site_rules, *learned))``, which would compile the rules of all
        sites.

        Raises :class:`~scrapy_urlnorm.exceptions.SiteRuleError` for rules that do not go together.
        """
        rules = self._by_domain.of(domain)
        # replace-ip-with-domain may turn an address into a domain: the rules of that hold too.
        mapped = self._catalogue.compiled.get("replace-ip-with-domain", {}).get(domain)
        if mapped is not None:
            rules += self._by_domain.of(domain_or_host(mapped))
        return self.replace_site_rules((*rules, *learned))

    def normalize(self, url: str) -> str:
        """Return the key of *url*; text that is no ``scheme://...`` URL comes back as it is.

        Never raises for a ``str``, and ``normalize(normalize(url)) == normalize(url)``. Raises
        ``TypeError`` for anything else: only the caller knows the encoding of ``bytes``.
        """
        try:
            key = self._fast_key(url)
            return self._run_all(url, None) if key is None else key
        except TypeError:
            _refuse_other_than_text(url)
            raise

    def normalize_many(self, urls: Iterable[str]) -> Iterator[str]:
        """Yield the key of each of *urls*."""
        return map(self.normalize, urls)

    def explain(self, url: str) -> Trace:
        """Return the key of *url* and every change on the way to it.

        All rules run, even on a plain URL. Raises ``TypeError`` if *url* is no ``str``.
        """
        _refuse_other_than_text(url)
        steps: list[Step] = []

        def record(rule: str, before: Url, after: Url, reason: str) -> None:
            steps.append(Step(rule, join(before), join(after), reason))

        normalized = self._run_all(url, record)
        return Trace(url, normalized, tuple(steps))

    def site_rules_on(self, url: str) -> list[SiteRule] | None:
        """Return the site rules that act on *url*, much faster than `explain` tells of them.

        ``None`` for a URL that is not plain, where only `explain` knows. Rules that change an
        option of the catalogue do not act themselves.
        """
        if self._site is None:
            return []
        key = self._catalogue_key(url)
        if self._fast_key(url) is None:
            return None
        return None if key is None else self._site.acting_on(split(key))

    def _run_all(self, text: str, record: Recorder | None) -> str:
        """Return the key of *text* by running the rules, pass after pass, until nothing changes.

        A rule may make work for another that ran before it, so that one pass is not enough.
        A URL that still changes after ``_MAX_PASSES`` gets the key of the safe profile.
        """
        url = parse(text)
        if url is None:
            return text
        result = join(url)
        # To look through a long text once more takes longer than it saves.
        fast_key = self._fast_key if len(text) <= 2 * LONGEST_QUERY else lambda url: None
        if result != text:
            if record is not None:
                record("parse", split(text), url, _PARSE_REASON)
            elif (key := fast_key(result)) is not None:
                return key
        for _ in range(_MAX_PASSES):
            before = url
            url = self._run_pass(url, record)
            if url == before:
                return result
            result = join(url)
            if fast_key(result) == result:
                return result
        safe = normalizer_of("safe")
        if self is safe:
            return result
        result = safe.normalize(text)
        if record is not None:
            record("unsettled", url, split(result), _UNSETTLED_REASON)
        return result

    def _run_pass(self, url: Url, record: Recorder | None) -> Url:
        site = self._site
        if site is None:
            return self._catalogue.run(url, record)
        url = self._catalogue_of(site, url.host or "").run(url, record)
        return site.apply(url, record)

    def _catalogue_of(self, site: RuleSet, host: str) -> Catalogue:
        """Return the catalogue for *host*, for which rules of *site* may change some options."""
        options = site.catalogue_options(canonical_host(host))
        return self._catalogue.changed(options) if options else self._catalogue

    def _head(self, prefix: str) -> str | None:
        """Return what becomes of scheme and authority; ``None`` if it cannot be told.

        Nor can it if the host, before or after, has another catalogue.
        """
        assert self._site is not None
        before, head = parse(f"{prefix}/"), self._plain_urls.heads[prefix]
        if before is None or head is None:
            return None
        hosts = (before.host or "", split(head).host or "")
        if any(self._catalogue_of(self._site, host) is not self._catalogue for host in hosts):
            return None
        return head

    def _host_with_rules(self, head: str) -> str | None:
        """Return the host of a canonical scheme and authority, if its site has rules."""
        host = split(head).host or ""
        return host if self._site is not None and self._site.has(host) else None

    def _fast_site_key(self, key: str, head: str) -> str | None:
        """Apply the rules of the site to *key*, the key by the catalogue that begins with *head*.

        ``None`` if the result may change once more: then all rules have to run.
        """
        host = self._hosts_with_rules[head]
        if host is None:
            return key
        site = self._site
        assert site is not None
        url = split(key)
        new = site.apply(url, None)
        if new is url:
            return key
        if new.host != host and site.catalogue_options(new.host or ""):
            return None
        catalogue_key, result = self._catalogue_key, join(new)
        again = catalogue_key(result)
        # No site rule acts on what came out of all of them.
        if again == result:
            return result
        if again is None or catalogue_key(again) != again:
            return None
        url = split(again)  # such as the parameters, in order again
        return again if site.apply(url, None) is url else None


def _refuse_other_than_text(url: object) -> None:
    if not isinstance(url, str):
        hint = "; decode it first, as in url.decode('utf-8')" if isinstance(url, bytes) else ""
        raise TypeError(f"a URL has to be a str, not {type(url).__name__}: {url!r}{hint}") from None


def _digest(canonical: Mapping[str, Any], site_rules: Iterable[SiteRule]) -> str:
    """Return 16 hex digits: two normalizers have the same only if they give the same keys."""
    content = {
        "key_version": KEY_VERSION,
        "rules": canonical,
        "lists": lists_digest(),
        "site_rules": sorted(rule.identity for rule in site_rules if rule.active),
    }
    text = json.dumps(content, sort_keys=True, ensure_ascii=True)
    return blake2b(text.encode(), digest_size=8).hexdigest()


@lru_cache(maxsize=len(PROFILES))
def normalizer_of(profile: str) -> Normalizer:
    return Normalizer(profile)


def normalize(url: str, profile: str = "default") -> str:
    """Return the key of *url* under *profile*; see :meth:`Normalizer.normalize`.

    >>> normalize("HTTP://Example.com:80/%7Efoo/../a?b=2&utm_source=x&a=1#top")
    'http://example.com/a?a=1&b=2'
    """
    return normalizer_of(profile).normalize(url)


def explain(url: str, profile: str = "default") -> Trace:
    """Return the key of *url* under *profile* and every change on the way to it."""
    return normalizer_of(profile).explain(url)
