"""Settings, request meta keys and statistics: every name, its meaning, and the checks.

The only module that spells ``URLNORM_``. Tests hold the documentation to its tables.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from scrapy_urlnorm.exceptions import ConfigError
from scrapy_urlnorm.fingerprints import STOCK_FINGERPRINTER
from scrapy_urlnorm.normalizer import KEY_VERSION, Normalizer
from scrapy_urlnorm.rules import PROFILES
from scrapy_urlnorm.site_rules import load_site_rules
from scrapy_urlnorm.stores import (
    DATABASE_NAME,
    RULES_NAME,
    Database,
    database_path,
    default_spec,
    open_store,
)
from scrapy_urlnorm.text import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scrapy.settings import BaseSettings

    from scrapy_urlnorm.site_rules import SiteRule
    from scrapy_urlnorm.stores import Seen

PREFIX = "URLNORM_"
ENABLED = "URLNORM_ENABLED"
PROFILE = "URLNORM_PROFILE"
RULES_SETTING = "URLNORM_RULES"
SITE_RULES = "URLNORM_SITE_RULES"
LEARN = "URLNORM_LEARN"
LEARNED_PATH = "URLNORM_LEARNED_PATH"
DEFER_DUPLICATES = "URLNORM_DEFER_DUPLICATES"
PAIRS = "URLNORM_PAIRS"
HELD = "URLNORM_HELD"
STORE = "URLNORM_STORE"
STORE_OPTIONS = "URLNORM_STORE_OPTIONS"
MEDIA = "URLNORM_MEDIA"
REWRITE = "URLNORM_REWRITE_REQUESTS"
CRAWL_LOG = "URLNORM_CRAWL_LOG"
REPORT = "URLNORM_REPORT"
FALLBACK_FINGERPRINTER = "URLNORM_FALLBACK_REQUEST_FINGERPRINTER_CLASS"

LEARN_MODES = ("off", "redirects", "content")
HELD_MODES = ("drop", "last")


class Setting(NamedTuple):
    """One row of the table of settings."""

    default: object
    accepted: str
    description: str


SETTINGS: Mapping[str, Setting] = {
    ENABLED: Setting(True, "True or False", "False leaves the crawl as stock Scrapy runs it"),
    PROFILE: Setting("default", ", ".join(PROFILES), "which rules of the catalogue are on"),
    RULES_SETTING: Setting(
        {}, "a dict", "rule name -> True, False or its options; goes over the profile"
    ),
    SITE_RULES: Setting([], "a list of paths", "files with rules for single sites (TOML)"),
    LEARN: Setting(
        "content",
        ", ".join(LEARN_MODES),
        "redirects: apply to a host what its permanent redirects prove during the crawl. content: "
        "apply to a site what equal pages under different URLs prove, too. With the safe profile "
        "the default is off",
    ),
    LEARNED_PATH: Setting(
        None, "a path", f"where learned rules are kept; {RULES_NAME} in JOBDIR when that is set"
    ),
    DEFER_DUPLICATES: Setting(
        True,
        "True or False",
        f"with {LEARN} = content, requests of a kind (host, first folder, depth, names of "
        "parameters) of which most brought nothing new are sent after all others, unless their "
        "priority is above 0; by then a rule may say which of them to send. False leaves the "
        "order of the crawl as it is",
    ),
    PAIRS: Setting(
        0.015,
        "a number from 0 to 1",
        f"with {LEARN} = content, the share of pages that are fetched twice, to learn what of them "
        "changes by itself; none where a site has fewer than 40 pages, and few where it holds still",
    ),
    HELD: Setting(
        "drop",
        ", ".join(HELD_MODES),
        "what becomes of requests that were held as duplicates when the crawl has nothing else to do. "
        "drop: audits have tested them, and the summary says how many may have been other pages. "
        "last: all are sent then, those in most doubt first. It needs a scheduler of this package",
    ),
    STORE: Setting(
        None,
        "memory, sqlite:PATH or redis://...",
        f"where keys are kept. Without JOBDIR the default is memory; with it, sqlite: {DATABASE_NAME} "
        "in JOBDIR, with all else that the crawl has to remember. sqlite:PATH puts that file elsewhere",
    ),
    STORE_OPTIONS: Setting(
        {},
        "a dict",
        "further options of a store in Redis: ttl, prefix (%(spider)s:urlnorm), and wait: the "
        "seconds after which the crawl stops when Redis does not answer",
    ),
    MEDIA: Setting(
        True,
        "True or False",
        "False leaves requests of pipelines for files and images (and for robots.txt) to the fallback "
        "fingerprinter; with True, two URLs of a file that have one key are downloaded once",
    ),
    REWRITE: Setting(False, "True or False", "fetch the normalized URL, not the one linked to"),
    CRAWL_LOG: Setting(
        None,
        "a path",
        "a log of every response, to learn rules from: JSON lines, gzipped when it ends in .gz. User "
        "names, passwords, session ids and tokens in URLs are masked",
    ),
    REPORT: Setting(
        None,
        "a path",
        "an HTML page about what the crawl saved, written at its end. Every response is looked at for it, "
        "as for a crawl log",
    ),
    FALLBACK_FINGERPRINTER: Setting(
        STOCK_FINGERPRINTER,
        "a class or its import path",
        "the fingerprinter that turns the normalized request into bytes; the add-on puts the "
        "class configured before here",
    ),
}

META: Mapping[str, str] = {
    "urlnorm": "False leaves this request to the fallback fingerprinter, as stock Scrapy would; "
    "the name of a profile normalizes it by that profile alone",
    "urlnorm_key": "the key of this request, in place of its normalized URL: any text. Requests with one key "
    "are fetched once. What is learned leaves such a request alone",
    "verbatim_url": "Scrapy's own: the URL is taken as it stands",
}

STATS: Mapping[str, str] = {
    "urlnorm/requests/processed": "fingerprints given; a request that is asked about again counts again",
    "urlnorm/requests/changed": "of these, requests whose key differs from their URL",
    "urlnorm/requests/left_alone": "of these, requests that asked for it in their meta",
    "urlnorm/requests/unparsable": "requests sent whose URL cannot be parsed: it is its own key",
    "urlnorm/requests/rules_left_out": "keys made without site rules that undo each other on the URL",
    "urlnorm/requests/bad_meta": "of these, requests whose meta names an unknown profile, or a key that is no text",
    "urlnorm/requests/fallback_errors": "of these, requests on which the fallback fingerprinter "
    "raised: their URL as it stands was taken",
    "urlnorm/requests/rewritten": "requests sent with their normalized URL",
    "urlnorm/requests/resumed": "requests that waited in JOBDIR when the run began",
    "urlnorm/requests/repeated": "what this crawler told the queue in Redis a second time, because "
    "Redis had lost it",
    "urlnorm/requests/taken_back": "requests in Redis that a crawler that died had taken, and that "
    "wait again",
    "urlnorm/requests/damaged": "requests in JOBDIR that were found damaged, and are lost",
    "urlnorm/merged": "duplicates filtered that stock Scrapy would have fetched",
    "urlnorm/merged/{rule}": "of these, how many would not be duplicates without this rule",
    "urlnorm/merged_by_scrapy_too": "duplicates filtered under another URL than the one seen "
    "first, which stock Scrapy filters as well",
    "urlnorm/saved": "requests that this crawl did not send and stock Scrapy would have: those "
    "merged, and those suppressed at its end, less the pages that it fetched again. JOBDIR: of this run, below 0 where it sent what an "
    "earlier one had suppressed",
    "urlnorm/redirects/passed": "redirects followed although their key was that of the request "
    "they came from",
    "urlnorm/store/errors": "failures of the store",
    "urlnorm/learned/rules": "rules learned in this crawl and applied",
    "urlnorm/learned/shared": "rules taken over from another crawler at the same store",
    "urlnorm/learned/minings": "times that what a site answered was searched for rules",
    "urlnorm/learned/mining_seconds": "processor time that this took, most of it in a process of its own",
    "urlnorm/learned/retracted": "learned rules retracted: what arrived contradicts them",
    "urlnorm/learned/subsumed": "learned rules that went because a wider one does what they did",
    "urlnorm/learned/aliases": "looks of permalinks that were found to lead to the page they are on",
    "urlnorm/learned/aliases_retracted": "of these, those that a page contradicted later",
    "urlnorm/learned/active": "learned rules in force at the end",
    "urlnorm/learned/suppressed": "requests held behind a page that arrived under another URL",
    "urlnorm/learned/coalesced": "requests that waited for another one with their cluster key, which "
    "was in flight",
    "urlnorm/learned/deferred": "times that a request was put behind all others: it likely brings nothing new",
    "urlnorm/learned/requeued": "requests that were held and sent after all",
    "urlnorm/learned/audits": "requests sent although they could be suppressed, to test a rule",
    "urlnorm/learned/audits_agreed": "of these, those that found what the rule says",
    "urlnorm/learned/audits_differed": "of these, those that found something else",
    "urlnorm/learned/audits_unstable": "of these, those that say nothing: the page changes by itself",
    "urlnorm/learned/pairs": "pages fetched again, to learn what of them changes by itself",
    "urlnorm/learned/second_fetches": "requests sent for that, and to compare an audit with its "
    "representative",
    "urlnorm/learned/closing_audits": "of the audits, those that were drawn when the crawl had nothing else to do",
    "urlnorm/learned/ran_dry": "requests sent after all because the crawl ran dry right after the "
    "rules that held them came into force",
    "urlnorm/learned/held_at_end": "requests that were held at the end and not sent",
    "urlnorm/learned/wrong_at_most": "of these, how many may have been other pages, at most (95 %)",
    "urlnorm/learned/tested_at_end": "requests drawn at random of those held, that were sent at the end and agreed",
    "urlnorm/learned/errors": "failures of what was learned; each request concerned was sent",
}

_WORDS_TRUE_FALSE = ("1", "0", "true", "false", "True", "False")


@dataclass(frozen=True)
class Config:
    """The checked settings of one crawl."""

    normalizer: Normalizer
    rewriter: Normalizer | None  #: makes the URLs to fetch, if requests are to be rewritten
    learn: str
    learned_path: Path | None
    learned: tuple[SiteRule, ...]  #: by an earlier crawl
    defers_duplicates: bool
    pairs: float  #: the share of pages that are fetched twice
    held: str  #: what becomes of held requests at the end
    store: str
    store_options: Mapping[str, Any]
    jobdir: str | None
    crawl_log: str | None
    report: Path | None
    media: bool  #: whether requests for files and images get keys
    fallback: str | type

    @classmethod
    def from_settings(cls, settings: BaseSettings) -> Config:
        """Read and check all settings. `ConfigError` names setting, value and accepted values."""
        _refuse_unknown(settings)
        jobdir = settings.get("JOBDIR") or None
        profile = _choice(settings, PROFILE, PROFILES)
        rules = _dict(settings, RULES_SETTING)
        site_rules = tuple(
            rule for path in _paths(settings, SITE_RULES) for rule in _load(path, SITE_RULES)
        )
        normalizer = _normalizer(profile, rules, site_rules)
        learn = _choice(settings, LEARN, LEARN_MODES)
        learned_path = _path(settings, LEARNED_PATH)
        if learned_path is None and jobdir:
            learned_path = Path(jobdir, RULES_NAME)
        config = cls(
            normalizer=normalizer,
            rewriter=normalizer.for_requests() if _bool(settings, REWRITE) else None,
            learn="off" if profile == "safe" and not settings.get(LEARN) else learn,
            learned_path=learned_path,
            learned=(
                _load(learned_path, LEARNED_PATH) if learned_path and learned_path.exists() else ()
            ),
            defers_duplicates=_bool(settings, DEFER_DUPLICATES),
            pairs=_share(settings, PAIRS),
            held=_choice(settings, HELD, HELD_MODES),
            store=_text(settings, STORE) or default_spec(str(jobdir) if jobdir else None),
            store_options=_dict(settings, STORE_OPTIONS),
            jobdir=str(jobdir) if jobdir else None,
            crawl_log=str(settings.get(CRAWL_LOG) or "") or None,
            report=_path(settings, REPORT),
            media=_bool(settings, MEDIA),
            fallback=cls.fallback_of(settings),
        )
        config.new_store("spider")  # raises now for a store that there is not
        return config

    @staticmethod
    def fallback_of(settings: BaseSettings) -> str | type:
        """Return the class, or its import path, that turns a normalized request into bytes."""
        fallback: str | type = settings.get(FALLBACK_FINGERPRINTER) or STOCK_FINGERPRINTER
        return fallback

    @property
    def database(self) -> Path | None:
        """Where the one database of this crawl is; ``None`` for a temporary one."""
        return database_path(self.store, self.jobdir)

    def new_store(self, spider: str | None = None, database: Database | None = None) -> Seen:
        """Return the store of this crawl, not yet open.

        *spider* is the name of its spider; *database* the one of this crawl, if it has one already.
        """
        try:
            return open_store(
                self.store,
                digest=self.normalizer.digest,
                key_version=KEY_VERSION,
                jobdir=self.jobdir,
                spider=spider,
                database=database,
                **self.store_options,
            )
        except ConfigError as error:
            options = f", {STORE_OPTIONS} = {self.store_options!r}" if self.store_options else ""
            raise ConfigError(f"{STORE} = {self.store!r}{options}: {error}") from error


def settings_read(settings: BaseSettings) -> dict[str, str]:
    """Return, as text, every value that a `Config` is made from: equal text, equal `Config`."""
    return {
        str(name): repr(settings.get(name))
        for name in settings
        if str(name) == "JOBDIR" or str(name).startswith(PREFIX)
    }


def is_enabled(settings: BaseSettings) -> bool:
    """Return whether the add-on is switched on. Raises `ConfigError`."""
    return _bool(settings, ENABLED)


def _path(settings: BaseSettings, name: str) -> Path | None:
    path = settings.get(name)
    if path is not None and not isinstance(path, (str, Path)):
        raise _bad(name, path)
    return Path(path) if path else None


def _refuse_unknown(settings: BaseSettings) -> None:
    for name in settings:
        if str(name).startswith(PREFIX) and name not in SETTINGS:
            hint = did_you_mean(str(name), SETTINGS)
            raise ConfigError(f"unknown setting {name}{hint} Known: {', '.join(SETTINGS)}")


def _bad(name: str, value: object, why: str = "") -> ConfigError:
    reason = f" ({why})" if why else ""
    return ConfigError(f"{name} = {value!r}{reason}; accepted: {SETTINGS[name].accepted}")


def _value(settings: BaseSettings, name: str) -> Any:
    return settings.get(name, SETTINGS[name].default)


def _bool(settings: BaseSettings, name: str) -> bool:
    value = _value(settings, name)
    if value not in (0, 1) and value not in _WORDS_TRUE_FALSE:
        raise _bad(name, value)
    return settings.getbool(name, bool(SETTINGS[name].default))


def _share(settings: BaseSettings, name: str) -> float:
    value = _value(settings, name)
    try:
        share = float(value)
    except (TypeError, ValueError):
        raise _bad(name, value) from None
    if not 0 <= share <= 1:
        raise _bad(name, value)
    return share


def _text(settings: BaseSettings, name: str) -> str:
    value = _value(settings, name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise _bad(name, value)
    return value


def _choice(settings: BaseSettings, name: str, accepted: tuple[str, ...]) -> str:
    value = _text(settings, name)
    if value not in accepted:
        raise _bad(name, value)
    return value


def _dict(settings: BaseSettings, name: str) -> dict[str, Any]:
    try:
        return settings.getdict(name, dict(SETTINGS[name].default))  # type: ignore[call-overload]
    except (TypeError, ValueError) as error:
        raise _bad(name, settings.get(name), str(error)) from error


def _paths(settings: BaseSettings, name: str) -> list[Path]:
    value = _value(settings, name)
    if isinstance(value, Path):
        return [value]
    if not isinstance(value, (str, list, tuple)):
        raise _bad(name, value)
    return [Path(path) for path in settings.getlist(name)]


def _load(path: Path, name: str) -> tuple[SiteRule, ...]:
    try:
        return load_site_rules(path)
    except OSError as error:
        raise _bad(name, str(path), error.strerror or str(error)) from error


def _normalizer(
    profile: str, rules: Mapping[str, Any], site_rules: tuple[SiteRule, ...]
) -> Normalizer:
    try:
        normalizer = Normalizer(profile, rules)
    except ConfigError as error:
        raise ConfigError(f"{RULES_SETTING}: {error}") from error
    try:
        return normalizer.replace_site_rules(site_rules) if site_rules else normalizer
    except ConfigError as error:
        raise ConfigError(f"{SITE_RULES}: {error}") from error
