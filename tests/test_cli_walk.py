"""Every verb as it goes wrong: one line that names the thing, the right exit code, no traceback."""

from __future__ import annotations

import gzip
import signal
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest
from cli_runner import start

import scrapy_urlnorm
from scrapy_urlnorm.cli import VERBS

RULE = '[[rule]]\nsite = "a.example"\nkind = "drop-param"\nparam = "a"\n'
DUD = '[{"args": ["a"], "processor": "queryRemoval", "urlPattern": {"include": ["a.example"]}}]'
ROW = '{"url": "http://a.example/", "status": 200, "digest": "x"}\n'

# A command line of each verb that reads a file, and the code for a file with nothing in it.
READERS = [
    (("explain", "--brief", "{}"), 0),
    (("explain", "--site-rules", "{}", "http://a.example"), 0),
    (("dedupe", "{}"), 0),
    (("why", "http://a.example", "--site-rules", "{}", "--job", "job"), 2),
    (("report", "{}", "-o", "report.html"), 0),
    (("mine", "{}"), 0),
    (("evaluate", "--rules", "rules.toml", "{}"), 2),
    (("evaluate", "log.jsonl", "--rules", "{}"), 0),
    (("rules", "check", "{}"), 0),
    (("rules", "import", "{}"), 2),
    (("rules", "merge", "rules.toml", "{}"), 0),
]

#: Those that read crawl logs, of which some are folders.
LOGS = [READERS[number][0] for number in (4, 5, 6)]


def verb_of(argv):
    return " ".join(argv[: 2 if argv[0] == "rules" else 1])


@pytest.fixture
def place(tmp_path, monkeypatch):
    files = {"rules.toml": RULE, "dud.json": DUD, "log.jsonl": ROW, "urls": "http://a.example\n"}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_table_holds_every_verb():
    names = {verb.name for verb in VERBS}
    assert names == {verb_of(argv) for argv, _ in READERS} | {"rules list", "forget"}


