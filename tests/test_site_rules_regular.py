"""Blocks of a rule file that are read in one step say what the reader of lines says of them."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st
from site_rule_cases import CASES

from scrapy_urlnorm.exceptions import SiteRuleError
from scrapy_urlnorm.site_rules import SiteRule, load_site_rules, save_site_rules
from scrapy_urlnorm.site_rules.regular import RegularBlocks
from scrapy_urlnorm.site_rules.rule import LISTS
from scrapy_urlnorm.site_rules.toml import TomlError, read_blocks

#: One rule of every kind, as its table.
RULES = [rule.as_dict() for rule, _, _ in CASES]
#: Lines of rule files: regular ones, ones that only look so, and ones that cannot stay.
LINES = (
    'site = "shop.example"',
    'site = "*.shop.example"',
    'site = "Shop.example"',
    'site = "a.example" # why',
    'kind = "drop-param"',
    'kind = "prefix-alias"',
    'param = "sid"',
    'param = ["b", "a"]',
    'param = ["a", "a"]',
    'prefix = "/a"',
    'by = ""',
    'path = "/**"',
    'when = { has = "id" }',
    "when = { params = { site = 'x' } }",
    'when.has = "id"',
    'status = "proposed"',
    'status = "maybe"',
    'source = "content"',
    "support = 3",
    "support = 3.0",
    "support = 03",
    "support = 99999999999999999999",
    "conflicts = 1",
    "false_merge_upper = 0.5",
    'examples = [["a", "b"]]',
    'examples = [["a", "b"], ["c", "d"]]',
    'examples = [["a", "b"],]',
    'examples = [["a"]]',
    'note = "n"',
    'note = "\\u00e9"',
    'note = """',
    "note = '''",
    '"""',
    "'''",
    "# a comment",
    "",
    "[rule.when]",
    'has = "x"',
    "unknown = 1",
    "[[rule]]",
    "[[rule]]  # the next",
)
#: The keys of a regular block, in their order: of most lines there is a regular one.
KEYS = ("site", "kind", "param", "when", "status", "source", "support", "false", "examples", "note")
STATED = [st.sampled_from([line for line in LINES if line.startswith(key)]) for key in KEYS]
BLOCK = st.tuples(
    st.sets(st.integers(3, len(KEYS) - 1)),
    st.tuples(*STATED),
    st.lists(st.tuples(st.integers(0, 10), st.sampled_from(LINES)), max_size=1),
).map(lambda drawn: block_of(*drawn))


def block_of(
    left_out: set[int], stated: tuple[str, ...], added: list[tuple[int, str]]
) -> list[str]:
    """Return a block that is regular but for the values, what is left out, and what is added."""
    lines = [line for at, line in enumerate(stated) if at not in left_out]
    for at, line in added:
        lines.insert(at, line)
    return ["[[rule]]", *lines]


def read(text: str) -> object:
    """Return all that loading *text* tells: rules, evidence and places, or the message."""
    with TemporaryDirectory() as directory:
        path = Path(directory) / "rules.toml"
        path.write_text(text, encoding="utf-8")
        try:
            rules = load_site_rules(path)
        except SiteRuleError as error:
            return str(error).replace(directory, "")
        return [(r.as_dict(), r.identity, (r.origin or "").replace(directory, "")) for r in rules]


