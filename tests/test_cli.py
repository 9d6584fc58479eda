"""The command line as a user meets it: verbs on URLs, output, exit codes."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import subprocess
import sys

import pytest
from cli_runner import start

from scrapy_urlnorm.cli import VERBS
from scrapy_urlnorm.logs.source import MAX_LINE
from scrapy_urlnorm.normalizer import normalize
from scrapy_urlnorm.rules import RULES

UGLY = "HTTP://Example.COM:80/%7Ea/../b/?z=1&a=2&utm_source=x#top"
SITE_RULES = '\n[[rule]]\nsite = "shop.example"\nkind = "drop-param"\nparam = "ref"\n'


def test_brief_is_one_key_a_line(run, tmp_path):
    """Of a file, which may be gzipped, or of standard input; with --json each is a row."""
    path = tmp_path / "urls"
    path.write_bytes(gzip.compress(b"http://c.example\r\n"))
    assert run("explain", "--brief", path) == (0, "http://c.example/\n", "")
    lines = UGLY.encode() + b"\n\nhttp://b.example\n"
    keys = ["http://example.com/b/?a=2&z=1", "http://b.example/"]
    assert run("explain", "--brief", "-", stdin=lines) == (0, "\n".join([*keys, ""]), "")
    rows = run("explain", "--brief", "-", "--json", stdin=lines).out.splitlines()
    assert json.loads(rows[0]) == {"url": UGLY, "normalized": keys[0]}


@pytest.mark.parametrize(
    ("options", "url", "expected"),
    [
        (["--profile", "safe"], UGLY, "http://example.com/b/?z=1&a=2&utm_source=x#top"),
        (["--rule", "sort-query=false"], "http://a.example/?b=1&a=2", "http://a.example/?b=1&a=2"),
        (["--rule", "www=add"], "http://example.com/", "http://www.example.com/"),
        (["--rule", "lowercase-path"], "http://a.example/B", "http://a.example/b"),
        (["--rule", "drop-params=x,y"], "http://a.example/?x=1&y=2&z=3", "http://a.example/?z=3"),
        (["--rule", "drop-params=x"], "http://a.example/?x=1&z=3", "http://a.example/?z=3"),
        (["--rule", 'drop-default-params={"p": "1"}'], "http://a.b/?p=1", "http://a.b/"),
        (["--rule", "www", "--rule", "www=false"], "http://www.a.b/", "http://www.a.b/"),
    ],
)
def test_rules_can_be_switched(run, options, url, expected):
    assert run("explain", *options, url).out.endswith(f"= {expected}\n")


def test_site_rules_come_from_files(run, tmp_path):
    """--site-rules applies wherever a normalizer is built, and a broken file is named."""
    path = tmp_path / "rules.toml"
    path.write_text(SITE_RULES)
    url = "http://shop.example/a?ref=1"
    assert run("explain", "--site-rules", path, url).out.endswith("= http://shop.example/a\n")
    assert run("explain", "--site-rules", path, url, "http://shop.example/a").code == 0
    assert run("explain", url, "http://shop.example/a").code == 1
    path.write_text(SITE_RULES.replace("drop-param", "drop-parameter"))
    code, _, err = run("explain", "--site-rules", path, url)
    assert code == 2
    assert f"{path}: line 2" in err


def test_explain_shows_every_step(run):
    code, out, _ = run("explain", UGLY)
    lines = out.splitlines()
    assert (code, lines[0], lines[-1]) == (0, UGLY, f"= {normalize(UGLY)}")
    assert any(line.startswith("  sort-query: ") for line in lines)
    step = json.loads(run("explain", "--json", UGLY).out)["steps"][-1]
    assert set(step) == {"rule", "before", "after", "reason"}
    assert step["after"] == normalize(UGLY)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("http://[::1", "not a URL that a client accepts: it is its own key"),
        ("http://a.b:99999/", "not a URL that a client accepts: it is its own key"),
        ("", "no http:// in front: it is its own key"),
        ("a.example/x", "no http:// in front: it is its own key"),
        ("mailto:ann@a.example", "a URL without a host: it is its own key"),
        ("http://a.example/", None),
    ],
)
def test_explain_says_what_is_no_url(run, text, problem):
    """What no rule applies to is a negative answer, in text and as JSON."""
    code, out, _ = run("explain", text)
    assert code == (1 if problem else 0)
    assert out == text + "\n" + (f"  {problem}\n" if problem else "") + f"= {text}\n"
    code, out, _ = run("explain", "--json", text)
    assert (code, json.loads(out)["problem"]) == (1 if problem else 0, problem)


@pytest.mark.parametrize(
    ("one", "other", "code", "verdict"),
    [
        ("http://a.example/?b&a", "http://a.example?a&b", 0, "one key"),
        ("http://a.example/?a", "http://a.example/?b", 1, "different keys"),
        ("no url", "no url", 0, "one key"),
    ],
)
def test_two_urls_are_compared(run, one, other, code, verdict):
    """With the steps of both, as of one URL; the exit code answers."""
    steps = run("explain", one).out + run("explain", other).out
    assert run("explain", one, other) == (code, f"{steps}{verdict}\n", "")
    answer = json.loads(run("explain", "--json", one, other).out)
    assert (answer["same"], [found["url"] for found in answer["urls"]]) == (not code, [one, other])


URLS = b"""http://a.example/?b=1&a=2
http://b.example/
http://a.example/?a=2&b=1
http://a.example/?b=1&a=2
not a url
http://a.example/?a=2&b=1#x
"""
SPELLINGS = "http://a.example/?b=1&a=2", "http://a.example/?a=2&b=1"


@pytest.mark.parametrize(
    ("option", "expected"),
    [
        (None, "http://a.example/?b=1&a=2\nhttp://b.example/\nnot a url\n"),
        ("--groups", "4\t{1}\n\t{0}\n\t{1}\n\t{1}#x\n".format(*SPELLINGS)),
    ],
)
def test_dedupe(run, option, expected):
    """The first spelling of each page, how many lines it stands for, or all of them once."""
    options = filter(None, [option])
    summary = "6 URLs, 3 distinct, 50.0% redundant\n"
    assert run("dedupe", *options, "-", stdin=URLS) == (0, expected, summary)
    options = filter(None, [option, "--json", "-q"])
    rows = [json.loads(line) for line in run("dedupe", *options, "-", stdin=URLS).out.splitlines()]
    assert rows[0].get("count", 4) == 4
    assert "http://a.example/?b=1&a=2" in (rows[0].get("url"), *rows[0].get("spellings", ()))
    assert run("dedupe", "-", stdin=b"") == (0, "", "0 URLs, 0 distinct, 0.0% redundant\n")


def test_groups_do_not_grow_without_end(run):
    """A page under a thousand URLs shows twenty of them, and counts all."""
    lines = b"".join(b"http://a.example/#%d\n" % n for n in range(1000))
    out = run("dedupe", "--groups", "-", stdin=lines).out
    assert out.startswith("1000\thttp://a.example/\n")
    assert out.count("\t") == 1 + 20


def test_dedupe_reads_several_files(run, tmp_path):
    path = tmp_path / "urls"
    path.write_bytes(URLS)
    done = run("dedupe", "-q", path, "-", path, stdin=b"http://c.example\n")
    assert done.out.endswith("not a url\nhttp://c.example\n")


def test_rules_lists_the_catalogue(run):
    out = run("rules").out
    assert run("rules", "list").out == out
    assert [line.split()[0] for line in out.splitlines()[1:]] == [rule.name for rule in RULES]
    table = json.loads(run("rules", "list", "--json").out)
    assert [row["rule"] for row in table] == [rule.name for rule in RULES]
    assert table[0].keys() == {"rule", "semantics", "safe", "default", "aggressive", "summary"}


def test_rules_explains_one(run):
    code, out, _ = run("rules", "list", "sort-query")
    assert code == 0
    assert out.startswith("sort-query (changing; on in: default")
    assert " -> " in out
    assert not any(line.startswith("    ") for line in out.splitlines())
    assert " -> " in json.loads(run("rules", "list", "sort-query", "--json").out)["documentation"]


# --- help -----------------------------------------------------------------------------------


def test_every_verb_has_help_with_an_example(run):
    overview = run("--help").out + run("rules", "--help").out
    for verb in VERBS:
        assert f" {verb.name.split()[-1]} " in overview
        code, out, _ = run(*verb.name.split(), "--help")
        assert code == 0
        assert out.rstrip().endswith(f"scrapy-urlnorm {verb.name} {verb.example}")
    words = dict.fromkeys(verb.name.split()[0] for verb in VERBS)
    assert " ".join(words) == "explain dedupe mine evaluate report why rules forget"


def test_help_imports_no_verb():
    code = (
        "import sys\n"
        "from scrapy_urlnorm.cli import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    loaded = set(done.stderr.split())
    assert "usage:" in done.stdout
    assert "scrapy_urlnorm.cli.parser" in loaded
    heavy = {"scrapy_urlnorm.learning", "scrapy_urlnorm.logs", "scrapy_urlnorm.stores", "lxml"}
    assert not heavy & loaded
    assert not {f"scrapy_urlnorm.cli.{verb.run.partition('.')[0]}" for verb in VERBS} & loaded


# --- the process ----------------------------------------------------------------------------


def test_a_reader_that_leaves_is_no_error():
    """``| head -1`` ends the program quietly."""
    process = start("explain", "--brief", "-", stdin=subprocess.PIPE)
    process.stdout.close()
    with contextlib.suppress(BrokenPipeError):
        process.stdin.write(b"http://a.example/\n" * 100_000)
    with contextlib.suppress(BrokenPipeError):
        process.stdin.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait() == 0


@pytest.mark.parametrize("verb", [("dedupe",), ("explain", "--brief")])
def test_a_line_out_of_a_pipe_is_answered_before_the_next_one_is_there(verb):
    """Even half of the next one may be there: a crawler writes as much as its buffer holds."""
    with start(*verb, "-", stdin=subprocess.PIPE) as process:
        for number in range(3):
            line = b"http://a.example/%d\n" % number
            process.stdin.write((line[9:] if number else line) + b"http://a.")
            process.stdin.flush()
            assert process.stdout.readline() == line
        out, _ = process.communicate(timeout=60)
        assert out.startswith(b"http://a.")


@pytest.mark.parametrize("verb", [("explain", "--brief"), ("dedupe", "-q", "--json")])
def test_what_came_before_a_bad_line_is_written(run, file, verb):
    """A list with a bad line at its end is a list all the same."""
    code, out, err = run(*verb, file(b"http://a.example/\n" * 3 + b"x" * (MAX_LINE + 1)))
    assert code == 2
    assert "http://a.example/" in out
    assert f"line 4: longer than {MAX_LINE} bytes" in err


@pytest.mark.parametrize("has_tqdm", [True, False])
def test_progress_is_for_a_terminal(run, file, monkeypatch, has_tqdm):
    """If tqdm is there. Elsewhere `run` would have seen it."""
    pytest.importorskip("tqdm")
    if not has_tqdm:
        monkeypatch.setitem(sys.modules, "tqdm", None)
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    assert run("mine", "--processes", "1", file(b"http://a.example/\n")).code == 0
    said = sys.stderr.getvalue()
    assert ("0 rows [" in said, "0 sites [" in said) == (has_tqdm, has_tqdm)


def test_output_does_not_depend_on_the_locale():
    environment = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    process = start("explain", "--brief", "-", stdin=subprocess.PIPE, env=environment)
    assert process.communicate("é".encode()) == ("é\n".encode(), b"")
