"""Which rules of a file are superfluous: the index says what comparing all pairs would."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from scrapy_urlnorm.cli.check_rules import own_params, shadowed
from scrapy_urlnorm.site_rules import SiteRule

SITES = ("*.a.example", "a.example", "x.a.example", "*.x.a.example", "ya.example")
NAMES = st.lists(st.sampled_from("pq"), min_size=1, unique=True)
WHAT = st.one_of(
    st.builds(lambda p: {"kind": "drop-param", "param": p}, NAMES),
    st.builds(lambda p, s: {"kind": "drop-param", "param": p, "slash": s}, NAMES, st.booleans()),
    st.builds(lambda p: {"kind": "edit-value", "edit": "lowercase", "slots": f"q:{p}"}, NAMES),
    st.builds(lambda p: {"kind": "keep-param", "param": p}, NAMES),
    st.builds(lambda p: {"kind": "drop-default", "default": dict.fromkeys(p, "1")}, NAMES),
    st.builds(lambda t: {"kind": "strip-tail", "tail": t, "by": ""}, st.sampled_from(["/t", "/u"])),
)
CONTEXT = st.sampled_from([{}, {}, {"path": "/x/**"}, {"when": {"has": "h"}}])
RULES = st.lists(
    st.builds(
        lambda site, what, context: SiteRule(site=site, **what, **context),
        st.sampled_from(SITES),
        WHAT,
        CONTEXT,
    ),
    max_size=8,
)


def holds_for(site, other):
    """Whether every host of ``other`` is one of ``site``."""
    host = other.removeprefix("*.")
    return site == other or (site[:2] == "*." and f".{host}".endswith(site[1:]))


def covers(other, rule):
    """Whether ``rule`` changes nothing that ``other`` does not."""
    if other.path or other.when or not holds_for(other.site, rule.site):
        return False
    mine, theirs = json.loads(rule.identity), json.loads(other.identity)
    own = own_params(rule.operation)
    if other.kind == "drop-param" and (own or rule.kind == "drop-param"):
        return bool(own) and own <= {f"q:{name}" for name in other.param} and mine != theirs
    outside = dict.fromkeys(("site", "path", "when"))
    return bool(rule.path or rule.when) and mine | outside == theirs | outside


@given(RULES)
def test_every_superfluous_rule_is_named_with_the_first_that_covers_it(rules):
    """No pair of rules is missed, and none is named that is not superfluous."""
    expected = []
    for rule in rules:
        others = [other for other in rules if other is not rule and covers(other, rule)]
        expected += [f"({rule}) is superfluous beside ({other})" for other in others[:1]]
    assert shadowed(rules) == expected
