"""Rule files: read block by block, line by line, as the TOML parser reads them; and rewritten."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st
from site_rule_cases import CASES

from scrapy_urlnorm.exceptions import SiteRuleError
from scrapy_urlnorm.site_rules import SiteRule, load_site_rules, save_site_rules
from scrapy_urlnorm.site_rules import file as rule_file
from scrapy_urlnorm.site_rules.file import read_blocks, table_of, write_block
from scrapy_urlnorm.site_rules.operation import LISTS

REVIEWED = """\
# Rules of our shops.
# Reviewed in March.

# The session, see ticket 12.
[[rule]]
site = "shop.example"   # not www
kind = "drop-param"
param = ["sid", "PHPSESSID"]
status = "proposed"  # wait for the other team
support = 3

# ---- aliases ----

[[rule]]
kind    = 'prefix-alias'
site    = 'docs.example'
prefix  = '/latest'
by      = '/3.11'
examples = [
    ["https://docs.example/latest/a", "https://docs.example/3.11/a"], # yes
]

# Joint defaults.
[[rule]]
site = "forum.example"
kind = "drop-default"
[rule.default]
st = "0"
sk = "t"
[rule.when]
has = "f"
# the end
"""


@pytest.fixture
def path(tmp_path):
    """A rule file that people have written."""
    found = tmp_path / "rules.toml"
    found.write_text(REVIEWED, encoding="utf-8")
    return found


def test_a_file_is_read_as_it_is_written(path):
    """Every way of writing a table in TOML is read, and a rule knows where it stands."""
    session, alias, defaults = load_site_rules(path)
    assert session.param == ("sid", "PHPSESSID")
    assert session.status == "proposed"
    assert alias.by == "/3.11"
    assert alias.examples == (("https://docs.example/latest/a", "https://docs.example/3.11/a"),)
    assert defaults.default == {"st": "0", "sk": "t"}
    assert defaults.when == {"has": "f"}
    assert str(alias).endswith("rules.toml:14")


def test_saving_what_was_loaded_changes_no_byte(path):
    save_site_rules(path, load_site_rules(path))
    assert path.read_text(encoding="utf-8") == REVIEWED
    save_site_rules(path, reversed(load_site_rules(path)))
    assert path.read_text(encoding="utf-8") == REVIEWED


def test_only_the_lines_that_changed_change(path):
    """New evidence goes into the line where it stands; comments and spelling stay."""
    session, alias, defaults = load_site_rules(path)
    save_site_rules(
        path, [session.replace(status="active", support=9, conflicts=0), alias, defaults]
    )
    expected = REVIEWED.replace(
        'status = "proposed"  # wait for the other team\nsupport = 3\n',
        "support = 9\nconflicts = 0\n",
    )
    assert path.read_text(encoding="utf-8") == expected


def test_other_examples_leave_the_comments_beside_them(path):
    """A crawl that goes on finds more examples; what people noted beside the old ones stays."""
    session, *others = load_site_rules(path)
    one, two = ["http://shop.example/?sid=1", "http://shop.example/"], ["c", "d"]
    save_site_rules(path, [session.replace(examples=[one]), *others])
    path.write_text(path.read_text(encoding="utf-8").replace('/"]]', '/"]]  # mine'))
    session, *others = load_site_rules(path)
    save_site_rules(path, [session.replace(examples=[one, two]), *others])
    text = path.read_text(encoding="utf-8")
    assert '["c", "d"]]  # mine' in text
    assert 'site = "shop.example"   # not www' in text


def test_a_rule_that_is_gone_takes_its_own_comment_only(path):
    _, *others = load_site_rules(path)
    save_site_rules(path, others)
    text = path.read_text(encoding="utf-8")
    assert "ticket 12" not in text
    assert text.startswith("# Rules of our shops.\n# Reviewed in March.\n")
    assert "# ---- aliases ----" in text
    assert load_site_rules(path) == tuple(others)


def test_new_rules_come_last_in_the_order_given(path):
    old = load_site_rules(path)
    new = [SiteRule(site=f"{name}.example", kind="drop-param", param="x") for name in "zab"]
    save_site_rules(path, [*new, *old])
    assert path.read_text(encoding="utf-8").startswith(REVIEWED.rstrip("\n"))
    assert load_site_rules(path) == (*old, *new)


def test_a_changed_value_over_several_lines_keeps_the_comments_of_the_block(path):
    """Where a value cannot be changed in its line the table is written anew, with its comments."""
    session, alias, defaults = load_site_rules(path)
    save_site_rules(path, [session, alias.replace(examples=()), defaults.replace(support=4)])
    assert load_site_rules(path) == (
        session,
        alias.replace(examples=()),
        defaults.replace(support=4),
    )
    text = path.read_text(encoding="utf-8")
    assert "# Joint defaults." in text
    assert "# the end" in text


def test_line_endings_stay(path):
    path.write_bytes(REVIEWED.replace("\n", "\r\n").encode())
    before = path.read_bytes()
    rules = load_site_rules(path)
    save_site_rules(path, rules)
    assert path.read_bytes() == before
    save_site_rules(path, [*rules, SiteRule(site="a.example", kind="drop-param", param="x")])
    assert b"\n" not in path.read_bytes().replace(b"\r\n", b"")


def test_a_new_file_holds_the_rules(tmp_path):
    """Saving without a file makes one; saving nothing makes an empty one."""
    path = tmp_path / "new.toml"
    rules = (
        SiteRule(site="a.example", kind="drop-param", param="x", when={"params": {"a b": "ü"}}),
    )
    save_site_rules(path, rules)
    assert load_site_rules(path) == rules
    save_site_rules(path, ())
    assert path.read_bytes() == b""


def test_the_file_is_replaced_in_one_step(path, monkeypatch):
    """When writing fails the old file is whole, and nothing is left beside it."""

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        save_site_rules(path, ())
    assert path.read_text(encoding="utf-8") == REVIEWED
    assert [each.name for each in path.parent.iterdir()] == ["rules.toml"]


def test_a_new_file_is_for_its_owner(tmp_path):
    """Rules show which URLs a crawl has seen: whoever else is to read them is told to, not let."""
    path = tmp_path / "new.toml"
    save_site_rules(path, [SiteRule(site="a.test", kind="drop-param", param="x")])
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_mode_and_link_survive_a_rewrite(path, tmp_path):
    path.chmod(0o640)
    link = tmp_path / "link.toml"
    link.symlink_to(path)
    save_site_rules(link, ())
    assert link.is_symlink()
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert (
        path.read_bytes()
        == b"# Rules of our shops.\n# Reviewed in March.\n\n# ---- aliases ----\n# the end\n"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            '[[rule]]\nsite = "a.b"\nkind = "drop-parm"\n',
            "line 1, rule 1 .*'drop-parm'.*drop-param",
        ),
        (
            '[[rule]]\nsite = "a.b"\nkind = "drop-param"\nparam = "x"\n\n# c\n[[rule]]\nkind = "www"\n',
            "line 7, rule 2 .*site = None is not accepted",
        ),
        (
            '[[rule]]\nsite = "a.b"\nkind = "drop-param"\nparms = "x"\n',
            r"'parms'; did you mean 'param'\? Known keys: .*path",
        ),
        ('[[rule]]\nsite = "a.b"\nsite = "c.d"\n', "line 3"),
        ('[[rule]]\nsite = "a.b\n', "line 2"),
        ('version = 1\n[[rule]]\nsite = "a.b"\n', "'version' stands outside"),
        ('[[rule]]\nsite = "a.b"\n[other]\nx = 1\n', "'other'"),
        ('[[rules]]\nsite = "a.b"\n', "'rules'.*\\[\\[rule\\]\\]"),
        ('[[rule]]\nsite = "a.b"\norigin = "x"\n', "'origin'"),
        ('[[rule]]\nsite = "a.b"\nkind = ["x"]\n', "'x'"),
        ('[[rule]]\nsite = 1\nkind = "www"\n', "site = 1"),
        ('[[rule]]\nsite = "a.b"\nkind = "drop-param"\nparam = 1\n', "param"),
        ('[[rule]]\nsite = "a.b"\nkind = "drop-param"\nparam = "x"\nexamples = "x"\n', "examples"),
        ('[[rule]]\nsite = "a.b"\nkind = "drop-param"\nparam = "x"\nwhen = "x"\n', "when"),
        ('[[rule]]\nsite = "a.b"\nkind = "replace"\nold = "x"\n', "old"),
        ('[[rule]]\nsite = "a.b"\nkind = "strip-tail"\ntail = 1\nby = 2\n', "tail"),
    ],
)
def test_a_broken_file_names_file_and_entry(tmp_path, text, message):
    """An error says which file, line and entry, and what would be accepted; it is not overwritten."""
    path = tmp_path / "broken.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(SiteRuleError, match=f"broken.toml.*{message}"):
        load_site_rules(path)
    with pytest.raises(SiteRuleError):
        save_site_rules(path, ())
    assert path.read_text(encoding="utf-8") == text


def test_a_file_that_is_no_utf8_is_refused(tmp_path):
    path = tmp_path / "latin.toml"
    path.write_bytes(b"# caf\xe9\n")
    with pytest.raises(SiteRuleError, match="byte 5"):
        load_site_rules(path)


def test_a_header_inside_a_text_is_no_header():
    """A multi-line text may hold what looks like the next rule."""
    text = '[[rule]]\nsite = "a.b"\nnote = """\n[[rule]]\nx"""\n[[rule]]\nsite = "c.d"\n'
    blocks = list(read_blocks(text))
    assert [block.table["site"] for block in blocks[:-1]] == ["a.b", "c.d"]
    assert blocks[0].table["note"] == "[[rule]]\nx"


def test_spaces_and_tables_on_one_line_are_read():
    text = (
        '[[rule]]\n   \n  when = { has = "a", no = "b" }\n\tsite = "a.b"\n# c\n  # d\nsupport = 3\n'
    )
    *blocks, rest = read_blocks(text)
    assert blocks[0].table == {"when": {"has": "a", "no": "b"}, "site": "a.b", "support": 3}
    assert rest.above == [""]


def test_dotted_keys_are_read():
    blocks = list(read_blocks('[[rule]]\nwhen.has = "a"\nwhen.no = "b"\n'))
    assert blocks[0].table == {"when": {"has": "a", "no": "b"}}


VALUES = st.recursive(
    st.one_of(
        st.booleans(),
        st.integers(-(2**63), 2**63 - 1),
        st.floats(allow_nan=False, allow_infinity=False),
        st.text(st.characters(codec="utf-8")),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.text(st.characters(codec="utf-8")), inner, max_size=3),
    ),
    max_leaves=6,
)


@given(st.dictionaries(st.from_regex(r"[a-z_]{1,8}", fullmatch=True), VALUES, max_size=5))
def test_whatever_is_written_is_read_again(table):
    blocks = list(read_blocks("\n".join(write_block(table))))
    assert blocks[0].table == table


def test_a_table_has_no_defaults():
    rule = SiteRule(site="a.example", kind="drop-param", param="x")
    assert table_of(rule) == {"site": "a.example", "kind": "drop-param", "param": "x"}


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
def blocks(draw):
    """Draw a block that is plain but for the values, what is left out, and what is added."""
    keys = [key for key in KEYS if key in KEYS[:3] or draw(st.booleans())]
    lines = [f"{key} = {draw(st.sampled_from(STATEMENTS[key]))}" for key in keys]
    if draw(st.booleans()):
        lines.insert(draw(st.integers(0, 10)), draw(st.sampled_from(LINES)))
    return "\n".join(["[[rule]]", *lines])


def read(text, **replaced):
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


def parsed(text):
    """Read *text* with the parser alone."""
    return read(text, _read_lines=lambda lines, known: (None, ()))


@given(st.lists(blocks(), max_size=4))
def test_any_lines_are_read_alike(drawn):
    """Whatever stands in a file, reading it by lines changes no rule and no message."""
    text = "\n".join(drawn)
    assert read(text) == parsed(text)


@given(st.lists(st.sampled_from(RULES), max_size=6), st.data())
def test_what_we_write_is_read_alike(cases, data):
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
def test_an_identity_is_the_json_of_what_a_rule_says(case):
    """It is made in parts, and must stay the text that digests of stores were made of."""
    rule = SiteRule(**case)
    for each in (rule, rule.at("other.example", rule.evidence)):
        said = each.said()
        said |= {name: sorted(said[name]) for name in LISTS if name in said}
        assert each.identity == json.dumps(said, sort_keys=True, ensure_ascii=False, default=list)
        assert each == SiteRule(**{**case, "site": each.site})


def test_a_rule_at_no_host_is_refused():
    """A rule that is made of another one checks its own site."""
    rule = SiteRule(site="a.example", kind="drop-param", param="sid")
    with pytest.raises(SiteRuleError, match="lower-case host"):
        rule.at("A.example", rule.evidence)


def test_a_saved_file_is_read_by_lines(tmp_path):
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
