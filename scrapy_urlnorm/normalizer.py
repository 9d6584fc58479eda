"""Normalizer: a profile, options and site rules, ready to normalize URLs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple

from scrapy_urlnorm import fast_key as shortcuts
from scrapy_urlnorm.caches import BoundedCache
from scrapy_urlnorm.domains import MAX_HOST, registrable_domain
from scrapy_urlnorm.rules import PROFILES, RULE_NAMES, RULES
from scrapy_urlnorm.rules.compiled import Catalogue, effective_rules, switched
from scrapy_urlnorm.rules.data import lists_digest
from scrapy_urlnorm.rules.escapes import UNTIDY_ESCAPE
from scrapy_urlnorm.rules.host import canonical_host
from scrapy_urlnorm.site_rules import RulesByDomain, compile_site_rules
from scrapy_urlnorm.url import Url, join, parse, split

if TYPE_CHECKING:
    from scrapy_urlnorm.site_rules import CompiledSiteRules, SiteRule

KEY_VERSION = 2
"""Goes up when the same rules give another key for any URL; part of every digest."""

#: A URL that has not settled after so many passes was made to keep us busy (see `_settle`).
_MAX_PASSES = 8

_KEY_ONLY_KINDS = {"ignore-value", "keep-number"}
_CACHED_HOSTS = 65_536
_PARSE_REASON = "Read as a browser reads it (URL Standard, basic URL parser)."
_UNSETTLED_REASON = "The rules keep making work for one another: only the safe ones apply."

Recorder = Callable[[str, Url, Url, str], None]


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
    """Turns URLs into keys: equal keys are taken as one resource.

    *profile* is ``"safe"`` (what RFC 3986 proves), ``"default"`` (besides, all that stock Scrapy
    merges, tracking parameters and session ids) or ``"aggressive"``. *rules* maps rule names to
    ``True``, ``False`` or an option, over those of the profile. *site_rules* hold for one site
    each and run after the catalogue.

    Immutable; equal and hashed by :attr:`digest`. Raises :class:`~scrapy_urlnorm.exceptions.\
ConfigError` for an unknown profile, rule or option.
    """

    __slots__ = (
        "_by_domain",
        "_catalogue",
        "_has_site_rules",
        "_plain",
        "_plain_key",
        "_shortcut",
        "_site",
        "digest",
        "profile",
        "site_rules",
    )

    _by_domain: RulesByDomain | None  # made when it is asked for first
    _catalogue: Catalogue
    _has_site_rules: BoundedCache[bool]
    _plain: shortcuts.PlainUrls | None
    _plain_key: shortcuts.Shortcut | None  # by the catalogue alone
    _shortcut: shortcuts.Shortcut | None
    _site: CompiledSiteRules | None
    digest: str
    profile: str
    site_rules: tuple[SiteRule, ...]

    def __init__(
        self,
        profile: str = "default",
        rules: Mapping[str, object] | None = None,
        site_rules: Iterable[SiteRule] = (),
    ) -> None:
        catalogue = Catalogue(effective_rules(profile, rules or {}))
        self._set_up(profile, catalogue, shortcuts.plain_urls(catalogue.compiled), site_rules)

    def _set_up(
        self,
        profile: str,
        catalogue: Catalogue,
        plain: shortcuts.PlainUrls | None,
        site_rules: Iterable[SiteRule],
    ) -> None:
        site_rules = tuple(site_rules)
        site = compile_site_rules(site_rules) if site_rules else None
        has_site_rules = None
        if site is not None:
            has_site_rules = BoundedCache(
                site.hosts.__contains__, most=_CACHED_HOSTS, longest=MAX_HOST
            )
        set_slot = object.__setattr__
        set_slot(self, "profile", profile)
        set_slot(self, "site_rules", site_rules)
        set_slot(self, "_by_domain", None)
        set_slot(self, "_catalogue", catalogue)
        set_slot(self, "_plain", plain)
        set_slot(self, "_site", site)
        set_slot(self, "_has_site_rules", has_site_rules)
        plain_key = with_site = None
        if plain is not None:
            plain_key = shortcuts.build(plain)
            with_site = plain_key if site is None else shortcuts.build(plain, self._site_key)
        set_slot(self, "_plain_key", plain_key)
        set_slot(self, "_shortcut", with_site)
        set_slot(self, "digest", _digest(catalogue.options, site_rules))

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

        Without the rules that are there for keys only: those of the catalogue that imitate how
        stock Scrapy compares URLs, and site rules that write a placeholder.
        """
        rules: dict[str, object] = dict.fromkeys(RULE_NAMES, False)
        options = self._catalogue.options
        rules |= {r.name: options.get(r.name, False) for r in RULES if not r.key_only}
        site_rules = [rule for rule in self.site_rules if rule.kind not in _KEY_ONLY_KINDS]
        return Normalizer(self.profile, rules, site_rules)

    @property
    def rules(self) -> Mapping[str, object]:
        """The rules that are on, in the order in which they run, with their options."""
        return dict(self._catalogue.options)

    def replace_site_rules(self, site_rules: Iterable[SiteRule]) -> Normalizer:
        """Return a normalizer with the same catalogue and other site rules."""
        made = object.__new__(Normalizer)
        made._set_up(self.profile, self._catalogue, self._plain, site_rules)
        return made

    def for_site(self, domain: str, learned: Iterable[SiteRule]) -> Normalizer:
        """Return a normalizer with the same catalogue for the hosts of *domain* alone.

        *domain* is a registrable domain, or a host that has none. Of the site rules only those
        stay that can act there; *learned* are added. On these hosts the keys are those of
        ``replace_site_rules((*site_rules, *learned))``, which compiles the rules of all sites.

        Raises :class:`~scrapy_urlnorm.exceptions.SiteRuleError` for rules that do not go together.
        """
        by_domain = self._by_domain
        if by_domain is None:
            by_domain = RulesByDomain(self.site_rules)
            object.__setattr__(self, "_by_domain", by_domain)
        rules = by_domain.of(domain)
        # An address may stand for a domain, whose rules it then gets.
        mapped = self._catalogue.compiled.get("replace-ip-with-domain", {}).get(domain)
        if mapped is not None:
            rules += by_domain.of(registrable_domain(mapped) or mapped)
        return self.replace_site_rules((*rules, *learned))

    def normalize(self, url: str) -> str:
        """Return the key of *url*; text that is no ``scheme://...`` URL comes back as it is.

        Never raises for a ``str``, and ``normalize(normalize(url)) == normalize(url)``. Raises
        ``TypeError`` for anything else: what encoding ``bytes`` are in, their owner knows.
        """
        try:
            shortcut = self._shortcut
            if shortcut is not None:
                key = shortcut(url)
                if key is not None:
                    return key
            return self._settle(url, None)
        except TypeError:
            _refuse_other_than_text(url)
            raise

    def normalize_many(self, urls: Iterable[str]) -> Iterator[str]:
        """Yield the key of each of *urls*."""
        return map(self.normalize, urls)

    def explain(self, url: str) -> Trace:
        """Return the key of *url* with every change on the way: the same rules, recorded."""
        _refuse_other_than_text(url)
        steps: list[Step] = []

        def record(rule: str, before: Url, after: Url, reason: str) -> None:
            steps.append(Step(rule, join(before), join(after), reason))

        normalized = self._settle(url, record)
        return Trace(url, normalized, tuple(steps))

    def _settle(self, text: str, record: Recorder | None) -> str:
        """Run all rules, over and over until nothing changes.

        One rule may make work for another that ran before it. Two passes settle nearly every
        URL; for the rare one that goes on, made of rule upon rule, the key is its safe form.
        """
        url = parse(text)
        if url is None:
            return text
        result = join(url)
        if record is not None and result != text:
            record("parse", split(text), url, _PARSE_REASON)
        shortcut = self._shortcut
        for _ in range(_MAX_PASSES):
            before = url
            url, settled = self._run(url, result, record)
            if url is before or url == before:
                return result
            result = join(url)
            if settled or (shortcut is not None and shortcut(result) == result):
                return result
        if self is _safe():
            return result
        result = _safe().normalize(text)
        if record is not None:
            record("unsettled", url, split(result), _UNSETTLED_REASON)
        return result

    def _site_key(self, host: str, key: str) -> str | None:
        """Apply the rules of the site *host* to a key by the catalogue.

        ``None`` if the result is not settled, so that the long way has to be gone.
        """
        if not self._has_site_rules[host]:
            return key
        site = self._site
        assert site is not None
        if site.catalogue_options(host):
            return None
        url = split(key)
        new = site.apply(url, None)
        if new is url:
            return key
        if new.host != host and site.catalogue_options(new.host or ""):
            return None
        result = join(new)
        assert self._plain_key is not None
        if self._plain_key(result) == result and site.apply(new, None) is new:
            return result
        return None

    def _run(self, url: Url, text: str, record: Recorder | None) -> tuple[Url, bool]:
        """Run the catalogue on *url*, whose text is *text*, then the rules of the site.

        Also tell whether the URL is settled: another run would change nothing.
        """
        settled = True
        catalogue = self._catalogue
        site = self._site
        if site is not None:
            host = canonical_host(url.host or "")
            if self._has_site_rules[host] and (switches := site.catalogue_options(host)):
                catalogue = switched(catalogue, json.dumps(switches, sort_keys=True))
        # Rules that need what is not there are left out. What another rule brings in within
        # this pass has its turn in the next.
        untidy = "%" in text and UNTIDY_ESCAPE.search(text) is not None
        for apply, option, rule, settles in catalogue.steps[untidy, "?" in text, "#" in text]:
            new = apply(url, option)
            if new is not url:
                if record is not None:
                    record(rule.name, url, new, rule.summary)
                url = new
                settled = settled and settles
        if site is not None and self._has_site_rules[url.host or ""]:
            new = site.apply(url, record)
            settled = settled and new is url
            url = new
        return url, settled


