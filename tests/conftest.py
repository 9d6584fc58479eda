"""Fixtures that all tests share."""

from __future__ import annotations

import gc
import signal
import sys
from secrets import token_hex
from typing import TYPE_CHECKING, Any

import pytest
from cli_runner import Runner
from hypothesis import settings
from loopback import stop_worker
from redis_server import RedisServer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

# A shell that starts the tests in the background has Ctrl-C ignored, in all that they start too.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# How long an example takes says what else the machine is doing.
settings.register_profile("any machine", deadline=None)
settings.load_profile("any machine")

# Thousands of tests stay where they are: to look for garbage among them takes a fifth of a crawl.
gc.set_threshold(50_000, 20, 20)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--long", action="store_true", help="run the long walks, kills and matrices as well"
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "long: takes long; runs with --long, as in .ci/run")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--long"):
        return
    kept = [item for item in items if item.get_closest_marker("long") is None]
    config.hook.pytest_deselected(items=[item for item in items if item not in set(kept)])
    items[:] = kept


@pytest.fixture(scope="session", autouse=True)
def _crawling_process() -> Iterator[None]:
    """What crawls have started ends with the session: the process of ``loopback.crawl``, a loop."""
    yield
    stop_worker()
    reactor = sys.modules.get("twisted.internet.reactor")
    loop = getattr(reactor, "_asyncioEventloop", None)
    if loop is not None:  # a test that needs a reactor installed one, and nothing closes its loop
        loop.close()


@pytest.fixture(scope="module")
def redis_server() -> Iterator[RedisServer]:
    """A Redis for the tests of one file; they are skipped where there is none."""
    pytest.importorskip("redis", reason="the extra 'redis' is not installed")
    with RedisServer() as server:
        yield server


@pytest.fixture(scope="module")
def redis_client(redis_server: RedisServer) -> Iterator[Any]:
    import redis

    with redis.Redis.from_url(redis_server.url) as client:
        yield client


@pytest.fixture
def prefix() -> str:
    """What the names of all keys of one test in Redis begin with, and of no other."""
    return token_hex(4)


@pytest.fixture
def own_redis() -> Iterator[RedisServer]:
    """A Redis for one test, which may do anything to it."""
    pytest.importorskip("redis")
    with RedisServer() as server:
        yield server


@pytest.fixture
def run(capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch) -> Runner:
    return Runner(capfdbinary, monkeypatch)


@pytest.fixture
def file(tmp_path: Path) -> Callable[..., Path]:
    """Returns a function that writes a file with some data, and returns its path."""

    def file(data: bytes | str, name: str = "file") -> Path:
        path = tmp_path / name
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
        return path

    return file
