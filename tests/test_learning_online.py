"""RedirectLearner: what redirects prove, what speaks against it, and what is bounded."""

from __future__ import annotations

from dataclasses import replace

import pytest
from scrapy_urlnorm.learning.online import ENOUGH, RedirectLearner

from scrapy_urlnorm.learning import online
from scrapy_urlnorm.normalizer import Normalizer
from scrapy_urlnorm.site_rules import SiteRule

HOST = "http://www.shop.test"


def taught(source, target, times=ENOUGH, learner=None):
    """A learner that saw redirects; ``{}`` is another word each time."""
    learner = learner or RedirectLearner(Normalizer())
    for number in range(times):
        learner.redirect(source.format(f"w{number}"), target.format(f"w{number}"))
    return learner


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
def test_enough_agreeing_redirects_make_rules(name):
    """A difference seen thirty times merges the thirty-first pair, and not the twenty-ninth."""
    source, target = CASES[name]
    new = source.format("new"), target.format("new")
    few = taught(source, target, ENOUGH - 1)
    assert few.rules == ()
    assert few.normalizer is few.base
    learner = taught(source, target)
    assert learner.normalizer.normalize(new[0]) == learner.normalizer.normalize(new[1])
    assert learner.normalizer.normalize(new[1]) == learner.base.normalize(new[1])
    for rule in learner.rules:
        assert (rule.source, rule.support, rule.conflicts) == ("redirect", ENOUGH, 0)
        assert rule.false_merge_upper == pytest.approx(0.095, abs=0.001)
        assert len(rule.examples) == 3


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
    learner = taught(*NOTHING[name], times=3 * ENOUGH)
    assert learner.rules == ()
    assert learner.normalizer is learner.base


def test_the_same_target_counts_once():
    """A hundred redirects to one page are one witness."""
    learner = taught(HOST + "/a?n={}", HOST + "/a/?n=1", times=100)
    for _ in range(100):
        learner.redirect(HOST + "/a", HOST + "/a/")
    assert learner.rules == ()


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
    learner = RedirectLearner(Normalizer())
    assert learner.page(AGAINST[name]) == []
    taught(*CASES[name], times=3 * ENOUGH, learner=learner)
    assert learner.rules == ()


@pytest.mark.parametrize("name", AGAINST)
def test_a_page_at_such_a_url_takes_the_rule_back(name):
    """Afterwards the rule is off, kept as rejected with the reason, and not learned again."""
    learner = taught(*CASES[name])
    (rule,) = learner.page(AGAINST[name])
    assert AGAINST[name] in rule.note
    assert learner.normalizer == learner.base
    taught(CASES[name][0].replace("{}", "{}-2"), CASES[name][1].replace("{}", "{}-2"), 99, learner)
    assert [(r.status, r.conflicts) for r in learner.rules] == [("rejected", 1)]


@pytest.mark.parametrize("name", CASES)
def test_the_pages_behind_the_redirects_do_not_speak_against_the_rule(name):
    """A crawl sees every target as a page as well."""
    source, target = CASES[name]
    learner = RedirectLearner(Normalizer())
    for number in range(ENOUGH):
        word = f"w{number}"
        learner.redirect(source.format(word), target.format(word))
        assert learner.page(target.format(word)) == []
    assert {rule.status for rule in learner.rules} == {"active"}


def test_hosts_are_kept_apart():
    """What one host does says nothing about another one of the same site."""
    learner = taught(HOST + "/{}", HOST + "/{}/")
    normalize = learner.normalizer.normalize
    assert normalize(HOST + "/x") == HOST + "/x/"
    assert normalize("http://blog.shop.test/x") == "http://blog.shop.test/x"


def test_a_slash_is_not_added_to_files():
    """Thirty folders with a slash do not give one to ``page.html``."""
    learner = taught(HOST + "/{}", HOST + "/{}/")
    assert learner.page(HOST + "/page.html") == []
    assert learner.normalizer.normalize(HOST + "/page.html") == HOST + "/page.html"


def test_rules_of_an_earlier_crawl_apply_from_the_start():
    """What was learned is loaded; rejected rules stay off, and others stay in the file."""
    first = taught(*CASES["add www"])
    taught(*CASES["add slash"], learner=first)
    first.page(HOST + "/x")
    foreign = SiteRule(site="www.shop.test", kind="drop-param", param="sid", source="content")
    second = RedirectLearner(Normalizer(), [*first.rules, foreign])
    assert second.normalizer == first.normalizer
    assert set(second.rules) == {*first.rules, foreign}
    taught(*CASES["add slash"], learner=second)
    assert second.normalizer == first.normalizer


