"""RedirectLearner: what redirects prove, what speaks against it, and what is bounded."""

from __future__ import annotations

import pytest

from scrapy_urlnorm.domains import registrable_domain
from scrapy_urlnorm.learning import redirects
from scrapy_urlnorm.learning.redirects import AGREEING_SEGMENTS, RISK, RedirectLearner, prior
from scrapy_urlnorm.learning.risk import risk
from scrapy_urlnorm.normalizer import Normalizer
from scrapy_urlnorm.site_rules import SiteRule

HOST = "http://www.shop.test"
DOMAIN = "shop.test"
BASE = Normalizer()

#: The support that each kind needs: the least at which the expected share of wrong merges is
#: 0.02, by the spike and slab of `scrapy_urlnorm.learning.risk` with the prior of the kind.
ENOUGH = {
    "force-scheme": 2,
    "host-alias": 3,
    "remove-directory-index": 3,
    "trailing-slash": 6,
}
MANY = 30  #: more than any kind needs


def taught(source, target, times=MANY, learner=None):
    """A learner that saw redirects; ``{}`` is another word each time."""
    learner = learner or RedirectLearner(BASE)
    for number in range(times):
        learner.redirect(source.format(f"w{number}"), target.format(f"w{number}"))
    return learner


def learned(learner, url):
    """The key of *url* under the rules in force."""
    domain = registrable_domain(url.split("/")[2]) or url.split("/")[2]
    return BASE.for_site(domain, learner.active(domain)).normalize(url)


CASES = {
    "https": (HOST + "/{}", "https://www.shop.test/{}"),
    "http": ("https://www.shop.test/{}", HOST + "/{}"),
    "add www": ("http://shop.test/{}", HOST + "/{}"),
    "remove www": (HOST + "/{}", "http://shop.test/{}"),
    "other host": ("http://m.shop.test/{}", HOST + "/{}"),
    "add slash": (HOST + "/{}", HOST + "/{}/"),
    "remove slash": (HOST + "/{}/", HOST + "/{}"),
    "index": (HOST + "/{}/index.html", HOST + "/{}/"),
    "index and slash": (HOST + "/{}/index.php", HOST + "/{}"),
    "all at once": ("http://shop.test/{}/index.html", "https://www.shop.test/{}"),
    "with a query": (HOST + "/{}?b=1&a=2", HOST + "/{}/?a=2&b=1"),
}


@pytest.mark.parametrize("name", CASES)
def test_agreeing_redirects_make_rules(name):
    """Source and target of a redirect that was never seen have one key from then on."""
    source, target = CASES[name]
    new = source.format("new"), target.format("new")
    learner = taught(source, target)
    assert learned(learner, new[0]) == learned(learner, new[1]) == BASE.normalize(new[1])
    assert learner.sites() == [DOMAIN]
    for rule in learner.rules:
        assert (rule.source, rule.conflicts, dict(rule.when)) == ("redirect", 0, {})
        assert len(rule.examples) == 3


@pytest.mark.parametrize("name", ["https", "add www", "index", "add slash"])
def test_a_rule_is_in_force_when_its_risk_is_small_enough(name):
    """Not one redirect before, and not one after; the rule says what the risk was."""
    learner = RedirectLearner(BASE)
    source, target = (part.replace("{}", "folder/{}") for part in CASES[name])
    for number in range(MANY):
        found = learner.redirect(source.format(number), target.format(number))
        if found:
            break
    (rule,) = found
    assert rule.support == number + 1 == ENOUGH[rule.kind]
    assert risk(rule.support, 0, prior(rule)) <= RISK < risk(rule.support - 1, 0, prior(rule))
    assert rule.false_merge_upper == pytest.approx(risk(rule.support, 0, prior(rule)), abs=1e-4)


def test_the_prior_of_a_kind_that_redirects_do_not_teach():
    """Rules of other sources have the most careful prior."""
    rule = SiteRule(site="shop.test", kind="drop-param", param="sid", source="content")
    assert prior(rule) == 0.4


