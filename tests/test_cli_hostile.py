"""Rule files and logs that were made to break their reader: one line says what is wrong."""

from __future__ import annotations

import pytest

RULE = b'[[rule]]\nsite = "a.example"\nkind = "drop-param"\n'
SEGMENT = b'[[rule]]\nsite = "a.example"\nkind = "strip-segment"\nshape = "digits"\nprefix = "/a"\n'
RULE_FILES = {
    "open brackets": (RULE + b"param = " + b"[" * 50_000, "nested too deeply"),
    "brackets": (RULE + b"param = " + b"[" * 50_000 + b"]" * 50_000, "nested too deeply"),
    # As deep as the reader can go, too deep for whoever writes it into a message.
    "many brackets": (RULE + b"param = " + b"[" * 960 + b"]" * 960, "nested too deeply"),
    "brackets outside": (b"a = " + b"[" * 50_000, "nested too deeply"),
    "tables": (RULE + b"when = " + b"{a=" * 50_000, "nested too deeply"),
    "dots": (RULE + b"when" + b".a" * 20_000 + b" = 1", "1000 parts"),
    "dots in a header": (RULE + b"[rule" + b".a" * 20_000 + b"]\n", "1000 parts"),
    "digits": (RULE + b"support = " + b"9" * 100_000, "64 bits"),
    "hexadecimal digits": (RULE + b"param = 'a'\nsupport = 0x" + b"f" * 100_000, "64 bits"),
    "a long length": (SEGMENT + b"min_length = 0x" + b"f" * 10_000, "64 bits"),
    "a long key": (RULE + b"a" * 1_000_000 + b" = 1", "unknown key 'aaa"),
    "a long kind": (RULE.replace(b"drop-param", b"a" * 1_000_000), "kind = 'aaa"),
    "NUL in a text": (RULE + b'param = "a\0b"\n', r"Illegal character '\x00'"),
    "nothing but NUL": (b"\0" * 100_000, "line 1, column 1"),
    "headers": (b"[[rule]]\n" * 10_000, "site = None is not accepted"),
    "a text that never ends": (RULE + b'note = """\n' + b"[[rule]]\n" * 10_000, "Unterminated"),
    "a number for a path": (
        b'[[rule]]\nsite = "a.example"\nkind = "param-to-path"\nparam = "a"\nby = "/{}"\npath = 3',
        "path = 3",
    ),
    "a day for a text": (RULE + b"param = 'a'\nnote = 1979-05-27", "note = datetime.date"),
    "another encoding": (RULE + b"param = '\xe9'", "UTF-8"),
}


@pytest.mark.parametrize(("data", "named"), RULE_FILES.values(), ids=RULE_FILES)
def test_a_hostile_rule_file_is_one_line(run, file, data, named):
    path = file(data)
    code, out, err = run("rules", "check", path)
    assert (code, err) == (1, "")
    assert out.startswith(f"error: {path}")
    assert named in out.splitlines()[0]
    assert "1 error: 0 rules" in out.splitlines()[1]
    code, out, err = run("explain", "--site-rules", path, "http://a.example/")
    assert (code, out) == (2, "")
    assert err.startswith(f"scrapy-urlnorm explain: {path}")
    assert err.count("\n") == 1
    assert len(err) < 3_000


LOGS = {
    "a deep row": b"[" * 100_000,
    "a deep digest": b'{"url": "http://a.example/", "digest": %b}' % (b"[" * 980 + b"]" * 980),
    "a deep URL": b'{"url": %b}' % (b"[" * 980 + b"]" * 980),
    "a deep status": b'{"url": "http://a.example/", "status": %b}' % (b"[" * 985 + b"]" * 985),
    "digits": b'{"url": "http://a.example/", "status": %b}' % (b"9" * 100_000),
    "deep blocks": b'{"url": "http://a.example/", "blocks": %b}' % (b"[" * 900 + b"]" * 900),
    "a CDXJ row": b"a 20200101000000 {" + b'"a":{' * 100_000,
    "NUL": b"\0" * 1000,
}


@pytest.mark.parametrize("data", LOGS.values(), ids=LOGS)
def test_a_hostile_log_is_one_line(run, file, tmp_path, data):
    rules = tmp_path / "rules.toml"
    rules.write_bytes(RULE + b"param = 'a'")
    path = file(data)
    code, out, err = run("evaluate", path, "--rules", rules)
    assert (code, out) == (2, "")
    assert err.startswith(f"scrapy-urlnorm evaluate: {path}, line ")
    assert err.count("\n") == 1
    assert len(err) < 3_000
    skipped = run("evaluate", path, "--rules", rules, "--skip-bad")
    assert skipped.code in (0, 2)  # 2: no row was left


def test_an_option_that_nests_deeply_is_one_line(run):
    """--rule reads JSON; what is too deep for it is a text like any other."""
    code, out, err = run("explain", "--rule", "www=" + "[" * 50_000, "http://a.example/")
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert len(err) < 3_000
