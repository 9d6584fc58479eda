"""Every setting: its name, its default and what it accepts. `docs/reference` says what each does.

The only module that spells ``URLNORM_``.
"""

from __future__ import annotations

import json
import re
from contextlib import nullcontext
from importlib.resources import as_file, files
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from scrapy_urlnorm.exceptions import ConfigError, SiteRuleError
from scrapy_urlnorm.normalizer import KEY_VERSION, Normalizer
from scrapy_urlnorm.rules import PROFILES
from scrapy_urlnorm.stores import (
    REDIS_SCHEMES,
    RULES_NAME,
    Database,
    database_path,
    default_spec,
    open_store,
)
from scrapy_urlnorm.text import did_you_mean
from scrapy_urlnorm.url import STOCK_FINGERPRINTER

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

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
FAMILY_LIMIT = "URLNORM_FAMILY_LIMIT"
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


def _path(value: Any) -> Path | None:
    return Path(text) if (text := _text(value)) else None


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


_WRITABLE = (
    "a path that can be written; %(name)s, %(time)s and other attributes of the spider stand in "
    "it as in FEEDS"
)
SETTINGS: Mapping[str, Setting] = {
    ENABLED: Setting(True, "True or False", _bool),
    PROFILE: Setting("default", ", ".join(PROFILES), _word_of(*PROFILES)),
    RULES_SETTING: Setting({}, "a dict", _dict),
    SITE_RULES: Setting([], "a list of paths, or of package:path", _list),
    LEARN: Setting("content", ", ".join(LEARN_MODES), _word_of(*LEARN_MODES)),
    LEARNED_PATH: Setting(None, "a path", _path),
    DEFER_DUPLICATES: Setting(True, "True or False", _bool),
    FAMILY_LIMIT: Setting(None, "a number of pages; None or 0: no limit", _limit),
    PAIRS: Setting(0.015, "a number from 0 to 1", _share),
    HELD: Setting("drop", ", ".join(HELD_MODES), _word_of(*HELD_MODES)),
    STORE: Setting(None, "memory, sqlite:PATH or redis://...", _text),
    STORE_OPTIONS: Setting({}, "a dict", _dict),
    MEDIA: Setting(True, "True or False", _bool),
    REWRITE: Setting(False, "True or False", _bool),
    CRAWL_LOG: Setting(None, _WRITABLE, _text),
    REPORT: Setting(None, _WRITABLE, _path),
    FALLBACK_FINGERPRINTER: Setting(
        STOCK_FINGERPRINTER,
        "a class or its import path",
        lambda value: value or STOCK_FINGERPRINTER,
    ),
}


def read_setting(settings: BaseSettings, name: str) -> Any:
    """Return the checked value of one setting.

    `ConfigError` names the setting, its value and what is accepted.
    """
    row = SETTINGS[name]
    value = settings.get(name, row.default)
    try:
        return row.read(value)
    except (TypeError, ValueError) as error:
        raise bad_setting(name, value, str(error)) from error


def bad_setting(name: str, value: object, why: str) -> ConfigError:
    """Return the error that names a setting, its value, and what is accepted."""
    reason = f" ({why})" if why else ""
    return ConfigError(f"{name} = {value!r}{reason}; accepted: {SETTINGS[name].accepted}")


class Config:
    """The checked *settings* of one crawl. Raises `ConfigError`, as `read_setting` does."""

    def __init__(self, settings: BaseSettings) -> None:
        for name in map(str, settings):
            if name.startswith(PREFIX) and name not in SETTINGS:
                hint = did_you_mean(name, SETTINGS)
                raise ConfigError(f"unknown setting {name}{hint} Known: {', '.join(SETTINGS)}")
        read: dict[str, Any] = {name: read_setting(settings, name) for name in SETTINGS}
        self.normalizer = _normalizer(read[PROFILE], read[RULES_SETTING], read[SITE_RULES])
        #: Makes the URLs to fetch, if requests are to be rewritten.
        self.rewriter = self.normalizer.for_requests() if read[REWRITE] else None
        is_off = read[PROFILE] == "safe" and not settings.get(LEARN)
        self.learn: str = "off" if is_off else read[LEARN]
        self.jobdir = str(settings.get("JOBDIR") or "") or None
        self.learned_path: Path | None = read[LEARNED_PATH]
        if self.learned_path is None and self.jobdir:
            self.learned_path = Path(self.jobdir, RULES_NAME)
        self.learned: tuple[SiteRule, ...] = ()  #: by an earlier crawl
        if self.learned_path is not None and self.learned_path.exists():
            self.learned = _load(str(self.learned_path), LEARNED_PATH)
        self.defers_duplicates: bool = read[DEFER_DUPLICATES]
        #: Pages in a row without anything new, before the rest of a family is dropped.
        self.family_limit: int | None = read[FAMILY_LIMIT]
        if self.family_limit and self.learn != "content":
            raise ConfigError(f"{FAMILY_LIMIT} needs {LEARN} = 'content', which is {self.learn!r}")
        self.pairs: float = read[PAIRS]  #: the share of pages that are fetched twice
        self.held: str = read[HELD]  #: what becomes of held requests at the end
        self.store: str = read[STORE] or default_spec(self.jobdir)
        self.store_options: dict[str, Any] = read[STORE_OPTIONS]
        self.crawl_log: str | None = read[CRAWL_LOG]
        self.report: Path | None = read[REPORT]
        self.media: bool = read[MEDIA]  #: whether requests for files and images get keys
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


def _load(file: str, setting: str) -> tuple[SiteRule, ...]:
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
        raise bad_setting(setting, file, getattr(error, "strerror", None) or str(error)) from error
    except SiteRuleError as error:
        raise SiteRuleError(str(error).replace(str(path), file)) from error


def _normalizer(profile: str, rules: Mapping[str, Any], rule_files: list[str]) -> Normalizer:
    site_rules = tuple(rule for file in rule_files for rule in _load(file, SITE_RULES))
    try:
        normalizer = Normalizer(profile, rules)
    except ConfigError as error:
        raise ConfigError(f"{RULES_SETTING}: {error}") from error
    try:
        return normalizer.replace_site_rules(site_rules) if site_rules else normalizer
    except ConfigError as error:
        raise ConfigError(f"{SITE_RULES}: {error}") from error
