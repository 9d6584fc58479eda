"""A crawl that is killed again and again: the spider sees each content in one of its runs."""

from __future__ import annotations

import random

from kill_site import AGAIN, ANY, AUDIT, Forum, killed_crawl

#: Large enough for a rule that is wrong in the archive.
SIZE = 20, 8


def test_a_crawl_that_is_killed_at_any_time_loses_nothing(tmp_path):
    outcome = killed_crawl(Forum(*SIZE), tmp_path, [ANY, AUDIT, ANY], random.Random(1))
    assert outcome.lost == outcome.errors == []


def test_a_crawl_that_is_killed_during_audits_loses_nothing(tmp_path):
    """One of the audits has found that a rule is wrong, if it was learned in time."""
    outcome = killed_crawl(Forum(*SIZE), tmp_path, [AGAIN, ANY], random.Random(1))
    assert outcome.lost == outcome.errors == []


def test_an_audit_that_is_redirected_tests_all_its_rules(tmp_path):
    """The rule about the slash, which is redirected, is right; that about the order is not."""
    forum = Forum(*SIZE, redirects_archive=True)
    assert killed_crawl(forum, tmp_path, [], random.Random(1)).lost == []


def test_what_a_refuted_rule_withheld_comes_back(tmp_path):
    """An audit has refuted it, and more than fifty contents elsewhere still speak for it."""
    forum = Forum(25, 8, ordered=25)
    assert killed_crawl(forum, tmp_path, [], random.Random(1)).lost == []
