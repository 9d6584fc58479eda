"""mine and evaluate: from logs to a rule file and its measure."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
from contextlib import suppress

import pytest

from scrapy_urlnorm import Normalizer, load_site_rules
from scrapy_urlnorm.cli import learn
from scrapy_urlnorm.learning import survey


def rows(site="shop.example", pages=40, start=0):
    for n in range(start, start + pages):
        for view in ("", f"&view=a{n}", f"&view=b{n}"):
            yield {
                "url": f"https://{site}/item?id={n}{view}",
                "status": 200,
                "mime": "text/html",
                "digest": f"{site} {n}",
            }


@pytest.fixture
def log(file):
    def log(rows, name="crawl.jsonl"):
        data = "".join(json.dumps(row) + "\n" for row in rows).encode()
        return file(gzip.compress(data) if name.endswith("gz") else data, name)

    return log


def test_mine_writes_a_rule_file(run, log, tmp_path):
    path = tmp_path / "rules.toml"
    code, out, err = run(
        "mine", log(rows()), log(rows("b.example"), "b.jsonl.gz"), "-o", path, "--processes", 1
    )
    assert code == 0
    rules = load_site_rules(path)
    assert {rule.site for rule in rules if rule.active} == {"shop.example", "b.example"}
    normalizer = Normalizer(site_rules=rules)
    assert normalizer.normalize("https://shop.example/item?id=7&view=x") == (
        "https://shop.example/item?id=7"
    )
    assert "shop.example: 120 URLs, 40 contents; 80 of 80 redundant ones found" in out
    assert "drop-param" in out
    assert "240 rows, 2 sites, 2 rules active, 0 proposed" in err
    assert "left out" not in err
    assert f"{path}: 2 rules, 2 of them new" in err


def test_mine_prints_rules_without_a_file(run, log, tmp_path):
    """Standard output is the rule file then, and standard error the report; or both are JSON."""
    code, out, err = run("mine", log(rows()))
    assert code == 0
    path = tmp_path / "printed.toml"
    path.write_text(out)
    assert len(load_site_rules(path)) == 1
    assert "80 of 80" in err
    [site] = json.loads(run("mine", "--json", log(rows())).out)["sites"]
    assert (site["site"], site["urls"], site["redundant"]) == ("shop.example", 120, 80)
    assert site["rules"][0]["kind"] == "drop-param"


def test_mining_again_keeps_what_people_wrote(run, log, tmp_path):
    path = tmp_path / "rules.toml"
    run("mine", log(rows()), "-o", path)
    text = path.read_text()
    mine = '# mine\n[[rule]]\nsite = "shop.example"\nkind = "drop-param"\nparam = "ref"\n\n'
    edited = mine + text.replace('source = "content"', 'status = "rejected"\nsource = "content"')
    path.write_text(edited)
    run("mine", log(rows()), "-o", path)
    assert path.read_text() == edited
    path.write_text(text)
    run("mine", log(rows()), "-o", path)
    assert path.read_text() == text


def test_mining_again_replaces_what_was_learned(run, log, tmp_path):
    path = tmp_path / "rules.toml"
    run("mine", log([*rows(), *rows("b.example")]), "-o", path)
    moved = [{**row, "url": row["url"].replace("view", "look")} for row in rows()]
    err = run("mine", log(moved, "new.jsonl"), "-o", path).err
    assert "1 of them new; 1 that these logs no longer bear out are gone" in err
    assert [(rule.site, rule.param) for rule in load_site_rules(path)] == [
        ("b.example", ("view",)),
        ("shop.example", ("look",)),
    ]


def test_a_bad_row_stops_mining(run, log, tmp_path):
    path = log(rows())
    path.write_text(path.read_text().replace('"status": 200', '"status": "OK"', 1))
    rules = tmp_path / "rules.toml"
    code, out, err = run("mine", path, "-o", rules)
    assert (code, out) == (2, "")
    assert f"{path}, line 1: 'status' must be a number" in err
    assert not rules.exists()
    code, _, err = run("mine", path, "-o", rules, "--skip-bad")
    assert code == 0
    assert f"1 row skipped; the first: {path}, line 1" in err
    assert load_site_rules(rules)


def test_the_format_of_a_log_can_be_named(run, tmp_path):
    path = tmp_path / "urls.log"
    path.write_text("# from the shop\nhttp://shop.example/a\n" * 3)
    code, _, err = run("mine", path, "--format", "urls")
    assert code == 0
    assert "No row names its content" in err
    assert "proposals" in err
    assert run("mine", path, "--format", "arc").code == 2


def test_a_log_without_contents_gives_no_active_rule(run, tmp_path):
    """A bare list of URLs proposes at most. Sites with nothing to say are counted."""
    path = tmp_path / "urls.txt"
    path.write_text("".join(row["url"] + "\n" for row in rows()))
    report = json.loads(run("mine", "--json", path).out)
    assert all(rule["status"] == "proposed" for site in report["sites"] for rule in site["rules"])
    path.write_text("".join(f"http://site{n}.example/\n" for n in range(500)))
    lines = run("mine", path).err.splitlines()
    assert lines[0].startswith("500 sites without redundant URLs; ")
    assert len(lines) < 5


def test_the_knobs_reach_the_learner(run, log, monkeypatch):
    seen = {}
    options = ("--risk", "0.006", "--processes", "3")

    def survey(rows, **knobs):
        seen.update(knobs, rows=len(list(rows)))
        return iter(())

    monkeypatch.setattr("scrapy_urlnorm.cli.learn.survey", survey)
    run("mine", log(rows()), *options)
    assert seen == {"risk": 0.006, "processes": 3, "rows": 120}


def test_an_interrupted_run_leaves_the_file_as_it_was(run, log, tmp_path, monkeypatch):
    """Ctrl-C while sites are mined: nothing is written, and nothing lies beside it."""

    def interrupted(rows, **knobs):
        yield next(survey(rows, **knobs))
        raise KeyboardInterrupt

    path, rules = log([*rows("a.example"), *rows("b.example")]), tmp_path / "rules.toml"
    rules.write_text("# mine\n")
    before = sorted(tmp_path.iterdir())
    monkeypatch.setattr(learn, "survey", interrupted)
    assert run("mine", path, "-o", rules) == (130, "", "scrapy-urlnorm mine: interrupted\n")
    assert (rules.read_text(), sorted(tmp_path.iterdir())) == ("# mine\n", before)


#: Its learner waits for ever.
PROGRAM = """
import os, signal, sys
from scrapy_urlnorm.cli import main
from scrapy_urlnorm.learning import mining

