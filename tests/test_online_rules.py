"""Learned rules become active, are retracted or subsumed, and outlive a run."""

from __future__ import annotations

import logging
from contextlib import closing

import pytest
from online_parts import BARE, SITE, Parts, page_of
from online_parts import WWW as WWW_URL

from scrapy_urlnorm import SiteRule, load_site_rules, save_site_rules
from scrapy_urlnorm.crawl.online import safe_points, suppression
from scrapy_urlnorm.crawl.online.rules import WITNESSES_A_CONFLICT as NEEDED
from scrapy_urlnorm.crawl.online.tables import Page, Reason
from scrapy_urlnorm.logs.page_identity import FILE, Identity
from scrapy_urlnorm.stores import RULES_NAME
from scrapy_urlnorm.stores.sqlite import Database

SID = SiteRule(site=SITE, kind="drop-param", param="sid", source="content", support=12)
NARROW = SiteRule(
    site=SITE, kind="drop-param", param="sid", path="/t/**", source="content", support=12
)
WWW = SiteRule(
    site=SITE, kind="host-alias", host="www.shop.test", by=SITE, source="redirect", support=9
)
TABLES = {
    name: SiteRule(
        site=SITE, kind="range-alias", slots="q:post", source="content", support=500,
        ranges=[f"/t?post={{}} 1-{last}"],
    )
    for name, last in (("short", 50), ("longer", 90))
}  # fmt: skip
CONTENT = {"URLNORM_LEARN": {"defer": False}}


def begun(*, has_audits: bool = False, database: Database | None = None, **settings: object):
    """Begin a crawl that learns what `found` tells it."""
    parts = Parts(database=database, has_miner=False, has_audits=has_audits, **(CONTENT | settings))
    return closing(parts)


def refute(parts: Parts, number: int = 0) -> None:
    """Fetch pages that differ in ``sid`` until an audit has found it."""
    differed = parts.stats["audits_differed"]
    bodies: dict[str, str] = {}
    parts.download = lambda request: page_of(request, bodies[request.url])
    while parts.stats["audits_differed"] == differed:
        assert not parts.stats["errors"]
        number += 1
        for name in ("", "?sid=1"):
            url = f"{BARE}/{differed}/{number}{name}"
            bodies[url] = f"other {differed} {number} {name}"
            parts.fetch(url, bodies[url])
    parts.learner.work()


def test_rules_about_the_same_slots_are_tested_again_at_each_doubling():
    wrong = [
        SiteRule(site=SITE, kind="drop-param", param=["sid", f"p{n}"], source="content", support=9)
        for n in range(9)
    ]
    with begun() as parts:
        parts.found(SID, *wrong)
        registry, doubted = parts.learner._registry, []
        registry.audits.doubt = lambda reason: doubted.append(reason.key)
        for rule in wrong:
            registry.contradicted((Reason(rule, 12),), "other content")
        assert doubted.count(Reason(SID, 12).key) == 4


def broken(*_: object) -> None:
    raise LookupError("broken")


def test_rules_come_stay_and_go(caplog):
    """What a later mining does not name any more is retracted, and what it suppressed is sent."""
    caplog.set_level(logging.INFO)
    with begun() as parts:
        parts.found(SID)
        assert parts.fetch(f"{BARE}/a") == "fetched"
        assert parts.fetch(f"{BARE}/a?sid=1") == "filtered"
        parts.found(SID.replace(support=40))
        assert [rule.support for rule in parts.in_force()] == [40]
        assert parts.held() == [f"{BARE}/a?sid=1"]
        parts.found()
        assert (parts.in_force(), parts.learner.rules, parts.held()) == ((), (), [])
        assert parts.queued() == [f"{BARE}/a?sid=1"]
        assert (parts.stats["rules"], parts.stats["retracted"]) == (1, 1)
    said = [
        record.getMessage()
        for record in caplog.records
        if "sid means nothing" in record.getMessage()
    ]
    assert [line.partition(" ")[0] for line in said] == ["Learned", "Retracted"]
    assert "the pages that arrived contradict it" in said[1]


def test_a_rule_that_is_subsumed_was_not_wrong(caplog):
    """It is counted and told apart from those that pages contradicted; nothing is sent for it."""
    caplog.set_level(logging.INFO)
    with begun() as parts:
        parts.found(NARROW)
        parts.fetch(f"{BARE}/t/a")
        assert parts.fetch(f"{BARE}/t/a?sid=1") == "filtered"
        parts.found(SID)
        assert parts.in_force() == (SID,)
        assert [parts.stats[name] for name in ("rules", "subsumed", "retracted")] == [2, 1, 0]
        assert parts.held() == [f"{BARE}/t/a?sid=1"]
    assert "Subsumed on shop.test: The parameter sid means nothing below /t/" in caplog.text


