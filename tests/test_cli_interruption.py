"""However a long verb ends, it leaves no files behind and no process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from cli_runner import Runner

from scrapy_urlnorm import load_site_rules
from scrapy_urlnorm.learning import rows_by_site

if TYPE_CHECKING:
    from pathlib import Path

#: The learner of a site that waits for ever, but for the first one. Rows are on disk if DISK is set.
PROGRAM = """
import os, signal, sys
from scrapy_urlnorm.learning import mining, rows_by_site

really = mining.report_on

def report_on(job):
    if job.site == "a.example":
        return really(job)
    os.write(2, b"at work\\n")  # in one piece: another process writes the same
    while True:
        signal.pause()

mining.report_on = report_on
mining._CHUNK = 1
if os.environ["DISK"]:
    rows_by_site._IN_MEMORY = 0

if __name__ == "__main__":
    from scrapy_urlnorm.cli import main
    sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Write a log of three sites, on which ``view`` means nothing."""
    path = tmp_path / "crawl.jsonl"
    with path.open("w") as lines:
        for site in "abc":
            for n in range(120):
                url = f"https://{site}.example/item?id={n // 3}&view={n % 3}"
                row = {"url": url, "status": 200, "mime": "text/html", "digest": f"{site} {n // 3}"}
                lines.write(json.dumps(row) + "\n")
    return path


@pytest.fixture
def begin(tmp_path: Path):
    """Start a verb on other rows than memory has, and wait until a site is worked on."""
    (tmp_path / "program.py").write_text(PROGRAM)
    folder = tmp_path / "temporary"
    folder.mkdir()

    def begin(
        *args: object, disk: bool = True, hangup: signal.Handlers = signal.SIG_DFL
    ) -> subprocess.Popen[str]:
        before = signal.signal(signal.SIGHUP, hangup)  # what the process finds
        process = subprocess.Popen(
            [sys.executable, "program.py", *map(str, args)],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={
                **os.environ,
                "DISK": "x" if disk else "",
                "PYTHONPATH": ":".join([str(tmp_path), *sys.path]),
                "TMPDIR": str(folder),
            },
            text=True,
        )
        signal.signal(signal.SIGHUP, before)
        assert process.stderr is not None
        assert process.stderr.readline() == "at work\n"
        assert len(list(folder.iterdir())) == disk
        return process

    return begin


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
@pytest.mark.parametrize("disk", [True, False])
@pytest.mark.parametrize("processes", [1, 2])
def test_a_signal_keeps_what_is_done_and_leaves_nothing(
    begin, log, tmp_path, number, disk, processes
):
    """Only the rules of the first site are written; the output is closed by all processes."""
    rules = tmp_path / "rules.toml"
    kept = '[[rule]]\nsite = "{}.example"\nkind = "drop-param"\nparam = "old"\nsource = "content"\n'
    rules.write_text("".join(map(kept.format, "abc")))
    process = begin("mine", log, "-o", rules, "--processes", processes, disk=disk)
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert not list((tmp_path / "temporary").iterdir())
    word = "interrupted" if number == signal.SIGINT else "terminated"
    assert err.endswith(f"mine: {word}\n")
    assert "Traceback" not in err
    if processes == 1:  # of two, the main one may not have heard yet that the first site is done
        assert "the sites after a.example were not mined" in err
        found = {(rule.site, rule.param == ("old",)) for rule in load_site_rules(rules)}
        assert found == {("a.example", False), ("b.example", True), ("c.example", True)}


def test_an_ignored_hangup_stays_ignored(begin, log, tmp_path):
    """Under nohup a closed terminal ends nothing."""
    process = begin("mine", log, "--processes", 1, hangup=signal.SIG_IGN)
    process.send_signal(signal.SIGHUP)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=60)
    assert err.count("terminated") == 1
    assert process.returncode == 143


@pytest.mark.parametrize("disk", [True, False])
def test_no_process_outlives_a_killed_one(begin, log, disk):
    """Each process that works on sites sees the end of the one that started it."""
    process = begin("mine", log, "--processes", 2, disk=disk)
    process.kill()
    process.communicate(timeout=60)  # until the last process has closed its output


def test_mining_goes_on_after_a_site(capfdbinary, monkeypatch, log, tmp_path):
    """Two runs that share the sites out write the rule file of one."""
    run = Runner(capfdbinary, monkeypatch)
    whole, parts = tmp_path / "whole.toml", tmp_path / "parts.toml"
    for rows in (rows_by_site._IN_MEMORY, 0):
        monkeypatch.setattr(rows_by_site, "_IN_MEMORY", rows)
        code, _, err = run("mine", log, "-o", parts, "--processes", 1, "--after", "a.example")
        assert code == 0
        assert "2 sites" in err
        assert {rule.site for rule in load_site_rules(parts)} == {"b.example", "c.example"}
        only = tmp_path / "a.jsonl"
        only.write_text("".join(log.read_text().splitlines(keepends=True)[:120]))
        run("mine", only, "-o", parts, "--processes", 1)
        run("mine", log, "-o", whole, "--processes", 1)
        assert load_site_rules(whole) == tuple(
            sorted(load_site_rules(parts), key=lambda rule: rule.site)
        )
        parts.unlink()
