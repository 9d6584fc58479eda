"""What a set of site rules may not say, per-site switches, and site rules in a normalizer."""

from __future__ import annotations

import pickle
import re
from itertools import pairwise

import pytest
from site_rule_cases import rule

from scrapy_urlnorm.exceptions import SiteRuleError
from scrapy_urlnorm.normalizer import Normalizer
from scrapy_urlnorm.site_rules import RuleSet, SiteRule
from scrapy_urlnorm.url import join, split

LOOPS = [
    [rule("prefix-alias", prefix="/a", by="/b"), rule("prefix-alias", prefix="/b", by="/a")],
    [
        rule("prefix-alias", prefix="/a", by="/b"),
        rule("prefix-alias", prefix="/b", by="/c"),
        rule("prefix-alias", prefix="/c", by="/a"),
    ],
    [
        rule("replace", old={"q:a": "1"}, new={"q:b": "1"}),
        rule("replace", old={"q:b": "1"}, new={"q:a": "1"}),
    ],
    [
        rule("replace", old={"s0": "a"}, new={"s0": "b"}),
        rule("prefix-alias", prefix="/b", by="/a"),
    ],
    [
        rule("replace", old={"scheme": "http"}, new={"scheme": "https"}),
        rule("replace", old={"scheme": "https"}, new={"scheme": "http"}, path="/a"),
    ],
    [
        rule("trailing-slash", option="add", path="/a/**"),
        rule("trailing-slash", option="remove", path="/a/b/**"),
    ],
    [
        rule("replace", old={"q:a": "1"}, new={"q:a": "1", "slash": "1"}),
        rule("drop-param", slash=True),
    ],
    [
        rule("split-segment", separator="-"),
        rule("prefix-alias", prefix="/a/b", by="/a-b"),
    ],
    [
        rule("host-alias", host="a.shop.example", by="shop.example"),
        rule("host-alias", host="shop.example", by="a.shop.example"),
    ],
    [
        SiteRule(site="*.shop.example", kind="prefix-alias", prefix="/a", by="/b"),
        rule("prefix-alias", prefix="/b", by="/a"),
    ],
]  # fmt: skip


@pytest.mark.parametrize("rules", LOOPS)
def test_rules_that_go_round_are_refused(rules):
    for ordered in (rules, rules[::-1]):
        with pytest.raises(SiteRuleError, match="for ever") as caught:
            RuleSet(ordered)
        assert all(str(each) in str(caught.value) for each in rules)


@pytest.mark.parametrize("rules", LOOPS)
def test_inactive_rules_are_no_part_of_a_loop(rules):
    """A proposed rule cannot make a set fail that is fine without it."""
    fields = {**rules[0].as_dict(), "status": "proposed"}
    RuleSet([SiteRule(**fields), *rules[1:]])


@pytest.mark.parametrize(("prefix", "by"), [("/a", "/a/b"), ("/", "/en")])
def test_a_rule_that_feeds_itself_is_refused(prefix, by):
    with pytest.raises(SiteRuleError, match="its own result for ever"):
        rule("prefix-alias", prefix=prefix, by=by)


# The example URLs of these rules do not show that they go round: they meet on other URLs.
HIDDEN = [
    (
        [
            rule("replace", old={"q:a": "1"}, new={"q:b": "1"}, when={"has": "x"}),
            rule("replace", old={"q:b": "1"}, new={"q:a": "1"}, when={"has": "y"}),
            rule("drop-param", param="sid"),
        ],
        "http://shop.example/?a=1&x=1&y=1",
    ),
    (
        [
            rule("prefix-alias", prefix="/a", by="/b", when={"has": "x"}),
            rule("prefix-alias", prefix="/b", by="/c"),
            rule("prefix-alias", prefix="/c", by="/a", when={"has": "y"}),
            rule("drop-param", param="sid"),
        ],
        "http://shop.example/c/d?x=1&y=1",
    ),
]