def _refuse_other_than_text(url: object) -> None:
    if not isinstance(url, str):
        hint = "; decode it first, as in url.decode('utf-8')" if isinstance(url, bytes) else ""
        raise TypeError(f"a URL has to be a str, not {type(url).__name__}: {url!r}{hint}") from None


def _digest(canonical: Mapping[str, Any], site_rules: Iterable[SiteRule]) -> str:
    """Return 16 hex digits that are equal only if every URL gets an equal key."""
    content = {
        "key_version": KEY_VERSION,
        "rules": canonical,
        "lists": lists_digest(),
        "site_rules": sorted(rule.identity for rule in site_rules if rule.active),
    }
    text = json.dumps(content, sort_keys=True, ensure_ascii=True)
    return blake2b(text.encode(), digest_size=8).hexdigest()


@lru_cache(maxsize=len(PROFILES))
def _of_profile(profile: str) -> Normalizer:
    return Normalizer(profile)


def _safe() -> Normalizer:
    return _of_profile("safe")


def normalize(url: str, profile: str = "default") -> str:
    """Return the key of *url* under *profile*; see :meth:`Normalizer.normalize`.

    >>> normalize("HTTP://Example.com:80/%7Efoo/../a?b=2&utm_source=x&a=1#top")
    'http://example.com/a?a=1&b=2'
    """
    return _of_profile(profile).normalize(url)


def explain(url: str, profile: str = "default") -> Trace:
    """Return the key of *url* under *profile* and how it came about."""
    return _of_profile(profile).explain(url)
