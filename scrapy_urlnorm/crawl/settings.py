"""Every setting: its name, its default and what it accepts. `docs/reference` says what each does.

The only module that spells ``URLNORM_``. Its errors say all that the ones behind them do, so these are
left out (``from None``): Scrapy prints each with a traceback of its own.
"""

from __future__ import annotations

import json
import re
from contextlib import nullcontext
from importlib.resources import as_file, files
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from scrapy_urlnorm.exceptions import ConfigError, MissingExtraError, SiteRuleError
from scrapy_urlnorm.normalizer import KEY_VERSION, Normalizer
from scrapy_urlnorm.rules import PROFILES
from scrapy_urlnorm.stores import REDIS_SCHEMES, RULES_NAME, Database, database_path, open_store
from scrapy_urlnorm.text import did_you_mean
from scrapy_urlnorm.url import STOCK_FINGERPRINTER

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from scrapy.settings import BaseSettings

    from scrapy_urlnorm.site_rules import SiteRule
    from scrapy_urlnorm.stores import Seen

PREFIX = "URLNORM_"
PROFILE = "URLNORM_PROFILE"
RULES_SETTING = "URLNORM_RULES"
SITE_RULES = "URLNORM_SITE_RULES"
LEARN = "URLNORM_LEARN"
FAMILY_LIMIT = "URLNORM_FAMILY_LIMIT"
HELD = "URLNORM_HELD"
STORE = "URLNORM_STORE"
REWRITE = "URLNORM_REWRITE_REQUESTS"
CRAWL_LOG = "URLNORM_CRAWL_LOG"
REPORT = "URLNORM_REPORT"
FALLBACK_FINGERPRINTER = "URLNORM_FALLBACK_REQUEST_FINGERPRINTER_CLASS"

LEARN_MODES = ("off", "redirects", "content")
HELD_MODES = ("drop", "last")

# --- a reader for each kind of value: ValueError or TypeError for what it does not accept -------
# ``scrapy crawl -s`` gives text: numbers, JSON and commas are understood.


def _bool(value: Any) -> bool:
    if value not in (0, 1, "0", "1", "true", "false", "True", "False"):
        raise ValueError
    return value in (1, "1", "true", "True")


def _word_of(*accepted: str) -> Callable[[Any], str]:
    def read(value: Any) -> str:
        if not isinstance(value, str) or value not in accepted:
            raise ValueError
        return value

    return read


def _share(value: Any) -> float:
    if not 0 <= (share := float(value)) <= 1:
        raise ValueError
    return share


def _limit(value: Any) -> int | None:
    if isinstance(value, bool) or not str(value or 0).isdecimal():
        raise ValueError
    return int(value or 0) or None


def _text(value: Any) -> str | None:
    if not isinstance(value, (str, Path, type(None))):
        raise TypeError
    return str(value or "") or None


def _dict(value: Any) -> dict[str, Any]:
    return dict(json.loads(value) if isinstance(value, str) else value or {})


def _list(value: Any) -> list[str]:
    if not isinstance(value, (str, Path, list, tuple)):
        raise TypeError
    if isinstance(value, (list, tuple)):
        return list(map(str, value))
    return str(value).split(",") if str(value) else []


class Setting(NamedTuple):
    """One row of the table of settings."""

    default: object
    accepted: str  #: in words
    read: Callable[[Any], Any]


#: What `LEARN` says as a dict: the default of each key, and what reads it.
_OF_LEARNING: Mapping[str, tuple[object, Callable[[Any], Any]]] = {
    "mode": ("content", _word_of(*LEARN_MODES)),
    "pairs": (0.015, _share),  # of pages that are fetched twice
    "defer": (True, _bool),  # whether requests that likely bring nothing new go after all others
}


def _learning(value: Any) -> dict[str, Any]:
    value = {"True": "content", "False": "off"}.get(str(value), value)
    is_word = isinstance(value, str) and not value.startswith("{")
    given = {"mode": value} if is_word else _dict(value)
    if unknown := given.keys() - _OF_LEARNING.keys():
        raise ValueError(f"unknown: {', '.join(map(repr, sorted(unknown)))}")
    return {name: read(given.get(name, usual)) for name, (usual, read) in _OF_LEARNING.items()}


_WRITABLE = (
    "a path that can be written; %(name)s, %(time)s and other attributes of the spider stand in "
    "it as in FEEDS"
)
SETTINGS: Mapping[str, Setting] = {
    PROFILE: Setting("default", ", ".join(PROFILES), _word_of(*PROFILES)),
    RULES_SETTING: Setting({}, "a dict", _dict),
    SITE_RULES: Setting([], "a list of paths, or of package:path", _list),
    LEARN: Setting(
        "content",
        f"{', '.join(LEARN_MODES)}; or a dict with mode (one of these), pairs (a number from 0 to 1) "
        "and defer (True or False)",
        _learning,
    ),
    FAMILY_LIMIT: Setting(None, "a number of pages; None or 0: no limit", _limit),
    HELD: Setting("drop", ", ".join(HELD_MODES), _word_of(*HELD_MODES)),
    STORE: Setting(None, "memory, sqlite:PATH or redis://...", _text),
    REWRITE: Setting(False, "True or False", _bool),
    CRAWL_LOG: Setting(None, _WRITABLE, _text),
    REPORT: Setting(None, _WRITABLE, _text),
    FALLBACK_FINGERPRINTER: Setting(
        STOCK_FINGERPRINTER,
        "a class or its import path",
        lambda value: value or STOCK_FINGERPRINTER,
    ),
}

