"""The command line as a user meets it: verbs on URLs, output, exit codes."""

from __future__ import annotations

import contextlib
import gzip
import io
import itertools
import json
import os
import subprocess
import sys
from importlib import import_module

import pytest
from cli_runner import Runner

from scrapy_urlnorm.cli import VERBS, verb
from scrapy_urlnorm.normalizer import normalize
from scrapy_urlnorm.rules import RULES

UGLY = "HTTP://Example.COM:80/%7Ea/../b/?z=1&a=2&utm_source=x#top"
SITE_RULES = """
[[rule]]
site = "shop.example"
kind = "drop-param"
param = "ref"
"""


@pytest.fixture
def run(capfdbinary, monkeypatch):
    """Run the command line in this process: (exit code, standard output, standard error)."""
    return Runner(capfdbinary, monkeypatch)


def start(*argv, **options):
    """Start the command line as its own process."""
    environment = {**os.environ, "PYTHONPATH": ":".join(sys.path), **options.pop("env", {})}
    return subprocess.Popen(
        [sys.executable, "-m", "scrapy_urlnorm", *map(str, argv)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
        **options,
    )


def test_normalize_prints_one_url_a_line(run):
    """URLs of the command line, of standard input and of files come out in their order."""
    assert run("normalize", UGLY, "http://a.example") == (
        0,
        "http://example.com/b/?a=2&z=1\nhttp://a.example/\n",
        "",
    )
    assert run("normalize", "-", stdin=b"http://a.example\n\nhttp://b.example\n")[1] == (
        "http://a.example/\nhttp://b.example/\n"
    )


def test_normalize_reads_files(run, tmp_path):
    """A file may be gzipped; a file that is not there is a one-line error."""
    path = tmp_path / "urls"
    path.write_bytes(gzip.compress(b"http://a.example\r\n"))
    assert run("normalize", "-f", path)[1] == "http://a.example/\n"
    code, out, err = run("normalize", "-f", tmp_path / "none")
    assert (code, out) == (2, "")
    assert err == f"scrapy-urlnorm normalize: {tmp_path}/none: No such file or directory\n"


def test_normalize_without_urls_is_wrong_usage(run):
    """Nothing given is an error, not an endless wait for the keyboard."""
    code, _, err = run("normalize")
    assert code == 2
    assert "give URLs" in err


def test_json_is_one_object_a_line_in_ascii(run):
    """Whatever the locale and the bytes, JSON can be read."""
    _, out, _ = run(
        "normalize", "--json", "-", stdin=b"http://a.example/\xff\n" + b"http://b.example/\xc3\xa9"
    )
    assert out.isascii()
    assert [json.loads(line)["url"] for line in out.splitlines()] == [
        "http://a.example/%FF",
        "http://b.example/é",
    ]


def test_bytes_come_out_as_they_went_in(run):
    """What is no URL, in whatever encoding, is left alone."""
    assert run("normalize", "-", stdin=b"caf\xe9 \xff")[1] == "caf\udce9 \udcff\n"


@pytest.mark.parametrize(
    ("options", "url", "expected"),
    [
        (["--profile", "safe"], UGLY, "http://example.com/b/?z=1&a=2&utm_source=x#top"),
        (["--rule", "sort-query=false"], "http://a.example/?b=1&a=2", "http://a.example/?b=1&a=2"),
        (["--rule", "www=add"], "http://example.com/", "http://www.example.com/"),
        (["--rule", "lowercase-path"], "http://a.example/B", "http://a.example/b"),
        (["--rule", "drop-params=x,y"], "http://a.example/?x=1&y=2&z=3", "http://a.example/?z=3"),
        (["--rule", "drop-params=x"], "http://a.example/?x=1&z=3", "http://a.example/?z=3"),
        (
            ["--rule", 'drop-default-params={"p": "1"}'],
            "http://a.example/?p=1",
            "http://a.example/",
        ),
        (
            ["--rule", "www", "--rule", "www=false"],
            "http://www.a.example/",
            "http://www.a.example/",
        ),
    ],
)
def test_rules_can_be_switched(run, options, url, expected):
    """--profile and --rule say what a Normalizer's arguments say."""
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
    """One line on standard error, exit code 2, nothing on standard output."""
    code, out, err = run("normalize", "--rule", option, UGLY)
    assert (code, out) == (2, "")
    assert named in err
    assert err.count("\n") == 1


def test_site_rules_come_from_files(run, tmp_path):
    """--site-rules applies wherever a normalizer is built, and a broken file is named."""
    path = tmp_path / "rules.toml"
    path.write_text(SITE_RULES)
    url = "http://shop.example/a?ref=1"
    assert run("normalize", "--site-rules", path, url)[1] == "http://shop.example/a\n"
    assert run("compare", "--site-rules", path, url, "http://shop.example/a")[0] == 0
    assert run("compare", url, "http://shop.example/a")[0] == 1
    path.write_text(SITE_RULES.replace("drop-param", "drop-parameter"))
    code, _, err = run("normalize", "--site-rules", path, url)
    assert code == 2
    assert f"{path}, line 2" in err


def test_explain_shows_every_step(run):
    """Each change names its rule, and the last line is what normalize prints."""
    code, out, _ = run("explain", UGLY)
    assert code == 0
    lines = out.splitlines()
    assert lines[0] == UGLY
    assert lines[-1] == f"= {normalize(UGLY)}"
    assert any(line.startswith("  sort-query: ") for line in lines)
    step = json.loads(run("explain", "--json", UGLY)[1])["steps"][-1]
    assert set(step) == {"rule", "before", "after", "reason"}
    assert step["after"] == normalize(UGLY)
    assert run("explain", "http://a.example/")[1] == "http://a.example/\n= http://a.example/\n"


def test_compare_answers_with_its_exit_code(run):
    """0: one page; 1: two; the forms and the rules that made them equal are shown."""
    code, out, _ = run("compare", "http://a.example/?b&a", "http://a.example?a&b")
    assert code == 0
    assert out.startswith("same\n  http://a.example/?a=&b=")
    assert "sort-query" in out
    code, out, _ = run("compare", "http://a.example/?a", "http://a.example/?b")
    assert code == 1
    assert out.startswith("different\n")
    answer = json.loads(run("compare", "--json", "http://a.example/", "http://b.example/")[1])
    assert answer["same"] is False
    assert answer["keys"] == ["http://a.example/", "http://b.example/"]


URLS = b"""http://a.example/?b=1&a=2
http://b.example/
http://a.example/?a=2&b=1
http://a.example/?b=1&a=2
not a url
http://a.example/?a=2&b=1#x
"""


def test_dedupe_keeps_the_first_spelling(run):
    """Each page once, as it was first written, in the order of the list."""
    code, out, err = run("dedupe", "-", stdin=URLS)
    assert (code, out) == (0, "http://a.example/?b=1&a=2\nhttp://b.example/\nnot a url\n")
    assert err == "6 URLs, 3 distinct, 50.0% redundant\n"
    assert run("dedupe", "-q", "-", stdin=URLS)[2] == ""
    assert run("dedupe", "-", stdin=b"") == (0, "", "0 URLs, 0 distinct, 0.0% redundant\n")


def test_dedupe_counts_lines(run):
    """--counts says how many lines each first spelling stands for."""
    _, out, _ = run("dedupe", "--counts", "-", stdin=URLS)
    assert out == "4\thttp://a.example/?b=1&a=2\n1\thttp://b.example/\n1\tnot a url\n"
    _, out, _ = run("dedupe", "--counts", "--json", "-", stdin=URLS)
    assert json.loads(out.splitlines()[0]) == {"url": "http://a.example/?b=1&a=2", "count": 4}


def test_dedupe_shows_what_it_merged(run):
    """--groups prints the pages with several spellings, and each spelling once."""
    _, out, _ = run("dedupe", "--groups", "-", stdin=URLS)
    assert out == (
        "4\thttp://a.example/?a=2&b=1\n"
        "\thttp://a.example/?b=1&a=2\n"
        "\thttp://a.example/?a=2&b=1\n"
        "\thttp://a.example/?a=2&b=1#x\n"
    )
    _, out, _ = run("dedupe", "--groups", "--json", "-", stdin=URLS)
    assert json.loads(out)["count"] == 4


def test_groups_do_not_grow_without_end(run):
    """A page under a thousand URLs shows twenty of them, and counts all."""
    lines = b"".join(b"http://a.example/#%d\n" % n for n in range(1000))
    _, out, _ = run("dedupe", "--groups", "-", stdin=lines)
    assert out.startswith("1000\thttp://a.example/\n")
    assert out.count("\t") == 1 + 20


def test_dedupe_reads_several_files(run, tmp_path):
    """Files are one list; standard input can be one of them, once."""
    path = tmp_path / "urls"
    path.write_bytes(URLS)
    assert run("dedupe", "-q", path, "-", path, stdin=b"http://c.example\n")[1].endswith(
        "not a url\nhttp://c.example\n"
    )
    code, _, err = run("dedupe", "-", "-", stdin=URLS)
    assert code == 2
    assert "can be read once" in err


def test_dedupe_streams():
    """Lines are answered while the list is still being written, not when it has ended."""
    process = start("dedupe", "-", stdin=subprocess.PIPE)
    lines = [b"http://a.example/%04d\n" % n for n in range(2000)]
    process.stdin.write(b"".join(lines))
    process.stdin.flush()
    assert process.stdout.readline() == lines[0]
    process.stdin.write(lines[0])
    process.stdin.close()
    with process.stdout, process.stderr:
        assert process.stdout.read() == b"".join(lines[1:])
        assert b"2,001 URLs, 2,000 distinct" in process.stderr.read()
    assert process.wait() == 0


def test_rules_lists_the_catalogue(run):
    """Every rule, its semantics and its profiles, in the order in which they run."""
    code, out, _ = run("rules")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()[1:]] == [rule.name for rule in RULES]
    table = json.loads(run("rules", "--json")[1])
    assert [row["rule"] for row in table] == [rule.name for rule in RULES]
    assert table[0].keys() == {"rule", "semantics", "safe", "default", "aggressive", "summary"}


