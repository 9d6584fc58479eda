"""Runs the command line in this process or in one of its own, for the tests of its verbs."""

from __future__ import annotations

import io
import os
import sys
from subprocess import PIPE, Popen
from typing import TYPE_CHECKING, Any, NamedTuple

from scrapy_urlnorm.cli import main

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pytest


def start(*argv: object, env: Mapping[str, str] | None = None, **options: Any) -> Popen[bytes]:
    """Start the command line in a process of its own; *options* are those of `Popen`."""
    path = os.pathsep.join(filter(None, sys.path))
    return Popen(
        [sys.executable, "-m", "scrapy_urlnorm", *map(str, argv)],
        env={**os.environ, "PYTHONUNBUFFERED": "", "PYTHONPATH": path, **(env or {})},
        **{"stdout": PIPE, "stderr": PIPE, **options},
    )


class Done(NamedTuple):
    """What a run left behind."""

    code: int
    out: str
    err: str


class Runner:
    """Callable with the arguments of a command line; ``stdin`` is what ``-`` reads."""

    def __init__(
        self, capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self._captured = capfdbinary
        self._monkeypatch = monkeypatch

    def __call__(self, *argv: object, stdin: bytes = b"") -> Done:
        buffer = io.BufferedReader(io.BytesIO(stdin))
        self._monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(buffer))
        try:
            code = main(list(map(str, argv)))
        except SystemExit as stop:
            code = int(stop.code or 0)
        sys.stdout.flush()
        out, err = self._captured.readouterr()
        return Done(code, out.decode("utf-8", "surrogateescape"), err.decode())