def read_by_lines(text: str) -> object:
    """Read *text* as if no block was regular."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RegularBlocks, "read", lambda self, lines: None)
        return read(text)


def regular(text: str) -> list[bool]:
    """Return which blocks of *text* are read in one step."""
    return [block.doing is not None for block in read_blocks(text)[0]]


@given(st.lists(BLOCK, max_size=4))
def test_any_lines_are_read_alike(blocks: list[list[str]]) -> None:
    """Whatever stands in a file, reading blocks in one step changes no rule and no message."""
    text = "\n".join(line for block in blocks for line in block)
    assert read(text) == read_by_lines(text)


@given(st.lists(st.sampled_from(RULES), max_size=6), st.data())
def test_what_we_write_is_read_alike(cases: list[dict[str, object]], data: st.DataObject) -> None:
    """Rules of every kind, on several sites, and with a line moved, doubled or left out."""
    sites = st.sampled_from(("shop.example", "*.b.example", "[::1]", "x"))
    lines: list[str] = []
    with TemporaryDirectory() as directory:
        path = Path(directory) / "rules.toml"
        rules = [SiteRule(**{**case, "site": data.draw(sites)}) for case in cases]
        save_site_rules(path, rules)
        lines = path.read_text(encoding="utf-8").split("\n")
    expected = read_by_lines("\n".join(lines))
    assert read("\n".join(lines)) == expected
    at = data.draw(st.integers(0, len(lines)))
    to = data.draw(st.integers(0, len(lines)))
    for changed in (lines[:at] + lines[to:], lines[:to] + lines[at:to] + lines[to:]):
        assert read("\n".join(changed)) == read_by_lines("\n".join(changed))


@pytest.mark.parametrize("case", RULES)
def test_an_identity_is_the_json_of_what_a_rule_says(case: dict[str, object]) -> None:
    """It is made in parts, and must stay the text that digests of stores were made of."""
    rule = SiteRule(**case)
    for each in (rule, rule.at("other.example", rule.evidence)):
        said = each.said()
        said |= {name: sorted(said[name]) for name in LISTS if name in said}
        assert each.identity == json.dumps(said, sort_keys=True, ensure_ascii=False, default=list)
        assert each == SiteRule(**{**case, "site": each.site})


def test_a_rule_at_no_host_is_refused() -> None:
    """A rule that is made of another one checks its own site."""
    rule = SiteRule(site="a.example", kind="drop-param", param="sid")
    with pytest.raises(SiteRuleError, match="lower-case host"):
        rule.at("A.example", rule.evidence)


def test_a_saved_file_is_regular(tmp_path: Path) -> None:
    """Speed depends on it: all that `save_site_rules` writes of a learned rule is regular."""
    rules = [
        SiteRule(
            site=f"{name}.example",
            kind="drop-param",
            param=["a", "b"],
            path="/x/**",
            when={"has": "id"},
            status="proposed",
            source="content",
            support=3,
            conflicts=0,
            false_merge_upper=0.25,
            examples=[["http://a.example/", "http://b.example/é"], ["c", "d"]],
            note="one note",
        )
        for name in "abc"
    ]
    path = tmp_path / "rules.toml"
    save_site_rules(path, rules)
    assert regular(path.read_text(encoding="utf-8")) == [True] * 3
    assert load_site_rules(path) == tuple(rules)


NEARLY = (
    f'[[rule]]\nsite = "a.example"\nkind = "drop-param"\nparam = {"[" * 20}{"]" * 20}\n',
    '[[rule]]\nsite = "a.example"\nkind = "www"\noption = 99999999999999999999\n',
    '[[rule]]\nsite = "a.example"\nkind = "drop-param"\nparam = """\nnote = "x"\n"""\n',
    '[[rule]]\nkind = "drop-param"\nsite = "a.example"\nparam = "x"\n',
    '[[rule]]\nsite = "a.example"\nkind = "drop-param"\nkind = "drop-param"\n',
    '[[rule]]\nsite = "a.example"\nkind = "drop-param"\nparam = [\n"x"]\n',
    '[[rule]]\nsite = "a.example"\nsite = "b.example"\nkind = "drop-param"\n',
    '[[rule]]\nsite = "a.example"\nsupport = 1\nkind = "drop-param"\nparam = "x"\n',
)


@pytest.mark.parametrize("text", NEARLY)
def test_what_is_nearly_regular_is_left_to_the_other_reader(text: str) -> None:
    """A value over several lines, another order, a key twice."""
    with suppress(TomlError):
        assert regular(text) == [False]
    assert read(text) == read_by_lines(text)
