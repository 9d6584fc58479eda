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


def test_normalize_prints_one_url_a_line(run, tmp_path):
    """URLs of the command line, of standard input and of files, in their order; a file may be gzipped."""
    path = tmp_path / "urls"
    path.write_bytes(gzip.compress(b"http://c.example\r\n"))
    done = run("normalize", UGLY, "-", "-f", path, stdin=b"http://a.example\n\nhttp://b.example\n")
    hosts = "http://a.example/\nhttp://b.example/\nhttp://c.example/\n"
    assert done == (0, "http://example.com/b/?a=2&z=1\n" + hosts, "")
    code, _, err = run("normalize")  # no endless wait for the keyboard
    assert code == 2
    assert "give URLs" in err


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
    assert run("normalize", *options, url) == (0, expected + "\n", "")


@pytest.mark.parametrize(
    ("option", "named"),
    [
        ("sort-querry", "did you mean 'sort-query'"),
        ("www=maybe", "'maybe'"),
        ("sort-query=7", "7"),
    ],
)
def test_a_bad_rule_names_what_would_be_accepted(run, option, named):
    code, out, err = run("normalize", "--rule", option, UGLY)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert named in err


def test_site_rules_come_from_files(run, tmp_path):
    """--site-rules applies wherever a normalizer is built, and a broken file is named."""
    path = tmp_path / "rules.toml"
    path.write_text(SITE_RULES)
    url = "http://shop.example/a?ref=1"
    assert run("normalize", "--site-rules", path, url).out == "http://shop.example/a\n"
    assert run("compare", "--site-rules", path, url, "http://shop.example/a").code == 0
    assert run("compare", url, "http://shop.example/a").code == 1
    path.write_text(SITE_RULES.replace("drop-param", "drop-parameter"))
    code, _, err = run("normalize", "--site-rules", path, url)
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
        ("", "not a URL that a client accepts: it is its own key"),
        ("mailto:ann@a.example", "a URL without a host: it is its own key"),
        ("http://a.example/", None),
    ],
)
def test_explain_says_what_is_no_url(run, text, problem):
    """What no rule applies to is a negative answer, in text and as JSON."""
    code, out, _ = run("explain", text)
    assert code == (1 if problem else 0)
    assert out == text + "\n" + (f"  {problem}\n" if problem else "") + f"= {text}\n"
    code, out, _ = run("explain", "--json", "http://b.example/", text)
    assert code == (1 if problem else 0)
    assert [json.loads(line)["problem"] for line in out.splitlines()] == [None, problem]


def test_compare_answers_with_its_exit_code(run):
    code, out, _ = run("compare", "http://a.example/?b&a", "http://a.example?a&b")
    assert code == 0
    assert out.startswith("same\n  http://a.example/?a=&b=")
    assert "sort-query" in out
    code, out, _ = run("compare", "http://a.example/?a", "http://a.example/?b")
    assert (code, out.split()[0]) == (1, "different")
    answer = json.loads(run("compare", "--json", "http://a.example/", "http://b.example/").out)
    assert answer["same"] is False
    assert answer["keys"] == ["http://a.example/", "http://b.example/"]


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
        ("--counts", "4\thttp://a.example/?b=1&a=2\n1\thttp://b.example/\n1\tnot a url\n"),
        (
            "--groups",
            "4\t{1}\n\t{0}\n\t{1}\n\t{1}#x\n".format(*SPELLINGS),
        ),
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
    code, _, err = run("dedupe", "-", "-", stdin=URLS)
    assert code == 2
    assert "can be read once" in err


def test_rules_lists_the_catalogue(run):
    out = run("rules").out
    assert [line.split()[0] for line in out.splitlines()[1:]] == [rule.name for rule in RULES]
    table = json.loads(run("rules", "--json").out)
    assert [row["rule"] for row in table] == [rule.name for rule in RULES]
    assert table[0].keys() == {"rule", "semantics", "safe", "default", "aggressive", "summary"}