def test_what_moves_behind_another_rule_counts_for_it_once(monkeypatch):
    """Whatever is mined later: the number of its audits comes of what it suppresses."""
    monkeypatch.setattr(safe_points, "STEPS", 10**6)
    with begun(has_audits=True) as parts:
        parts.found(NARROW)
        for number in range(100):
            parts.fetch(f"{BARE}/t/{number}", str(number))
            parts.fetch(f"{BARE}/t/{number}?sid=1", str(number))
            parts.fetch(f"{BARE}/t/{number}?sid=2", str(number))
        moved = len(parts.held())
        for rules in ([SID], [SID, WWW], [SID]):
            parts.found(*rules)
            select = "SELECT held FROM audited_rule WHERE key = ?"
            assert parts.database.read(select, SID.identity) == [(moved,)]


def test_a_miner_that_fails_leaves_no_rule_standing(caplog):
    """Nobody has tested them on what arrived since."""
    caplog.set_level(logging.INFO)
    with begun() as parts:
        parts.found(SID, WWW)
        parts.found(error="IndexError()")
        assert parts.in_force() == ()
        assert (parts.stats["retracted"], parts.stats["errors"]) == (2, 1)
    assert caplog.text.count("(IndexError())") == 2


@pytest.mark.parametrize("is_retracted", [False, True])
def test_after_a_failure_no_rule_comes_into_force_again(monkeypatch, is_retracted):
    """Neither by the answer of the miner that was asked before, nor by the verdict of an audit."""
    with begun() as parts:
        parts.found(SID, WWW)
        parts.fetch(f"{BARE}/a")
        assert parts.fetch(f"{BARE}/a?sid=1") == "filtered"
        known = parts.learner.rules
        with monkeypatch.context() as patch:
            patch.setattr(suppression.Suppression, "expire_in_flight", broken)
            parts.learner.work()
        assert parts.queued() == [f"{BARE}/a?sid=1"]
        if is_retracted:
            parts.learner._registry.contradicted((Reason(SID, 12),), "other content")
        else:
            parts.found(SID.replace(support=90), NARROW)
            assert parts.learner.rules == known
        parts.queue.clear()
        parts.learner.work()
        for url in (f"{BARE}/a?sid=2", f"{WWW_URL}/a"):
            assert parts.fetch(url) == "fetched"
        assert parts.held() == []


def test_a_refuted_rule_needs_fifty_witnesses_a_conflict(tmp_path):
    """So in this run, and in the next one of the job."""
    job = {"database": Database(tmp_path / "db"), "JOBDIR": str(tmp_path)}
    for conflicts in (1, 2):
        with begun(has_audits=True, **job) as parts:
            parts.found(SID.replace(support=NEEDED * (conflicts - 1) + 12))
            refute(parts)
            assert parts.in_force() == ()
            (rule,) = parts.learner.rules
            assert (rule.status, rule.conflicts) == ("rejected", conflicts)
            parts.found(SID.replace(support=NEEDED * conflicts - 1))
            assert parts.in_force() == ()
        job["database"] = Database(tmp_path / "db")
    with begun(has_audits=True, **job) as parts:
        parts.found(SID.replace(support=2 * NEEDED - 1))
        assert parts.in_force() == ()
        parts.found(SID.replace(support=2 * NEEDED))
        assert len(parts.in_force()) == 1


def test_one_of_the_rules_between_two_pages_goes_and_the_others_stay():
    """That with the fewest witnesses."""
    with begun(has_audits=True) as parts:
        parts.found(SID, WWW.replace(support=400))
        parts.download = lambda request: page_of(
            request, "other" if "sid" in request.url else "one"
        )
        parts.fetch(f"{BARE}/a", "one")
        assert parts.fetch("http://www.shop.test/a?sid=1", "other") == "fetched"
        assert [rule.kind for rule in parts.in_force()] == ["host-alias"]
        assert parts.stats["retracted"] == 1


def test_a_longer_table_keeps_the_audits_of_the_shorter_one():
    """Each page that arrives may make it longer: it is the same rule, proved and said as before."""
    audits = {}
    for rules in (("short", "longer"), ("longer",)):
        with begun(has_audits=True) as parts:
            for name in rules:
                parts.found(TABLES[name])
                before = parts.stats["audits"]
                for post in range(2, 30) if name == "short" else range(50, 80):
                    parts.fetch(f"{BARE}/t?post={post}", "topic")
                audits[len(rules), name] = parts.stats["audits"] - before
            assert (parts.stats["rules"], parts.stats["audits_differed"]) == (1, 0)
    assert audits[2, "longer"] < audits[1, "longer"]


def test_a_longer_table_of_a_rule_that_is_wrong_is_another_rule(monkeypatch):
    """One crawler retracts a rule, another one has it for more values: both are said and counted."""
    with begun() as parts:
        parts.found(TABLES["short"])
        wrong = TABLES["short"].replace(status="rejected", conflicts=1)
        registry, news = parts.learner._registry, [wrong, TABLES["longer"]]
        monkeypatch.setattr(registry._exchange, "news", lambda **_: news)
        registry.sync()
        assert parts.in_force() == (TABLES["longer"],)
        assert (parts.stats["retracted"], parts.stats["shared"]) == (1, 1)