def wait(job):
    os.write(2, b"at work\\n")
    signal.pause()

mining.report_on = wait
mining._CHUNK = 1
if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.skipif(not hasattr(os, "killpg"), reason="there are no groups of processes")
@pytest.mark.parametrize("ends", ["Ctrl-C", "kill -9"])
def test_no_process_outlives_the_first_one(log, file, ends):
    """Ctrl-C is for all of them, and one that is killed is seen by those that worked for it."""
    path = log([*rows("a.example"), *rows("b.example")])
    process = subprocess.Popen(
        [sys.executable, file(PROGRAM, "program.py"), "mine", path, "--processes", "2"],
        env={**os.environ, "PYTHONPATH": ":".join(sys.path)},
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        assert [process.stderr.readline() for _ in range(2)] == ["at work\n"] * 2
        if ends == "Ctrl-C":
            os.killpg(process.pid, signal.SIGINT)
        else:
            process.kill()
        _, err = process.communicate(timeout=60)  # until the last one has closed its output
    finally:
        with suppress(ProcessLookupError):  # all have ended
            os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == (130 if ends == "Ctrl-C" else -signal.SIGKILL)
    assert err == ("scrapy-urlnorm mine: interrupted\n" if ends == "Ctrl-C" else "")


def test_evaluate_measures_with_and_without_the_rules(run, log, tmp_path):
    path = tmp_path / "rules.toml"
    run("mine", log(rows()), "-o", path)
    other = log(rows(start=100), "other.jsonl")
    code, out, _ = run("evaluate", "--rules", path, other)
    assert code == 0
    table = {line[:22].strip(): line[22:].split() for line in out.splitlines()[1:]}
    assert table["redundant URLs found"] == ["0.0%", "100.0%"]
    assert table["contents lost"] == ["0", "0"]
    assert table["crawl reduction"] == ["0.0%", "66.7%"]
    measured = json.loads(run("evaluate", "--json", "--rules", path, other).out)
    assert measured["with"]["found"] == 1
    assert measured["without"]["found"] == 0
    assert measured["with"]["false_merges"] == 0


HTML, CSS = {"status": 200, "mime": "text/html"}, {"status": 200, "mime": "text/css", "digest": "p"}
MIXED = [
    {"url": f"https://shop.example/{path}", **row}
    for path, row in (
        ("feed", {"status": 200, "mime": "application/rss+xml", "digest": "f"}),
        ("a.css", CSS | {"len": 0}),
        ("b.css", CSS | {"len": 9}),
        ("gone", HTML | {"status": 404, "digest": "g"}),
        ("nowhere", HTML | {"status": 302}),
        ("moved", {"status": 301, "location": "https://shop.example/gone"}),
        ("empty", HTML),
        ("none", {"status": 204}),
    )
]


def test_what_is_left_out_is_said(run, log, tmp_path):
    path, rules = log([*rows(), *MIXED, *rows(pages=1)]), tmp_path / "rules.toml"
    reasons = (
        "small file 2, error (status 400 and above) 1, other answer (not 200) 1, "
        "page without a content 1, redirect without a target 1\n"
    )
    err = run("mine", path, "-o", rules).err
    assert "131 rows, 1 site, 1 rule active, 0 proposed\n" in err
    assert f"left out: {reasons}" in err
    err = run("evaluate", "--rules", rules, path).err
    assert err.startswith("131 rows, 121 pages measured\n")
    assert "left out: page fetched again 3, small file 2, error" in err
    assert "redirect 1, redirect without a target 1\n" in err


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("missing/rules.toml", "No such file or directory"),
        ("folder", "Is a directory"),
        ("log.jsonl/rules.toml", "Not a directory"),
        ("bad.toml", "line 1"),
    ],
)
def test_a_target_that_cannot_be_is_found_out_first(run, log, tmp_path, name, reason, monkeypatch):
    """The file that the user named is tried before a row is read, and named in the error."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "bad.toml").write_text("no rules")
    before = sorted([*(path.name for path in tmp_path.iterdir()), "log.jsonl"])
    path = log(rows(), "log.jsonl")
    monkeypatch.setattr("scrapy_urlnorm.cli.learn.survey", None)  # would be called, were it read
    code, out, err = run("mine", path, "-o", tmp_path / name)
    assert (code, out) == (2, "")
    assert str(tmp_path / name) in err
    assert reason in err
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_proposals_are_printed_once(run, log):
    err = run("mine", log([row for row in rows(pages=3) if "view=b" not in row["url"]])).err
    lines = [line for line in err.splitlines() if 'param="view"' in line]
    assert len(lines) == 1
    assert lines[0].startswith("  proposed: drop-param on shop.example")
    assert lines[0].endswith("; 3 contents agree and none differs; 4 would do")
    assert "missing" not in err


def test_evaluate_names_wrong_merges(run, log, tmp_path):
    path = tmp_path / "rules.toml"
    path.write_text('[[rule]]\nsite = "shop.example"\nkind = "drop-param"\nparam = "id"\n')
    out = run("evaluate", "--rules", path, log(rows())).out
    assert "39 of 39" in out
    assert "merged wrongly: https://shop.example/item?id=0" in out


def test_evaluate_needs_contents(run, tmp_path):
    rules, path = tmp_path / "rules.toml", tmp_path / "urls.txt"
    rules.write_text("")
    path.write_text("http://a.example/\n")
    code, out, err = run("evaluate", "--rules", rules, path)
    assert (code, out) == (2, "")
    assert "none of 1 rows is a page or a file" in err
