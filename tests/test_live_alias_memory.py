"""What is known of page aliases goes from one run of a crawl to the next."""

from __future__ import annotations

import logging
from contextlib import closing

from test_learning_aliases import learned

from scrapy_urlnorm.crawl.live.alias_memory import AliasMemory
from scrapy_urlnorm.crawl.queue.pending import PendingRequests


def test_it_is_handed_over_once(tmp_path):
    """Killed after that, the next run learns anew: an audit may have refuted what was known."""
    with closing(PendingRequests(tmp_path / "pending")) as database:
        AliasMemory(database).keep([learned()])
        database.commit()
    with closing(PendingRequests(tmp_path / "pending")) as database:
        assert [site.state for site in AliasMemory(database).take()] == [learned().state]
        assert AliasMemory(database).take() == []
    with closing(PendingRequests(tmp_path / "pending")) as database:  # nothing was committed
        assert len(AliasMemory(database).take()) == 1
        database.commit()
    with closing(PendingRequests(tmp_path / "pending")) as database:
        assert AliasMemory(database).take() == []


def test_what_cannot_be_read_is_learned_anew(tmp_path, caplog):
    """One damaged site takes no other along."""
    with closing(PendingRequests(tmp_path / "pending")) as database:
        AliasMemory(database).keep([learned()])
        for number, text in enumerate(("", "[]", "{}", '{"patterns": [[1]]}')):
            insert = "INSERT INTO alias_site (site, state) VALUES (?, ?)"
            database.write(insert, f"{number}.test", text)
        with caplog.at_level(logging.WARNING):
            assert [site.site for site in AliasMemory(database).take()] == ["a.test"]
        assert [record.args["site"] for record in caplog.records] == [
            f"{number}.test" for number in range(4)
        ]