def test_what_the_profile_merges_already_is_not_learned():
    """Aggressive rules make source and target one: there is nothing to learn."""
    learner = RedirectLearner(Normalizer("aggressive"))
    for case in ("https", "add www", "add slash", "index"):
        taught(*CASES[case], learner=learner)
    assert learner.rules == ()


def test_a_rule_that_does_not_go_with_the_users_is_not_applied(caplog):
    """Two options of one rule for one host cannot both hold: the user's stays, and it is said."""
    own = SiteRule(site="www.shop.test", kind="remove-directory-index", option=["default.asp"])
    learner = RedirectLearner(Normalizer(site_rules=[own]))
    taught(*CASES["index"], learner=learner)
    assert learner.normalizer == learner.base
    assert [rule.status for rule in learner.rules] == ["rejected"]
    assert "not applied" in caplog.text


def test_a_learned_rule_that_no_longer_goes_with_the_users_is_left_out():
    """When the user's rules changed since, what does not fit is rejected and the rest applies."""
    first = taught(*CASES["index"])
    taught(*CASES["add www"], learner=first)
    own = SiteRule(site="www.shop.test", kind="remove-directory-index", option=["default.asp"])
    second = RedirectLearner(Normalizer(site_rules=[own]), first.rules)
    assert [rule.kind for rule in second.active] == ["host-alias"]
    assert {rule.status for rule in second.rules} == {"active", "rejected"}


def test_memory_is_bounded(monkeypatch):
    """Neither hosts nor differences on a host grow without end."""
    monkeypatch.setattr(online, "MAX_HOSTS", 20)
    learner = RedirectLearner(Normalizer())
    for number in range(200):
        learner.redirect(f"http://h{number}.shop.test/a", "http://h.shop.test/a")
        learner.redirect(f"http://h{number}.test/a", f"https://h{number}.test/a")
        learner.page(f"http://h{number}.example/")
    assert len(learner._hosts) == 20
    assert len(learner._hosts["h.shop.test"].votes) == online.MAX_OPERATIONS


def test_many_rules_are_applied_in_batches():
    """With many rules in force a new one waits, so that compiling stays cheap."""
    learner = RedirectLearner(Normalizer(), enough=1)
    builds = 0
    for number in range(200):
        builds += bool(learner.redirect(f"http://h{number}.test/a", f"https://h{number}.test/a"))
    assert builds < 60
    assert len(learner.active) > 170
    assert len(learner.rules) == 200


def test_a_rule_that_waits_can_still_be_contradicted():
    """What a page says while a rule waits for its batch counts."""
    learner = RedirectLearner(Normalizer(), enough=1)
    for number in range(40):
        learner.redirect(f"http://h{number}.test/a", f"https://h{number}.test/a")
    waiting = [rule for rule in learner.rules if rule not in learner.active]
    assert waiting
    learner.page(f"http://{waiting[0].site}/b")
    for number in range(40, 80):
        learner.redirect(f"http://h{number}.test/a", f"https://h{number}.test/a")
    assert waiting[0] not in learner.active


def test_is_the_same_in_every_process():
    """Rules come in one order, whatever the order of the evidence."""
    one = RedirectLearner(Normalizer())
    other = RedirectLearner(Normalizer())
    for names in (one, ("https", "add www")), (other, ("add www", "https")):
        for name in names[1]:
            taught(*CASES[name], learner=names[0])
    assert [rule.identity for rule in one.rules] == [rule.identity for rule in other.rules]
    assert one.normalizer.digest == other.normalizer.digest


def test_what_another_crawler_rejected_stays_rejected():
    """A rule that one crawler took back is not taken over from a third that has not heard."""
    source, target = "http://www.shop.test/{}", "http://shop.test/{}"
    (rule,) = taught(source, target).rules
    learner = RedirectLearner(Normalizer())
    assert learner.adopt([rule]) == ([rule], [])
    rejected = replace(rule, status="rejected")
    assert learner.adopt([rejected]) == ([], [rejected])
    assert learner.adopt([rule]) == ([], [])
    assert learner.normalizer == learner.base