NOTHING = {
    "another path": (HOST + "/{}", HOST + "/"),
    "a login": (HOST + "/{}", HOST + "/login?next=%2F{}"),
    "a dropped parameter": (HOST + "/?id={}", HOST + "/"),
    "another site": ("http://shop.test/{}", "http://shop.example/{}"),
    "a public suffix": ("http://a.co.uk/{}", "http://b.co.uk/{}"),
    "another port": (HOST + ":8080/{}", "http://shop.test:8081/{}"),
    "a port to https": (HOST + ":8080/{}", "https://www.shop.test:8080/{}"),
    "credentials": ("http://a@www.shop.test/{}", "https://www.shop.test/{}"),
    "not a web scheme": (HOST + "/{}", "ftp://www.shop.test/{}"),
    "not a URL": (HOST + "/{}", "mailto:{}"),
    "nothing new": (HOST + "/{}?b=1&a=2", HOST + "/{}?a=2&b=1"),
    "a renamed page": (HOST + "/{}", HOST + "/{}-new"),
}


@pytest.mark.parametrize("name", NOTHING)
def test_other_redirects_prove_nothing(name):
    """Only differences of scheme, host within the site, final slash and index file count."""
    learner = taught(*NOTHING[name])
    assert learner.rules == ()
    assert learner.sites() == []


def test_the_same_target_counts_once():
    """A hundred redirects to one page are one witness."""
    learner = taught(HOST + "/a?n={}", HOST + "/a/?n=1", times=100)
    for _ in range(100):
        learner.redirect(HOST + "/a", HOST + "/a/")
    assert learner.rules == ()


# --- first path segments --------------------------------------------------------------------------


def in_segment(learner, segment, times=MANY, end="/"):
    """Redirects within one first path segment; the rules they made."""
    found = []
    for number in range(times):
        url = f"{HOST}/{segment}/{number}"
        found += learner.redirect(url, url + end)
    return found


def test_a_rule_of_one_segment_is_for_that_segment():
    """What holds below /~bob/ says nothing of /~eve/, who may be somebody else."""
    learner = RedirectLearner(BASE)
    (rule,) = in_segment(learner, "~bob")
    assert rule.when == {"segments": {"0": "~bob"}}
    assert learned(learner, HOST + "/~bob/new") == HOST + "/~bob/new/"
    assert learned(learner, HOST + "/~eve/new") == HOST + "/~eve/new"


def test_when_two_other_segments_agree_the_rule_is_for_the_host():
    """Three segments make one rule for all, in place of those of single segments."""
    learner = RedirectLearner(BASE)
    in_segment(learner, "~bob")
    in_segment(learner, "~eve", times=1)
    assert [rule.when for rule in learner.active(DOMAIN)] == [{"segments": {"0": "~bob"}}]
    found = in_segment(learner, "~zoe", times=1)
    assert AGREEING_SEGMENTS == 3
    assert [dict(rule.when) for rule in found] == [{}]
    assert list(learner.active(DOMAIN)) == found
    assert learned(learner, HOST + "/~new/x") == HOST + "/~new/x/"


def test_a_page_speaks_only_for_its_own_segment():
    """One served below /~eve/ leaves the rule of /~bob/, and keeps it from the whole host."""
    learner = RedirectLearner(BASE)
    in_segment(learner, "~bob")
    assert learner.page(HOST + "/~eve/x") == []
    in_segment(learner, "~eve")
    in_segment(learner, "~zoe")
    segments = [rule.when["segments"]["0"] for rule in learner.active(DOMAIN)]
    assert sorted(segments) == ["~bob", "~zoe"]
    (rejected,) = learner.page(HOST + "/~zoe/x")
    assert rejected.when == {"segments": {"0": "~zoe"}}
    assert [rule.when["segments"]["0"] for rule in learner.active(DOMAIN)] == ["~bob"]


def test_a_segment_is_named_as_its_rule_has_it():
    """Escapes are decoded, and a rule for a segment that is no Unicode is not made."""
    learner = RedirectLearner(BASE)
    (rule,) = in_segment(learner, "caf%C3%A9")
    assert rule.when == {"segments": {"0": "café"}}
    assert learned(learner, HOST + "/caf%C3%A9/new") == HOST + "/caf%C3%A9/new/"
    in_segment(learner, "caf%E9")
    assert list(learner.active(DOMAIN)) == [rule]


# --- what speaks against a rule -------------------------------------------------------------------

AGAINST = {
    "https": HOST + "/old",
    "http": "https://www.shop.test/x",
    "add www": "http://shop.test/x",
    "remove www": HOST + "/x",
    "add slash": HOST + "/x",
    "remove slash": HOST + "/x/",
    "index": HOST + "/x/index.html",
}


