"""Lists and logs in another encoding: a byte that is no UTF-8 is the byte that a client sends."""

from __future__ import annotations

import gzip
import json

import pytest
from scrapy import Request
from w3lib.url import canonicalize_url, safe_url_string

from scrapy_urlnorm import Normalizer, load_site_rules
from scrapy_urlnorm.logs import read_log

RAW = b"http://a.example/\xe9?q=\xfc"
SENT = "http://a.example/%E9?q=%FC"
# Bytes of a line, and what a client sends for them; w3lib says the same of the bytes.
SPELLINGS = [
    (b"http://a.example/\xe9?q=\xfc", "http://a.example/%E9?q=%FC"),
    (b"http://a.example/\xc3\xa9\xe9", "http://a.example/%C3%A9%E9"),
    (b"http://a.example/\xed\xa0\x80", "http://a.example/%ED%A0%80"),  # a surrogate is no UTF-8
    (b"http://a.example/?a=%e9&q=\xff\xfe", "http://a.example/?a=%E9&q=%FF%FE"),
    ("http://a.example/é".encode(), "http://a.example/%C3%A9"),
]


def strict(text):
    value = json.loads(text)
    json.dumps(value, ensure_ascii=False).encode("utf-8")
    return value


@pytest.mark.parametrize(("raw", "sent"), SPELLINGS)
def test_the_key_is_that_of_the_bytes(run, file, raw, sent):
    """A line of any encoding, as a file, from a pipe or as an argument, gets the key of its bytes."""
    assert canonicalize_url(raw) == canonicalize_url(sent)
    for data in (raw + b"\n", gzip.compress(raw)):
        assert run("explain", "--brief", file(data)).out == sent + "\n"
    assert run("explain", "--brief", "-", stdin=raw).out == sent + "\n"
    given = raw.decode("utf-8", "surrogateescape")
    assert run("explain", given).out.endswith(f"= {sent}\n")
    assert run("explain", given, sent).code == 0
    request = Request(safe_url_string(raw))  # as a crawl has it
    assert Normalizer().normalize(sent) == Normalizer().normalize(request.url) == sent


def test_dedupe_compares_the_bytes_and_prints_the_lines(run, file):
    lines = RAW + b"\n" + SENT.encode() + b"\nhttp://a.example/\xe8\n"
    first = [RAW.decode("utf-8", "surrogateescape"), "http://a.example/\udce8"]
    assert run("dedupe", "-q", file(lines)).out.splitlines() == first
    _, out, _ = run("dedupe", "-q", "--json", file(lines))
    rows = [strict(line) for line in out.splitlines()]
    assert [row["normalized"] for row in rows] == [SENT, "http://a.example/%E8"]
    assert SENT in run("dedupe", "-q", "--groups", "--json", file(lines)).out


def test_json_keeps_characters_outside_of_the_basic_plane(run):
    """A pair of surrogates is one character, and stays it, beside a byte that is none."""
    line = "http://a.example/😀".encode() + b"\xff"
    row = strict(run("explain", "--json", "--brief", "-", stdin=line).out)
    assert row["url"] == "http://a.example/😀%FF"
    assert row["normalized"] == "http://a.example/%F0%9F%98%80%FF"


def test_a_mark_in_front_of_the_text_is_no_part_of_the_first_url(run, file):
    """Editors that begin UTF-8 with a byte order mark do not hide the first line."""
    lines = b"\xef\xbb\xbfhttp://a.example\n" + b"\xef\xbb\xbfhttp://b.example\n"
    assert run("explain", "--brief", file(lines)).out == (
        "http://a.example/\n\ufeffhttp://b.example\n"
    )
    assert [row.url for row in read_log(str(file(lines[:20])))] == ["http://a.example"]


LOGS = [
    ("urls", RAW + b"\n"),
    ("jsonl", b'{"url": "' + RAW + b'"}\n'),
    ("jsonl", b'{"url": "http://a.example/\\udce9?q=\\udcfc"}\n'),
    ("cdx", b" ".join([b"a,example)/", b"20200101000000", RAW, b"text/html 200 AAAA 12"]) + b"\n"),
]


@pytest.mark.parametrize(("format", "data"), LOGS)
def test_logs_are_read_as_clients_send_them(file, format, data):
    assert [row.url for row in read_log(str(file(data)), format=format)] == [SENT]


def test_links_in_logs_are_read_as_clients_send_them(file):
    row = b'{"url": "http://a.example/", "location": "/\xe9", "canonical": "http://a.example/\xfc"}'
    [found] = read_log(str(file(row)), format="jsonl")
    assert found.location == "http://a.example/%E9"
    assert found.canonical == "http://a.example/%FC"


def test_mine_writes_rules_of_any_encoding(run, file, tmp_path):
    """Rules learned from bytes that are no UTF-8 can be written, and loaded again."""
    rows = b"".join(
        b'{"url": "http://a.example/\xe9/p%d?s=%d", "status": 200, "digest": "d%d"}\n' % (n, m, n)
        for n in range(60)
        for m in range(3)
    )
    path = tmp_path / "rules.toml"
    assert run("mine", file(rows), "-o", path, "--processes", "1").code == 0
    assert load_site_rules(path)
