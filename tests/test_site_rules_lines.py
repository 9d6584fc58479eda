"""Blocks of a rule file that are read line by line say what the TOML parser says of them."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st
from site_rule_cases import CASES

from scrapy_urlnorm.exceptions import SiteRuleError
from scrapy_urlnorm.site_rules import SiteRule, load_site_rules, save_site_rules
from scrapy_urlnorm.site_rules import file as rule_file
from scrapy_urlnorm.site_rules.operation import LISTS

#: One rule of every kind, as its table.
RULES = [rule.as_dict() for rule, _, _ in CASES]
#: Statements of rule files, by key: plain ones, ones that only look so, and ones that cannot stay.
STATEMENTS = {
    "site": ['"shop.example"', '"*.shop.example"', '"Shop.example"', '"a.example" # why'],
    "kind": ['"drop-param"', '"prefix-alias"'],
    "param": ['"sid"', '["b", "a"]', '["a", "a"]', "[\n'x']"],
    "prefix": ['"/a"'],
    "by": ['""'],
    "path": ['"/**"'],
    "when": ['{ has = "id" }', "{ params = { site = 'x' } }", f"{'[' * 20}{']' * 20}"],
    "when.has": ['"id"'],
    "status": ['"proposed"', '"maybe"'],
    "source": ['"content"'],
    "support": ["3", "3.0", "03", "9" * 20],
    "conflicts": ["1"],
    "false_merge_upper": ["0.5"],
    "examples": ['[["a", "b"]]', '[["a", "b"], ["c", "d"]]', '[["a", "b"],]', '[["a"]]'],
    "note": ['"n"', '"\\u00e9"', '"""', "'''"],
    "unknown": ["1"],
}
LINES = [f"{key} = {value}" for key, values in STATEMENTS.items() for value in values]
LINES += ['"""', "'''", "# a comment", "", "   ", "[rule.when]", "[[rule]]", "[[rule]]  # the next"]
#: The keys of a block as we write it, in their order.
KEYS = [key for key in STATEMENTS if key not in ("prefix", "by", "path", "when.has", "unknown")]


@st.composite
def blocks(draw: st.DrawFn) -> str:
    """Draw a block that is plain but for the values, what is left out, and what is added."""
    keys = [key for key in KEYS if key in KEYS[:3] or draw(st.booleans())]
    lines = [f"{key} = {draw(st.sampled_from(STATEMENTS[key]))}" for key in keys]
    if draw(st.booleans()):
        lines.insert(draw(st.integers(0, 10)), draw(st.sampled_from(LINES)))
    return "\n".join(["[[rule]]", *lines])


def read(text: str, **replaced: object) -> object:
    """Return all that loading *text* tells: rules, evidence and places, or the message."""
    with TemporaryDirectory() as directory, pytest.MonkeyPatch.context() as patch:
        path = Path(directory) / "rules.toml"
        path.write_text(text, encoding="utf-8")
        for name, function in replaced.items():
            patch.setattr(rule_file, name, function)
        try:
            rules = load_site_rules(path)
        except SiteRuleError as error:
            return str(error).replace(directory, "")
        return [(r.as_dict(), r.identity, (r.origin or "").replace(directory, "")) for r in rules]


def parsed(text: str) -> object:
    """Read *text* with the parser alone."""
    return read(text, _read_lines=lambda lines, known: (None, ()))


@given(st.lists(blocks(), max_size=4))
def test_any_lines_are_read_alike(drawn: list[str]) -> None:
    """Whatever stands in a file, reading it by lines changes no rule and no message."""
    text = "\n".join(drawn)
    assert read(text) == parsed(text)


@given(st.lists(st.sampled_from(RULES), max_size=6), st.data())
def test_what_we_write_is_read_alike(cases: list[dict[str, object]], data: st.DataObject) -> None:
    """Rules of every kind, on several sites, and with a line moved, doubled or left out."""
    sites = st.sampled_from(("shop.example", "*.b.example", "[::1]", "x"))
    with TemporaryDirectory() as directory:
        path = Path(directory) / "rules.toml"
        save_site_rules(path, [SiteRule(**{**case, "site": data.draw(sites)}) for case in cases])
        lines = path.read_text(encoding="utf-8").split("\n")
    at, to = (data.draw(st.integers(0, len(lines))) for _ in "ab")
    for changed in (lines, lines[:at] + lines[to:], lines[:to] + lines[at:to] + lines[to:]):
        assert read("\n".join(changed)) == parsed("\n".join(changed))


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


def test_a_saved_file_is_read_by_lines(tmp_path: Path) -> None:
    """Speed depends on it: no block of learned rules is left to the parser."""
    learned = {"path": "/x/**", "when": {"has": "id"}, "status": "proposed", "source": "content"}
    learned |= {"support": 3, "conflicts": 0, "false_merge_upper": 0.25, "note": "one note"}
    learned["examples"] = [["http://a.example/", "http://b.example/é"], ["c", "d"]]
    rules = [
        SiteRule(site=f"{name}.example", kind="drop-param", param=["a", "b"], **learned)
        for name in "abc"
    ]
    save_site_rules(tmp_path / "rules.toml", rules)
    text = (tmp_path / "rules.toml").read_text(encoding="utf-8")
    assert read(text, _read_chunks=None) == parsed(text)
    assert load_site_rules(tmp_path / "rules.toml") == tuple(rules)
