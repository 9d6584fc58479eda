"""Verbs that work in several processes: the same lines, whatever the number of processes."""

from __future__ import annotations

import gc
import os
import signal
import struct
import subprocess
import sys
import threading
from concurrent.futures import BrokenExecutor
from contextlib import contextmanager
from itertools import islice
from multiprocessing.connection import Connection
from pathlib import Path

import pytest
from cli_runner import Runner
from hypothesis import given, settings
from hypothesis import strategies as st
from test_fast_key import SITE_RULES

from scrapy_urlnorm import Normalizer
from scrapy_urlnorm.cli import dedupe
from scrapy_urlnorm.cli.in_processes import PARCEL, in_parcels, mapped
from scrapy_urlnorm.cli.urls import _normal_forms
from scrapy_urlnorm.cli.verb import bytes_of
from scrapy_urlnorm.logs.source import lines_in, text_of, url_of
from scrapy_urlnorm.rules import PROFILES
from scrapy_urlnorm.testing.strategies import anything

LINES = [
    f"http://h{n // 2 % 700}.example/p/{n // 2}?b=2&a=1{'#top' * (n % 2)}" for n in range(16_017)
]


@pytest.fixture
def run(capfdbinary, monkeypatch):
    return Runner(capfdbinary, monkeypatch)


@pytest.fixture
def urls(tmp_path):
    path = tmp_path / "urls.txt"
    path.write_text("\n".join([*LINES, "http://é.example/ü"]))
    assert path.stat().st_size > 2 * PARCEL
    return path


@pytest.mark.parametrize("processes", [1, 2, 3])
@pytest.mark.parametrize("count", [0, 1, 2, 20])
def test_answers_come_in_order(processes, count):
    """Each parcel with its own answer."""
    assert list(mapped(abs, range(-count, 0), processes)) == [
        (parcel, -parcel) for parcel in range(-count, 0)
    ]


def test_parcels_are_not_read_far_ahead():
    """Memory does not grow with their number: a million never are in it at once."""
    read = 0

    def parcels():
        nonlocal read
        for read in range(1_000_000):  # noqa: UP028 - it is looked at meanwhile
            yield read

    for number, _ in islice(mapped(abs, parcels(), 2), 50):
        assert read - number <= 6


def test_an_error_in_a_process_is_raised():
    """And nothing hangs."""
    with pytest.raises(TypeError):
        list(mapped(abs, ["x"] * 3, 2))


@pytest.mark.parametrize("processes", [1, 2])
def test_what_came_before_an_error_is_answered(processes):
    """A list with a bad line at its end is a list all the same."""

    def items():
        yield from ("a", "bb", "cc", "d")
        raise ValueError("a bad line")

    parcels = mapped(len, in_parcels(items(), 3), processes)
    assert list(islice(parcels, 2)) == [(["a", "bb"], 2), (["cc", "d"], 2)]
    with pytest.raises(ValueError, match="bad line"):
        next(parcels)
    short = in_parcels(items(), 4)
    assert list(islice(short, 2)) == [["a", "bb", "cc"], ["d"]]
    with pytest.raises(ValueError, match="bad line"):
        next(short)


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
    """Byte for byte."""
    one = run(*verb, urls, "--processes", 1)
    assert run(*verb, urls, "--processes", 2) == one
    assert len(one.out.splitlines()) >= 5_000


def test_two_processes_make_the_keys_that_one_makes(run, urls, tmp_path):
    """`rekey` fills a store with them."""
    for number in (1, 2):
        store = f"sqlite:{tmp_path / str(number)}"
        done = run("rekey", urls, "--store", store, "--processes", number)
        assert done.code == 0
        assert "new keys" in done.err
    sizes = {os.path.getsize(tmp_path / name) for name in "12"}  # noqa: PTH202
    assert len(sizes) == 1


@pytest.mark.skipif(
    not hasattr(os, "fork"), reason="the worker is a fork, so that it is known here"
)
def test_half_a_message_is_an_end_too():
    """An answer may be larger than a pipe holds, and its writer may be killed meanwhile."""
    with pytest.raises(BrokenExecutor):
        list(mapped(write_half_a_message, [1, 2], 2))


def write_half_a_message(_):
    """Write the length of an answer and a part of it, and end."""
    for pipe in [each for each in gc.get_objects() if isinstance(each, Connection)]:
        if not pipe.closed:
            os.write(pipe.fileno(), struct.pack("!i", 100) + b"half")
    os._exit(0)


def dedupes(path, **environment):
    """A process that removes duplicates from a file in two processes of its own."""
    return started("dedupe", "-q", str(path), "--processes", "2", **environment)


def started(*argv, stdin=None, **environment):
    """A process of the command line."""
    return subprocess.Popen(
        [sys.executable, "-m", "scrapy_urlnorm", *argv],
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={
            **os.environ,
            "PYTHONUNBUFFERED": "",
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
            **environment,
        },
        start_new_session=True,
    )


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


def test_one_process_answers_each_parcel_before_it_reads_the_next():
    """What comes out of a pipe may be slow, and its reader waits for each line."""
    asked = []

    def parcels():
        for parcel in (-1, -2):
            asked.append(parcel)
            yield parcel

    pairs = mapped(abs, parcels(), 1)
    assert next(pairs) == (-1, 1)
    assert asked == [-1]


@pytest.mark.parametrize("verb", ["dedupe", "normalize"])
def test_a_line_out_of_a_pipe_is_answered_before_the_next_one_is_there(verb):
    """Even half of the next one may be there: a crawler writes as much as its buffer holds."""
    with started(verb, "-", stdin=subprocess.PIPE) as process, not_longer_than(60, process):
        for number in range(3):
            line = b"http://a.example/%d\n" % number
            process.stdin.write(line[9:] if number else line)
            process.stdin.write(b"http://a.")
            process.stdin.flush()
            assert process.stdout.readline() == line
        out, _ = process.communicate(timeout=60)
        assert out.startswith(b"http://a.")


@settings(max_examples=100, deadline=None)
@given(
    profile=st.sampled_from(PROFILES), of_sites=st.booleans(), lists=st.lists(st.lists(anything))
)
def test_keys_of_many_are_the_keys_of_each(profile, of_sites, lists):
    """Whatever the lines hold, and wherever they are cut into blocks."""
    normalizer = Normalizer(profile, site_rules=SITE_RULES if of_sites else ())
    blocks = ["\n".join(urls).encode("utf-8", "surrogatepass") for urls in lists]
    urls = [url_of(text_of(line)) for block in blocks for line in lines_in(block)]
    keys = [normalizer.normalize(url) for url in urls]
    assert dedupe._keys(normalizer, blocks) == keys
    assert dedupe._digests(normalizer, blocks) == [dedupe._digest(key) for key in keys]
    forms = [bytes_of(key) for key in keys]
    assert _normal_forms(normalizer, False, blocks) == forms
