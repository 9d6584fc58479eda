"""Verbs that work in several processes: the same lines, whatever the number of processes."""

from __future__ import annotations

import gc
import os
import signal
import struct
import threading
from concurrent.futures import BrokenExecutor
from contextlib import contextmanager
from itertools import islice
from multiprocessing.connection import Connection
from pathlib import Path
from subprocess import PIPE

import pytest
from cli_runner import start
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import anything
from test_fast_key import SITE_RULES

from scrapy_urlnorm import Normalizer
from scrapy_urlnorm.cli.processes import PARCEL, mapped
from scrapy_urlnorm.rules import PROFILES

LINES = [
    f"http://h{n // 2 % 700}.example/p/{n // 2}?b=2&a=1{'#top' * (n % 2)}" for n in range(16_017)
]


@pytest.fixture
def urls(tmp_path):
    path = tmp_path / "urls.txt"
    path.write_text("\n".join([*LINES, "http://é.example/ü"]))
    assert path.stat().st_size > 2 * PARCEL
    return path


@pytest.mark.parametrize("processes", [1, 2, 3])
@pytest.mark.parametrize("count", [0, 1, 2, 20])
def test_answers_come_in_order(processes, count):
    items = [str(number) for number in range(10, 10 + count)]
    parcels = [([item], item) for item in items]
    assert list(mapped("".join, items, processes, least=1)) == parcels


def test_parcels_are_not_read_far_ahead():
    """Memory does not grow with their number: a million never are in it at once."""
    read = 0

    def items():
        nonlocal read
        for read in range(1_000_000):  # noqa: B007 - it is looked at meanwhile
            yield "a"

    for number, _ in enumerate(islice(mapped(len, items(), 2, least=1), 50)):
        assert read - number <= 6


def test_an_error_in_a_process_is_raised():
    with pytest.raises(TypeError):
        list(mapped(abs, "xyz", 2, least=1))


@pytest.mark.parametrize("processes", [1, 2])
def test_what_came_before_an_error_is_answered(processes):
    """A list with a bad line at its end is a list all the same."""

    def items():
        yield from ("a", "bb", "cc", "d", "e")
        raise ValueError("a bad line")

    parcels = mapped(len, items(), processes, least=3)
    assert list(islice(parcels, 3)) == [(["a", "bb"], 2), (["cc", "d"], 2), (["e"], 1)]
    with pytest.raises(ValueError, match="bad line"):
        next(parcels)


@pytest.mark.parametrize(
    "verb",
    [
        ("dedupe", "-q"),
        ("dedupe", "-q", "--json"),
        ("dedupe", "-q", "--counts"),
        ("dedupe", "-q", "--groups"),
        ("normalize", "-f"),
        ("normalize", "--json", "-f"),
    ],
)
def test_two_processes_print_what_one_prints(run, urls, verb):
    one = run(*verb, urls, "--processes", 1)
    assert run(*verb, urls, "--processes", 2) == one
    assert len(one.out.splitlines()) >= 5_000


@pytest.mark.skipif(
    not hasattr(os, "fork"), reason="the worker is a fork, so that it is known here"
)
def test_half_a_message_is_an_end_too():
    """An answer may be larger than a pipe holds, and its writer may be killed meanwhile."""
    with pytest.raises(BrokenExecutor):
        list(mapped(write_half_a_message, "ab", 2, least=1))


def write_half_a_message(_):
    """Write the length of an answer and a part of it, and end."""
    for pipe in [each for each in gc.get_objects() if isinstance(each, Connection)]:
        if not pipe.closed:
            os.write(pipe.fileno(), struct.pack("!i", 100) + b"half")
    os._exit(0)


def dedupes(path, **environment):
    argv = ("dedupe", "-q", path, "--processes", 2)
    return start(*argv, env=environment, start_new_session=True)


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="asks Linux for child processes")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_process_that_is_killed_is_one_line(tmp_path, number):
    """As a machine that is short of memory does."""
    path = tmp_path / "many.txt"
    path.write_text("\n".join(LINES) * 60)
    with dedupes(path) as process:
        process.stdout.readline()  # it is under way
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        os.kill(int(children[-1]), number)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 2
    (line,) = err.decode().splitlines()
    assert line.endswith(
        "dedupe: a process that did part of the work was ended from outside; was it memory?"
    )


@contextmanager
def not_longer_than(seconds, process):
    """A test of processes that do not answer fails, and does not wait forever."""
    timer = threading.Timer(seconds, os.killpg, (process.pid, signal.SIGKILL))
    timer.start()
    yield
    assert timer.is_alive(), "no answer"
    timer.cancel()


def ended(process):
    """Wait until each process has ended that could write; return the messages."""
    with not_longer_than(60, process):
        process.stdout.read()
        return process.stderr.read().decode()


@pytest.mark.parametrize("to_all", [True, False], ids=["group", "process"])
@pytest.mark.parametrize(
    ("number", "code", "word"),
    [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated")],
    ids=["Ctrl-C", "SIGTERM"],
)
def test_a_signal_ends_all_processes(tmp_path, number, code, word, to_all):
    """One line says so, and no process and no file is left."""
    path = tmp_path / "many.txt"
    path.write_text("\n".join(LINES) * 60)
    with dedupes(path, TMPDIR=str(tmp_path)) as process:
        process.stdout.read(100_000)  # all processes are under way
        (os.killpg if to_all else os.kill)(process.pid, number)
        err = ended(process)
    assert process.returncode == code
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)
    assert err.splitlines() == [f"python -m scrapy_urlnorm dedupe: {word}"]
    assert [left.name for left in tmp_path.iterdir()] == ["many.txt"]


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="there is no such signal")
def test_no_process_is_left_when_the_first_one_is_killed(tmp_path):
    """Nobody tells the others to end: they see it."""
    path = tmp_path / "many.txt"
    path.write_text("\n".join(LINES) * 60)
    with dedupes(path) as process:
        process.stdout.readline()  # it is under way
        process.kill()
        assert ended(process) == ""


@pytest.mark.parametrize("verb", ["dedupe", "normalize"])
def test_a_line_out_of_a_pipe_is_answered_before_the_next_one_is_there(verb):
    """Even half of the next one may be there: a crawler writes as much as its buffer holds."""
    with (
        start(verb, "-", stdin=PIPE, start_new_session=True) as process,
        not_longer_than(60, process),
    ):
        for number in range(3):
            line = b"http://a.example/%d\n" % number
            process.stdin.write(line[9:] if number else line)
            process.stdin.write(b"http://a.")
            process.stdin.flush()
            assert process.stdout.readline() == line
        out, _ = process.communicate(timeout=60)
        assert out.startswith(b"http://a.")


@settings(max_examples=100)
@given(profile=st.sampled_from(PROFILES), of_sites=st.booleans(), urls=st.lists(anything))
def test_keys_of_many_are_the_keys_of_each(profile, of_sites, urls):
    normalizer = Normalizer(profile, site_rules=SITE_RULES if of_sites else ())
    assert list(normalizer.normalize_many(urls)) == list(map(normalizer.normalize, urls))