@pytest.mark.parametrize("name", AGAINST)
def test_a_page_at_such_a_url_speaks_against_the_rule_beforehand(name):
    """When one such URL was answered with a page, no number of redirects makes the rule."""
    learner = RedirectLearner(BASE)
    assert learner.page(AGAINST[name]) == []
    taught(*CASES[name], learner=learner)
    assert [rule for rule in learner.rules if not rule.when] == []


@pytest.mark.parametrize("name", AGAINST)
def test_a_page_at_such_a_url_takes_the_rule_back(name):
    """Afterwards the rule is off, kept as rejected with the reason, and not learned again."""
    learner = taught(*CASES[name])
    (rule,) = learner.page(AGAINST[name])
    assert AGAINST[name] in rule.note
    assert learner.active(DOMAIN) == ()
    assert learner.sites() == []
    taught(*(part.replace("{}", "{}/2") for part in CASES[name]), learner=learner)
    host_wide = [each for each in learner.rules if not each.when]
    assert [(each.status, each.conflicts) for each in host_wide] == [("rejected", 1)]


@pytest.mark.parametrize("name", CASES)
def test_the_pages_behind_the_redirects_do_not_speak_against_the_rule(name):
    """A crawl sees every target as a page as well."""
    source, target = CASES[name]
    learner = RedirectLearner(BASE)
    for number in range(MANY):
        word = f"w{number}"
        learner.redirect(source.format(word), target.format(word))
        assert learner.page(target.format(word)) == []
    assert {rule.status for rule in learner.rules} == {"active"}


OPPOSITES = [("https", "http"), ("add www", "remove www"), ("add slash", "remove slash")]


@pytest.mark.parametrize("names", [*OPPOSITES, *(pair[::-1] for pair in OPPOSITES)])
def test_of_opposite_rules_the_first_stays(names):
    """A site that redirects both ways gets one rule: two would go round."""
    learner = taught(*CASES[names[0]])
    first = learner.active(DOMAIN)
    taught(*CASES[names[1]], learner=learner)
    assert learner.active(DOMAIN) == first
    assert first


def test_hosts_are_kept_apart():
    """What one host does says nothing about another one of the same site."""
    learner = taught(HOST + "/{}", HOST + "/{}/")
    assert learned(learner, HOST + "/x") == HOST + "/x/"
    assert learned(learner, "http://blog.shop.test/x") == "http://blog.shop.test/x"


def test_a_slash_is_not_added_to_files():
    """Many folders with a slash do not give one to ``page.html``."""
    learner = taught(HOST + "/{}", HOST + "/{}/")
    assert learner.page(HOST + "/page.html") == []
    assert learned(learner, HOST + "/page.html") == HOST + "/page.html"


def test_what_the_profile_merges_already_is_not_learned():
    """Aggressive rules make source and target one: there is nothing to learn."""
    learner = RedirectLearner(Normalizer("aggressive"))
    for case in ("https", "add www", "add slash", "index"):
        taught(*CASES[case], learner=learner)
    assert learner.rules == ()


# --- rules of other crawls, and verdicts ----------------------------------------------------------


def test_rules_of_an_earlier_crawl_apply_from_the_start():
    """What was learned is loaded; rejected rules stay off, and others stay in the file."""
    first = taught(*CASES["add www"])
    taught(*CASES["add slash"], learner=first)
    first.page(HOST + "/x")
    foreign = SiteRule(site="www.shop.test", kind="drop-param", param="sid", source="content")
    second = RedirectLearner(BASE, [*first.rules, foreign])
    assert second.active(DOMAIN) == first.active(DOMAIN)
    assert set(second.rules) == {*first.rules, foreign}
    taught(*CASES["add slash"], learner=second)
    assert second.active(DOMAIN) == first.active(DOMAIN)


def test_is_the_same_in_every_process():
    """Rules come in one order, whatever the order of the evidence."""
    one, other = RedirectLearner(BASE), RedirectLearner(BASE)
    for learner, names in (one, ("https", "add www")), (other, ("add www", "https")):
        for name in names:
            taught(*CASES[name], learner=learner)
    assert [rule.identity for rule in one.rules] == [rule.identity for rule in other.rules]


