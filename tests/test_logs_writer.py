"""LogWriter: rows outlive a killed writer, and a torn end is cut off."""

from __future__ import annotations

import gzip
import json
import signal
import subprocess
import sys

import pytest

from scrapy_urlnorm.exceptions import LogFormatError
from scrapy_urlnorm.logs import read_log
from scrapy_urlnorm.logs.writer import BATCH, LogWriter

KILLED = """
import sys
from scrapy_urlnorm.logs.writer import LogWriter
writer = LogWriter(sys.argv[1])
for n in range(100_000):
    writer.write({"url": f"http://a.test/{n}", "pad": "x" * 50})
    if n >= int(sys.argv[2]):
        print(n, flush=True)
"""


@pytest.mark.parametrize("name", ["log.jsonl", "log.jsonl.gz"])
def test_a_killed_crawl_loses_a_few_rows_at_most(tmp_path, name):
    """After kill -9 all but the last batch is there, and the next crawl goes on from it."""
    path = tmp_path / name
    written = 0
    for start in (10, 100, 333):
        process = subprocess.Popen(
            [sys.executable, "-c", KILLED, str(path), str(start)],
            stdout=subprocess.PIPE,
            env={"PYTHONPATH": ":".join(sys.path)},
        )
        assert process.stdout.readline()
        process.send_signal(signal.SIGKILL)
        process.communicate()
        writer = LogWriter(path)  # repairs
        writer.write({"url": "http://a.test/after"})
        writer.close()
        read = len(list(read_log(str(path))))
        assert read >= written + start + 1 - BATCH
        written = read


@pytest.mark.parametrize("name", ["log.jsonl", "log.jsonl.gz"])
def test_a_half_written_end_is_cut_off(tmp_path, name):
    """Cut at any byte, a log keeps its complete rows and takes new ones."""
    path = tmp_path / name
    writer = LogWriter(path)
    for n in range(2 * BATCH + 3):
        writer.write({"url": f"http://a.test/{n}"})
    writer.close()
    data = path.read_bytes()
    urls = [row.url for row in read_log(path)]
    for end in range(len(data) // 2, len(data) - 1, 7):
        path.write_bytes(data[:end])
        writer = LogWriter(path)
        writer.write({"url": "http://a.test/new"})
        writer.close()
        *old, new = [row.url for row in read_log(path)]
        assert old == urls[: len(old)]
        assert new == "http://a.test/new"
        assert len(old) >= (BATCH if name.endswith("gz") else data[:end].count(b"\n"))


def test_a_row_that_lacks_only_its_line_end_is_kept(tmp_path):
    """A log edited by hand may end without a line feed."""
    path = tmp_path / "log.jsonl"
    path.write_text('{"url": "http://a.test/1"}')
    writer = LogWriter(path)
    writer.write({"url": "http://a.test/2"})
    writer.close()
    assert writer.cut == 0
    assert [json.loads(line)["url"][-1] for line in path.read_text().splitlines()] == ["1", "2"]


def test_a_gz_that_is_none_is_not_touched(tmp_path):
    """A file that only looks like a log by its name is refused, not emptied."""
    path = tmp_path / "log.jsonl.gz"
    for data in (b'{"url": "http://a.test/"}\n', gzip.compress(b"x" * 100_000)[:-9]):
        path.write_bytes(data)
        with pytest.raises(LogFormatError, match="move it away"):
            LogWriter(path)
        assert path.read_bytes() == data
