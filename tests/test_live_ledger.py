"""Ledger: pages and requests kept back, in a temporary database and in that of a JOBDIR."""

from __future__ import annotations

import itertools
import sqlite3
from contextlib import closing

import pytest

from scrapy_urlnorm.crawl.database import Database
from scrapy_urlnorm.crawl.live.ledger import PARKED, WITHHELD, Ledger, Page
from scrapy_urlnorm.crawl.live.register import Keys
from scrapy_urlnorm.crawl.queue.pending import PendingRequests
from scrapy_urlnorm.exceptions import StoreError
from scrapy_urlnorm.logs.page_identity import Identity

KEYS = Keys("shop.test", b"own", b"learned")
CONTENT = Identity("bytes", "text", "words", None)


def page(own=b"own", url="http://shop.test/a", content=CONTENT, depth=0):
    return Page(own, url, content, depth)


@pytest.fixture(params=["temporary", "JOBDIR"])
def database(request, tmp_path):
    new = request.param == "temporary"
    with closing(
        Database.temporary() if new else PendingRequests(tmp_path / "pending")
    ) as database:
        yield database


@pytest.fixture
def ledger(database):
    return Ledger(database)


def add(ledger, one, *, learned=b"learned", site="shop.test", has_url=True):
    ledger.add_page(site, learned, one, has_url=has_url)


def test_a_witness_has_another_own_key(ledger):
    """A page is no witness for its own URL, and one under another learned key for none."""
    add(ledger, page())
    assert ledger.witness(b"learned", b"own") is None
    assert ledger.witness(b"learned", b"other") == page()
    assert ledger.witness(b"other", b"other") is None


def test_a_page_comes_back_as_it_was(ledger):
    """With its content, if that was looked at, and its URL, if that makes a key."""
    for content in (CONTENT, Identity("bytes"), None):
        add(ledger, page(content=content))
        assert ledger.witness(b"learned", b"other") == page(content=content)
    add(ledger, page(), has_url=False)
    assert ledger.witness(b"learned", b"other") == page(url="")
    assert ledger.pages("shop.test", 0)[0][1] is None


def test_of_pages_with_one_own_key_the_last_stays(ledger):
    """And of several witnesses the one nearest to the start is taken."""
    add(ledger, page(depth=3))
    add(ledger, page(depth=2))
    add(ledger, page(own=b"deep", depth=5))
    assert ledger.count_pages() == {"shop.test": 2}
    assert ledger.witness(b"learned", b"other").depth == 2


def test_pages_are_known_by_their_site(ledger):
    """They can be counted, gone through in parts, given another key, and forgotten."""
    for number in range(450):
        add(ledger, page(own=b"%d" % number), learned=None)
    add(ledger, page(own=b"x"), site="other.test")
    assert ledger.count_pages() == {"shop.test": 450, "other.test": 1}
    last, numbers = 0, []
    while rows := ledger.pages("shop.test", last):
        numbers += [number for number, _ in rows]
        last = numbers[-1]
    assert len(numbers) == len(set(numbers)) == 450
    ledger.rekey_pages([(b"new", numbers[7]), (None, numbers[8])])
    assert ledger.witness(b"new", b"other").own == b"7"
    ledger.forget_pages("shop.test")
    assert ledger.count_pages() == {"other.test": 1}
    assert ledger.witness(b"new", b"other") is None


def test_requests_are_withheld_or_parked(ledger):
    """In the order in which they came, by learned key and by site."""
    for number in range(450):
        ledger.keep(KEYS, b"%d" % number, number % 2)
    ledger.keep(Keys("other.test", b"own", b"elsewhere"), b"x", PARKED)
    parked = [kept.request for kept in ledger.parked(b"learned")]
    assert parked == [b"%d" % number for number in range(1, 450, 2)]
    assert [kept.request for kept in ledger.parked(b"elsewhere")] == [b"x"]
    assert len(list(ledger.all_parked())) == 226
    assert len(list(ledger.parked_behind_others("shop.test"))) == 225
    assert len(list(ledger.withheld("shop.test"))) == 225
    assert len(list(ledger.all_kept())) == 451
    assert sorted(ledger.sites_with_kept()) == ["other.test", "shop.test"]
    assert {kept.own for kept in ledger.sample("shop.test")} == {b"own"}
    for kept in ledger.parked(b"learned"):  # as long as it is gone through
        ledger.unpark(kept.number)
    assert len(list(ledger.withheld("shop.test"))) == 450
    for kept in ledger.withheld("shop.test"):
        ledger.rekey_kept(kept.number, b"new")
        ledger.drop(kept.number)
    assert [kept.request for kept in ledger.all_kept()] == [b"x"]
    assert ledger.first_parked().request == b"x"