def test_a_rule_that_an_audit_refutes_is_rejected_once():
    """It is off for good, with the reason; a rule that is not in force cannot be rejected."""
    learner = taught(*CASES["add www"])
    (rule,) = learner.active(DOMAIN)
    rejected = learner.reject(rule, "other content")
    assert (rejected.status, rejected.conflicts, rejected.note) == ("rejected", 1, "other content")
    assert learner.reject(rule, "other content") is None
    taught(*CASES["add www"], learner=learner)
    assert learner.active(DOMAIN) == ()
    foreign = SiteRule(site="www.shop.test", kind="drop-param", param="sid", source="content")
    assert learner.reject(foreign, "other content") is None


def test_what_another_crawler_rejected_stays_rejected():
    """A rule that one crawler took back is not taken over from a third that has not heard."""
    (rule,) = taught(*CASES["remove www"]).rules
    learner = RedirectLearner(BASE)
    assert learner.adopt([rule]) == ([rule], [])
    assert learner.adopt([rule]) == ([], [])
    rejected = rule.replace(status="rejected")
    assert learner.adopt([rejected]) == ([], [rejected])
    assert learner.adopt([rule]) == ([], [])
    assert learner.active(DOMAIN) == ()


def test_a_page_of_ones_own_outweighs_what_others_say():
    """A rule that a page seen here contradicts is not taken over, and is told as rejected."""
    (rule,) = taught(*CASES["remove www"]).rules
    learner = RedirectLearner(BASE)
    learner.page(HOST + "/x")
    learned_here, to_tell = learner.adopt([rule])
    assert learned_here == []
    assert tuple(to_tell) == learner.rules
    assert [(each.status, each.note) for each in learner.rules] == [
        ("rejected", "contradicted by a page")
    ]


def test_a_rule_that_undoes_ones_own_is_not_taken_over():
    """Two crawlers that saw a site redirect both ways do not go round together."""
    (theirs,) = taught(*CASES["remove www"]).rules
    learner = taught(*CASES["add www"])
    ours = learner.active(DOMAIN)
    assert learner.adopt([theirs])[0] == []
    assert learner.active(DOMAIN) == ours


NOT_LEARNED_HERE = {
    "another source": {"kind": "trailing-slash", "option": "add", "source": "content"},
    "another kind": {"kind": "drop-param", "param": "sid"},
    "a path": {"kind": "trailing-slash", "option": "add", "path": "/a/**"},
    "another context": {"kind": "trailing-slash", "option": "add", "when": {"has": "id"}},
    "two index files": {"kind": "remove-directory-index", "option": ["a.html", "b.html"]},
    "two hosts": {"kind": "host-alias", "host": ("a.shop.test", "b.shop.test"), "by": "shop.test"},
}


@pytest.mark.parametrize("name", NOT_LEARNED_HERE)
def test_other_rules_are_kept_and_not_taken_over(name):
    """A rule of a kind that is not learned here stays in the file and is nobody's business."""
    rule = SiteRule(**{"site": "shop.test", "source": "redirect"} | NOT_LEARNED_HERE[name])
    learner = RedirectLearner(BASE, [rule])
    assert learner.rules == (rule,)
    assert learner.sites() == []
    assert RedirectLearner(BASE).adopt([rule]) == ([], [])


# --- bounds ---------------------------------------------------------------------------------------


def test_a_flood_of_hosts_takes_nothing_from_a_site_with_a_rule():
    """After 12,000 other sites the rule is in force, and a page can still take it back."""
    learner = taught(*CASES["add www"])
    rules = learner.active(DOMAIN)
    for number in range(12_000):
        learner.page(f"http://h{number}.example/")
    assert learner.active(DOMAIN) == rules
    assert learner.page("http://shop.test/x") != []
    assert learner.active(DOMAIN) == ()
    for number in range(12_000):
        learner.page(f"http://i{number}.example/")
    taught(*CASES["add www"], learner=learner)
    assert learner.active(DOMAIN) == ()


def test_sites_are_bounded(monkeypatch):
    """So many without rules are remembered, the newest, however many have rules."""
    monkeypatch.setattr(redirects, "MAX_SITES", 10)
    learner = RedirectLearner(BASE)
    for number in range(8):
        taught(f"http://h{number}.test/{{}}", f"https://h{number}.test/{{}}", learner=learner)
    for number in range(500):
        learner.page(f"http://i{number}.example/")
    assert len(learner.sites()) == 8
    assert len(learner._sites) == 8 + 10
    assert "i499.example" in learner._sites


