"""The command line as a whole, on anything: it answers, and raises nothing."""

from __future__ import annotations

import io
import json
import tempfile
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

from hypothesis import example, given
from hypothesis import strategies as st

from scrapy_urlnorm.cli import main
from scrapy_urlnorm.site_rules.operations import WORDS as KINDS
from scrapy_urlnorm.site_rules.rule import FIELDS

# Bytes as lists and rule files have them, with what breaks readers strewn in.
PIECES = b"http:// HTTPS://a.example:80 // /../ ?a=1&b=2 # % %e9 [::1] [ ] { } = .".split()
PIECES += [
    b"\xe9",
    b"\xed\xa0\x80",
    b"\xf0\x9f\x98\x80",
    b"\0",
    b"\r",
    b"\n",
    b"\xef\xbb\xbf",
    b'"',
    b'"""',
]
PIECES += [
    b"\x1f\x8b",
    b"[[rule]]\n",
    b'site = "a.example"\n',
    b'kind = "drop-param"\n',
    b'param = "a"\n',
]
PIECES = st.binary(max_size=20) | st.sampled_from(PIECES)
ANYTHING = st.lists(PIECES, max_size=12).map(b"".join)

WORDS = st.sampled_from(
    [
        "",
        "\x00",
        *["a", "/a", "/{}", "/**", "*.a.example", "a.example", "s0", "q:a", "?", "%", "é", "😀"],
        *["*", "/a/{}", "/*/b/**", "digits", "before", "has", "params", "rest", "host"],
    ]
)
VALUES = st.recursive(
    st.one_of(WORDS, st.booleans(), st.integers(), st.floats(), st.dates(), st.datetimes()),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(WORDS, inner, max_size=2),
    max_leaves=4,
)
URLS = st.sampled_from(["http://a.example/a?a=1&b=2", "http://[::1", "é", "http://b.a.example/"])


def run(*argv):
    """Run the command line: (exit code, standard output, standard error)."""
    out, err = io.TextIOWrapper(io.BytesIO(), encoding="utf-8"), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        try:
            code = main(list(argv))
        except SystemExit as stop:
            code = stop.code
    return code, out.buffer.getvalue(), err.getvalue()


def on_file(data, *argv):
    """Run a verb on a file with these bytes, whose name takes the place of ``{}``."""
    with tempfile.TemporaryDirectory() as place:
        path = Path(place, "input")
        path.write_bytes(data)
        return run(*(word.replace("{}", str(path)) for word in argv))


def toml(value):
    """Write a value as TOML, also what `write_value` is not asked for."""
    if isinstance(value, (bool, int, str)):
        return json.dumps(value)
    if isinstance(value, float):
        return str(value)
    if isinstance(value, list):
        return f"[{', '.join(map(toml, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{toml(key)} = {toml(each)}' for key, each in value.items())}}}"
    return value.isoformat()


LIST_VERBS = [("explain", "--brief", "{}"), ("dedupe", "{}"), ("dedupe", "--groups", "{}")]


@given(ANYTHING, st.sampled_from(LIST_VERBS), st.booleans())
@example(b"http://a.example/\xe9\n\xed\xa0\x80", LIST_VERBS[0], True)
def test_any_bytes_are_a_list_of_urls(data, argv, as_json):
    """Whatever stands in a list, each line is answered; JSON can be read by strict readers."""
    code, out, err = on_file(data, *argv, *["--json"] * as_json)
    assert code in (0, 1) or (data[:2] == b"\x1f\x8b" and "damaged" in err)
    if as_json:
        for line in out.splitlines():
            json.dumps(json.loads(line), ensure_ascii=False).encode("utf-8")


@given(ANYTHING, st.booleans())
def test_any_bytes_are_a_rule_file_or_not(data, as_json):
    code, out, _ = on_file(data, "rules", "check", "{}", *["--json"] * as_json)
    assert code in (0, 1)
    assert out.startswith(b"{") or not as_json
    used = on_file(data, "explain", "--site-rules", "{}", "http://a.example/")
    assert used[0] == (2 if code else 0)


@given(
    st.sampled_from([*KINDS, "www", "sort-query", "drop-params", "trailing-slash", "x"]),
    st.dictionaries(st.sampled_from(FIELDS[2:]), VALUES, max_size=5),
    st.lists(URLS, min_size=2, max_size=2),
    st.booleans(),
)
def test_any_rule_is_one_or_not(kind, fields, example, as_json):
    table = {"site": "a.example", "kind": kind, "examples": [example]} | fields
    text = "[[rule]]\n" + "".join(f"{key} = {toml(value)}\n" for key, value in table.items())
    code, out, _ = on_file(text.encode(), "rules", "check", "{}", *["--json"] * as_json)
    assert code in (0, 1)
    if as_json:
        json.dumps(json.loads(out), ensure_ascii=False).encode("utf-8")
