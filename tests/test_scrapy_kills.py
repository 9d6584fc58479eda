"""A crawl that is killed again and again: the spider sees each content in one of its runs."""

from __future__ import annotations

import random

import pytest
from kill_site import AGAIN, ANY, AUDIT, Forum, killed_crawl

long = pytest.mark.long
#: A site, large enough for a rule that is wrong in the archive, and the kills.
CRAWLS = [
    # The rule about the slash, which is redirected, is right; that about the order is not.
    pytest.param(Forum(20, 8, redirects_archive=True), [], id="an audit is redirected"),
    # An audit has refuted a rule, and more than fifty contents elsewhere still speak for it.
    pytest.param(Forum(25, 8, ordered=25), [], id="what a refuted rule withheld", marks=long),
    pytest.param(Forum(20, 8), [ANY], id="one kill"),
    pytest.param(Forum(20, 8), [ANY, AUDIT, ANY], id="kills", marks=long),
    # One of the audits has found that a rule is wrong, if it was learned in time.
    pytest.param(Forum(20, 8), [AGAIN, ANY], id="kills during audits", marks=long),
]


@pytest.mark.parametrize(("forum", "kills"), CRAWLS)
def test_nothing_is_lost(forum, kills, tmp_path):
    outcome = killed_crawl(forum, tmp_path, kills, random.Random(1))
    assert outcome["lost"] == outcome["errors"] == []
    if kills[:1] == [ANY]:
        assert outcome["kills"] >= 1
