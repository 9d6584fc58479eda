"""Site rules: for every kind, where it is right, and where a looser rule would lose a page."""

from __future__ import annotations

import pickle
import re
from pathlib import Path

import pytest
from site_rule_cases import CASES, HTTP, path_and_query, rule

from scrapy_urlnorm.exceptions import SiteRuleError
from scrapy_urlnorm.normalizer import Normalizer
from scrapy_urlnorm.site_rules import RuleSet, SiteRule, load_site_rules
from scrapy_urlnorm.site_rules.context import WHEN_KEYS
from scrapy_urlnorm.site_rules.operation import SHAPES
from scrapy_urlnorm.site_rules.operations import EDITS, ORDER, WORDS
from scrapy_urlnorm.site_rules.rule import FIELDS, SOURCES, STATUSES
from scrapy_urlnorm.url import join, split


def applied(url, *rules):
    return join(RuleSet(rules).apply(split(url)))


@pytest.mark.parametrize(
    ("the_rule", "url", "expected"),
    [(case[0], url, expected) for case in CASES for url, expected in case[1].items()],
)
def test_a_rule_maps_what_it_is_for(the_rule, url, expected):
    """Each kind merges the URLs that it was written for, and its result is final."""
    result = applied(path_and_query(url), the_rule)
    assert result == path_and_query(expected)
    assert applied(result, the_rule) == result


@pytest.mark.parametrize(("the_rule", "url"), [(case[0], url) for case in CASES for url in case[2]])
def test_a_rule_leaves_alone_what_looks_alike(the_rule, url):
    """What a looser rule would merge, and lose a page by it, stays as it is, byte for byte."""
    assert applied(path_and_query(url), the_rule) == path_and_query(url)


def test_every_kind_has_a_case_and_a_trap():
    assert {case[0].kind for case in CASES if case[1] and case[2]} >= set(WORDS)


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case[0]))
def test_a_rule_of_another_site_or_status_does_nothing(case):
    for url in map(path_and_query, case[1]):
        for status in ("proposed", "rejected"):
            assert applied(url, case[0].replace(status=status)) == url
        other = url.replace("shop.example", "shop.test")
        assert applied(other, case[0]) == other


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case[0]))
def test_rules_travel_and_compare(case):
    for copy in (pickle.loads(pickle.dumps(case[0])), SiteRule(**case[0].as_dict())):
        assert copy == case[0]
        assert hash(copy) == hash(case[0])
        assert copy.identity == case[0].identity


def test_untouched_parts_keep_every_byte():
    url = "http://shop.example/%7ea/%e4%2F/?b=%41&&a=+%20&sid=1&b&c=%zz&=#frag%41"
    assert applied(url, rule(kind="drop-param", param="sid")) == url.replace("sid=1&", "")


def test_bytes_that_are_no_utf8_survive_an_edit():
    lower = rule(kind="edit-value", edit="lowercase", slots="q:q")
    assert applied(f"{HTTP}/?q=A%E9%FC", lower) == f"{HTTP}/?q=a%E9%FC"


def test_a_site_with_a_star_has_all_its_hosts():
    """*.shop.example holds for the domain and for every host below it, not for its namesakes."""
    wide = rule(site="*.shop.example", kind="drop-param", param="sid")
    rules = RuleSet([wide])
    for host in ("shop.example", "a.shop.example", "a.b.shop.example"):
        assert rules.has(host)
        assert join(rules.apply(split(f"http://{host}/?sid=1"))) == f"http://{host}/"
    for host in ("myshop.example", "example", "shop.example.org", ""):
        assert not rules.has(host)


def test_a_rule_of_a_domain_may_name_its_hosts():
    some = rule(
        site="*.shop.example", kind="drop-param", param="a", when={"host": ["b.shop.example"]}
    )
    assert applied("http://b.shop.example/?a=1", some) == "http://b.shop.example/"
    assert applied("http://c.shop.example/?a=1", some) == "http://c.shop.example/?a=1"


def test_hosts_have_their_own_rules_and_those_of_their_domain():
    rules = (
        rule(site="*.shop.example", kind="drop-param", param="sid"),
        rule(site="en.shop.example", kind="drop-param", param="ref"),
    )
    assert (
        applied("http://en.shop.example/?sid=1&ref=2&a=3", *rules) == "http://en.shop.example/?a=3"
    )
    assert applied("http://de.shop.example/?sid=1&ref=2", *rules) == "http://de.shop.example/?ref=2"


def test_rules_of_the_new_host_apply_after_an_alias():
    rules = (
        rule(kind="host-alias", host="www.shop.example", by="shop.example"),
        rule(kind="drop-param", param="sid"),
    )
    assert applied("http://www.shop.example/?sid=1", *rules) == f"{HTTP}/"


