"""Rule files inside a package: as files in a folder, and in an egg, as Scrapyd runs a project."""

from __future__ import annotations

import importlib
import sys
import zipfile

import pytest
from scrapy.settings import Settings

from scrapy_urlnorm.crawl.settings import Config
from scrapy_urlnorm.exceptions import ConfigError

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


def config(value):
    return Config(Settings({"URLNORM_SITE_RULES": value}))


@pytest.mark.parametrize("path", ["rules.toml", "sites/more.toml"])
def test_a_rule_file_in_a_package_is_read(package, path):
    normalizer = config([f"{package}:{path}"]).normalizer
    assert normalizer.normalize("http://shop.test/l?sort=1&p=2") == "http://shop.test/l?p=2"


@pytest.mark.parametrize(
    ("path", "reason"),
    [("none.toml", "none.toml"), ("bad.toml", "drop-parameter"), ("sites", "URLNORM_SITE_RULES")],
)
def test_what_cannot_be_read_is_named_as_the_setting_has_it(package, path, reason):
    name = f"{package}:{path}"
    with pytest.raises(ConfigError) as error:
        config([name])
    assert name in str(error.value)
    assert reason in str(error.value)


def test_a_package_that_is_not_there_is_named():
    with pytest.raises(ConfigError, match=r"'no_such_package:rules\.toml'.*package:path"):
        config(["no_such_package:rules.toml"])


def test_a_file_with_a_colon_in_its_name_is_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shop:rules.toml").write_text(RULES, encoding="utf-8")
    assert config("shop:rules.toml").normalizer.site_rules