def test_rules_explains_one(run):
    """One rule comes with its documentation; an unknown one with its nearest name."""
    code, out, _ = run("rules", "sort-query")
    assert code == 0
    assert out.startswith("sort-query (changing; on in: default")
    assert " -> " in out
    assert not any(line.startswith("    ") for line in out.splitlines())
    assert " -> " in json.loads(run("rules", "sort-query", "--json")[1])["documentation"]
    code, _, err = run("rules", "sort-params")
    assert code == 2
    assert "'sort-params' is not a rule" in err


def test_every_verb_has_help_with_an_example(run):
    """--help of each verb says what it does and shows a line to copy."""
    overview = run("--help")[1]
    for one in VERBS:
        assert f"  {one.name}" in overview
        code, out, _ = run(one.name, "--help")
        example = one.load().example
        assert code == 0
        assert out.rstrip().endswith(f"scrapy-urlnorm {example}")
        assert example.split()[0] == one.name


def test_every_verb_of_a_module_is_listed():
    """The list of the help and the modules that it names have the same verbs."""
    modules = {one.module for one in VERBS}
    known = [verb for name in modules for verb in import_module(f"scrapy_urlnorm.cli.{name}").VERBS]
    assert sorted(verb.name for verb in known) == sorted(one.name for one in VERBS)


