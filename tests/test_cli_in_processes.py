"""Verbs that work in several processes: the same lines, whatever the number of processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from itertools import islice
from pathlib import Path

import pytest
from cli_runner import Runner

from scrapy_urlnorm.cli.in_processes import CHUNK, mapped

LINES = [
    f"http://h{n // 2 % 700}.example/p/{n // 2}?b=2&a=1{'#top' * (n % 2)}"
    for n in range(3 * CHUNK + 17)
]


@pytest.fixture
def run(capfdbinary, monkeypatch):
    return Runner(capfdbinary, monkeypatch)


@pytest.fixture
def urls(tmp_path):
    path = tmp_path / "urls.txt"
    path.write_text("\n".join([*LINES, "http://é.example/ü"]))
    return path


@pytest.mark.parametrize("processes", [1, 2, 3])
@pytest.mark.parametrize("count", [0, 1, CHUNK - 1, CHUNK, 3 * CHUNK + 1])
def test_answers_come_in_order(processes, count):
    """Each item with its own answer."""
    assert list(mapped(abs, range(-count, 0), processes)) == [
        (item, -item) for item in range(-count, 0)
    ]


def test_items_are_not_read_far_ahead():
    """Memory does not grow with their number: a million items never are in it at once."""
    read = 0

    def items():
        nonlocal read
        for read in range(1_000_000):  # noqa: UP028 - it is looked at meanwhile
            yield read

    for number, _ in islice(mapped(abs, items(), 2), 5 * CHUNK):
        assert read - number <= 6 * CHUNK


def test_an_error_in_a_process_is_raised():
    """And nothing hangs."""
    with pytest.raises(TypeError):
        list(mapped(abs, ["x"] * 3 * CHUNK, 2))


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
        store = f"file:{tmp_path / str(number)}"
        done = run("rekey", urls, "--store", store, "--processes", number)
        assert done.code == 0
        assert "new keys" in done.err
    sizes = {os.path.getsize(tmp_path / name) for name in "12"}  # noqa: PTH202
    assert len(sizes) == 1


def dedupes(path):
    """A process that removes duplicates from a file in two processes of its own."""
    verb = ("dedupe", "-q", str(path), "--processes", "2")
    return subprocess.Popen(
        [sys.executable, "-m", "scrapy_urlnorm", *verb],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        start_new_session=True,
    )


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="asks Linux for child processes")
def test_a_process_that_is_killed_is_one_line(tmp_path):
    """As a machine that is short of memory does."""
    path = tmp_path / "many.txt"
    path.write_text("\n".join(LINES) * 60)
    with dedupes(path) as process:
        process.stdout.readline()  # it is under way
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        os.kill(int(children[-1]), signal.SIGKILL)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 2
    (line,) = err.decode().splitlines()
    assert line.endswith(
        "dedupe: a process that did part of the work was ended from outside; was it memory?"
    )


def test_ctrl_c_ends_all_processes(tmp_path):
    """One line says so, and no process is left."""
    path = tmp_path / "many.txt"
    path.write_text("\n".join(LINES) * 60)
    with dedupes(path) as process:
        process.stdout.readline()  # it is under way
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        _, err = process.communicate(timeout=60)
        assert process.returncode in (130, -signal.SIGINT)
        assert err.count(b"Traceback") == 0
        with pytest.raises(ProcessLookupError):
            os.killpg(process.pid, 0)


def test_one_process_answers_each_item_before_it_reads_the_next():
    """What comes out of a pipe may be slow, and its reader waits for each line."""
    asked = []

    def items():
        for item in (-1, -2):
            asked.append(item)
            yield item

    pairs = mapped(abs, items(), 1)
    assert next(pairs) == (-1, 1)
    assert asked == [-1]