@pytest.mark.parametrize(("rules", "url"), HIDDEN)
def test_a_circle_that_a_crawl_meets_drops_its_own_rules_only(rules, url, caplog):
    """Rules that go round on some URLs are left out there; others act, and it is logged once."""
    for ordered in (rules, rules[::-1]):
        caplog.clear()
        compiled = RuleSet(ordered)
        assert compiled.rules_left_out == 0
        for sid in "12":
            result = compiled.apply(split(f"{url}&sid={sid}"))
            assert join(result) == url
            assert compiled.apply(result) == result
        assert join(compiled.apply(split("http://shop.example/b/d?sid=1"))) in (
            "http://shop.example/b/d",
            "http://shop.example/c/d",
        )
        (record,) = caplog.records
        assert sum(str(each) in record.message for each in rules) == len(rules) - 1
        assert compiled.rules_left_out == 4


def test_a_circle_is_told_of_once(caplog):
    """A crawl that learns makes its rules ready again and again."""
    rules, url = HIDDEN[0]
    normalizer = Normalizer(site_rules=rules)
    for each in (normalizer, normalizer.replace_site_rules(rules)):
        each.normalize(url)
    assert len(caplog.records) == 1


def test_a_circle_is_found_as_soon_as_it_closes(monkeypatch):
    """A URL that comes round costs a few passes, not as many as one that grows for ever."""
    rules, url = HIDDEN[0]
    compiled = RuleSet(rules)
    passes = []
    one_pass = RuleSet._pass
    monkeypatch.setattr(RuleSet, "_pass", lambda *args: passes.append(1) or one_pass(*args))
    compiled.apply(split(url))
    assert 2 < len(passes) < 20


def test_what_is_left_out_of_a_circle_leaves_keys_their_own():
    """A URL that came out without the rules of a circle is its own key, whatever acts on it."""
    rules = [
        rule("replace", old={"q:c": "1"}, new={"q:b": "1"}, when={"has": "z"}),
        rule("replace", old={"q:b": "1"}, new={"q:a": "1"}, when={"has": "z", "no": "x"}),
        rule("replace", old={"q:a": "1"}, new={"q:c": "1"}, when={"has": "y", "no": "x"}),
        rule("replace", old={"q:b": "1"}, new={"q:c": "1", "q:x": "1"}),  # it ends the circle
    ]
    compiled = RuleSet(rules)
    result = compiled.apply(split("http://shop.example/?b=1&y=1&z=1"))
    assert compiled.rules_left_out == 1
    assert compiled.apply(result) == result


ENDING = [
    [
        rule("host-alias", host="a.shop.example", by="b.shop.example"),
        rule("replace", old={"host": "b.shop.example", "q:x": "1"}, new={"host": "a.shop.example"}),
    ],
    [
        rule("prefix-alias", prefix="/python/latest", by="/python/3"),
        rule("prefix-alias", prefix="/python/3", by="/python/3.11"),
        rule("edit-value", slots="s-1", edit="strip-suffix", text=".html", slash=True),
        rule("strip-tail", tail="/index/", by="/"),
    ],
    [
        rule("param-to-path", param="id", path="/doku.php", by="/doku.php/{}", separator=":"),
        rule("split-segment", separator=":", prefix="/doku.php"),
        rule("lowercase-path", option=True, path="/doku.php/**"),
        rule("drop-default", default={"do": "show"}),
        rule("ignore-value", slots=["q:rev"]),
        rule("edit-value", slots="q:page", edit="number-before"),
        rule("edit-value", edit="lowercase", slots=["q:page", "q:rev"]),
    ],
    [
        rule("trailing-slash", option="add", path="/blog/**"),
        rule("trailing-slash", option="remove", path="/shop/**"),
        rule("strip-tail", tail="/index.html", by=""),
        rule("remove-duplicate-slashes", option=True, path="/blog/**"),
    ],
    [
        rule("strip-segment", prefix="/", segment="en"),
        rule("strip-tail", tail="/print", by=""),
        rule("edit-value", edit="replace-text", slots="s0", text="_", by="-"),
        rule("keep-param", param=["a", "b"]),
        rule("sort-query", option=True, path="/a"),
    ],
]