def test_the_recorder_hears_of_every_step():
    """Each change is told with its rule, the URL before and after, and its evidence."""
    rules = RuleSet(
        [
            rule(kind="drop-param", param="a", source="content", support=9, conflicts=0),
            rule(kind="strip-tail", tail="/index.html", by="/"),
        ]
    )
    steps = []
    rules.apply(split(f"{HTTP}/index.html?a=1"), lambda *step: steps.append(step))
    names, befores, afters, reasons = zip(*steps, strict=True)
    assert names == ("strip-tail", "drop-param")
    assert [join(url) for url in befores] == [f"{HTTP}/index.html?a=1", f"{HTTP}/?a=1"]
    assert [join(url) for url in afters] == [f"{HTTP}/?a=1", f"{HTTP}/"]
    assert "source content, support 9, conflicts 0" in reasons[1]


def test_nothing_to_do_gives_the_same_object():
    """A URL on which no rule acts comes back as the very object, so that a caller can tell."""
    rules = RuleSet([rule(kind="drop-param", param="a")])
    url = split(f"{HTTP}/?b=1")
    assert rules.apply(url) is url
    slashes = RuleSet([rule(kind="drop-param", slash=True)])
    steps = []
    assert slashes.apply(url, lambda *step: steps.append(step)) is url
    assert steps == []


BAD = [
    ({"kind": "drop-parm", "param": "a"}, "'drop-parm'.*drop-param"),
    ({"kind": "drop-param"}, "needs 'param'"),
    ({"kind": "drop-param", "param": "a", "tail": "/x"}, "has no 'tail'.*param"),
    ({"kind": "drop-param", "param": ("a", "a")}, "different texts"),
    ({"kind": "drop-param", "param": "a", "path": "forum"}, "starts with '/'"),
    ({"kind": "drop-param", "param": "a", "path": "/a-*"}, "alone"),
    ({"kind": "drop-param", "param": "a", "path": "/**/a/**"}, "one '\\*\\*'"),
    ({"kind": "drop-param", "param": "a", "when": {"hass": "b"}}, "'hass'.*has, no"),
    ({"kind": "drop-param", "param": "a", "when": {"params": {"b": 1}}}, "a text"),
    ({"kind": "drop-param", "param": "a", "when": {"slash": "yes"}}, "true or false"),
    ({"kind": "drop-param", "param": "a", "when": {"segments": {"x": "a"}}}, "positions"),
    ({"kind": "drop-param", "param": "a", "when": {"rest": "x"}}, "a path"),
    ({"kind": "drop-param", "param": "a", "status": "on"}, "active, proposed, rejected"),
    ({"kind": "drop-param", "param": "a", "source": "me"}, "user, redirect"),
    ({"kind": "drop-param", "param": "a", "support": -1}, "from 0"),
    ({"kind": "drop-param", "param": "a", "false_merge_upper": 2}, "between 0 and 1"),
    ({"kind": "drop-param", "param": "a", "examples": (("x",),)}, "pairs"),
    ({"kind": "drop-param", "param": "\udce9"}, "Unicode"),
    ({"kind": "drop-param", "param": "a", "site": "Shop.example"}, "lower-case host"),
    ({"kind": "prefix-alias", "prefix": "/a/..", "by": "/b"}, "dot segments"),
    ({"kind": "param-to-path", "param": "id", "path": "/*", "by": "/{}"}, "without wildcards"),
    ({"kind": "param-to-path", "param": "id", "path": "/a", "by": "/b"}, "one {}"),
    ({"kind": "param-to-path", "param": "id", "path": "/a", "by": "/{}", "default": {"id": "a"}},
     "another one"),
    ({"kind": "param-to-path", "param": "id", "path": "/a", "by": "/{}", "default": {"b": ["a"]}},
     "one text"),
    ({"kind": "replace", "old": {"?": "print"}}, "a token with a digit"),
    ({"kind": "drop-param", "param": "a", "when": {"starts": {"title": "A:"}}}, "q:NAME"),
    ({"kind": "strip-tail", "tail": "/index.html", "by": "/home"}, "'' or '/'"),
    ({"kind": "strip-segment", "prefix": "/", "shape": "hex"}, "how long"),
    ({"kind": "strip-segment", "prefix": "/"}, "'segment' or 'shape'"),
    ({"kind": "drop-segment", "slots": ("s0",), "path": "/*/*"}, "swallow"),
    ({"kind": "ignore-value", "slots": ("s0",)}, "swallow"),
    ({"kind": "ignore-value", "slots": ("host",)}, "s0, s1"),
    ({"kind": "range-alias", "slots": "q:p"}, "needs 'ranges'"),
    ({"kind": "range-alias", "slots": "q:p", "ranges": "/a"}, "numbers that rise"),
    ({"kind": "range-alias", "slots": "q:p", "ranges": "/a?p={} 5-9 1-2"}, "numbers that rise"),
    ({"kind": "range-alias", "slots": "q:p", "ranges": "/a?p={} -9"}, "which 'by' writes"),
    ({"kind": "range-alias", "slots": "q:p", "ranges": ["/a?p={} 1-2", "/a?p=%7B%7D 3-4"]},
     "twice"),
    ({"kind": "range-alias", "slots": ["q:p", "q:a"], "ranges": "/a?p={} 1-2"}, "one slot"),
    ({"kind": "range-alias", "slots": "s-1", "ranges": "/{} 1-2"}, "one slot"),
    ({"kind": "range-alias", "slots": "q:p", "ranges": "/ 1-2", "text": "a"}, "one {}"),
    ({"kind": "range-alias", "slots": "q:p", "ranges": "/ 1-2", "by": "#"}, "as many #"),
    ({"kind": "range-alias", "slots": "s0", "ranges": "/ 1-2", "by": ""}, "segment"),
    ({"kind": "value-alias", "slots": "q:p"}, "needs 'values'"),
    ({"kind": "value-alias", "slots": "q:p", "values": "q:p=1"}, "two members or more"),
    ({"kind": "value-alias", "slots": "q:p", "values": "q:p=1 q:x=2"}, "of the slots q:p"),
    ({"kind": "value-alias", "slots": "q:p", "values": "q:p=1 q:p=2&q:p=3"}, "of the slots q:p"),
    ({"kind": "value-alias", "slots": "q:p", "values": "q:p=1 2"}, "of the slots q:p"),
    ({"kind": "value-alias", "slots": "q:p", "values": ["q:p=1 -", "- q:p=2"]}, "twice"),
    ({"kind": "value-alias", "slots": "q:p", "values": "q:p=1 q:p=%31"}, "twice"),
    ({"kind": "value-alias", "slots": "s0", "values": "s0=a s0=.."}, "'..'"),
    ({"kind": "value-alias", "slots": "s0", "values": "s0=a -"}, "not empty"),
    ({"kind": "value-alias", "slots": "s-1", "values": "s-1=a s-1=b"}, "s0, s1"),
    ({"kind": "value-alias", "slots": "q:p", "within": "q:p", "values": "q:p=1 q:p=1 -"},
     "other slots"),
    ({"kind": "value-alias", "slots": "q:p", "within": "q:a", "values": "- q:p=1 -"}, "within"),
    ({"kind": "replace", "old": {"s0": "a"}}, "one side only"),
    ({"kind": "replace", "old": {"s0": "a"}, "new": {"s0": ".."}}, "'..'"),
    ({"kind": "replace", "old": {"q:a": "1"}, "new": {"q:a": "1"}}, "the same"),
    ({"kind": "replace", "old": {"host": "a.shop.example"}}, "name it in old and new"),
    ({"kind": "edit-value", "edit": "replace-text", "slots": "s0", "text": "a", "by": "ba"},
     "without any character"),
    ({"kind": "split-segment", "separator": "/"}, "without '/'"),
    ({"kind": "host-alias", "host": "a.shop.example", "by": "a.shop.example"}, "alias of itself"),
    ({"kind": "www", "option": "drop"}, "option of www.*'remove'"),
    ({"kind": "www", "option": "remove", "path": "/a"}, "whole site"),
    ({"kind": "trailing-slash", "option": False, "path": "/a"}, "whole site"),
    ({"kind": "replace-ip-with-domain", "option": {"192.0.2.1": "a.b"}}, "not for one site"),
]  # fmt: skip


