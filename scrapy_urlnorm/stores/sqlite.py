"""The database of a crawl, one SQLite file, and the store of keys in it.

Everything that a crawl has to remember stands in one `Database`: keys, the queue, pages, held
requests, evidence, rules, audits, what was filtered. Each part brings its tables (`ensure`). What
is written between two commits is one transaction, so after a kill all parts are as the last commit
left them. (If the machine stops, the last commits may be undone too: that is what SQLite's
``synchronous=NORMAL`` allows.)
"""

from __future__ import annotations

import json
import os
import sqlite3
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

from scrapy_urlnorm.exceptions import StoreError, StoreMismatchError
from scrapy_urlnorm.stores.seen import Awaited, Identity, Seen, key_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from typing_extensions import Self

DATABASE_NAME = "urlnorm.sqlite"  #: in JOBDIR
_MAGIC = b"SQLite format 3\0"
_APPLICATION, _VERSION = 0x75726C6E, 17  # "urln": other programs can tell the file from others
_SETTINGS = "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA cache_size = -16000;"
_TEMPORARY = "PRAGMA journal_mode = MEMORY; PRAGMA synchronous = OFF;"
#: A database of which nobody says when a transaction ends, ends it after so long.
COMMIT_SECONDS = 1.0
_HINT = "all that was written before is safe: mend that and resume, or name another JOBDIR or store"


