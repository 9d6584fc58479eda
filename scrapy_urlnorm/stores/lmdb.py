"""The store on disk: an LMDB file that needs at most some 50 MB of memory, whatever its size."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from hashlib import blake2b
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

import lmdb

from scrapy_urlnorm.exceptions import StoreError, StoreMismatchError
from scrapy_urlnorm.stores.lock import lock
from scrapy_urlnorm.stores.seen import SALTED, Identity, Seen, key_bytes

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from filelock import BaseFileLock

BATCH_KEYS = 50_000  #: the most keys that a killed crawl can lose
BATCH_SECONDS = 1.0  #: and all of them were added within so many seconds of each other

_ENTRY_SIZE = 9
_TRANSACTION_KEYS = 8_000  # each may change a page of 4 KB, and LMDB keeps these in memory
_FIRST_MAP_SIZE = 64 << 20
_IDENTITY = b"identity"


class LmdbSeen(Seen):
    """Keeps 72 bits of a key: 9 bytes of its BLAKE2b digest, made with the salt of the file.

    A new key is wrongly taken as seen when all 72 bits equal those of another. The chance that
    this happens even once while 100 million keys are added is 1 in a million (the birthday
    bound, n * n / 2 / 2**72).

    The first byte is the key in LMDB and the other eight are one of its sorted values of fixed
    size (``MDB_DUPFIXED``): a page of the file holds nothing but values, 500 of them.

    New keys wait in memory and are written together, in order: at most `BATCH_KEYS`, added
    within `BATCH_SECONDS`. A killed crawl loses these and no others, and their pages are crawled
    again. A batch is on the disk before it counts as written, so the file stays whole even when
    the machine stops. The store holds a batch and the pages that a part of it changes in memory,
    at most some 50 MB. Pages that were only read belong to the operating system, which frees
    them when it needs the memory.

    The file is locked while it is open: a second crawl on it gets a `StoreError`.
    """

    def __init__(self, path: str | os.PathLike[str], identity: Identity) -> None:
        self.path = Path(path)
        self.name = f"the LMDB store {str(self.path)!r}"
        self._identity = identity._replace(format=SALTED)
        self._salt: bytes | None = None  # of the file; known once it was open
        self._env: lmdb.Environment | None = None
        self._lock: BaseFileLock | None = None
        self._pending: set[bytes] = set()
        self._due = 0.0  # when the pending keys are to be written
        self._is_written: Callable[[bytes, bytes], bool] = self._not_open

    def open(self) -> None:
        if self._lock is not None:
            return
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._lock = lock(self.path, self.name)
            self._open_environment()
        except (OSError, ValueError, lmdb.Error) as error:
            self._let_go()
            raise self._failure("open", error) from error
        except BaseException:
            self._let_go()
            raise

    def _open_environment(self) -> None:
        size = self.path.stat().st_size if self.path.exists() else 0
        try:
            self._env = lmdb.open(
                str(self.path),
                subdir=False,
                lock=False,  # no other process opens the file: see `lock`
                metasync=False,  # a power cut may undo the last batch, but not damage it
                readahead=False,
                max_dbs=1,
                map_size=max(_FIRST_MAP_SIZE, 2 * size),
            )
        except (lmdb.InvalidError, lmdb.VersionMismatchError) as error:
            raise StoreMismatchError(
                f"{self.name} is not a store of this package ({error}): name another place, or "
                "move it away to start anew there"
            ) from error
        try:
            self._require_whole(self._env)
            with self._env.begin(write=True) as transaction:
                found = self._identify(transaction)
            if self._salt not in (None, found.salt):
                raise StoreError(
                    f"{self.name} was replaced while it was open: stop what did that, and resume"
                )
            self._salt = found.salt
            self._keys = self._env.open_db(b"keys", dupsort=True, dupfixed=True)
            self._read()
        except BaseException:
            self._close_environment()
            raise

    def _require_whole(self, env: lmdb.Environment) -> None:
        """Raise `StoreError` when the file ends before its last page.

        To read a page that is not there would end the process with SIGBUS. The number of the last
        page is in the newer of the two meta pages, which LMDB has read and checked by now.
        """
        needed = (env.info()["last_pgno"] + 1) * env.stat()["psize"]
        size = self.path.stat().st_size
        if size < needed:
            raise StoreError(
                f"{self.name} is damaged: it has {size:,} bytes of {needed:,} (was it copied only "
                f"in part?). Put the whole file there, or start anew (delete {str(self.path)!r})"
            )

    def _identify(self, transaction: lmdb.Transaction) -> Identity:
        """Return the identity of the store; write one into a new store."""
        line = transaction.get(_IDENTITY)
        if line is None:
            if transaction.stat()["entries"]:
                line = b"?"  # another program made this file
            else:
                line = self._identity.salted().to_bytes()
                transaction.put(_IDENTITY, line)
        found = Identity.from_bytes(bytes(line), self.name)
        self._identity.require(found, self.name, f"delete {str(self.path)!r}")
        return found

    def _read(self) -> None:
        """Begin to read the file as it is now."""
        assert self._env is not None
        self._reader = self._env.begin(self._keys)
        self._is_written = self._reader.cursor().set_key_dup

    def add(self, key: bytes) -> bool:
        entry = self._entry(key)
        pending = self._pending
        if entry in pending or self._has(entry):
            return False
        now = monotonic()
        if not pending:
            self._due = now + BATCH_SECONDS
        elif now >= self._due or len(pending) >= BATCH_KEYS:
            self._write()
            self._due = now + BATCH_SECONDS
        pending.add(entry)
        return True

    def _entry(self, key: bytes) -> bytes:
        data = key if key else key_bytes(key)
        return blake2b(data, digest_size=_ENTRY_SIZE, key=self._salt or b"").digest()

    def _has(self, entry: bytes) -> bool:
        try:
            return self._is_written(entry[:1], entry[1:])
        except lmdb.Error as error:
            raise self._failure("read", error) from error

    def _not_open(self, first: bytes, rest: bytes) -> bool:
        """Open the file again after a failure, then do what `_is_written` does.

        It stands in for `_is_written` before `open`, when it raises `StoreError`.
        """
        if self._lock is None:
            raise StoreError(f"{self.name} is not open")
        try:
            self._open_environment()
        except (OSError, ValueError, lmdb.Error) as error:
            raise self._failure("open", error) from error
        return self._is_written(first, rest)

    def __contains__(self, key: object) -> bool:
        entry = self._entry(key_bytes(key))
        return entry in self._pending or self._has(entry)

    def forget(self, key: bytes) -> bool:
        entry = self._entry(key)
        if entry in self._pending:
            self._pending.remove(entry)
            return True
        if not self._has(entry):
            return False
        self._transact(lambda cursor: cursor.set_key_dup(entry[:1], entry[1:]) and cursor.delete())
        return True

    def __len__(self) -> int:
        self._has(b"\0" * _ENTRY_SIZE)  # open again after a failure
        try:
            entries: int = self._reader.stat(self._keys)["entries"]
        except lmdb.Error as error:
            raise self._failure("read", error) from error
        return entries + len(self._pending)

    def flush(self) -> None:
        if self._pending:
            self._has(b"\0" * _ENTRY_SIZE)  # open again after a failure
            self._write()

    def close(self) -> None:
        if self._lock is None:
            return
        try:
            self.flush()
            if self._env is not None:
                self._drop_reader()
                self._env.sync(True)
        except lmdb.Error as error:
            raise self._failure("write", error) from error
        finally:
            self._let_go()

    def _write(self) -> None:
        """Write the pending keys; after an error, keys that were not written are still pending."""
        entries = sorted(self._pending)
        for start in range(0, len(entries), _TRANSACTION_KEYS):
            some = entries[start : start + _TRANSACTION_KEYS]
            self._transact(partial(_put, some))
            self._pending.difference_update(some)

    def _transact(self, work: Callable[[lmdb.Cursor], object]) -> None:
        """Do *work* in a transaction; when the map is full, make it twice as large and try again."""
        env = self._env
        assert env is not None
        self._drop_reader()  # without locks no reader may stand beside a writer
        try:
            while True:
                try:
                    with env.begin(self._keys, write=True) as transaction:
                        work(transaction.cursor())
                    break
                except lmdb.MapFullError:
                    env.set_mapsize(2 * env.info()["map_size"])
            self._read()
        except lmdb.Error as error:
            # After an error LMDB has to be opened anew; the next call does that.
            self._close_environment()
            raise self._failure("write", error) from error

    def _drop_reader(self) -> None:
        self._is_written = self._not_open
        self._reader.abort()

    def _let_go(self) -> None:
        self._is_written = self._not_open
        self._pending.clear()
        self._close_environment()
        self._salt = None
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def _close_environment(self) -> None:
        if self._env is not None:
            with suppress(lmdb.Error):
                self._env.close()
            self._env = None

    def _failure(self, doing: str, error: Exception) -> StoreError:
        reason = getattr(error, "strerror", None) or str(error)
        if reason.endswith("Input/output error"):  # so LMDB reports a short write
            reason += " (the disk may be full)"
        return StoreError(
            f"cannot {doing} {self.name}: {reason}. What was written before is safe: set that "
            "right and resume, or name another place for the store"
        )


def _put(entries: list[bytes], cursor: lmdb.Cursor) -> None:
    cursor.putmulti([(entry[:1], entry[1:]) for entry in entries], dupdata=False)
