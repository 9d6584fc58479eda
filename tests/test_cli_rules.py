"""Verbs on rule files: what a file says, what another tool's file says, and merging them."""

from __future__ import annotations

import json

import pytest
from cli_runner import Runner

from scrapy_urlnorm import Normalizer, SiteRule, load_site_rules
from scrapy_urlnorm.cli.merge import add_rules, merge
from scrapy_urlnorm.exceptions import SiteRuleError

RULES = """# written by Ann
[[rule]]
site = "shop.example"
kind = "drop-param"
param = "sid"
examples = [["https://shop.example/a?sid=1", "https://shop.example/a?sid=2"]]
"""
WRONG_EXAMPLE = RULES.replace("sid=2", "id=2")
DUD = [
    {
        "args": ["ref"],
        "order": 1,
        "processor": "queryRemoval",
        "urlPattern": {"include": ["b.example"]},
    },
    {"args": ["x"], "order": 1, "processor": "unheardOf", "urlPattern": {"include": ["c.example"]}},
]


@pytest.fixture
def run(capfdbinary, monkeypatch):
    """Run the command line in this process."""
    return Runner(capfdbinary, monkeypatch)


@pytest.fixture
def file(tmp_path):
    """Write a file and return its path."""

    def file(text, name="rules.toml"):
        path = tmp_path / name
        path.write_text(text)
        return path

    return file


def learned(param, site="shop.example", **fields):
    """A rule as the miner emits it."""
    return SiteRule(
        **{"site": site, "kind": "drop-param", "param": param, "source": "content", **fields}
    )


def test_check_rules_answers_with_its_exit_code(run, file):
    """0 for a file that can be used, 1 for one that cannot, with the reason."""
    code, out, err = run("check-rules", file(RULES))
    assert (code, err) == (0, "")
    assert "rules.toml: ok: 1 rule for 1 site" in out
    code, out, _ = run("check-rules", file(WRONG_EXAMPLE))
    assert code == 1
    assert "an example is not merged" in out
    code, out, _ = run("check-rules", file("[[rule]]\nsite = 'a.example'\nkind = 'x'\n"))
    assert code == 1
    assert "line 1" in out


def test_check_rules_as_json(run, file):
    """One object a file says the same."""
    _, out, _ = run("check-rules", "--json", file(WRONG_EXAMPLE), file(RULES, "good.toml"))
    bad, good = map(json.loads, out.splitlines())
    assert (bad["ok"], good["ok"], good["errors"]) == (False, True, [])


def test_check_rules_of_no_file(run, tmp_path):
    """A file that is not there is wrong input."""
    code, _, err = run("check-rules", tmp_path / "none.toml")
    assert code == 2
    assert "No such file" in err


def test_import_rules_prints_a_rule_file(run, file, tmp_path):
    """What was taken can be loaded; what was not is said on standard error."""
    code, out, err = run("import-rules", file(json.dumps(DUD), "dud.json"))
    assert code == 0
    [rule] = load_site_rules(file(out))
    assert rule.param == ("ref",)
    assert "2 rows, 1 not taken" in err


def test_import_rules_adds_to_a_file(run, file):
    """The rules that are there stay, comments and all; a second import changes nothing."""
    rules, dud = file(RULES), file(json.dumps(DUD), "dud.json")
    assert run("import-rules", dud, "-o", rules).out == ""
    text = rules.read_text()
    assert text.startswith(RULES)
    assert len(load_site_rules(rules)) == 2
    run("import-rules", dud, "-o", rules)
    assert rules.read_text() == text


def test_import_rules_as_json(run, file):
    """Rules, options for all sites and the rows not taken are listed."""
    [line] = run("import-rules", "--json", file(json.dumps(DUD), "dud.json")).out.splitlines()
    found = json.loads(line)
    assert (found["rows"], len(found["rules"]), len(found["skipped"])) == (2, 1, 1)


def test_import_rules_of_something_else(run, file):
    """A file of no known tool is an error that names the known ones."""
    code, out, err = run("import-rules", file("hello"))
    assert (code, out) == (2, "")
    assert "ClearURLs" in err


@pytest.mark.parametrize(
    "data",
    [
        b"\xff\xfe{",
        b"[" * 100_000,
        b'{"providers": {"a": 3}}',
        b'{"providers": {"a": {"rules": [3]}}}',
        b'[{"urlPattern": {"include": [3]}, "processor": "queryRemoval", "args": ["a"]}]',
        b"[1]",
    ],
)
def test_import_rules_of_something_broken(run, tmp_path, data):
    """Whatever stands in another tool's file, the error is one line that names it."""
    path = tmp_path / "rules.json"
    path.write_bytes(data)
    code, out, err = run("import-rules", path)
    assert (code, out) == (2, "")
    assert err.startswith(f"scrapy-urlnorm import-rules: {path}")
    assert err.count("\n") == 1


def test_merging_keeps_what_people_wrote(file):
    """Hand-written and rejected rules stay word for word, also when they are learned anew."""
    text = (
        RULES
        + '\n# Ann: no!\n[[rule]]\nsite = "shop.example"\nkind = "drop-param"\nparam = "page"\nstatus = "rejected"\nsource = "content"\n'
    )
    path = file(text)
    merged = add_rules(
        str(path), [learned("sid", support=9), learned("page", support=9)], {"shop.example"}
    )
    assert path.read_text() == text
    assert (merged.added, merged.removed) == (0, 0)


def test_merging_takes_new_evidence(file):
    """A learned rule found again gets its new numbers; made active by hand, it stays active."""
    old = [learned("a", support=5), learned("b", status="proposed", support=2)]
    new = [learned("a", support=7, status="proposed"), learned("b", support=9)]
    first, second = merge(old, new, {"shop.example"}).rules
    assert (first.support, first.status) == (7, "active")
    assert (second.support, second.status) == (9, "active")


def test_merging_forgets_what_a_site_no_longer_bears_out():
    """Learned rules of the sites in the log go when they are not found again; others stay."""
    old = [
        learned("a"),
        learned("b", "www.shop.example"),
        learned("c", "other.example"),
        learned("d", source="user"),
    ]
    merged = merge(old, [learned("e")], {"shop.example"})
    assert [rule.param[0] for rule in merged.rules] == ["c", "d", "e"]
    assert (merged.added, merged.removed) == (1, 2)


def test_merging_yields_to_the_file():
    """A learned rule that contradicts a hand-written one is proposed, with the reason."""
    alias = {"kind": "host-alias", "site": "*.shop.example"}
    mine = SiteRule(**alias, host="www.shop.example", by="shop.example")
    theirs = SiteRule(**alias, host="shop.example", by="www.shop.example", source="redirect")
    merged = merge([mine], [theirs, learned("sid")])
    assert [rule.status for rule in merged.rules] == ["active", "proposed", "active"]
    assert "host-alias" in merged.rules[1].note
    assert merged.demoted == 1
    Normalizer(site_rules=merged.rules)


def test_a_broken_file_is_not_written(file):
    """A rule file that cannot be loaded, or contradicts itself, is left as it is."""
    alias = '[[rule]]\nsite = "*.a.example"\nkind = "host-alias"\nhost = "{}"\nby = "{}"\n'
    circle = alias.format("a.example", "b.a.example") + alias.format("b.a.example", "a.example")
    for text in (RULES + "[[rule]]\n", circle):
        path = file(text)
        with pytest.raises(SiteRuleError):
            add_rules(str(path), [learned("x", "a.example")])
        assert path.read_text() == text