@pytest.mark.parametrize("rules", ENDING)
def test_sets_that_people_write_are_not_refused(rules):
    """The check of example URLs takes the rule files of real applications."""
    RuleSet(rules)


@pytest.mark.parametrize(
    ("site", "host", "by"),
    [
        ("shop.example", "www.shop.example", "other.example"),
        ("shop.example", "www.other.example", "shop.example"),
        ("a.co.uk", "b.co.uk", "a.co.uk"),
        ("192.0.2.1", "192.0.2.1", "shop.example"),
        ("a.github.io", "a.github.io", "b.github.io"),
    ],
)
def test_a_rule_stays_in_its_registrable_domain(site, host, by):
    for each in (
        rule("host-alias", site=site, host=host, by=by),
        rule("replace", site=site, old={"host": host}, new={"host": by}),
    ):
        with pytest.raises(SiteRuleError, match=re.escape(f"({each})")):
            RuleSet([each])


def test_a_public_suffix_is_no_site():
    """*.co.uk would hold for the sites of everybody there."""
    with pytest.raises(SiteRuleError, match="public suffix"):
        RuleSet([rule("drop-param", site="*.co.uk", param="a")])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (rule("prefix-alias", prefix="/a", by="/b"), rule("prefix-alias", prefix="/a", by="/c")),
        (
            rule("replace", old={"q:a": "1"}, new={"q:b": "1"}),
            rule("replace", old={"q:a": "1"}, new={"q:c": "1"}),
        ),
        (rule("www", option="remove"), rule("www", option="add")),
        (rule("remove-fragment", option=True), rule("remove-fragment", option=False)),
    ],
)
def test_rules_that_contradict_each_other_are_refused(one, other):
    for rules in ([one, other], [other, one]):
        with pytest.raises(SiteRuleError, match="contradict") as caught:
            RuleSet(rules)
        assert str(one) in str(caught.value)
        assert str(other) in str(caught.value)


def test_a_long_way_of_aliases_is_no_circle():
    names = [f"h{i}.shop.example" for i in range(20)]
    rules = [rule("host-alias", host=one, by=other) for one, other in pairwise(names)]
    rules += [
        rule("replace", old={"host": name, "q:x": "1"}, new={"host": names[-1]})
        for name in names[:-1]
    ]
    compiled = RuleSet(rules)
    assert join(compiled.apply(split(f"http://{names[0]}/a"))) == f"http://{names[-1]}/a"
    with pytest.raises(SiteRuleError, match="for ever"):
        RuleSet([*rules, rule("host-alias", site=names[-1], host=names[-1], by=names[7])])


def test_switches_are_options_of_the_catalogue_for_one_site():
    rules = RuleSet(
        [
            rule("www", option="keep"),
            rule("remove-fragment", option=False),
            rule("www", site="*.shop.example", option="remove"),
            rule("trailing-slash", site="*.shop.example", option="remove"),
        ]
    )
    assert rules.catalogue_options("shop.example") == {
        "www": False,
        "remove-fragment": False,
        "trailing-slash": "remove",
    }
    assert rules.catalogue_options("en.shop.example") == {
        "www": "remove",
        "trailing-slash": "remove",
    }
    assert rules.catalogue_options("other.example") == {}


def test_a_normalizer_obeys_the_switches_of_a_site():
    """Fragments stay where a site says that they are pages, and go everywhere else."""
    normalize = Normalizer(
        "aggressive",
        site_rules=[
            rule("remove-fragment", option=False),
            rule("www", site="www.shop.example", option="keep"),
        ],
    ).normalize
    assert normalize("http://shop.example/#/cart") == "http://shop.example/#/cart"
    assert normalize("http://other.example/#/cart") == "http://other.example/"
    assert normalize("http://www.shop.example/") == "http://www.shop.example/"
    assert normalize("http://www.other.example/") == "http://other.example/"


