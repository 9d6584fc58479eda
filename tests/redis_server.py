"""A Redis of our own; a test is skipped when the machine has no redis-server.

The environment variable URLNORM_REDIS_SERVER names another program that does the same: Valkey's.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from secrets import randbelow

import pytest


class RedisServer:
    """A redis-server that keeps nothing, on a Unix socket and, with *port*, on 127.0.0.1."""

    def __init__(self, *options: str, port: int = 0, config: str | None = None) -> None:
        binary = shutil.which(os.environ.get("URLNORM_REDIS_SERVER", "redis-server"))
        if binary is None:
            pytest.skip("no redis-server on this machine")
        self.directory = Path(tempfile.mkdtemp(prefix="redis-"))
        self.socket = self.directory / "socket"
        self.port = port
        self.url = f"unix://{self.socket}"
        self._command = [binary]
        if config is not None:
            (self.directory / "conf").write_text(config)
            self._command.append(str(self.directory / "conf"))
        self._command += ["--port", str(port), "--bind", "127.0.0.1", "--save", ""]
        self._command += ["--unixsocket", str(self.socket), "--dir", str(self.directory), *options]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self._process = subprocess.Popen(self._command, stdout=subprocess.DEVNULL)
        deadline = time.monotonic() + 30
        while not self._answers():
            if time.monotonic() > deadline or self._process.poll() is not None:
                self.kill()
                raise RuntimeError(f"{' '.join(self._command)} does not answer")
            time.sleep(0.01)

    def _answers(self) -> bool:
        with socket.socket(socket.AF_UNIX) as client:
            try:
                client.connect(str(self.socket))
                client.sendall(b"PING\r\n")
                return client.recv(100).startswith((b"+PONG", b"-NOAUTH"))
            except OSError:
                return False

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def __enter__(self) -> RedisServer:  # noqa: PYI034 - typing.Self is Python 3.11
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.kill()
        shutil.rmtree(self.directory, ignore_errors=True)


def free_port() -> int:
    """Return a port that is free, and so is the one 10,000 above it, for the bus of a cluster.

    Both are below those that systems give to connections: else one may take it before a server does.
    """
    while True:
        port = 10_000 + randbelow(10_000)
        with suppress(OSError), socket.socket() as probe, socket.socket() as bus:
            probe.bind(("127.0.0.1", port))
            bus.bind(("127.0.0.1", port + 10_000))
            return port
