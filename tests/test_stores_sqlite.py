"""The store in a SQLite database: what it does besides the contract, and what its file goes through."""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest
from store_contract import DIGEST, SeenStoreContract, add_all, fingerprint, opened

from scrapy_urlnorm.exceptions import StoreError, StoreMismatchError
from scrapy_urlnorm.stores import Database, open_store, sqlite

ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "job" / "keys.sqlite"


@pytest.fixture
def spec(path):
    return f"sqlite:{path}"


class TestSqlite(SeenStoreContract):
    @pytest.fixture(autouse=True)
    def _place(self, spec):
        self.spec = spec

    def make(self):
        return open_store(self.spec, digest=DIGEST)


@pytest.mark.parametrize("other", [{"digest": "f" * 16}, {"key_version": 2}])
def test_other_rules_or_versions_are_refused(path, spec, other):
    with opened(spec) as store:
        add_all(store, range(10))
    with pytest.raises(StoreMismatchError) as error:
        opened(spec, **other)
    message = str(error.value)
    for words in (DIGEST, str(next(iter(other.values()))), str(path), "start anew"):
        assert words in message
    assert "keep the old rules" in message
    with opened(spec) as store:
        assert len(store) == 10


@pytest.mark.parametrize("content", [b"a\n" * 9, b"\n", b"0123456789\n" * 2000, "table"])
def test_a_foreign_file_is_refused(path, spec, content):
    path.parent.mkdir()
    if content == "table":
        with closing(sqlite3.connect(path)) as database:
            database.execute("CREATE TABLE note (text)")
    else:
        path.write_bytes(content)
    before = path.read_bytes()
    with pytest.raises(StoreMismatchError, match="is not a database") as error:
        opened(spec)
    assert str(path) in str(error.value)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("PRAGMA user_version = 99", r"version 99.*name another JOBDIR"),
        ("UPDATE identity SET line = 'lost'", "not a store of this package"),
    ],
)
def test_another_version_and_a_damaged_identity_are_refused(path, spec, change, said):
    opened(spec).close()
    with closing(sqlite3.connect(path)) as database, database:
        database.execute(change)
    with pytest.raises(StoreMismatchError, match=said):
        opened(spec)


def test_a_place_that_cannot_be_opened_is_named(path, tmp_path):
    path.parent.mkdir()
    path.touch()
    for bad in (tmp_path, path / "below", f"{tmp_path}/a\0b"):
        with pytest.raises(StoreError, match="cannot open the database"):
            opened(f"sqlite:{bad}")


def test_a_key_takes_few_bytes(path, spec):
    with opened(spec) as store:
        add_all(store, range(200_000))
    assert path.stat().st_size < 20 * 200_000


def test_a_database_that_is_not_open_says_so(spec):
    store = open_store(spec, digest=DIGEST)
    for _ in range(2):
        for ask in (store.add, store.__contains__, store.forget):
            with pytest.raises(StoreError, match="is not open"):
                ask(b"key")
        store.open()
        store.close()


@pytest.mark.skipif(os.name != "posix", reason="modes are POSIX's")
def test_the_file_is_for_its_owner_only(path, spec):
    before = os.umask(0)
    try:
        with opened(spec) as store:
            store.add(b"key")
            modes = {file.name: file.stat().st_mode & 0o777 for file in path.parent.iterdir()}
    finally:
        os.umask(before)
    assert path.name in modes
    assert set(modes.values()) == {0o600}


# --- transactions -------------------------------------------------------------------------------


def rows(database):
    return [number for (number,) in database.read("SELECT * FROM t ORDER BY 1")]


@pytest.fixture
def database(path):
    database = Database(path)
    database.open()
    database.ensure("CREATE TABLE IF NOT EXISTS t (n INTEGER NOT NULL);")
    database.commits_itself = False
    yield database
    database.close()


def test_what_many_parts_write_is_one_transaction(path, database):
    store = open_store("sqlite", digest=DIGEST, jobdir=str(path.parent), database=database)
    store.open()
    database.write("INSERT INTO t VALUES (?)", 1)
    store.add(b"1")
    database.commit()
    database.write("INSERT INTO t VALUES (?)", 2)
    store.add(b"2")
    database.give_up(RuntimeError("the end"))
    for call in (lambda: store.add(b"3"), lambda: rows(database), database.open):
        with pytest.raises(StoreError, match="the end"):
            call()
    store.close()
    database.close()
    again = Database(path)
    with again, open_store("sqlite", digest=DIGEST, jobdir="x", database=again) as store:
        assert rows(again) == [1]
        assert (b"1" in store, b"2" in store) == (True, False)


