"""What a long verb says of itself while it is busy, if somebody is looking."""

from __future__ import annotations

import io
import os
import pty
import signal
import sys
from pathlib import Path

import pytest

from scrapy_urlnorm.cli import learn, main, verb
from scrapy_urlnorm.learning import survey
from scrapy_urlnorm.logs.source import MAX_LINE

RULES = '[[rule]]\nsite = "a.example"\nkind = "drop-param"\nparam = "x"\n'


@pytest.fixture
def terminal(monkeypatch):
    """Return what makes standard error a terminal, and then waits for a text to appear there.

    To be called in the test itself: before and after it, standard error is pytest's own.
    """
    ours, theirs = pty.openpty()
    stream = os.fdopen(theirs, "w")
    seen = b""

    def wait_for(text):
        nonlocal seen
        while text.encode() not in seen:
            seen += os.read(ours, 4096)
        return seen.decode()

    def begin():
        monkeypatch.setattr(sys, "stderr", stream)
        monkeypatch.setattr(verb, "_EVERY", 0.01)
        return wait_for

    yield begin
    stream.close()
    os.close(ours)


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_text('{"url": "http://a.example/", "status": 200, "digest": "1"}\n')
    return path


def test_mine_says_what_it_does_throughout(terminal, log, tmp_path, monkeypatch):
    wait_for = terminal()

    def slowly(rows, **knobs):
        found = []
        for row in rows:
            wait_for("reading: 1 row")
            found.append(row)
        wait_for("mining: 0 sites done")
        yield from survey(found, **knobs)
        wait_for("mining: 1 site done")

    monkeypatch.setattr(learn, "survey", slowly)
    assert main(["mine", str(log), "-o", str(tmp_path / "rules.toml")]) == 0
    assert wait_for("1 row, 1 site").count("\r\x1b[K") > 3


def test_evaluate_says_what_it_does_throughout(terminal, log, tmp_path, monkeypatch):
    wait_for = terminal()
    path = tmp_path / "rules.toml"
    path.write_text(RULES)
    measured = learn.measured
    columns = iter(("measuring without the rules", "measuring with the rules"))

    def slowly(normalizer, pages, **options):
        wait_for(next(columns))
        return measured(normalizer, pages, **options)

    monkeypatch.setattr(learn, "measured", slowly)
    assert main(["evaluate", "--rules", str(path), str(log)]) == 0


@pytest.mark.parametrize(
    "argv",
    [("normalize", "-"), ("explain", "-"), ("dedupe", "-"), ("dedupe", "--counts", "-")],
    ids=" ".join,
)
def test_every_long_list_shows_progress(terminal, monkeypatch, argv):
    wait_for = terminal()
    pieces = iter([b"http://a.example/\n" * 2_000, b"b" * (MAX_LINE + 1)])

    class Slow(io.RawIOBase):
        rest = next(pieces)

        def readable(self):
            return True

        def readinto(self, buffer):
            if not self.rest:
                wait_for("2,000 URLs, 0 s")
                self.rest = next(pieces, b"")
            some, self.rest = self.rest[: len(buffer)], self.rest[len(buffer) :]
            buffer[: len(some)] = some
            return len(some)

    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(Slow())))
    assert main(list(argv)) == 2
    message = f"scrapy-urlnorm {argv[0]}: standard input, line 2001: longer than {MAX_LINE} bytes"
    assert f"\r\x1b[K{message}" in wait_for(message)


def test_nothing_is_left_behind(terminal):
    """The timer and its signal are as they were, after an error too, and the line is empty."""
    wait_for = terminal()
    before = signal.getsignal(signal.SIGALRM)

    def fail():
        with verb.Progress(lambda: "busy"):
            wait_for("busy, 0 s")
            raise OSError("broken")

    with pytest.raises(OSError, match="broken"):
        fail()
    assert signal.getsignal(signal.SIGALRM) == before
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    os.write(sys.stderr.fileno(), b"end")
    assert wait_for("end").endswith("\r\x1b[Kend")


def test_a_log_file_is_no_terminal(tmp_path, monkeypatch):
    """Where nobody is looking, no timer runs."""
    with Path(tmp_path / "err").open("w") as stream:
        monkeypatch.setattr(sys, "stderr", stream)
        with verb.Progress(lambda: "busy"):
            assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    assert (tmp_path / "err").read_text() == ""