class Database:
    """A SQLite database at *path*; without one, temporary and of this process alone.

    The file is locked while it is open, its mode is 0600: requests carry cookies and headers. When
    a write fails, its transaction is undone and the file closed: what the crawl has in memory no
    longer fits it, so every later call fails too. A new object can open the file.

    A temporary database is in memory, and from 2 MB on in a file without a name. There each
    statement is a transaction: a full disk refuses that statement and keeps what was written.

    Raises `StoreError` for everything that the database cannot do.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        self.path = None if path is None else Path(path)
        #: In words, for messages.
        self.name = "the temporary database" if path is None else f"the database {str(path)!r}"
        self.changes = 0  #: rows written since the last commit
        self.commits_itself = True  #: whether nobody else says when a transaction ends
        self.before_commit: list[Callable[[], None]] = []  #: they write what waits in memory
        self._users = 0
        self._open: sqlite3.Cursor | None = None  # while it is open
        self._file = (0, 0)  # device and number
        self._due = 0.0
        self._undone: Exception | None = None  # why the last transaction was undone

    def open(self) -> None:
        """Open the file for one user more; each calls `close` once.

        Raises `StoreMismatchError` for a file of another program or version.
        """
        if self._undone is not None:
            raise self.failure("open", self._undone)
        if self._open is None:
            if self.path is None:
                connection = sqlite3.connect("", isolation_level=None)
                connection.executescript(_TEMPORARY)
            else:
                connection = self._at(self.path)
            self._open = connection.cursor()
            self._due = monotonic() + COMMIT_SECONDS
        self._users += 1

    def close(self) -> None:
        if self._open is None:
            return
        self._users -= 1
        try:
            self.commit()
        finally:
            if self._users <= 0:
                self._let_go()

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def give_up(self, error: Exception) -> None:
        """Undo what was not committed, and close the file for all users because of *error*."""
        if self._open is not None:
            self._undone = error
            with suppress(sqlite3.Error):
                self._open.connection.rollback()
            self._let_go()

    def _let_go(self) -> None:
        if self._open is not None:
            with suppress(sqlite3.Error):
                self._open.close()
                self._open.connection.close()
        self._open = None

    def _at(self, path: Path) -> sqlite3.Connection:
        """Open and lock the file. Mark it if it is new, else see that it is ours."""
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
            with suppress(PermissionError):  # it is somebody else's, who has let us in
                path.chmod(0o600)
            self._file = _identity_of(path)
            with path.open("rb") as file:
                begins = file.read(len(_MAGIC))  # of a file of a few bytes SQLite thinks it is new
            connection = sqlite3.connect(path, timeout=0)
        except (OSError, sqlite3.Error, ValueError) as error:  # ValueError: no system has that path
            reason = getattr(error, "strerror", None) or error
            raise StoreError(f"cannot open {self.name}: {reason}; {_HINT}") from error
        try:
            self._verify(connection, begins)
            connection.executescript(_SETTINGS)
            connection.execute("BEGIN IMMEDIATE")  # takes the lock, which locking_mode then keeps
            connection.commit()
        except BaseException as error:
            connection.close()
            if isinstance(error, sqlite3.Error):
                raise self.failure("open", error) from error
            raise
        return connection

    def _verify(self, connection: sqlite3.Connection, begins: bytes) -> None:
        if begins not in (b"", _MAGIC):
            raise StoreMismatchError(
                f"{self.name} is not a database: name another place, or move it away"
            )
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        found, version, tables = (
            connection.execute(question).fetchone()[0]
            for question in (
                "PRAGMA application_id",
                "PRAGMA user_version",
                "SELECT count(*) FROM sqlite_master",
            )
        )
        if not tables:
            connection.execute(f"PRAGMA application_id = {_APPLICATION}")
            connection.execute(f"PRAGMA user_version = {_VERSION}")
        elif (found, version) != (_APPLICATION, _VERSION):
            raise StoreMismatchError(
                f"{self.name} is not a database of this version of scrapy-urlnorm (application "
                f"{found}, version {version}; this one has {_APPLICATION}, {_VERSION}): end "
                "the crawl with the version that began it, or name another JOBDIR or store"
            )

    # --- statements -------------------------------------------------------------------------

    @property
    def _cursor(self) -> sqlite3.Cursor:
        """What runs statements that end at once: to make one for each of them takes a while."""
        if self._open is None:
            if self._undone is not None:
                raise self.failure("use", self._undone)
            raise StoreError(f"{self.name} is not open")
        return self._open

    @property
    def connection(self) -> sqlite3.Connection:
        """The connection, for others that read."""
        return self._cursor.connection

    def ensure(self, tables: str) -> None:
        """Make *tables*: statements with ``IF NOT EXISTS``, each ended by a semicolon."""
        for statement in filter(str.strip, tables.split(";")):
            self.write(statement)

    def write(self, statement: str, *values: object) -> int:
        """Run a statement that changes one table. Return how many rows it changed."""
        try:
            return self.changed(self._cursor.execute(statement, values).rowcount)
        except sqlite3.Error as error:
            raise self.failure("write", error) from error

    def write_many(self, statement: str, rows: Iterable[Any]) -> int:
        """Run a statement once with each of *rows*. Return how many rows it changed in all."""
        try:
            return self.changed(self.connection.executemany(statement, rows).rowcount)
        except sqlite3.Error as error:
            raise self.failure("write", error) from error

    def read(self, select: str, *values: object) -> list[tuple[Any, ...]]:
        try:
            return self._cursor.execute(select, values).fetchall()  # faster than `each`
        except sqlite3.Error as error:
            raise self.failure("read", error) from error

    def each(self, select: str, *values: object) -> Iterator[tuple[Any, ...]]:
        """Yield the rows that *select* finds one by one: there may be many."""
        try:
            yield from self.connection.execute(select, values)
        except sqlite3.Error as error:
            raise self.failure("read", error) from error

    def changed(self, rows: int = 1) -> int:
        """Take note that so many *rows* were written; commit, if nobody else does, in time."""
        if rows <= 0:
            return 0
        self.changes += rows
        if self.commits_itself and monotonic() >= self._due:
            self.commit()
        return rows

    def commit(self) -> None:
        """Make everything since the last commit last."""
        self._due = monotonic() + COMMIT_SECONDS
        if self._open is None:
            return
        for write in self.before_commit:
            write()
        if not self.changes:
            return
        try:
            self.connection.commit()
        except sqlite3.Error as error:
            raise self.failure("write", error) from error
        self.changes = 0
        if self.path is not None and _identity_of(self.path) != self._file:
            reason = OSError("it was deleted or replaced while it was open; restore the right file")
            raise self.failure("write", reason)

    def failure(self, what: str, error: Exception) -> StoreError:
        """Return the error that says what to do after *error*; after one of writing, give up."""
        error = self._undone or error
        if what == "write" and self.path is not None:
            self.give_up(error)
        hint = _HINT
        if "locked" in str(error):
            hint = "another crawl uses it: name another place; many crawlers share a redis:// store"
        return StoreError(f"cannot {what} {self.name}: {error}; {hint}")


def from_json(text: str) -> Any:
    """Return what a column of a database holds as JSON; raise `StoreError` if it is damaged."""
    try:
        return json.loads(text)
    except (TypeError, ValueError) as error:
        raise StoreError(f"the database is damaged: {str(text)[:80]!r} is no JSON") from error


def _identity_of(path: Path) -> tuple[int, int]:
    with suppress(OSError):
        found = path.stat()
        return found.st_dev, found.st_ino
    return 0, 0


_KEY_TABLES = """
CREATE TABLE IF NOT EXISTS identity (line BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS key (key INTEGER PRIMARY KEY);
CREATE TABLE IF NOT EXISTS awaited (
  key INTEGER PRIMARY KEY, url TEXT NOT NULL, callback TEXT NOT NULL, under_way INTEGER NOT NULL);
"""
_ADD = "INSERT OR IGNORE INTO key VALUES (?)"
_EXPECT = "INSERT OR REPLACE INTO awaited VALUES (?, ?, ?, ?)"
_AWAITED = "SELECT url, callback, under_way FROM awaited WHERE key = ?"
_CHANGE = "UPDATE awaited SET under_way = max(0, under_way + ?2) WHERE key = ?1"
_ARRIVED = "DELETE FROM awaited WHERE key = ?"


class SqliteSeen(Seen):
    """Keeps 64 bits of a key: eight bytes of its BLAKE2b digest, made with the salt of the file.

    A new key is wrongly taken as seen when all 64 bits equal those of another. The chance that this
    happens even once while 10 million keys are added is 1 in 370,000 (the birthday bound,
    n * n / 2 / 2**64).

    In a crawl with JOBDIR a key is in the transaction that has its request too. What is known of
    awaited keys stands beside the keys, so memory does not grow with them.
    """

    def __init__(self, database: Database, identity: Identity) -> None:
        self.database = database
        self.name = f"the store in {database.name}"
        self._identity = identity
        self._salt = b""  # while it is open

    def open(self) -> None:
        if self._salt:
            return
        self.database.open()
        try:
            self._salt = self._identify()
        except BaseException:
            self.database.close()
            raise

    def _identify(self) -> bytes:
        self.database.ensure(_KEY_TABLES)
        lines = self.database.read("SELECT CAST(line AS BLOB) FROM identity")
        if lines:
            found = Identity.from_bytes(lines[0][0], self.name)
            path = str(self.database.path)
            anew = f"name another place, or delete {path!r} and the requests that wait in it"
            self._identity.require(found, self.name, anew)
        else:
            found = self._identity.salted()
            self.database.write("INSERT INTO identity VALUES (?)", found.to_bytes())
            self.database.commit()
        return found.salt

    def _change(self, statement: str, key: bytes, *values: object) -> bool:
        """Run a *statement* about *key*; return whether it changed a row."""
        return self.database.write(statement, self._entry(key), *values) > 0

    def _found(self, select: str, key: bytes) -> list[tuple[Any, ...]]:
        return self.database.read(select, self._entry(key))

    def _entry(self, key: bytes) -> int:
        if not self._salt:
            raise StoreError(f"{self.name} is not open")
        digest = blake2b(key or key_bytes(key), digest_size=8, key=self._salt).digest()
        return int.from_bytes(digest, "little", signed=True)

    def add(self, key: bytes) -> bool:
        return self._change(_ADD, key)

    def awaited(self, key: bytes) -> Awaited | None:
        rows = self._found(_AWAITED, key)
        return Awaited(*rows[0]) if rows else None

    def expect(self, key: bytes, awaited: Awaited) -> None:
        self._change(_EXPECT, key, *awaited)

    def change_under_way(self, key: bytes, change: int) -> Awaited | None:
        return self.awaited(key) if self._change(_CHANGE, key, change) else None

    def arrived(self, key: bytes) -> None:
        self._change(_ARRIVED, key)

    def __contains__(self, key: object) -> bool:
        return bool(self._found("SELECT 1 FROM key WHERE key = ?", key_bytes(key)))

    def forget(self, key: bytes) -> bool:
        self.arrived(key)
        return self._change("DELETE FROM key WHERE key = ?", key)

    def __len__(self) -> int:
        return int(self.database.read("SELECT count(*) FROM key")[0][0])

    def close(self) -> None:
        if self._salt:
            self._salt = b""
            self.database.close()