def test_a_write_that_fails_undoes_its_transaction(path, database):
    database.write("INSERT INTO t VALUES (?)", 1)
    database.commit()
    database.write("INSERT INTO t VALUES (?)", 2)
    with pytest.raises(StoreError, match=r"NOT NULL.*all that was written before is safe"):
        database.write("INSERT INTO t VALUES (?)", None)
    with pytest.raises(StoreError, match="NOT NULL"):
        database.commit() or database.write("INSERT INTO t VALUES (?)", 3)
    database.close()
    with closing(sqlite3.connect(path)) as found:
        assert found.execute("SELECT * FROM t").fetchall() == [(1,)]


def test_a_temporary_database_keeps_what_was_written():
    with Database() as database:
        database.ensure("CREATE TABLE t (n INTEGER NOT NULL);")
        assert database.write_many("INSERT INTO t VALUES (?)", [(1,), (2,)]) == 2
        with pytest.raises(StoreError, match="the temporary database"):
            database.write("INSERT INTO t VALUES (?)", None)
        assert rows(database) == [1, 2]
        assert list(database.each("SELECT n FROM t WHERE n > ?", 1)) == [(2,)]


def test_the_last_user_closes_it(path, database):
    waiting = [5]
    database.before_commit.append(
        lambda: database.write_many(
            "INSERT INTO t VALUES (?)", [(waiting.pop(),)] if waiting else []
        )
    )
    database.open()
    database.close()
    assert rows(database) == [5]
    database.close()
    with pytest.raises(StoreError, match="not open"):
        rows(database)
    opened(f"sqlite:{path}").close()


def test_it_commits_itself_where_nobody_else_does(path, database, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(sqlite, "monotonic", lambda: now[0])
    database.commit()
    database.commits_itself = True
    for second in (0.5, 1.5, 2.0):
        now[0] = second
        database.write("INSERT INTO t VALUES (?)", second * 10)
    database.give_up(RuntimeError("killed"))
    with closing(sqlite3.connect(path)) as found:
        assert found.execute("SELECT * FROM t").fetchall() == [(5,), (15,)]


@pytest.mark.parametrize("replaced", [False, True], ids=["deleted", "replaced"])
def test_a_file_that_goes_away_is_noticed(path, database, replaced):
    database.write("INSERT INTO t VALUES (?)", 1)
    path.rename(path.with_name("elsewhere"))
    if replaced:
        opened(f"sqlite:{path}").close()
    with pytest.raises(StoreError, match="deleted or replaced while it was open"):
        database.commit()


# --- other processes, kills, full disks ---------------------------------------------------------

WRITER = f"""
import sys
from hashlib import sha1
from scrapy_urlnorm.stores import open_store
spec, number = sys.argv[1], int(sys.argv[2])
seen = open_store(spec, digest={DIGEST!r})
seen.open()
seen.database.commits_itself = False
while True:
    for _ in range(10):
        seen.add(sha1(b"%d" % number, usedforsecurity=False).digest())
        number += 1
    seen.database.commit()
    print(number, flush=True)
"""


def writer(spec, begin):
    command = [sys.executable, "-c", WRITER, spec, str(begin)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, env=ENVIRONMENT)


def test_a_killed_process_leaves_its_last_commit(spec):
    chance = random.Random(4)
    begin = 0
    for _ in range(10):
        process = writer(spec, begin)
        for _ in range(chance.randrange(1, 400)):
            end = int(process.stdout.readline())
        with pytest.raises(StoreError, match="another crawl uses it"):
            opened(spec)
        process.send_signal(signal.SIGKILL)
        end = max(map(int, process.stdout), default=end)  # what it said before it died
        assert process.wait() == -signal.SIGKILL
        process.stdout.close()
        with opened(spec) as seen:
            assert all(fingerprint(number) in seen for number in range(end))
            assert end <= len(seen) <= end + 10
            begin = len(seen)
    assert begin > 1000


FILL = """
import json, resource, signal, sys
from hashlib import sha1
from scrapy_urlnorm.exceptions import StoreError
from scrapy_urlnorm.stores import open_store

spec, digest, limit = sys.argv[1:]
store = open_store(spec, digest=digest)
store.open()
store.database.commits_itself = False
# To a process, the largest file it may write looks as a full disk does.
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit), resource.RLIM_INFINITY))
committed, errors = 0, []
for number in range(200_000):
    try:
        store.add(sha1(b"%d" % number).digest())
        if number % 100 == 99:
            store.database.commit()
            committed = number + 1
    except StoreError as error:
        errors.append(str(error))
        if len(errors) == 3:
            break
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
store.close()
print(json.dumps([committed, errors]))
"""


@pytest.mark.parametrize("limit", [100_000, 150_001, 222_222])
def test_a_full_disk(path, spec, limit):
    command = [sys.executable, "-c", FILL, spec, DIGEST, str(limit)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=ENVIRONMENT)
    assert done.returncode == 0, done.stderr
    committed, errors = json.loads(done.stdout)
    assert committed > 100
    assert len(errors) == 3
    for message in errors:
        assert str(path) in message
        assert "disk" in message
    with opened(spec) as store:
        assert len(store) == committed
        assert all(fingerprint(number) in store for number in range(committed))