#: Settings of earlier versions, and what is done instead.
_GONE = {
    "URLNORM_ENABLED": "leave scrapy_urlnorm.Addon out of ADDONS",
    "URLNORM_LEARNED_PATH": f"learned rules are written to {RULES_NAME} in JOBDIR",
    "URLNORM_DEFER_DUPLICATES": f'{LEARN} = {{"mode": "content", "defer": False}}',
    "URLNORM_PAIRS": f'{LEARN} = {{"mode": "content", "pairs": 0}}',
    "URLNORM_STORE_OPTIONS": f'write them into the URL, {STORE} = "redis://HOST?ttl=86400"',
    "URLNORM_MEDIA": "files and images always keep the keys of stock Scrapy",
}


def _read(settings: BaseSettings, name: str) -> Any:
    row = SETTINGS[name]
    value = settings.get(name, row.default)
    try:
        return row.read(value)
    except (TypeError, ValueError) as error:
        raise bad_setting(name, value, str(error)) from None


def bad_setting(name: str, value: object, why: str) -> ConfigError:
    """Return the error that names a setting, its value, and what is accepted."""
    reason = f" ({why})" if why else ""
    return ConfigError(f"{name} = {value!r}{reason}; accepted: {SETTINGS[name].accepted}")


class Config:
    """The checked *settings* of one crawl. Raises `ConfigError` for a bad one."""

    def __init__(self, settings: BaseSettings) -> None:
        for name in map(str, settings):
            if name.startswith(PREFIX) and name not in SETTINGS:
                if name in _GONE:
                    raise ConfigError(f"{name} is no setting any more: {_GONE[name]}")
                hint = did_you_mean(name, SETTINGS)
                raise ConfigError(f"unknown setting {name}{hint} Known: {', '.join(SETTINGS)}")
        read: dict[str, Any] = {name: _read(settings, name) for name in SETTINGS}
        self.normalizer = _normalizer(read[PROFILE], read[RULES_SETTING], read[SITE_RULES])
        #: Makes the URLs to fetch, if requests are to be rewritten.
        self.rewriter = self.normalizer.for_requests() if read[REWRITE] else None
        is_off = read[PROFILE] == "safe" and not settings.get(LEARN)
        mode, self.pairs, self.defers_duplicates = read[LEARN].values()
        self.learn = "off" if is_off else mode
        self.jobdir = str(settings.get("JOBDIR") or "") or None
        self.learned_path = Path(self.jobdir, RULES_NAME) if self.jobdir else None
        self.learned: tuple[SiteRule, ...] = ()  #: by an earlier run
        if self.learned_path is not None and self.learned_path.exists():
            self.learned = _learned(self.learned_path)
        #: Pages in a row without anything new, before the rest of a family is dropped.
        self.family_limit: int | None = read[FAMILY_LIMIT]
        if self.family_limit and self.learn != "content":
            raise ConfigError(f"{FAMILY_LIMIT} needs {LEARN} = 'content', which is {self.learn!r}")
        self.held: str = read[HELD]  #: what becomes of held requests at the end
        self.store: str = read[STORE] or ("sqlite" if self.jobdir else "memory")
        self.crawl_log: str | None = read[CRAWL_LOG]
        self.report: str | None = read[REPORT]
        #: The class, or its import path, that makes bytes of a normalized request.
        self.fallback: str | type = read[FALLBACK_FINGERPRINTER]
        self.new_store("spider")  # raises now for a store that there is not

    def require_redis(self) -> None:
        if self.store.partition(":")[0] not in REDIS_SCHEMES:
            raise ConfigError(
                f"SCHEDULER = SharedScheduler with {STORE} = {self.store!r}; "
                "accepted: a store in Redis"
            )

    @property
    def is_finer(self) -> bool:
        """Whether keys tell URLs apart that stock Scrapy takes for one."""
        rules = self.normalizer.rules
        return rules.get("sort-query") != "pairs" or "remove-fragment" not in rules

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
            )
        except ConfigError as error:
            raise ConfigError(f"{STORE} = {self.store!r}: {error}") from None
        except MissingExtraError as error:
            error.args = (f"{STORE} = {self.store!r}: {error}",)
            raise


def _learned(path: Path) -> tuple[SiteRule, ...]:
    from scrapy_urlnorm.site_rules import load_site_rules  # takes a while

    try:
        return load_site_rules(path)
    except OSError as error:
        raise ConfigError(f"{path} in JOBDIR cannot be read: {error.strerror}") from None


def _load(file: str) -> tuple[SiteRule, ...]:
    """Read a file that is named by its path, or as ``package:path`` inside a package.

    A package may be in a zip file, as on Scrapyd, where a project is an egg.
    """
    from scrapy_urlnorm.site_rules import load_site_rules  # takes a while

    package, colon, inside = file.partition(":")
    # One letter is a drive of Windows.
    is_name = colon and re.fullmatch(r"[A-Za-z_]\w+(\.\w+)*", package)
    try:
        place = (
            as_file(files(package).joinpath(inside))
            if is_name and not Path(file).exists()
            else nullcontext(Path(file))
        )
        with place as path:
            return load_site_rules(path)
    except (ImportError, OSError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise bad_setting(SITE_RULES, file, reason) from None
    except SiteRuleError as error:
        reason = str(error).replace(str(path), file)
        raise SiteRuleError(f"{SITE_RULES}: {reason}") from None


def _normalizer(profile: str, rules: Mapping[str, Any], rule_files: list[str]) -> Normalizer:
    site_rules = tuple(rule for file in rule_files for rule in _load(file))
    try:
        normalizer = Normalizer(profile, rules)
    except ConfigError as error:
        raise ConfigError(f"{RULES_SETTING}: {error}") from None
    try:
        return normalizer.replace_site_rules(site_rules) if site_rules else normalizer
    except ConfigError as error:
        raise ConfigError(f"{SITE_RULES}: {error}") from None