@pytest.mark.parametrize(
    ("the_rule", "url", "key"),
    [
        (
            rule("replace", old={"scheme": "http"}, new={"scheme": "https"}),
            "http://shop.example/a",
            "https://shop.example/a",
        ),
        (
            rule("replace", old={"q:d": "1"}, new={"slash": "1"}),
            "http://shop.example/a?d=1",
            "http://shop.example/a/",
        ),
        (
            rule("host-alias", host="shop.example", by="www.shop.example"),
            "http://shop.example/a",
            "http://www.shop.example/a",
        ),
    ],
)
def test_a_rule_and_the_catalogue_do_not_undo_each_other(the_rule, url, key):
    """What a rule says of a scheme, a slash or www the aggressive profile does not take away."""
    normalize = Normalizer("aggressive", site_rules=[the_rule]).normalize
    assert normalize(url) == normalize(key) == key
    options = RuleSet([the_rule]).catalogue_options("shop.example")
    assert list(options.values()) == [False]


@pytest.mark.parametrize(
    "the_rule",
    [
        rule("replace", old={"slash": "1"}),
        rule("replace", old={"q:d": "1", "slash": "1"}, new={"slash": "1"}),
        rule("host-alias", host="www.shop.example", by="shop.example"),
        rule("drop-param", param="a"),
    ],
)
def test_other_rules_leave_the_catalogue_as_it_is(the_rule):
    rules = RuleSet([the_rule])
    for host in ("shop.example", "www.shop.example"):
        assert rules.catalogue_options(host) == {}


def test_the_catalogue_runs_again_after_a_rule():
    """What a site rule makes is sorted and encoded like everything else, and explained."""
    normalizer = Normalizer(
        site_rules=[rule("replace", old={"q:z": "1"}, new={"q:b": "x y"}, source="redirect")]
    )
    assert normalizer.normalize("http://shop.example/?c=1&z=1&a=1") == (
        "http://shop.example/?a=1&b=x+y&c=1"
    )
    step = next(
        s for s in normalizer.explain("http://shop.example/?z=1").steps if s.rule == "replace"
    )
    assert "source redirect" in step.reason


def test_a_rule_is_frozen():
    with pytest.raises(AttributeError):
        rule("drop-param", param="a").kind = "keep-param"


def test_the_digest_covers_active_rules_in_any_order():
    """Keys depend on what rules say and not on their order, evidence or inactive company."""
    one = rule("drop-param", param="a")
    two = rule("drop-param", param="b")
    digest = Normalizer(site_rules=[one, two]).digest
    assert digest == Normalizer(site_rules=[two, one]).digest
    assert digest != Normalizer(site_rules=[one]).digest
    noted = rule("drop-param", param="a", support=3, note="seen often")
    idle = rule("drop-param", param="c", status="rejected")
    assert digest == Normalizer(site_rules=[noted, two, idle]).digest
    assert digest == pickle.loads(pickle.dumps(Normalizer(site_rules=[one, two]))).digest


def test_a_path_of_too_many_segments_is_left_alone():
    """It takes no time, and is its own key, also where rules made it so long."""
    rules = RuleSet(
        [
            rule("strip-segment", prefix="/", segment="en"),
            rule("split-segment", separator=":", prefix="/x"),
        ]
    )
    just, more = (split(f"http://shop.example{'/en' * n}/a") for n in (3_999, 4_000))
    assert rules.apply(just).path == "/a"
    assert rules.apply(more) is more
    grown = rules.apply(split(f"http://shop.example/x/{'a:' * 5_000}b"))
    assert grown.path == f"/x/{'a/' * 5_000}b"
    assert rules.apply(grown) == grown
