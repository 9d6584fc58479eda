"""Settings: defaults, and a clear error at start for whatever cannot be used."""

from __future__ import annotations

import importlib
import re
import sys
import zipfile
from pathlib import Path

import pytest
from loopback import crawl, page
from scrapy.settings import Settings

from scrapy_urlnorm.crawl import settings as module
from scrapy_urlnorm.crawl.frontier import STATISTICS
from scrapy_urlnorm.crawl.settings import Config
from scrapy_urlnorm.exceptions import ConfigError
from scrapy_urlnorm.normalizer import Normalizer

HOME = "http://shop.test/"
ADDON = {"ADDONS": {"scrapy_urlnorm.crawl.addon.Addon": 900}}


def read(**settings):
    return Config(Settings({f"URLNORM_{k}": v for k, v in settings.items()}))


def test_defaults():
    config = Config(Settings())
    assert config.normalizer == Normalizer()
    assert config.learn == "content"
    assert (config.pairs, config.defers_duplicates) == (0.015, True)
    assert config.learned_path is None
    assert config.store == "memory"
    assert config.rewriter is None


@pytest.mark.parametrize(
    ("settings", "path"),
    [({}, None), ({"JOBDIR": "job"}, "job/urlnorm.sqlite"),
     ({"URLNORM_STORE": "sqlite:a/b"}, "a/b"), ({"URLNORM_STORE": "sqlite:a/b", "JOBDIR": "job"}, "a/b"),
     ({"URLNORM_STORE": "memory", "JOBDIR": "job"}, "job/urlnorm.sqlite")],
)  # fmt: skip
def test_where_the_database_of_a_crawl_is(settings, path):
    assert Config(Settings(settings)).database == (Path(path) if path else None)


def test_values_from_the_command_line_are_text():
    config = read(
        RULES='{"www": "remove"}', REWRITE_REQUESTS="1", SITE_RULES="", LEARN='{"pairs": 0}'
    )
    assert (config.learn, config.pairs) == ("content", 0)
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
        ("LEARN", {"pair": 0}, "pairs (a number from 0 to 1)"),
        ("LEARN", {"mode": "contents"}, "off, redirects, content; or a dict with mode"),
        ("LEARN", {"pairs": 2}, "pairs (a number from 0 to 1)"),
        ("LEARN", {"defer": "perhaps"}, "defer (True or False)"),
        ("LEARN", "{broken", "a dict with mode"),
        ("STORE", "redis://h?colour=red", "accepted: client_name"),
        *(("FAMILY_LIMIT", value, "no limit") for value in (-1, "many", True, 1.5, "-5")),
        ("SITE_RULES", 5, "a list of paths"),
        ("SITE_RULES", ["no/such.toml"], "a list of paths"),
    ],
)
def test_a_value_that_cannot_be_used_is_named(name, value, accepted):
    if str(value).startswith("redis:"):
        pytest.importorskip("redis")
    with pytest.raises(ConfigError) as error:
        read(**{name: value})
    assert f"URLNORM_{name}" in str(error.value)
    assert accepted in str(error.value)
    shown = next(iter(value)) if isinstance(value, (dict, list)) else value
    assert repr(shown) in str(error.value)


def test_a_limit_of_families_is_a_number_and_needs_contents():
    for value, limit in ((None, None), (0, None), ("0", None), ("50", 50), (1, 1)):
        assert read(FAMILY_LIMIT=value).family_limit == limit
    with pytest.raises(ConfigError, match="FAMILY_LIMIT needs URLNORM_LEARN"):
        read(FAMILY_LIMIT=5, LEARN="redirects")


@pytest.mark.parametrize(
    ("settings", "learning"),
    [({}, ("content", 0.015, True)), ({"LEARN": {"mode": "redirects"}}, ("redirects", 0.015, True)),
     ({"LEARN": {"pairs": 0, "defer": False}}, ("content", 0, False)), ({"PROFILE": "safe"}, ("off", 0.015, True)),
     ({"PROFILE": "safe", "LEARN": {"pairs": 0}}, ("content", 0, True)), ({"LEARN": False}, ("off", 0.015, True)),
     ({"LEARN": "False"}, ("off", 0.015, True)), ({"LEARN": True}, ("content", 0.015, True))],
)  # fmt: skip
def test_learning_is_a_word_or_a_dict(settings, learning):
    config = read(**settings)
    assert (config.learn, config.pairs, config.defers_duplicates) == learning


@pytest.mark.parametrize(
    ("settings", "is_finer"),
    [({}, False), ({"PROFILE": "aggressive"}, False), ({"PROFILE": "safe"}, True),
     ({"RULES": {"remove-fragment": False}}, True), ({"RULES": {"sort-query": "stable"}}, True)],
)  # fmt: skip
def test_keys_that_are_finer_than_those_of_stock_scrapy_are_known(settings, is_finer):
    """The order of parameters, and fragments."""
    assert read(**settings).is_finer is is_finer