def test_rules_explains_one(run):
    code, out, _ = run("rules", "sort-query")
    assert code == 0
    assert out.startswith("sort-query (changing; on in: default")
    assert " -> " in out
    assert not any(line.startswith("    ") for line in out.splitlines())
    assert " -> " in json.loads(run("rules", "sort-query", "--json").out)["documentation"]
    assert "'nosuch' is not a rule. Known rules: " in run("rules", "nosuch").err
    assert "did you mean 'www'? Known rules: " in run("rules", "ww").err


# --- help -----------------------------------------------------------------------------------


def test_every_verb_has_help_with_an_example(run):
    overview = run("--help").out
    for one in VERBS:
        assert f"  {one.name}" in overview
        code, out, _ = run(one.name, "--help")
        example = one.load().example
        assert code == 0
        assert out.rstrip().endswith(f"scrapy-urlnorm {example}")
        assert example.split()[0] == one.name


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
    assert "scrapy_urlnorm.cli.verb" in loaded
    heavy = {"scrapy_urlnorm.learning", "scrapy_urlnorm.logs", "scrapy_urlnorm.stores", "lxml"}
    assert not heavy & loaded
    assert not {f"scrapy_urlnorm.cli.{one.module}" for one in VERBS} & loaded


# --- the process ----------------------------------------------------------------------------


def test_hash_seeds_do_not_show():
    for argv in (
        ("dedupe", "--groups", "--profile", "aggressive", "-"),
        ("rules", "--json"),
        ("explain", "-", "--rule", "drop-params=b,a,x"),
    ):
        outputs = set()
        for seed in ("1", "2"):
            process = start(*argv, stdin=subprocess.PIPE, env={"PYTHONHASHSEED": seed})
            outputs.add(process.communicate(URLS)[0])
        assert len(outputs) == 1


def test_a_reader_that_leaves_is_no_error():
    """``| head -1`` ends the program quietly."""
    process = start("normalize", "-", stdin=subprocess.PIPE)
    process.stdout.close()
    with contextlib.suppress(BrokenPipeError):
        process.stdin.write(b"http://a.example/\n" * 100_000)
    with contextlib.suppress(BrokenPipeError):
        process.stdin.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait() == 0


@pytest.mark.parametrize("verb", ["dedupe", "normalize"])
def test_a_line_out_of_a_pipe_is_answered_before_the_next_one_is_there(verb):
    """Even half of the next one may be there: a crawler writes as much as its buffer holds."""
    with start(verb, "-", stdin=subprocess.PIPE) as process:
        for number in range(3):
            line = b"http://a.example/%d\n" % number
            process.stdin.write((line[9:] if number else line) + b"http://a.")
            process.stdin.flush()
            assert process.stdout.readline() == line
        out, _ = process.communicate(timeout=60)
        assert out.startswith(b"http://a.")


@pytest.mark.parametrize("verb", [("normalize", "-f"), ("dedupe", "-q", "--json")])
def test_what_came_before_a_bad_line_is_written(run, file, verb):
    """A list with a bad line at its end is a list all the same."""
    code, out, err = run(*verb, file(b"http://a.example/\n" * 3 + b"x" * (MAX_LINE + 1)))
    assert code == 2
    assert "http://a.example/" in out
    assert f"line 4: longer than {MAX_LINE} bytes" in err


@pytest.mark.parametrize("has_tqdm", [True, False])
@pytest.mark.parametrize("option", ["--counts", "-q"])
def test_progress_is_for_a_terminal(run, file, monkeypatch, has_tqdm, option):
    """If tqdm is there, and nobody wants it quiet. Elsewhere `run` would have seen it."""
    pytest.importorskip("tqdm")
    if not has_tqdm:
        monkeypatch.setitem(sys.modules, "tqdm", None)
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    assert run("dedupe", option, file(URLS)).code == 0
    assert ("0 URLs [" in sys.stderr.getvalue()) == (has_tqdm and option != "-q")


def test_output_does_not_depend_on_the_locale():
    environment = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    process = start("normalize", "-", stdin=subprocess.PIPE, env=environment)
    assert process.communicate("é".encode()) == ("é\n".encode(), b"")
