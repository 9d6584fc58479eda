"""A store that stands in while another one does not answer."""

from __future__ import annotations

import logging
from collections import deque
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING

from scrapy_urlnorm.exceptions import StoreError, StoreMismatchError, StoreUnavailableError
from scrapy_urlnorm.stores.seen import Seen
from scrapy_urlnorm.stores.witnesses import SharedWitnesses

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from contextlib import AbstractContextManager

logger = logging.getLogger(__name__)

RETRY_SECONDS = 5.0  #: after a failure the main store is left alone so long


class SeenWithFallback(Seen):
    """Asks the *main* store, and a *local* one while the main store fails.

    The local store gets every key that this crawler adds or finds, so the crawler fetches none of
    its own pages twice. It does not know the keys of other crawlers, whose pages may be fetched
    twice. When the main store is back, it gets the keys that were added and forgotten meanwhile.

    A `StoreMismatchError` of the main store is raised all the same: a person has to decide.
    """

    def __init__(self, main: Seen, local: Seen) -> None:
        self.name = f"{main.name}, with {local.name} to fall back on"
        self.is_shared = main.is_shared
        self._main = main
        self._local = local
        self._is_away = False
        self._retry_at = 0.0
        #: Operations that the main store has missed, each with its key.
        self._missed: deque[tuple[Callable[[bytes], bool], bytes]] = deque()

    def open(self) -> None:
        self._local.open()
        try:
            self._main.open()
        except StoreMismatchError:
            self._local.close()
            raise
        except StoreError as error:
            self._leave(error)

    def add(self, key: bytes) -> bool:
        return self._do(self._main.add, self._local.add, key)

    def forget(self, key: bytes) -> bool:
        return self._do(self._main.forget, self._local.forget, key)

    def _do(
        self, main: Callable[[bytes], bool], local: Callable[[bytes], bool], key: bytes
    ) -> bool:
        if not self._is_away or self._returns():
            try:
                result = main(key)
            except StoreMismatchError:
                raise
            except StoreError as error:
                self._leave(error)
            else:
                local(key)
                return result
        changed = local(key)
        if changed:
            self._missed.append((main, key))
        return changed

    def __contains__(self, key: object) -> bool:
        if not self._is_away or self._returns():
            try:
                return key in self._main
            except StoreMismatchError:
                raise
            except StoreError as error:
                self._leave(error)
        return key in self._local

    def __len__(self) -> int:
        return len(self._local if self._is_away else self._main)

    def leave_notes(self, notes: Mapping[str, str]) -> None:
        self._require_main()
        self._main.leave_notes(notes)

    def notes(self) -> dict[str, str]:
        self._require_main()
        return self._main.notes()

    def witness_table(self) -> SharedWitnesses:
        return _MainWitnesses(self._main.witness_table(), self._of_main)

    @contextmanager
    def _of_main(self) -> Iterator[None]:
        """Let the caller ask the main store only: the local one has no witnesses."""
        self._require_main()
        try:
            yield
        except StoreError as error:
            self._leave(error)
            raise

    def _require_main(self) -> None:
        """Raise `StoreUnavailableError` at once while the main store is away.

        Notes and witnesses can wait: questions about keys find out when the store is back.
        """
        if self._is_away:
            raise StoreUnavailableError(f"{self._main.name} is away")

    def _leave(self, error: StoreError) -> None:
        self._retry_at = monotonic() + RETRY_SECONDS
        if not self._is_away:
            self._is_away = True
            logger.error(
                "%(local)s stands in for now; it does not know what other crawlers have seen: "
                "%(error)s",
                {"local": self._local.name, "error": error},
            )

    def _returns(self, *, at_once: bool = False) -> bool:
        """Tell whether the main store is back; if so, give it the keys that it missed."""
        if not at_once and monotonic() < self._retry_at:
            return False
        missed = len(self._missed)
        try:
            self._main.open()
            while self._missed:
                do, key = self._missed[0]
                do(key)
                self._missed.popleft()
        except StoreMismatchError:
            raise
        except StoreError as error:
            self._leave(error)
            return False
        self._is_away = False
        logger.info(
            "%(main)s is back and was told the %(missed)d keys that it missed",
            {"main": self._main.name, "missed": missed},
        )
        return True

    def close(self) -> None:
        try:
            if self._is_away and self._missed and not self._returns(at_once=True):
                logger.error(
                    "%(main)s is still away and was not told of %(missed)d keys: their pages may "
                    "be fetched again",
                    {"main": self._main.name, "missed": len(self._missed)},
                )
        finally:
            self._main.close()
            self._local.close()


class _MainWitnesses(SharedWitnesses):
    """The witnesses of the main store; while it is away, every call raises `StoreError`."""

    def __init__(
        self, witnesses: SharedWitnesses, asking: Callable[[], AbstractContextManager[None]]
    ) -> None:
        self._witnesses = witnesses
        self._asking = asking

    def put(self, key: bytes, value: bytes) -> None:
        with self._asking():
            self._witnesses.put(key, value)

    def get(self, key: bytes) -> bytes | None:
        with self._asking():
            return self._witnesses.get(key)

    def drop(self, keys: Iterable[bytes]) -> None:
        with self._asking():
            self._witnesses.drop(keys)