def test_help_imports_no_verb():
    """A list of the verbs is there at once: nothing that only a verb needs is imported."""
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


def test_wrong_usage_is_exit_code_2(run):
    """No verb, an unknown one, an unknown option."""
    for argv in ((), ("normalise",), ("rules", "--jsonn"), ("compare", "a")):
        code, out, err = run(*argv)
        assert (code, out) == (2, ""), argv
        assert "usage:" in err


def test_hash_seeds_do_not_show():
    """Two processes with other hash seeds print the same bytes."""
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


def test_interrupting_says_so(run, monkeypatch):
    """Ctrl-C ends with one line and the shell's exit code for it."""

    def interrupt(_):
        raise KeyboardInterrupt

    monkeypatch.setattr("scrapy_urlnorm.cli.urls.given", interrupt)
    code, out, err = run("normalize", "http://a.example/")
    assert (code, out, err) == (130, "", "scrapy-urlnorm normalize: interrupted\n")


def test_progress_is_for_terminals_only(monkeypatch):
    """A file or a pipe gets messages, never a line that rewrites itself."""

    class Terminal(io.StringIO):
        def isatty(self):
            return True

    for stream, shown in ((Terminal(), True), (io.StringIO(), False)):
        monkeypatch.setattr(sys, "stderr", stream)
        monkeypatch.setattr("time.monotonic", itertools.count().__next__)  # each look is a second
        progress = verb.Progress("URLs")
        assert list(progress.over(range(3000))) == list(range(3000))
        assert progress.count == 3000
        assert ("1,024 URLs" in stream.getvalue()) is shown


def test_output_does_not_depend_on_the_locale():
    """UTF-8 goes out as UTF-8 under the C locale."""
    process = start(
        "normalize",
        "-",
        stdin=subprocess.PIPE,
        env={"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    )
    out, err = process.communicate("é".encode())
    assert (out, err) == ("é\n".encode(), b"")
