"""Settings: defaults, and a clear error at start for whatever cannot be used."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from loopback import Site, crawl, page
from scrapy.settings import Settings

from scrapy_urlnorm.crawl import settings as module
from scrapy_urlnorm.crawl.fingerprinter import UrlNormRequestFingerprinter
from scrapy_urlnorm.crawl.settings import META, SETTINGS, STATS, Config, is_enabled
from scrapy_urlnorm.exceptions import ConfigError
from scrapy_urlnorm.normalizer import Normalizer

HOME = "http://shop.test/"
ADDON = {"ADDONS": {"scrapy_urlnorm.crawl.addon.Addon": 900}}


def read(**settings):
    return Config.from_settings(Settings({f"URLNORM_{k}": v for k, v in settings.items()}))


def test_defaults():
    """Nothing set: the default profile, rules learned from contents too, keys in memory."""
    config = Config.from_settings(Settings())
    assert is_enabled(Settings()) is True
    assert config.normalizer == Normalizer()
    assert config.learn == "content"
    assert config.learned_path is None
    assert config.store == "memory"
    assert config.rewriter is None


def test_jobdir_keeps_keys_and_rules():
    """With a job directory both survive the process."""
    config = Config.from_settings(Settings({"JOBDIR": "job"}))
    assert config.store == "sqlite"
    assert config.database == Path("job", "urlnorm.sqlite")
    assert config.learned_path == Path("job", "urlnorm-rules.toml")


@pytest.mark.parametrize(
    ("settings", "path"),
    [({}, None), ({"JOBDIR": "job"}, "job/urlnorm.sqlite"),
     ({"URLNORM_STORE": "sqlite:a/b"}, "a/b"), ({"URLNORM_STORE": "sqlite:a/b", "JOBDIR": "job"}, "a/b"),
     ({"URLNORM_STORE": "memory", "JOBDIR": "job"}, "job/urlnorm.sqlite")],
)  # fmt: skip
def test_where_the_database_of_a_crawl_is(settings, path):
    """In JOBDIR, unless the store names another place."""
    assert Config.from_settings(Settings(settings)).database == (Path(path) if path else None)


def test_values_from_the_command_line_are_text():
    """``scrapy crawl -s`` gives text: numbers, JSON and commas are understood."""
    assert is_enabled(Settings({"URLNORM_ENABLED": "0"})) is False
    config = read(RULES='{"www": "remove"}', REWRITE_REQUESTS="True", SITE_RULES="")
    assert config.normalizer == Normalizer(rules={"www": "remove"})
    assert config.rewriter is not None


@pytest.mark.parametrize(
    ("name", "value", "accepted"),
    [
        ("PROFILE", "strict", "safe, default, aggressive"),
        ("PROFILE", 3, "safe, default, aggressive"),
        ("REWRITE_REQUESTS", "maybe", "True or False"),
        ("RULES", "{broken", "a dict"),
        ("RULES", 7, "a dict"),
        ("RULES", {"sort-qeury": True}, "sort-query"),
        ("RULES", {"www": "perhaps"}, "remove"),
        ("LEARN", "everything", "off, redirects"),
        ("LEARN", "contents", "off, redirects, content"),
        ("STORE", 5, "memory"),
        ("STORE_OPTIONS", "{broken", "a dict"),
        ("SITE_RULES", 5, "a list of paths"),
        ("SITE_RULES", ["no/such.toml"], "a list of paths"),
    ],
)
def test_a_value_that_cannot_be_used_is_named(name, value, accepted):
    """The error names the setting, the value and what would be accepted."""
    with pytest.raises(ConfigError) as error:
        read(**{name: value})
    assert f"URLNORM_{name}" in str(error.value)
    assert accepted in str(error.value)
    shown = next(iter(value)) if isinstance(value, (dict, list)) else value
    assert repr(shown) in str(error.value)


def test_a_bad_switch_is_named():
    """Whether the add-on is on has to be clear, too."""
    with pytest.raises(ConfigError, match="URLNORM_ENABLED = 'perhaps'; accepted: True or False"):
        is_enabled(Settings({"URLNORM_ENABLED": "perhaps"}))


def test_an_unknown_setting_is_named_with_the_nearest_known_one():
    """A misspelt setting stops the crawl instead of being ignored."""
    with pytest.raises(ConfigError, match="URLNORM_PROFIL; did you mean 'URLNORM_PROFILE'"):
        read(PROFIL="safe")


@pytest.mark.parametrize(
    "bad", [{"URLNORM_PROFILE": "strict"}, {"URLNORM_NOSUCH": 1}, {"URLNORM_STORE": "tape:x"}]
)
def test_a_bad_setting_stops_the_crawl_before_the_first_request(bad):
    """The crawl does not start, and the error says why."""
    with Site({HOME: page("home")}) as site:
        result = crawl(site, [HOME], {**ADDON, **bad})
    assert site.requests == []
    assert result.error is not None
    assert result.error.startswith("ConfigError")
    assert next(iter(bad)) in result.error


def test_the_rewriter_leaves_out_rules_that_only_keys_may_use():
    """What is fetched is not form-encoded, or the path's reserved characters decoded."""
    config = read(REWRITE_REQUESTS=True)
    url = "http://h.example/a%2Cb?x=%20&q=a%20b"
    assert config.normalizer.normalize(url) != url
    assert config.rewriter.normalize(url) == "http://h.example/a%2Cb?q=a%20b&x=%20"


def test_one_module_spells_the_prefix():
    """A setting is written out in settings.py only."""
    package = Path(module.__file__).parent
    spelling = {
        path.relative_to(package).as_posix()
        for path in package.rglob("*.py")
        if "URLNORM_" in path.read_text(encoding="utf-8")
    }
    assert spelling == {"settings.py"}


def test_every_setting_statistic_and_meta_key_is_described():
    """The tables that the documentation is held to are complete and tidy."""
    spelt = set(re.findall(r'= "(URLNORM_\w+)"', Path(module.__file__).read_text()))
    assert spelt == set(SETTINGS)
    assert all(setting.description and setting.accepted for setting in SETTINGS.values())
    assert all(stat.startswith("urlnorm/") and stat == stat.lower() for stat in STATS)
    assert set(META) == {"urlnorm", "urlnorm_key", "verbatim_url"}


def test_every_statistic_in_the_code_is_described():
    """What the components count, and only that, stands in the table."""
    files = set(Path(module.__file__).parent.rglob("*.py")) - {Path(module.__file__)}
    text = "".join(file.read_text() for file in sorted(files))
    counted = set(re.findall(r'"(urlnorm/[a-z_/{}]+)"', text))
    counted |= {f"urlnorm/{name}" for name in re.findall(r'"(learned/[a-z_]+)"', text)}
    counted |= {
        f"urlnorm/requests/{name}" for name in UrlNormRequestFingerprinter(Normalizer()).counts
    }
    counted.discard("urlnorm/requests/{name}")
    counted.discard("urlnorm/{stat}")
    assert counted == set(STATS)
