"""What holds for every set of site rules and every URL."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, assume, event, given, settings
from hypothesis import strategies as st

from scrapy_urlnorm.domains import registrable_domain
from scrapy_urlnorm.exceptions import SiteRuleError
from scrapy_urlnorm.learning.audit import Blame
from scrapy_urlnorm.normalizer import Normalizer
from scrapy_urlnorm.site_rules import RuleSet, SiteRule
from scrapy_urlnorm.site_rules.form import Form
from scrapy_urlnorm.site_rules.operations import EDITS, WORDS
from scrapy_urlnorm.url import join, split

# Few words, so that rules and URLs meet, and rules meet each other.
TOKENS = st.sampled_from(["a", "b", "A", "12", "12-a", "a-12", "a:b", "a;b=1", "*", "a.html"])
NAMES = st.sampled_from(["a", "b", "a1"])
SEGMENT_SLOTS = st.sampled_from(["s0", "s1", "s-1"])
SLOTS = st.one_of(SEGMENT_SLOTS, NAMES.map("q:{}".format))
HOSTS = st.sampled_from(["shop.example", "www.shop.example", "m.shop.example"])
SITES = st.one_of(st.just("*.shop.example"), HOSTS)
SHORT_PATHS = st.lists(TOKENS.filter(lambda t: t != "*"), min_size=1, max_size=2).map(
    lambda tokens: "/" + "/".join(quote(t, safe=":;=") for t in tokens)
)
PATTERNS = st.one_of(
    SHORT_PATHS,
    SHORT_PATHS.map(lambda path: path + "/**"),
    st.sampled_from(["/*/a", "/#/**", "/**/x.html", "/*.html", "/*/*/", "/"]),
)
TEXTS = st.sampled_from(["a", "-12", ".html", ":", "12"])
VALUES = st.one_of(TOKENS, st.just(""))

TABLES = st.dictionaries(
    st.one_of(SLOTS, st.sampled_from(["slash", "scheme", "host"])), TOKENS, max_size=2
)
CONTEXTS = st.fixed_dictionaries(
    {},
    optional={
        "has": NAMES,
        "no": NAMES,
        "params": st.dictionaries(NAMES, VALUES, max_size=1),
        "among": st.dictionaries(NAMES, st.lists(VALUES, min_size=1, max_size=2), max_size=1),
        "segments": st.dictionaries(st.sampled_from(["0", "-1"]), TOKENS, max_size=1),
        "starts": st.dictionaries(SLOTS, st.sampled_from(["a", "12", "A", "a:"]), max_size=1),
        "slash": st.booleans(),
        "scheme": st.sampled_from(["http", "https"]),
        "rest": st.one_of(SHORT_PATHS, st.sampled_from(["/?a=1", "/a/?b=a"])),
    },
)
RARELY = st.sampled_from([False, False, False, True])


@st.composite
def a_replacement(draw):
    """Operands of a replace rule: what it says on one side it may say on the other."""
    old, new = draw(TABLES), draw(TABLES)
    for table in (old, new):
        if "slash" in table:
            table["slash"] = "1"
    for slot in ("scheme", "host", "s0", "s1", "s-1"):
        if slot in old or slot in new:
            words = {"scheme": st.sampled_from(["http", "https"]), "host": HOSTS}.get(slot, TOKENS)
            old[slot], new[slot] = draw(words), draw(words)
    return {"old": old, "new": new}


@st.composite
def an_edit(draw):
    edit = draw(st.sampled_from(list(EDITS)))
    slots = st.lists(st.one_of(SLOTS, st.just("?")), min_size=1, max_size=2, unique=True)
    known = {"text": TEXTS, "by": st.sampled_from(["", "b", "_"])}
    operands = {name: draw(known[name]) for name in EDITS[edit].operands}
    if edit == "strip-suffix" and draw(RARELY):
        return {"slots": ["s-1"], "edit": edit, "slash": True, **operands}
    return {"slots": draw(slots), "edit": edit, **operands}


@st.composite
def a_table(draw):
    """Operands of a range-alias rule, some of whose pages are known."""
    text, by = draw(st.sampled_from([("{}", "a"), ("#-{}", "#-a"), ("{}-a", "12"), ("{}", None)]))
    slot = draw(st.one_of(st.sampled_from(["s0", "s1"]), NAMES.map("q:{}".format)))
    held = text.replace("#", "12")
    rests = {"s0": f"/{held}", "s1": f"/a/{held}"}
    rest = rests.get(slot, f"/a?{slot[2:]}={quote(held, safe='{}')}")
    spans = draw(st.sampled_from(["1-9", "10-12 13-20", "12-12"]))
    ranges = [f"{rest} {spans}" if by is None else f"{rest} -9 {spans.replace('1-9', '11-12')}"]
    said = {"slots": [slot], "text": text, "ranges": ranges}
    return said if by is None else said | {"by": by}


@st.composite
def some_names(draw):
    slot = draw(st.one_of(st.sampled_from(["s0", "s1"]), NAMES.map("q:{}".format)))
    names = draw(st.lists(TOKENS, min_size=2, max_size=4, unique=True))
    said = [f"{quote(slot, safe=':')}={quote(name, safe='/:')}" for name in names]
    if slot[0] == "q" and draw(RARELY):
        said[0] = "-"
    if draw(RARELY):
        return {"slots": [slot], "within": ["s2"], "values": [" ".join(["s2=a", *said])]}
    return {"slots": [slot], "values": [" ".join(said)]}


of = st.fixed_dictionaries
FOLDERS = st.one_of(SHORT_PATHS, st.just("/"))
PARAMS = st.lists(NAMES, min_size=1, max_size=2, unique=True)
SEPARATORS = st.sampled_from([":", "-", "a"])
CATALOGUE = [("trailing-slash", "add"), ("trailing-slash", "remove"), ("lowercase-path", True),
             ("remove-duplicate-slashes", True), ("sort-query", True),
             ("remove-directory-index", True)]  # fmt: skip
#: By kind, what a rule says besides its site and context.
OPERANDS = {
    "host-alias": of({"host": HOSTS.map(lambda host: [host]), "by": HOSTS}),
    "prefix-alias": of({"prefix": FOLDERS, "by": FOLDERS}),
    "param-to-path": of(
        {"param": NAMES, "path": SHORT_PATHS, "by": st.sampled_from(["/{}", "/a/{}", "/a_{}", "/{}/b/"])},
        optional={"separator": SEPARATORS, "default": st.dictionaries(NAMES, VALUES, max_size=2)},
    ),
    "split-segment": of({"separator": SEPARATORS, "prefix": FOLDERS}),
    "drop-repeated-segment": of({}),
    "strip-segment": st.one_of(
        of({"prefix": FOLDERS, "segment": TOKENS}),
        of({"prefix": FOLDERS, "shape": st.sampled_from(["digits", "hex"]), "min_length": st.just(2)}),
    ),
    "drop-segment": of({"slots": st.just(["s0"]), "path": st.sampled_from(["/*/a/**", "/*/b"])}),
    "strip-tail": of({
        "tail": st.one_of(SHORT_PATHS, SHORT_PATHS.map("{}/".format)), "by": st.sampled_from(["", "/"]),
    }),
    "edit-value": an_edit(),
    "replace": a_replacement(),
    "drop-default": of({"default": st.dictionaries(NAMES, VALUES, min_size=1, max_size=2)}),
    "drop-param": of({
        "param": PARAMS, **dict.fromkeys(("slash", "semicolons", "bare"), st.booleans()),
    }),
    "keep-param": of({"param": PARAMS}),
    "range-alias": a_table(),
    "value-alias": some_names(),
    "ignore-value": of({
        "slots": st.lists(SLOTS.filter("s0".__ne__), min_size=1, max_size=2, unique=True),
    }),
    "catalogue": st.sampled_from(CATALOGUE).map(lambda rule: {"kind": rule[0], "option": rule[1]}),
}  # fmt: skip


@st.composite
def site_rules(draw, kind=None):
    """Draw a valid rule, of one kind or of any."""
    chosen = kind or draw(st.sampled_from([*WORDS, "catalogue"]))
    fields = {"site": draw(SITES), "kind": chosen}
    if draw(RARELY):
        fields["path"] = draw(PATTERNS)
    if draw(RARELY):
        fields["when"] = draw(CONTEXTS)
    try:
        return SiteRule(**fields | draw(OPERANDS[chosen]))
    except SiteRuleError:
        assume(False)
        raise


@st.composite
def urls(draw):
    """Draw a URL whose tokens are those that the rules name."""
    raw = TOKENS.map(lambda token: quote(token, safe=":;=*"))
    path = "/" + "/".join(draw(st.lists(raw, max_size=4))) + draw(st.sampled_from(["", "/"]))
    pairs = draw(st.lists(st.tuples(NAMES, st.one_of(raw, st.just(""))), max_size=4))
    joined = draw(st.sampled_from(["&", ";", "%3B"])).join(
        draw(st.sampled_from([f"{name}={value}", name])) if not value else f"{name}={value}"
        for name, value in pairs
    )
    scheme, query = draw(st.sampled_from(["http", "https"])), f"?{joined}" if joined else ""
    return f"{scheme}://{draw(HOSTS)}{path}{query}"


def compiled(rules):
    """Compile *rules*, or give the example up when the set is refused."""
    try:
        return RuleSet(rules)
    except SiteRuleError:
        assume(False)
        raise


RELAXED = settings(
    deadline=None, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow]
)


@pytest.mark.parametrize("kind", [*WORDS, "catalogue"])
def test_every_kind_is_idempotent_alone(kind):
    @settings(RELAXED, max_examples=25)
    @given(st.data())
    def check(data):
        rules = compiled([data.draw(site_rules(kind))])
        for url in data.draw(st.lists(urls(), min_size=4, max_size=8)):
            once = rules.apply(split(url))
            assert rules.apply(once) == once
            assert rules.apply(split(join(once))) == once

    check()


@settings(RELAXED, max_examples=150)
@given(st.lists(site_rules(), min_size=2, max_size=6), st.lists(urls(), min_size=4, max_size=8))
def test_every_set_that_compiles_is_idempotent(rules, some):
    together = compiled(rules)
    steps = []
    for url in map(split, some):
        before = len(steps)
        once = together.apply(url, lambda *step: steps.append(step))
        assert together.apply(once) == once
        # What is told of a URL is what led to its result, without what went round.
        assert len(steps) == before or once != url
    event(f"{min(len(steps), 4)} steps or more")


any_profile_and_rules = given(
    st.sampled_from(["safe", "default", "aggressive"]),
    st.lists(site_rules(), min_size=1, max_size=5),
    st.lists(urls(), min_size=4, max_size=8),
)


@settings(RELAXED, max_examples=120)
@any_profile_and_rules
def test_a_normalizer_with_site_rules_is_idempotent(profile, rules, some):
    """The catalogue and the site rules settle together, in every profile."""
    compiled(rules)
    normalize = Normalizer(profile, site_rules=rules).normalize
    for url in some:
        once = normalize(url)
        assert normalize(once) == once


@settings(RELAXED, max_examples=150)
@any_profile_and_rules
def test_the_fast_path_agrees_with_site_rules(profile, rules, some):
    """A key that is made fast is the key, and the rules that act on it are those that are told."""
    compiled(rules)
    fast = Normalizer(profile, site_rules=rules)
    slow = fast.replace_site_rules(rules)
    object.__setattr__(slow, "_fast_key", lambda url: None)
    blame = Blame(rules)
    for url in some:
        assert fast.normalize(url) == slow.normalize(url)
        acting = fast.site_rules_on(url)
        event("slow" if acting is None else "acts" if acting else "fast")
        assert blame.of(url, fast) == blame.of(url, slow)


def test_rules_that_act_are_told_without_an_explanation(monkeypatch):
    """Also where the catalogue has to sort or to write anew what they made."""
    rules = [
        SiteRule(site="shop.example", kind="drop-param", param="h"),
        SiteRule(site="shop.example", kind="drop-default", default={"b": "1"}),
        SiteRule(site="shop.example", kind="force-scheme", option="https"),
    ]
    normalizer = Normalizer(site_rules=rules[:2])
    monkeypatch.setattr(Normalizer, "explain", None)
    for url, key, acting in [
        ("http://shop.example/?a=1;h=2;c=3", "http://shop.example/?a=1%3Bc%3D3", {0}),
        ("http://shop.example/?b=1&c=3&h=2", "http://shop.example/?c=3", {0, 1}),
        ("http://shop.example/?c=3&b=2", "http://shop.example/?b=2&c=3", set()),
        ("http://other.example/?h=2", "http://other.example/?h=2", set()),
    ]:
        assert normalizer.normalize(url) == key
        assert Blame(rules[:2]).of(url, normalizer) == acting
    with pytest.raises(TypeError):  # a switch is known by its explanation only
        Blame(rules).of("http://shop.example/", Normalizer(site_rules=rules))


def test_rules_act_on_what_the_catalogue_made_of_their_work():
    """A parameter that a rule writes may be one that the catalogue drops; then others may act."""
    rules = [
        SiteRule(site="shop.example", kind="replace", old={"q:a": "1"}, new={"q:gclid": "x"}),
        SiteRule(site="shop.example", kind="drop-param", param="b", when={"no": ["a", "gclid"]}),
    ]
    normalizer = Normalizer(site_rules=rules)
    assert normalizer.normalize("http://shop.example/?a=1&b=2&c=3") == "http://shop.example/?c=3"
    assert Blame(rules).of("http://shop.example/?a=1&b=2&c=3", normalizer) == {0, 1}


@settings(RELAXED, max_examples=120)
@given(st.lists(site_rules(), min_size=2, max_size=6), urls(), st.randoms(use_true_random=False))
def test_the_order_of_rules_changes_nothing(rules, url, shuffler):
    """A file may list its rules in any order, and any number of times."""
    shuffled = [*rules, rules[0]]
    shuffler.shuffle(shuffled)
    assert compiled(rules).apply(split(url)) == compiled(shuffled).apply(split(url))


@settings(RELAXED, max_examples=120)
@given(st.lists(site_rules(), min_size=1, max_size=4), urls())
def test_no_rule_leaves_its_registrable_domain(rules, url):
    result = compiled(rules).apply(split(url))
    assert registrable_domain(result.host or "") == registrable_domain(split(url).host or "")


@settings(RELAXED, max_examples=120)
@given(st.lists(site_rules(), min_size=1, max_size=4), st.text(max_size=30))
def test_any_text_of_the_site_is_taken(rules, text):
    """Rules never raise, whatever stands behind the host."""
    url = split(f"http://shop.example/{text}")
    result = compiled(rules).apply(url)
    assert compiled(rules).apply(result) == result


@given(urls(), st.text(max_size=20))
def test_a_form_gives_back_the_url(url, text):
    for each in (url, url + text):
        form = Form(split(each))
        assert form.to_url() == split(each)
        # Slots that are equal and not the same are put together token by token.
        assert form.changed(form.slots | {"host": "h"}).to_url() == split(each)._replace(host="h")
