"""Runs the command line in this process, for the tests of its verbs."""

from __future__ import annotations

import io
import sys
from typing import TYPE_CHECKING, NamedTuple

from scrapy_urlnorm.cli import main

if TYPE_CHECKING:
    import pytest


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
