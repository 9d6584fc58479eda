"""README.md and docs/ name all there is, and nothing else; what they show is so."""

from __future__ import annotations

import itertools
import re
import runpy
import shlex
from pathlib import Path

import pytest

from scrapy_urlnorm import Normalizer
from scrapy_urlnorm.cli import VERBS
from scrapy_urlnorm.crawl.settings import SETTINGS
from scrapy_urlnorm.rules import PROFILES

ROOT = Path(__file__).parent.parent
PAGES = {
    str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
}
STATS = set(
    re.findall(r"^- `(urlnorm/[^`]+)`", PAGES["docs/reference/statistics.md"], re.MULTILINE)
)
TABLES = runpy.run_path(str(ROOT / "docs" / "tables.py"))
RULES_TOML = re.findall(r"```toml\n(.*?)```", PAGES["docs/reference/rule-file.md"], re.DOTALL)[0]


each_page = pytest.mark.parametrize("page", PAGES)


@each_page
def test_tables_are_those_of_the_code(page):
    """If this fails, run ``python docs/tables.py``."""
    assert TABLES["filled"](PAGES[page]) == PAGES[page]


def test_every_table_stands_somewhere():
    """Every rule, key of a row, verb and error is documented."""
    begun = {name for text in PAGES.values() for name in re.findall(r"<!-- begin: (\w+) -->", text)}
    assert begun == set(TABLES["TABLES"])


def test_every_setting_is_described():
    """With its default and what it accepts, as the code has them, in the same order."""
    found = re.findall(
        r"^- \*\*`(\w+)`\*\*: .+\.\n  Default `(.*)`; accepted: (.*)$",
        PAGES["docs/reference/settings.md"],
        re.MULTILINE,
    )
    assert found == [(name, repr(row.default), row.accepted) for name, row in SETTINGS.items()]


@each_page
def test_nothing_is_named_that_is_not_there(page):
    """Every setting, statistic and verb that a page speaks of exists."""
    text = PAGES[page]
    assert set(re.findall(r"URLNORM_[A-Z_]*[A-Z]", text)) <= set(SETTINGS)
    assert set(re.findall(r"(?<![_A-Za-z])urlnorm/[a-z_]+/[a-z_]+", text)) <= STATS
    called = re.findall(
        r"(?:`|^|\$ )scrapy[- ]urlnorm ([a-z][a-z-]+)(?![a-z.:])", text, re.MULTILINE
    )
    assert set(called) <= {verb.name.split()[0] for verb in VERBS}


@each_page
def test_links_lead_somewhere(page):
    """Every relative link names a file, and where it has one a heading of that file."""
    for target in re.findall(r"\]\(([^)\s]+)\)", PAGES[page]):
        if "://" in target:
            continue
        name, _, anchor = target.partition("#")
        path = (ROOT / page).parent / name if name else ROOT / page
        assert path.exists(), target
        if anchor:
            headings = re.findall(r"^#+ (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
            slugs = {re.sub(r"[^\w -]", "", each).lower().replace(" ", "-") for each in headings}
            assert anchor in slugs, target


@each_page
def test_code_blocks_run(page):
    """The Python blocks are valid, and comments after an expression show its value."""
    names = {}
    for block in re.findall(r"```python\n(.*?)```", PAGES[page], re.DOTALL):
        exec(compile(block, page, "exec"), names)  # noqa: S102 - our own documentation
        for expression, comment in itertools.pairwise(block.splitlines()):
            if comment.startswith("# '"):
                assert repr(eval(expression, names)) == comment[2:]


@each_page
def test_commands_run(page, tmp_path, monkeypatch, run):
    """Every command line of ours in a console block is understood, and says yes."""
    (tmp_path / "rules.toml").write_text(RULES_TOML, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    for block in re.findall(r"```console\n(.*?)```", PAGES[page], re.DOTALL):
        for line in re.findall(r"^\$ scrapy-urlnorm (.*)$", block, re.MULTILINE):
            code, _, err = run(*shlex.split(line.partition(" && ")[0]))
            assert (code, err) == (0, "")


def test_profiles_give_the_keys_shown():
    """The ugly URL has the three keys of the table."""
    text = PAGES["docs/reference/rules.md"]
    url = re.findall(r"`(HTTPS://\S+)`", text)[0]
    for profile in PROFILES:
        key = re.findall(rf"\| `{profile}` \| [^|]+ \| `(\S+)` \|", text)[0]
        assert Normalizer(profile).normalize(url) == key


def test_readme_is_short_and_has_two_commands():
    text = PAGES["README.md"]
    assert len(text.splitlines()) <= 130
    section = text.partition("## Try it")[2].partition("\n## ")[0]
    commands = re.findall(r"```sh\n(.*?)```", section, re.DOTALL)
    assert [len(command.strip().splitlines()) for command in commands] == [1, 1]
