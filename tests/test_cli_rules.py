"""The verb rules on files: what a file says, what another tool's file says, and merging them."""

from __future__ import annotations

import json

import pytest

from scrapy_urlnorm import Normalizer, SiteRule, load_site_rules, save_site_rules
from scrapy_urlnorm.cli.rules import add_rules, combined
from scrapy_urlnorm.exceptions import SiteRuleError

RULES = """# written by Ann
[[rule]]
site = "shop.example"
kind = "drop-param"
param = "sid"
examples = [["https://shop.example/a?sid=1", "https://shop.example/a?sid=2"]]
"""
WRONG_EXAMPLE = RULES.replace("sid=2", "id=2")
DUD = json.dumps(
    [
        {"args": [name], "order": 1, "processor": what, "urlPattern": {"include": [f"{name}.test"]}}
        for name, what in (("ref", "queryRemoval"), ("x", "unheardOf"))
    ]
)


def learned(param, site="shop.example", **fields):
    fields = {"site": site, "kind": "drop-param", "param": param, "source": "content", **fields}
    return SiteRule(**fields)


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        (RULES, 0, "file: ok: 1 rule for 1 site"),
        (WRONG_EXAMPLE, 1, "an example is not merged"),
        ("[[rule]]\nsite = 'a.example'\nkind = 'x'\n", 1, "line 1"),
    ],
)
def test_check_answers_with_its_exit_code(run, file, text, code, said):
    """0 for a file that can be used, 1 for one that cannot, with the reason; JSON says the same."""
    done = run("rules", "check", file(text))
    assert (done.code, done.err) == (code, "")
    assert said in done.out
    lines = run("rules", "check", "--json", file(text), file(RULES, "good.toml")).out.splitlines()
    one, good = map(json.loads, lines)
    assert (one["ok"], bool(one["errors"]), good["ok"]) == (not code, bool(code), True)


def test_import_prints_a_rule_file(run, file):
    code, out, err = run("rules", "import", file(DUD, "dud.json"))
    assert code == 0
    [rule] = load_site_rules(file(out))
    assert rule.param == ("ref",)
    assert "2 rows, 1 not taken" in err
    found = json.loads(run("rules", "import", "--json", file(DUD, "dud.json")).out)
    assert (found["rows"], len(found["rules"]), len(found["skipped"])) == (2, 1, 1)


def test_import_adds_to_a_file(run, file):
    """The rules that are there stay, comments and all; a second import changes nothing."""
    rules, dud = file(RULES), file(DUD, "dud.json")
    assert run("rules", "import", dud, "-o", rules).out == ""
    text = rules.read_text()
    assert text.startswith(RULES)
    assert len(load_site_rules(rules)) == 2
    run("rules", "import", dud, "-o", rules)
    assert rules.read_text() == text


@pytest.mark.parametrize(
    "data",
    [
        b"hello",
        b"\xff\xfe{",
        b"[" * 100_000,
        b"{}",
        b'[{"urlPattern": {"include": [3]}, "processor": "queryRemoval", "args": ["a"]}]',
        b"[1]",
        b"9" * 100_000,
        b"[" + b"9" * 100_000 + b"]",
    ],
)
def test_import_of_something_else(run, file, data):
    """Whatever stands in another tool's file, the error is one line that names it."""
    path = file(data)
    code, out, err = run("rules", "import", path)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(f"scrapy-urlnorm rules import: {path}")


def test_merging_takes_new_evidence():
    old = [learned("a", support=5), learned("b", status="proposed", support=2)]
    new = [learned("a", support=7, status="proposed"), learned("b", support=9)]
    first, second = combined(old, new, {"shop.example"}).rules
    assert (first.support, first.status) == (7, "active")
    assert (second.support, second.status) == (9, "active")


def test_merging_forgets_what_a_site_no_longer_bears_out():
    others = [learned("c", "other.example"), learned("d", source="user")]
    old = [learned("a"), learned("b", "www.shop.example"), *others]
    merged = combined(old, [learned("e")], {"shop.example"})
    assert [rule.param[0] for rule in merged.rules] == ["c", "d", "e"]
    assert (merged.added, merged.removed) == (1, 2)


def test_merging_yields_to_the_file():
    alias = {"kind": "host-alias", "site": "*.shop.example"}
    mine = SiteRule(**alias, host="www.shop.example", by="shop.example")
    theirs = SiteRule(**alias, host="shop.example", by="www.shop.example", source="redirect")
    merged = combined([mine], [theirs, learned("sid")])
    assert [rule.status for rule in merged.rules] == ["active", "proposed", "active"]
    assert "host-alias" in merged.rules[1].note
    assert merged.demoted == 1
    Normalizer(site_rules=merged.rules)


@pytest.mark.parametrize(
    ("rules", "kept"),
    [
        ([learned("a", support=5), learned("a", support=9, status="proposed")], 1),
        ([learned("a", support=5), learned("a", support=5, note="as strong")], 0),
        ([learned("a", support=9), learned("a", status="rejected")], 1),
        ([learned("a", status="rejected"), learned("a", source="user")], 1),
        ([learned("a", source="user", status="rejected"), learned("a", source="user")], 0),
        ([learned("a", source="user", status="proposed"), learned("a", support=9)], 0),
    ],
)
def test_of_equal_rules_in_files_the_strongest_stays(run, file, tmp_path, rules, kept):
    paths = [tmp_path / "one.toml", tmp_path / "other.toml"]
    for path, rule in zip(paths, rules, strict=True):
        save_site_rules(path, [rule])
    code, out, err = run("rules", "merge", *paths)
    assert (code, err) == (0, "2 rules in 2 files: 1 kept\n")
    assert load_site_rules(file(out)) == (rules[kept],)


def test_files_are_merged_into_one_that_is_there(run, file, tmp_path):
    """Its comments stay; what contradicts a stronger rule is proposed, whatever file it is in."""
    alias = {"kind": "prefix-alias", "site": "shop.example"}
    ours = SiteRule(**alias, prefix="/a", by="/b")
    weak = SiteRule(**alias, prefix="/b", by="/a", source="redirect", support=3)
    target, other = file(RULES), tmp_path / "other.toml"
    save_site_rules(other, [weak, learned("x"), ours])
    assert run("rules", "merge", other, "-o", target) == (
        *(0, ""),
        "4 rules in 2 files: 4 kept, 1 of them only proposed\n",
    )
    assert target.read_text().startswith(RULES)
    rules = load_site_rules(target)[1:]
    assert [rule.status for rule in rules] == ["proposed", "active", "active"]
    assert "prefix-alias" in rules[0].note
    before = target.read_text()
    assert run("rules", "merge", target, "-o", target).code == 0
    assert target.read_text() == before


def test_a_broken_file_is_not_written(file):
    alias = '[[rule]]\nsite = "*.a.example"\nkind = "host-alias"\nhost = "{}"\nby = "{}"\n'
    circle = alias.format("a.example", "b.a.example") + alias.format("b.a.example", "a.example")
    for text in (RULES + "[[rule]]\n", circle):
        path = file(text)
        with pytest.raises(SiteRuleError):
            add_rules(path, [learned("x", "a.example")])
        assert path.read_text() == text