@pytest.mark.parametrize(("argv", "_"), READERS)
@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("missing", "No such file or directory"),
        (".", "Is a directory"),
        ("/proc/self/mem", "Input/output error"),  # a disk that cannot be read
        ("closed", "Permission denied"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(run, place, monkeypatch, argv, _, path, reason):
    """Missing, a directory, a bad disk, forbidden: the file and the reason, exit code 2."""
    if path == "/proc/self/mem" and not Path(path).exists():
        pytest.skip("no file here that fails when it is read")
    if path == "closed":
        refuse_to_open(monkeypatch, path)
    code, out, err = run(*(word.format(path) for word in argv))
    assert (code, out) == (2, "")
    accepted = (
        "; one is read if it is of Scrapy's HTTP cache (*/*/pickled_meta) or of Parquet files"
    )
    is_log = path == "." and argv in LOGS
    assert err == f"scrapy-urlnorm {verb_of(argv)}: {path}: {reason}{accepted * is_log}\n"
    assert not Path("new.seen").exists()


def refuse_to_open(monkeypatch, name):
    opened = Path.open

    def open_(path, *args, **kwargs):
        if path.name == name:
            raise PermissionError(13, "Permission denied", str(path))
        return opened(path, *args, **kwargs)

    monkeypatch.setattr(Path, "open", open_)


@pytest.mark.parametrize(("argv", "code"), READERS)
@pytest.mark.parametrize(
    "data",
    [b"", bytes(range(256)) * 9, gzip.compress(bytes(99_999), mtime=0)[:60]],
    ids=["empty", "bytes", "gzip that is cut off"],
)
def test_an_empty_or_binary_file(run, place, argv, code, data):
    """What is no text at all is a list of odd lines, or one line that names the file."""
    Path("binary").write_bytes(data)
    done = run(*(word.format("binary") for word in argv))
    assert done.code in ((0, 1, 2) if data else (code,))
    assert "Traceback" not in done.err
    if done.code == 2:
        assert done.err.startswith(f"scrapy-urlnorm {verb_of(argv)}: {'binary' if data else ''}")
        assert done.err.count("\n") == 1


@pytest.mark.parametrize("verb", [verb.name for verb in VERBS])
def test_wrong_usage(run, verb):
    for argv in ((*verb.split(), "--nosuch", "x", "y"), verb.split()):
        if verb == "rules list" and len(argv) == 2:
            continue
        code, out, err = run(*argv)
        assert (code, out) == (2, "")
        assert f"scrapy-urlnorm {verb}" in err
        assert err.startswith("usage: ") or err.count("\n") == 1


@pytest.mark.parametrize("argv", [("dedupe", "urls"), ("rules", "list"), ("--help",)])
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no full disk here")
def test_a_full_disk(place, argv):
    with Path("/dev/full").open("wb") as full:
        process = start(*argv, stdout=full)
        err = process.communicate()[1].decode()
    assert process.returncode == 2
    name = "python -m scrapy_urlnorm"
    assert err.splitlines()[-1] == f"{name}: standard output: No space left on device"
    assert "Exception" not in err


def test_closed_streams(place):
    """A program without standard output, input or error says so as well as it can."""
    command = f"PYTHONPATH={':'.join(sys.path)} {sys.executable} -m scrapy_urlnorm"
    for rest, expected in (
        ("explain http://a.example >&-", (2, "", "standard output: it is closed")),
        ("explain --brief - <&-", (2, "", "standard input: Bad file descriptor")),
        ("explain --brief missing 2>&-", (2, "", "")),
        ("dedupe urls 2>&-", (0, "http://a.example\n", "")),
    ):
        done = subprocess.run(
            f"{command} {rest}", shell=True, capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stdout) == expected[:2], rest
        assert expected[2] in done.stderr
        assert done.stderr.count("\n") == bool(expected[2])


@pytest.mark.parametrize(
    "argv",
    [("explain", "--brief", "-"), ("mine", "-", "--processes", "1")],
    ids=lambda argv: argv[0],
)
def test_ctrl_c_in_the_middle(place, argv):
    """One line and the shell's exit code for it, while the verb waits for more."""
    process = start(*argv, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    # More than pipe and buffers hold, so that the verb is at work when this is written.
    process.stdin.write(ROW.encode() * 20_000)
    process.stdin.flush()
    process.send_signal(signal.SIGINT)
    err = process.stderr.read().decode()
    process.stdin.close()
    process.stderr.close()
    assert process.wait() == 130
    assert err == f"python -m scrapy_urlnorm {argv[0]}: interrupted\n"


NOT_THERE = "missing/new.toml: No such file or directory\n"
KNOWN = "Known rules: decode-html-amp, "


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("zzz http://a.example", "invalid choice: 'zzz' (choose from"),
        ("rules chek rules.toml", "invalid choice: 'chek' (choose from"),
        ("explain --profil safe a", "--profil; did you mean '--profile'?"),
        ("explain", "give one URL, two URLs, or a file of URLs: --brief FILE"),
        ("explain a b c", "give one URL, two URLs, or a file of URLs: --brief FILE"),
        ("explain --brief - a", "give one URL, two URLs, or a file of URLs: --brief FILE"),
        ("explain --rule sort-querry a", "did you mean 'sort-query'"),
        ("explain --rule www=maybe a", "'maybe'"),
        ("explain --rule sort-query=7 a", "7"),
        ("explain --rule rules.toml a", "'rules.toml'"),
        ("explain --site-rules sort-query=false a", "sort-query=false: No such file"),
        ("dedupe - -", "standard input (-) can be read once"),
        ("rules list nosuch", f"'nosuch' is not a rule. {KNOWN}"),
        ("rules list ww", f"did you mean 'www'? {KNOWN}"),
        ("mine log.jsonl --risk 2", "'2' is no number from 0 to 0.5"),
        ("evaluate log.jsonl", "the following arguments are required: --rules"),
        ("evaluate --rules www=add log.jsonl", "www=add: No such file or directory"),
        ("rules import dud.json -o missing/new.toml", f"scrapy-urlnorm rules import: {NOT_THERE}"),
        ("rules merge rules.toml -o missing/new.toml", f"scrapy-urlnorm rules merge: {NOT_THERE}"),
    ],
)
def test_a_wrong_word_is_told_the_right_one(run, place, line, said):
    """A line beside how the verb is used, or alone; no endless wait for the keyboard."""
    code, out, err = run(*line.split())
    assert (code, out) == (2, "")
    assert said in err
    assert err.startswith("usage: ") or err.count("\n") == 1


def test_the_version(run):
    """The command line and the package say what is installed, and neither looks it up before."""
    try:
        expected = version("scrapy-urlnorm")
    except PackageNotFoundError:
        expected = "unknown"
    assert scrapy_urlnorm.__version__ == expected
    assert run("--version") == (0, f"scrapy-urlnorm {expected}\n", "")
    assert "__version__" in dir(scrapy_urlnorm)
    assert "__version__" not in vars(scrapy_urlnorm)


def test_the_add_on_has_a_name():
    """Scrapy's list of enabled add-ons shows it, not an address in memory."""
    assert repr(scrapy_urlnorm.Addon()) == "<scrapy_urlnorm.Addon>"