@pytest.mark.parametrize(
    ("name", "now"),
    [("ENABLED", "out of ADDONS"), ("LEARNED_PATH", "in JOBDIR"), ("DEFER_DUPLICATES", "URLNORM_LEARN = "),
     ("PAIRS", "URLNORM_LEARN = "), ("STORE_OPTIONS", "URLNORM_STORE = "), ("MEDIA", "keys of stock Scrapy")],
)  # fmt: skip
def test_a_setting_of_an_earlier_version_is_refused_with_what_is_done_now(name, now):
    with pytest.raises(
        ConfigError, match=f"^URLNORM_{name} is no setting any more: .*{now}[^\n]*$"
    ):
        read(**{name: 1})


def test_an_unknown_setting_is_named_with_the_nearest_known_one():
    with pytest.raises(ConfigError, match="URLNORM_PROFIL; did you mean 'URLNORM_PROFILE'"):
        read(PROFIL="safe")


@pytest.mark.parametrize("bad", [{"URLNORM_NOSUCH": 1}, {"URLNORM_SITE_RULES": ["no/such.toml"]}])
def test_a_bad_setting_stops_the_crawl_before_the_first_request(bad):
    result = crawl({HOME: page("home")}, [HOME], {**ADDON, **bad})
    assert result.requests == []
    assert result.error is not None
    assert result.error.startswith("ConfigError")
    assert next(iter(bad)) in result.error


def test_the_rewriter_leaves_out_rules_that_only_keys_may_use():
    config = read(REWRITE_REQUESTS=True)
    url = "http://h.example/a%2Cb?x=%20&q=a%20b"
    assert config.normalizer.normalize(url) != url
    assert config.rewriter.normalize(url) == "http://h.example/a%2Cb?q=a%20b&x=%20"


def test_one_module_spells_the_prefix():
    package = Path(module.__file__).parent
    spelling = {
        path.relative_to(package).as_posix()
        for path in package.rglob("*.py")
        if "URLNORM_" in path.read_text(encoding="utf-8")
    }
    assert spelling == {"settings.py"}


def test_every_statistic_in_the_code_is_described():
    text = "".join(file.read_text() for file in Path(module.__file__).parent.rglob("*.py"))
    counted = set(re.findall(r'"(urlnorm/[a-z_/{}]+)"', text)) - {
        "urlnorm/{stat}",
        "urlnorm/learned/{name}",
    }
    counted = {name for name in counted if not name.endswith("/")}
    counted |= {f"urlnorm/{name}" for name in STATISTICS}
    page = Path(__file__).parent.parent / "docs" / "reference" / "statistics.md"
    assert counted == set(re.findall(r"^- `(urlnorm.*?)`", page.read_text(), re.MULTILINE))


# --- rule files in a package: in a folder, and in an egg, as Scrapyd runs a project -----------------

RULES = """
[[rule]]
site = "shop.test"
kind = "drop-param"
param = "sort"
"""
BAD = RULES.replace("drop-param", "drop-parameter")
FILES = {"__init__.py": "", "rules.toml": RULES, "sites/more.toml": RULES, "bad.toml": BAD}


@pytest.fixture(params=["folder", "egg"])
def package(request, tmp_path, monkeypatch):
    name = f"shop_{request.param}_{abs(hash(tmp_path))}"
    place = tmp_path / ("shop.egg" if request.param == "egg" else "src")
    if request.param == "egg":
        with zipfile.ZipFile(place, "w") as egg:
            for path, text in FILES.items():
                egg.writestr(f"{name}/{path}", text)
    else:
        for path, text in FILES.items():
            file = place / name / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(str(place))
    importlib.invalidate_caches()
    yield name
    sys.modules.pop(name, None)


@pytest.mark.parametrize("path", ["rules.toml", "sites/more.toml"])
def test_a_rule_file_in_a_package_is_read(package, path):
    normalizer = read(SITE_RULES=[f"{package}:{path}"]).normalizer
    assert normalizer.normalize("http://shop.test/l?sort=1&p=2") == "http://shop.test/l?p=2"


@pytest.mark.parametrize(
    ("path", "reason"),
    [("none.toml", "package:path"), ("bad.toml", "drop-parameter"), ("sites", "package:path")],
)
def test_what_cannot_be_read_is_named_as_the_setting_has_it(package, path, reason):
    name = f"{package}:{path}"
    with pytest.raises(ConfigError) as error:
        read(SITE_RULES=[name])
    assert all(said in str(error.value) for said in ("URLNORM_SITE_RULES", name, reason))


def test_a_package_that_is_not_there_is_named():
    with pytest.raises(ConfigError, match=r"'no_such_package:rules\.toml'.*package:path"):
        read(SITE_RULES=["no_such_package:rules.toml"])


def test_a_file_with_a_colon_in_its_name_is_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shop:rules.toml").write_text(RULES, encoding="utf-8")
    assert read(SITE_RULES="shop:rules.toml").normalizer.site_rules
