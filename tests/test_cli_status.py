"""What a long verb says of itself while it is busy, if somebody is looking."""

from __future__ import annotations

import os
import pty
import signal
import sys
from pathlib import Path

import pytest

from scrapy_urlnorm.cli import learn, main, status
from scrapy_urlnorm.learning import survey

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
        monkeypatch.setattr(status, "_EVERY", 0.01)
        return wait_for

    yield begin
    stream.close()
    os.close(ours)


@pytest.fixture
def log(tmp_path):
    """Return a log of one page."""
    path = tmp_path / "log.jsonl"
    path.write_text('{"url": "http://a.example/", "status": 200, "digest": "1"}\n')
    return path


def test_mine_says_what_it_does_throughout(terminal, log, tmp_path, monkeypatch):
    """While rows are read, and while sites are mined, however long one of them takes."""

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
    """While rows are read, and while each of the two columns is measured."""
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


def test_nothing_is_left_behind(terminal):
    """The timer and its signal are as they were, after an error too, and the line is empty."""
    wait_for = terminal()
    before = signal.getsignal(signal.SIGALRM)

    def fail():
        with status.Status(lambda: "busy"):
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
        with status.Status(lambda: "busy"):
            assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    assert (tmp_path / "err").read_text() == ""