def test_salts_are_kept_until_there_are_no_rules(ledger):
    """The empty one stands for no rules, and needs no row."""
    ledger.set_salt("shop.test", b"one")
    ledger.set_salt("shop.test", b"two")
    ledger.set_salt("other.test", b"one")
    ledger.set_salt("other.test", b"")
    assert ledger.salts() == {"shop.test": b"two"}


def fill(database):
    """Let the database grow no further."""
    (pages,) = database._connection.execute("PRAGMA page_count").fetchone()
    database._connection.execute(f"PRAGMA max_page_count = {pages}")


def keep_until_it_refuses(ledger):
    """Keep requests back; the number of those that it took."""
    taken = itertools.count()

    def keep():
        while True:
            ledger.keep(KEYS, b"%d" % next(taken) + bytes(3_000), WITHHELD)

    with pytest.raises(StoreError, match="full"):
        keep()
    return next(taken) - 1


def test_what_was_kept_before_the_disk_was_full_is_whole():
    """A temporary database goes on; what it refused is the one request that could not be kept."""
    with closing(Database.temporary()) as database:
        ledger = Ledger(database)
        add(ledger, page())
        ledger.keep(KEYS, b"first", WITHHELD)
        fill(database)
        taken = keep_until_it_refuses(ledger)
        assert len(list(ledger.all_kept())) == 1 + taken
        assert ledger.witness(b"learned", b"other") == page()
        for kept in ledger.all_kept():
            ledger.drop(kept.number)
        assert list(ledger.all_kept()) == []
        assert keep_until_it_refuses(ledger) >= taken


def test_a_row_that_cannot_be_deleted_is_deleted_with_the_next_one(ledger, monkeypatch):
    """Until then it is passed over: it was put back."""

    def full(*_: object) -> None:
        raise StoreError("the disk is full")

    for data in (b"one", b"two"):
        ledger.keep(KEYS, data, WITHHELD)
    one, two = ledger.all_kept()
    with monkeypatch.context() as patch:
        patch.setattr(ledger._database, "write", full)
        ledger.drop(one.number)
    assert list(ledger.all_kept()) == list(ledger.sample("shop.test")) == [two]
    ledger.drop(two.number)
    assert ledger._database.read("SELECT count(*) FROM withheld") == [(0,)]


def test_a_transaction_that_sqlite_gave_up_is_not_gone_on_with(tmp_path):
    """A full disk undoes what was written since the last commit, the queue's rows among it.

    Whoever went on would commit that a page is done whose links are not in the queue.
    """
    path = tmp_path / "pending"
    with closing(PendingRequests(path)) as pending:
        pending.push("a", b"page")
        assert pending.pop("a", bytes, newest=True) == b"page"
        pending.commit()
        pending.push("a", b"link")
        fill(pending)
        keep_until_it_refuses(Ledger(pending))
        for go_on in (
            lambda: pending.done([b"page"]),
            lambda: pending.push("a", b"another"),
            lambda: Ledger(pending).keep(KEYS, b"x", WITHHELD),
            pending.commit,
        ):
            with pytest.raises(StoreError, match="full"):
                go_on()
    with closing(PendingRequests(path)) as pending:
        assert list(pending.all()) == [b"page"]


def test_an_error_that_undoes_nothing_is_no_end(tmp_path):
    """One refused statement is one refused statement."""
    with closing(PendingRequests(tmp_path / "pending")) as pending:
        pending.push("a", b"link")
        with pytest.raises(StoreError):
            pending.write("INSERT INTO nowhere VALUES (1)")
        pending.commit()
        assert list(pending.all()) == [b"link"]


def test_a_temporary_database_leaves_no_file_that_others_can_read():
    """What goes to a file has no name in any folder, and is nobody else's."""
    with closing(Database.temporary()) as database:
        files = [row[2] for row in database.read("PRAGMA database_list")]
        assert files == [""]
        assert isinstance(database._connection, sqlite3.Connection)