def test_a_rule_that_no_site_may_have_takes_no_other_along(caplog):
    """Whatever its place among them; it is said, and no page is lost."""
    caplog.set_level(logging.INFO)
    foreign = SiteRule(
        site=SITE, kind="host-alias", host="other.example", by=SITE, source="content", support=99
    )
    for news in ([foreign, SID], [SID, foreign]):
        with begun() as parts:
            parts.found(*news)
            assert parts.in_force() == (SID,)
            assert parts.stats["rules"] == 1
    assert caplog.text.count("A learned rule is not applied") == 2


@pytest.mark.parametrize(
    ("learn", "rules", "active"),
    [
        ("content", [WWW, SID], {WWW, SID}),
        ("content", [WWW, SID.replace(status="proposed")], {WWW}),
        ("content", [WWW, SID.replace(status="rejected")], {WWW}),
        ("redirects", [WWW, SID], {WWW}),
    ],
)
def test_the_file_of_an_earlier_crawl_is_believed(tmp_path, learn, rules, active):
    """What is only proposed, was refuted, or is not to be learned, is kept and not applied."""
    path = tmp_path / RULES_NAME
    save_site_rules(path, rules)
    with begun(URLNORM_LEARN=learn, JOBDIR=str(tmp_path)) as parts:
        www, sid = f"{BARE}/a".replace("//", "//www."), f"{BARE}/b?sid=1"
        for url in (f"{BARE}/a", f"{BARE}/b"):
            parts.fetch(url)
        held = {rule for rule, url in ((WWW, www), (SID, sid)) if parts.fetch(url) == "filtered"}
        assert held == active
    assert set(load_site_rules(path)) == set(rules)


def test_the_next_run_of_a_job_goes_on_with_its_rules(tmp_path):
    """They are in its database, retracted ones too; a file that a person changed outweighs it."""
    path, job = tmp_path / RULES_NAME, {"JOBDIR": str(tmp_path)}
    with begun(has_audits=True, database=Database(tmp_path / "db"), **job) as parts:
        parts.found(SID)
        refute(parts)
        parts.found(WWW)
    for expected in ((WWW,), ()):
        with begun(database=Database(tmp_path / "db"), **job) as parts:
            assert parts.in_force() == expected
            assert [rule.param for rule in parts.learner.rules if not rule.active] == [("sid",)]
        save_site_rules(path, [rule for rule in load_site_rules(path) if not rule.active])


def test_what_binary_pages_refuted_outlives_that_a_person_edits_the_file(tmp_path):
    """Of each rule that stands in it: nothing in the file says so."""
    path = tmp_path / RULES_NAME
    for rules in ((SID, WWW), (SID,)):
        with begun(database=Database(tmp_path / "db"), JOBDIR=str(tmp_path)) as parts:
            if len(rules) == 2:
                parts.found(*rules)
                parts.learner._registry.contradicted(
                    (Reason(SID, 0, is_binary=True),), "other content"
                )
            assert set(parts.in_force()) == set(rules)
            between = parts.learner._registry.between
            page = Page(b"", f"{BARE}/a", Identity("table", kind=FILE), 0)
            assert between(SITE, f"{BARE}/a?sid=1", page) == ()
            assert between(SITE, f"{BARE}/a?sid=1", page._replace(content=Identity("text")))
        save_site_rules(path, [SID])


def test_a_rule_that_is_believed_again_stands_once(tmp_path):
    """Active, and in the file too; retracted when what is mined later does not have it."""
    path, again = tmp_path / RULES_NAME, SID.replace(support=NEEDED)
    with begun(database=Database(tmp_path / "db"), JOBDIR=str(tmp_path)) as parts:
        parts.found(SID)
        parts.learner._registry.contradicted((Reason(SID, 12),), "other content")
        parts.found(again)
        parts.learner._registry.save()
        assert list(load_site_rules(path)) == list(parts.learner.rules) == [again]
        parts.found()
    with begun(database=Database(tmp_path / "db"), JOBDIR=str(tmp_path)) as parts:
        (rule,) = parts.learner.rules
        assert (rule.status, rule.conflicts) == ("rejected", 1)
    assert list(load_site_rules(path)) == [rule]


def test_what_a_file_says_of_other_sites_outlives_two_runs(tmp_path):
    """Also where a rule is learned in the first run, and none in the second."""
    path, other = tmp_path / RULES_NAME, SiteRule(site="other.test", kind="drop-param", param="a")
    refuted = other.replace(status="rejected", conflicts=1)
    for rule in (other, refuted):
        save_site_rules(path, [rule])
        for news in ([SID], []):
            with begun(
                database=Database(tmp_path / f"db {rule.status}"), JOBDIR=str(tmp_path)
            ) as parts:
                if news:
                    parts.found(*news)
        assert set(load_site_rules(path)) == {rule, SID}


def test_a_run_that_was_killed_has_the_rules_of_its_last_commit(tmp_path):
    """And no others: what they suppressed is undone with them."""
    parts = begun(database=Database(tmp_path / "db")).thing
    parts.found(SID)
    parts.database.commit()
    parts.found(SID, WWW)
    parts.kill()
    with begun(database=Database(tmp_path / "db")) as parts:
        assert parts.in_force() == (SID,)
