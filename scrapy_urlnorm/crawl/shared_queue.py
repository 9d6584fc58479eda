"""SharedQueue: the queue of many crawlers in Redis, which survives crawlers and Redis servers."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import uuid4

from scrapy_urlnorm.exceptions import StoreError
from scrapy_urlnorm.stores.redis_connection import RedisConnection, Script

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy_urlnorm.stores.redis_connection import Place

JOURNAL = 32_000_000  #: bytes of the steps that a crawler can repeat when Redis has lost them
_CHANGES = 1_000  # that are said at once, without waiting for a question
_A_STEP = 500  # bytes, about, without its requests

_STEP = Script.load(__package__, "shared_queue.lua", answers=(list,))


class Change(NamedTuple):
    """One thing that happened to a request: see the operations in ``shared_queue.lua``."""

    operation: str
    token: str
    entry: bytes = b""


class Taken(NamedTuple):
    """A request that was taken from the queue. The token stands for it from then on."""

    token: str
    data: bytes


class SharedQueue:
    """What one crawler says to a queue in Redis and asks of it.

    A request is in Redis until it is done: it waits, is held by a crawler, or is withheld by one.
    If a crawler gives no sign of life for *dead_seconds*, all that it held waits again.

    A promoted replica, or a Redis restarted from its file, may not know the last things it was
    told. So the steps of a crawler are numbered, Redis keeps the number of the last one, and the
    crawler keeps its last steps, `JOURNAL` bytes of them. If Redis names an older one, the crawler
    repeats what came after it. Every change says what is to be, so it may be made twice.

    The keys begin with *prefix* and lie in one slot of a cluster. Every failure is a `StoreError`.
    After it nobody knows what Redis was told last, and the queue refuses to go on.
    """

    def __init__(
        self,
        place: Place,
        *,
        prefix: str,
        wait: float,
        dead_seconds: float,
        on_repeated: Callable[[int], None] = lambda steps: None,
        on_taken_back: Callable[[int], None] = lambda requests: None,
    ) -> None:
        self.name = f"the queue at {place.name} (prefix {prefix!r})"
        #: Requests that wait, or are held by any crawler; counted by the last step.
        self.waiting = self.held = 0
        self._connection = RedisConnection(place, self.name, wait)
        parts = ("waiting", "held", "withheld", "crawlers", "steps")
        self._keys = [f"{prefix}:{{{prefix}:queue}}:{part}" for part in parts]
        self._crawler = uuid4().hex
        self._patience = int(dead_seconds * 1000)
        self._on_repeated = on_repeated
        self._on_taken_back = on_taken_back
        self._number = 0  # of the last step that changed something
        self._tokens = 0
        self._changes: list[Change] = []  # that Redis was not told of yet
        self._journal: deque[tuple[int, list[Change]]] = deque()
        self._journal_bytes = 0

    def open(self) -> None:
        """Connect. Raises `StoreError` for a Redis that would throw waiting requests away."""
        self._connection.open()
        try:
            policy = self._connection.eviction()
            if policy.startswith("allkeys"):
                raise StoreError(
                    f"{self.name}: Redis is set to throw away keys when memory is short "
                    f"(maxmemory-policy {policy}), and waiting requests with them: set noeviction"
                )
            self.tell()
        except BaseException:
            self._connection.close()
            raise

    def push(self, entry: bytes) -> None:
        """Let a request wait. Redis is told with the next step; before that it may be lost."""
        self._change(Change("wait", "", entry))

    def announce(self, entry: bytes) -> str:
        """Hold a request, of which it is not decided yet whether it is to wait; return its token.

        Redis knows it when this returns: if this crawler dies undecided, the request waits.
        """
        token = self._new_token()
        self._changes.append(Change("hold", token, entry))
        self.tell()
        return token

    def free(self, token: str) -> None:
        """Let a request wait that this crawler held."""
        self._change(Change("free", token))

    def keep(self, token: str) -> None:
        """Withhold a request that this crawler held."""
        self._change(Change("keep", token))

    def done(self, token: str) -> None:
        """Forget a request that this crawler held or withheld."""
        self._change(Change("done", token))

    def take(self) -> Taken | None:
        """Take the next request that waits; ``None`` when none does."""
        token = self._new_token()
        entry = self._step(token)
        return None if entry is None else Taken(token, entry.partition(b"\n")[2])

    def tell(self) -> None:
        """Give a sign of life, and tell Redis of all changes."""
        self._step("")

    def close(self, *, holds_nothing: bool) -> None:
        """End the conversation; what this crawler still holds waits again when it counts as dead."""
        if not self._connection.is_open:
            return
        *_, crawlers, steps = self._keys
        try:
            self.tell()
            if holds_nothing:
                self._connection.do(lambda client: client.zrem(crawlers, self._crawler))
                self._connection.do(lambda client: client.hdel(steps, self._crawler))
        finally:
            self._connection.close()

    def _new_token(self) -> str:
        self._tokens += 1
        return f"{self._crawler}:{self._tokens}"

    def _change(self, change: Change) -> None:
        self._changes.append(change)
        if len(self._changes) >= _CHANGES:
            self.tell()

    def _step(self, token: str) -> bytes | None:
        """Tell Redis of all changes, and take a request if there is a *token* for it."""
        number = self._number + 1
        answer = self._say(number, token, self._changes)
        while answer[0] not in (number - 1, number):
            self._repeat(answer[0])
            answer = self._say(number, token, self._changes)
        _, taken_back, self.waiting, self.held, entry = answer
        changes = self._changes if entry is None else [*self._changes, Change("take", token, entry)]
        if changes:
            self._number = number
            self._changes = []
            self._journal.append((number, changes))
            self._journal_bytes += _size(changes)
            while self._journal_bytes > JOURNAL:
                self._journal_bytes -= _size(self._journal.popleft()[1])
        if taken_back:
            self._on_taken_back(taken_back)
        taken: bytes | None = entry
        return taken

    def _repeat(self, last: int) -> None:
        """Say all steps again that came after the step *last*, which Redis knows."""
        lost = [step for step in self._journal if step[0] > last]
        if not lost or lost[0][0] != last + 1:
            raise StoreError(
                f"{self.name} has lost requests (was Redis restarted without persistence, its "
                "database flushed, or a replica promoted that was far behind?): restore it from a "
                "backup, or delete what is left and start the crawl anew"
            )
        for number, changes in lost:
            known, *_ = self._say(number, "", changes)
            if known not in (number - 1, number):
                return  # another server answers now: the caller finds out what that one knows
        self._on_repeated(len(lost))

    def _say(self, number: int, token: str, changes: list[Change]) -> list[Any]:
        flat = [part for change in changes for part in change]
        arguments = (len(self._keys), *self._keys, self._crawler, number, self._patience, token)
        try:
            answer, _ = self._connection.do(lambda client: _STEP.run(client, *arguments, *flat))
        except StoreError:
            # Perhaps Redis did this step. Another one with its number would not be done.
            self._connection.close()
            raise
        if not isinstance(answer, list) or len(answer) != 5:
            raise StoreError(f"{self.name} answers {answer!r}, as no Redis does: is it one?")
        return answer


def _size(changes: list[Change]) -> int:
    return _A_STEP + sum(len(change.entry) for change in changes)