def test_sites_with_rules_are_kept_beyond_the_bound(monkeypatch):
    """A rule is worth its memory, and a new site is taken note of all the same."""
    monkeypatch.setattr(redirects, "MAX_SITES", 10)
    learner = RedirectLearner(BASE)
    for number in range(30):
        taught(f"http://h{number}.test/{{}}", f"https://h{number}.test/{{}}", learner=learner)
    assert len(learner.sites()) == 30


def test_what_one_site_sends_is_bounded(monkeypatch):
    """Neither hosts of a site nor differences on a host, segments or targets grow for ever."""
    monkeypatch.setattr(redirects, "MAX_HOSTS", 20)
    learner = RedirectLearner(BASE)
    for number in range(200):
        learner.redirect(f"http://h{number}.shop.test/a", "http://h.shop.test/a")
        learner.page(f"http://h{number}.shop.test/s{number}/")
    hosts = learner._sites[DOMAIN].hosts
    assert len(hosts) == 20
    learner.redirect("http://h0.shop.test/a", "http://h.shop.test/a")
    for number in range(200):
        learner.redirect(f"http://h{number}.shop.test/a", "http://h.shop.test/a")
    assert len(hosts["h.shop.test"].votes) == redirects.MAX_OPERATIONS
    learner = RedirectLearner(BASE)
    learner.page(HOST + "/")  # rules the redirects out, so that they are only counted
    for number in range(200):
        for page in range(100):
            learner.redirect(f"{HOST}/s{number}/{page}", f"https://www.shop.test/s{number}/{page}")
            learner.page(f"{HOST}/s{number}/{page}")
    host = learner._sites[DOMAIN].hosts["www.shop.test"]
    (votes,) = host.votes.values()
    assert len(votes.targets) == redirects.MAX_SEGMENTS
    assert max(map(len, votes.targets.values())) <= 64
    assert len(votes.examples) == redirects.MAX_EXAMPLES
    assert max(map(len, host.served.values())) == redirects.MAX_SEGMENTS + 1


def test_pages_of_many_segments_rule_an_operation_out_everywhere():
    """Where so many were served that they are no longer told apart, no segment gets a rule."""
    learner = RedirectLearner(BASE)
    for number in range(redirects.MAX_SEGMENTS + 1):
        learner.page(f"{HOST}/s{number}/x")
    assert in_segment(learner, "other") == []


ODD = [
    "http://h.test",
    "http://h.test?x",
    "http://h.test#7",
    "http:///x",
    "http://[::1]/a",
    "http://[/a",
    "http://h.test/%ff/%FE",
    "http://h.test/\ud800/a",
    f"http://{'a.' * 2_500}test/a",
    f"http://{'a' * 5_000}/a",
    "mailto:a@b",
    "",
]


@pytest.mark.parametrize("source", ODD)
@pytest.mark.parametrize("target", ODD)
def test_odd_urls_do_no_harm(source, target):
    """Empty paths, very long hosts, what is no Unicode and no URL: nothing is raised."""
    learner = RedirectLearner(BASE)
    for _ in range(MANY):
        learner.redirect(source, target)
        learner.page(source)
    assert [rule for rule in learner.rules if rule.active] == []
    for rule in learner.rules:
        str(rule).encode()


def test_a_surrogate_in_a_url_does_not_get_into_a_rule():
    """A rule is written to a file in UTF-8; one that cannot be is not made."""
    learner = RedirectLearner(BASE)
    for number in range(MANY):
        learner.redirect(f"{HOST}/\ud800/{number}", f"https://www.shop.test/\ud800/{number}")
    assert learner.rules == ()


def test_a_rule_that_reaches_another_domain_is_not_taken_over():
    """Another client of the store may have written it; it takes no other rule of the site along."""
    foreign = SiteRule(
        site="shop.test", kind="host-alias", host=("other.example",), by="shop.test",
        source="redirect", support=99,
    )  # fmt: skip
    good = SiteRule(
        site="www.shop.test", kind="host-alias", host=("shop.test",), by="www.shop.test",
        source="redirect", support=3,
    )  # fmt: skip
    learner = RedirectLearner(Normalizer("default"))
    assert learner.adopt([foreign, good]) == ([good], [])
    assert learner.active("shop.test") == (good,)
