"""README.md names all there is, and nothing else."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import pytest

from scrapy_urlnorm import Normalizer
from scrapy_urlnorm.cli import VERBS
from scrapy_urlnorm.crawl.settings import META, SETTINGS, STATS
from scrapy_urlnorm.rules import PROFILES, RULES
from scrapy_urlnorm.site_rules.operations import WORDS

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")


def verbs() -> dict[str, str]:
    """Return the verbs of the command line with their help."""
    return {verb.name: verb.help for verb in VERBS}


def rule_rows() -> list[str]:
    """Return the table of rules, from the catalogue."""
    rows = []
    for rule in RULES:
        before, after = re.findall(r"(\S+://\S+) ->\s+(\S+://\S+)", rule.documentation)[0]
        marks = (rule.option(profile) for profile in PROFILES)
        cells = " | ".join("-" if m is False else "x" if m is True else f'"{m}"' for m in marks)
        rows.append(f"| {rule.name} | {rule.semantics} | {cells} | `{before}` → `{after}` |")
    return rows


def setting_rows() -> list[str]:
    """Return the table of settings."""
    return [
        f"| `{name}` | `{s.default!r}` | {s.accepted} | {s.description} |"
        for name, s in SETTINGS.items()
    ]


def meta_rows() -> list[str]:
    """Return the table of meta keys."""
    return [f"| `{name}` | {text} |" for name, text in META.items()]


def stat_rows() -> list[str]:
    """Return the table of statistics."""
    return [f"| `{name}` | {text} |" for name, text in STATS.items()]


def verb_rows() -> list[str]:
    """Return the table of verbs."""
    return [f"| `{name}` | {text} |" for name, text in verbs().items()]


def kind_names() -> list[str]:
    """Return the kinds of site rules, as the README lists them."""
    return [", ".join(f"`{kind}`" for kind in WORDS)]


TABLES = {
    "rules": rule_rows,
    "settings": setting_rows,
    "meta": meta_rows,
    "statistics": stat_rows,
    "verbs": verb_rows,
    "kinds": kind_names,
}


@pytest.mark.parametrize("table", TABLES)
def test_tables_are_those_of_the_code(table: str) -> None:
    """Every rule, setting, meta key, statistic, verb and kind stands in README as in the code."""
    missing = [row for row in TABLES[table]() if row not in README]
    assert missing == []


def test_nothing_is_named_that_is_not_there() -> None:
    """Every setting and statistic that README speaks of exists."""
    assert set(re.findall(r"URLNORM_[A-Z_]+", README)) <= set(SETTINGS)
    assert set(re.findall(r"(?<!_)urlnorm/[a-z_]+/[a-z_]+", README)) <= set(STATS)
    called = set(re.findall(r"(?:`|^|\$ )scrapy-urlnorm ([a-z][a-z-]+)\b", README, re.MULTILINE))
    assert called <= set(verbs())


def test_profiles_give_the_keys_shown() -> None:
    """The ugly URL has the three keys of the table."""
    section = README.partition("## Profiles")[2].partition("\n## ")[0]
    url = re.findall(r"`(HTTPS://\S+)`", section)[0]
    for profile in PROFILES:
        key = re.findall(rf"\| `{profile}` \| [^|]+ \| `(\S+)` \|", section)[0]
        assert Normalizer(profile).normalize(url) == key


def test_code_blocks_run() -> None:
    """The Python blocks are valid, and comments after an expression show its value."""
    names: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", README, re.DOTALL):
        exec(compile(block, "README.md", "exec"), names)  # noqa: S102 - our own README
        lines = block.splitlines()
        for expression, comment in itertools.pairwise(lines):
            if comment.startswith("# '"):
                assert repr(eval(expression, names)) == comment[2:]


def test_two_commands() -> None:
    """The section to try it holds two commands of one line each."""
    section = README.partition("## Try it")[2].partition("\n## ")[0]
    commands = re.findall(r"```sh\n(.*?)```", section, re.DOTALL)
    assert [len(command.strip().splitlines()) for command in commands] == [1, 1]