@pytest.mark.parametrize(("fields", "message"), BAD)
def test_a_bad_rule_says_what_would_be_accepted(fields, message):
    """A rule that says nothing, or what it may not, is refused as it is made."""
    with pytest.raises(SiteRuleError, match=message):
        rule(**fields)


TEXT = (Path(__file__).parent.parent / "docs/reference/rule-file.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```toml\n(.*?)```\n((?:- [^\n]*\n)+)", TEXT, re.DOTALL)


@pytest.mark.parametrize(
    "word", [*WORDS, *EDITS, *FIELDS, *WHEN_KEYS, *SHAPES, *SOURCES, *STATUSES]
)
def test_every_word_of_the_language_is_there(word):
    assert re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", TEXT)


@pytest.mark.parametrize(("rules", "lines"), BLOCKS)
def test_every_block_does_what_is_said(rules, lines, tmp_path):
    """Each rule file in the text loads, and maps the URLs below it as they stand there."""
    path = tmp_path / "rules.toml"
    path.write_text(rules, encoding="utf-8")
    loaded = load_site_rules(path)
    normalize = Normalizer("safe", site_rules=loaded).normalize
    for line in lines.splitlines():
        urls = re.findall(r"`(.*?)`", line)
        assert len(urls) == (1 if line.endswith("stays") else 2)
        assert normalize(urls[0]) == urls[-1]


def test_every_toml_block_has_lines_that_are_tried():
    assert len(BLOCKS) == TEXT.count("```toml")


def test_the_order_of_the_kinds_is_the_one_that_is_told():
    told = TEXT[TEXT.index("## Kinds") : TEXT.index("## Edits")]
    kinds = re.findall(r"^- (?:`([a-z-]+)`|(rules of the catalogue))", told, re.MULTILINE)
    assert tuple(word or catalogue for word, catalogue in kinds) == ORDER
