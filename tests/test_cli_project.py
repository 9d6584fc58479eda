"""The command line inside a Scrapy project: its settings hold, and options go over them."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

import pytest
from scrapy.exceptions import UsageError
from scrapy.settings import Settings

from scrapy_urlnorm import Normalizer, cli, load_site_rules
from scrapy_urlnorm.cli import VERBS
from scrapy_urlnorm.crawl.command import UrlNormCommand
from scrapy_urlnorm.normalizer import KEY_VERSION
from scrapy_urlnorm.stores import open_store

SITE_RULES = """
[[rule]]
site = "shop.example"
kind = "drop-param"
param = "ref"
"""


def test_inside_a_project_its_settings_hold(tmp_path):
    pyproject = (Path(cli.__file__).parents[2] / "pyproject.toml").read_text()
    assert 'urlnorm = "scrapy_urlnorm.crawl.command:UrlNormCommand"' in pyproject
    info = tmp_path / "installed-0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Name: installed\nVersion: 0\n")
    (info / "entry_points.txt").write_text(
        "[scrapy.commands]\nurlnorm = scrapy_urlnorm.crawl.command:UrlNormCommand\n"
    )
    (tmp_path / "scrapy.cfg").write_text("[settings]\ndefault = shop_settings\n")
    (tmp_path / "rules.toml").write_text(SITE_RULES)
    (tmp_path / "shop_settings.py").write_text(
        "URLNORM_PROFILE = 'safe'\n"
        "URLNORM_RULES = {'www': 'remove'}\n"
        f"URLNORM_SITE_RULES = ['{tmp_path}/rules.toml']\n"
    )

    def scrapy(*argv):
        done = subprocess.run(
            [sys.executable, "-m", "scrapy", "urlnorm", *argv],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": ":".join([str(tmp_path), *sys.path])},
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout, done.stderr

    url = "http://www.shop.example/?ref=1&b=2&a=1"
    code, out, err = scrapy("explain", url)
    assert (code, out.splitlines()[-1], err) == (0, "= http://shop.example/?b=2&a=1", "")
    code, out, err = scrapy("-s", "URLNORM_PROFILE=bold", "explain", url)
    assert (code, out) == (2, "")
    assert "URLNORM_PROFILE = 'bold'" in err
    assert "Traceback" not in err


@pytest.fixture
def command(capfdbinary, tmp_path):
    """Run ``scrapy urlnorm`` in this process, with the settings of a project."""
    rules = tmp_path / "rules.toml"
    rules.write_text(SITE_RULES)
    project = {
        "URLNORM_PROFILE": "safe",
        "URLNORM_RULES": {"www": "remove"},
        "URLNORM_SITE_RULES": [str(rules)],
    }

    def command(*argv):
        one = UrlNormCommand()
        one.settings = Settings(project)
        parser = argparse.ArgumentParser()
        one.add_options(parser)
        options, rest = parser.parse_known_args(argv)
        one.process_options(rest, options)
        one.run(rest, options)
        return one.exitcode, capfdbinary.readouterr().out.decode()

    return command


WWW = "http://www.shop.example/?ref=1&b=2&a=1"


def test_options_go_over_the_projects_settings(command):
    for options, key in (
        ((), "http://shop.example/?b=2&a=1"),
        (("--profile", "default"), "http://shop.example/?a=1&b=2"),
        (("--rule", "www=false"), WWW),
    ):
        assert command("explain", *options, WWW)[1].endswith(f"\n= {key}\n")
    assert command("-s", "URLNORM_PROFILE=default", "explain", WWW)[1].endswith("?a=1&b=2\n")
    assert command("explain", "http://a.example", "http://b.example")[0] == 1


def test_wrong_usage_of_the_scrapy_command(command):
    with pytest.raises(UsageError, match="URLNORM_PROFILE"):
        command("-s", "URLNORM_PROFILE=bold", "explain", WWW)
    with pytest.raises(UsageError, match="NAME=VALUE"):
        command("-s", "URLNORM_PROFILE", "explain", WWW)
    with pytest.raises(SystemExit, match="2"):
        command("explained")


def test_the_scrapy_command_describes_itself():
    text = UrlNormCommand().long_desc()
    assert all(f"{verb.name}: " in text for verb in VERBS)


def test_a_verb_asks_the_store_of_the_project(command, tmp_path):
    """If it can make the keys that its crawls use."""
    site_rules = load_site_rules(tmp_path / "rules.toml")
    digest = Normalizer("safe", rules={"www": "remove"}, site_rules=site_rules).digest
    with open_store(f"sqlite:{tmp_path}/seen", digest=digest, key_version=KEY_VERSION):
        pass
    argv = ("-s", f"URLNORM_STORE=sqlite:{tmp_path}/seen", "forget", "http://a.example/")
    assert command("-s", "REQUEST_FINGERPRINTER_CLASS=loopback.Follow", *argv)[0] == 2
    assert command(*argv)[0] == 1
