"""Crawl logs: every format gives the same rows, and a bad row names its place."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import sys
from codecs import BOM_UTF8
from unittest import mock

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scrapy_urlnorm.exceptions import ConfigError, LogFormatError, MissingExtraError
from scrapy_urlnorm.logs import FORMATS, Observation, read_log, source
from scrapy_urlnorm.logs.observation import from_row

PAGE = "https://shop.example/a?b=1"
MOVED = "https://shop.example/old"
SHA = "B2LTWWPUOYAH7UIPQ7ZUPQ4VMBSVC36A"

JSONL = "\n".join(
    json.dumps(row)
    for row in (
        {"url": PAGE, "status": 200, "mime": "Text/HTML; charset=utf-8", "digest": SHA},
        {"url": MOVED, "status": 301, "mime": "text/html", "location": "/a?b=1"},
    )
)
CDX11 = (
    " CDX N b a m s k r M S V g\n"
    f"example,shop)/a?b=1 20140101000000 {PAGE} text/html 200 {SHA} - - 1043 333 x.warc.gz\n"
    f"example,shop)/old 20140101000000 {MOVED} text/html 301 - {PAGE} - 1043 333 x.warc.gz\n"
)
CDX9 = (
    f"example,shop)/a?b=1 20140101000000 {PAGE} text/html 200 {SHA} - 333 x.warc.gz\n"
    f"example,shop)/old 20140101000000 {MOVED} text/html 301 - {PAGE} 333 x.warc.gz\n"
)
CDXJ = (
    "!OpenWayback-CDXJ 1.0\n"
    f'example,shop)/a?b=1 20140101000000 {{"url": "{PAGE}", "mime": "text/html", "status": "200", '
    f'"digest": "sha1:{SHA}", "length": "1043", "offset": "333", "filename": "x.warc.gz"}}\n'
    f'example,shop)/old 20140101000000 {{"url": "{MOVED}", "mime": "text/html", "status": "301", '
    f'"redirect": "{PAGE}"}}\n'
)
FULL = [
    Observation(PAGE, 200, SHA, mime="text/html"),
    Observation(MOVED, 301, location=PAGE, mime="text/html"),
]


def log(tmp_path, text, name="log"):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(path)


@pytest.mark.parametrize(
    ("text", "format"),
    [
        (JSONL, "jsonl"),
        ("[\n" + JSONL.replace("}\n{", "},\n{") + "\n]\n", "jsonl"),
        ("\ufeff" + JSONL, "jsonl"),
        (CDX11, "cdx"),
        (CDX9, "cdx"),
        (CDXJ, "cdx"),
    ],
    ids=["jsonl", "json feed", "bom", "cdx 11", "cdx 9", "cdxj"],
)
def test_formats_with_contents_give_the_same_rows(tmp_path, text, format):
    reader = read_log(log(tmp_path, text))
    assert list(reader) == FULL
    assert reader.format == format


def test_a_url_list_is_read_as_it_is(tmp_path):
    """Comments and empty lines are passed over, and odd bytes are percent-encoded."""
    text = b"# crawled\n\nhttp://a.example/caf\xe9\r\nhttp://a.example/?x=#y\n"
    reader = read_log(log(tmp_path, text))
    paths = [row.url.removeprefix("http://a.example") for row in reader]
    assert paths == ["/caf%E9", "/?x=#y"]
    assert reader.format == "urls"


def test_gzip_is_known_by_its_bytes(tmp_path):
    """A gzipped log needs no .gz, and its members may be several, as appended logs have them."""
    data = gzip.compress((JSONL + "\n").encode()) + gzip.compress(JSONL.encode())
    assert list(read_log(log(tmp_path, data, "log.jsonl"))) == FULL * 2


def test_standard_input_is_a_dash(monkeypatch):
    """``-`` reads the same bytes, also gzipped, and leaves the stream open."""
    for data in (JSONL.encode(), gzip.compress(JSONL.encode())):
        stdin = io.TextIOWrapper(io.BufferedReader(io.BytesIO(data)))
        monkeypatch.setattr(sys, "stdin", stdin)
        assert list(read_log("-")) == FULL
        assert not stdin.closed


def test_the_closest_digest_is_the_content(tmp_path):
    """Sorted words before text before bytes: the last digest a row has names its content."""
    rows = [
        {"url": PAGE, "digest": "1", "text_digest": "2", "bag_digest": "3"},
        {"url": PAGE, "digest": "1", "text_digest": "2", "bag_digest": None},
        {"url": PAGE, "digest": "1", "text_digest": ""},
        {"url": PAGE},
    ]
    read = list(read_log(log(tmp_path, "\n".join(map(json.dumps, rows)))))
    assert [row.content for row in read] == ["3", "2", "1", None]
    assert [row.status for row in read] == [200, 200, 200, None], "a scraped page was a 200"


def test_links_of_a_row_are_made_absolute(tmp_path):
    """A Location or canonical link is resolved as RFC 3986 section 5 says."""
    row = {"url": "http://a.example/x/y?z", "location": "../q", "canonical": "//b.example/"}
    [read] = read_log(log(tmp_path, json.dumps(row)))
    assert (read.location, read.canonical) == ("http://a.example/q", "http://b.example/")


@pytest.mark.parametrize(
    ("observation", "is_page", "is_file"),
    [
        (Observation(PAGE, 200, "c", mime="text/html"), True, False),
        (Observation(PAGE, 200, "c", mime="application/xhtml+xml"), True, False),
        (Observation(PAGE, 200, "c"), True, False),
        (Observation(PAGE, 200, "c", mime=""), True, True),
        (Observation(PAGE, 200, "c", mime="image/png"), True, True),
        (Observation(PAGE, 404, "c", mime="text/html"), False, False),
        (Observation(PAGE, 200, mime="text/html"), False, False),
        (Observation(PAGE, 200, mime="image/png"), False, True),
    ],
)
def test_what_came_with_200_is_compared(observation, is_page, is_file):
    """A response without a media type is no HTML; where the log knows none, it may be."""
    assert (observation.is_page, observation.is_file) == (is_page, is_file)


@pytest.mark.parametrize(
    ("row", "content"),
    [
        ({"mime": "application/pdf", "len": 128}, "d"),
        ({"mime": "application/pdf", "len": "128"}, "d"),
        ({"mime": "application/pdf", "len": 127}, None),
        ({"mime": None, "len": 0}, None),
        ({"mime": "text/html", "len": 0}, "d"),
        ({"mime": "application/pdf"}, "d"),
        ({"mime": "application/pdf", "len": ""}, "d"),
        ({"len": 0}, "d"),
    ],
)
def test_a_small_body_that_is_no_html_has_no_content(row, content):
    """Empty answers are all alike. Of a page its text is compared, however short the page is."""
    assert from_row({"url": PAGE, "status": 200, "digest": "d", **row}).content == content


def test_a_null_mime_is_a_response_without_one(tmp_path):
    """A mime of null says that there was none; a missing key says nothing."""
    rows = '{"url": "http://a.example/", "mime": null}\n{"url": "http://a.example/"}'
    assert [row.mime for row in read_log(log(tmp_path, rows))] == ["", None]


BAD = [
    (
        "jsonl",
        '[{"url": "http://a.example/"}, {"url": "http://b.example/"}]',
        1,
        "must be an object",
    ),
    ("jsonl", '{"url": "http://a.example/"}\n\n{"url": "http://a', 3, "no JSON object"),
    ("jsonl", '{"url": "http://a.example/"}\n[1]', 2, "must be an object"),
    ("jsonl", '{"url": ""}', 1, "absolute 'url'"),
    ("jsonl", '{"url": ["http://a.example/"]}', 1, "absolute 'url'"),
    ("jsonl", '{"url": "http://a.example/", "status": "ok"}', 1, "'status' must be a number"),
    ("jsonl", '{"url": "http://a.example/", "mime": 3}', 1, "'mime'"),
    (
        "jsonl",
        '{"url": "http://a.example/", "mime": "", "len": "long"}',
        1,
        "'len' must be a number",
    ),
    ("jsonl", '{"url": "http://a.example/", "location": 3}', 1, "must be text"),
    ("jsonl", '{"url": "http://a.example/", "status": Infinity}', 1, "'status' must be a number"),
    ("jsonl", "[" * 100_000, 1, "nested too deeply"),
    ("cdx", CDX11 + "a b c", 4, "3 fields where the header names 11"),
    ("cdx", CDX9 + "a b c", 3, "3 fields; without a header"),
    ("cdx", CDX9 + 'a 2014 {"url"', 3, "delimiter"),
    ("cdx", CDX9 + 'a 2014 {"status": "200"}', 3, "absolute 'url'"),
    ("urls", "http://a.example/\nfoo bar", 2, "not an absolute URL: 'foo bar'"),
]


@pytest.mark.parametrize(("format", "text", "line", "reason"), BAD)
def test_a_bad_row_names_file_line_and_reason(tmp_path, format, text, line, reason):
    """What cannot be read stops the reading, or is counted and the other rows are read."""
    path = log(tmp_path, text)
    with pytest.raises(LogFormatError) as caught:
        list(read_log(path, format=format))
    assert str(caught.value).startswith(f"{path}, line {line}: ")
    assert reason in str(caught.value)
    reader = read_log(path, format=format, skip_bad=True)
    assert len(list(reader)) <= line
    assert (reader.skipped, reader.first_bad) == (1, str(caught.value))


def test_rows_after_a_bad_one_are_read(tmp_path):
    texts = {
        "jsonl": JSONL.replace("\n", "\n{\n"),
        "cdx": CDX9.replace("200", "OK", 1),
        "urls": "x\n" + MOVED,
    }
    assert texts.keys() == FORMATS.keys()
    for format, text in texts.items():
        reader = read_log(log(tmp_path, text), format=format, skip_bad=True)
        assert list(reader)[-1].url == MOVED, format
        assert reader.skipped == 1, format


def test_a_cut_off_gzip_gives_what_it_holds(tmp_path):
    """The log of a killed crawl is read up to where it ends, and the end is a bad row."""
    data = gzip.compress(((JSONL + "\n") * 500).encode())[:-20]
    path = log(tmp_path, data)
    with pytest.raises(LogFormatError, match="cut off"):
        list(read_log(path))
    reader = read_log(path, skip_bad=True)
    assert len(list(reader)) > 900
    assert reader.skipped >= 1


def test_a_line_that_never_ends_is_no_row(tmp_path, monkeypatch):
    """A line longer than any row is passed over without holding it in memory."""
    monkeypatch.setattr("scrapy_urlnorm.logs.source.MAX_LINE", 100)
    reader = read_log(
        log(tmp_path, f"{MOVED}?{'x' * 1000}\n{PAGE}\n"), format="urls", skip_bad=True
    )
    assert [row.url for row in reader] == [PAGE]
    assert "longer than 100 bytes" in reader.first_bad


class Pipe(io.RawIOBase):
    """Gives one part of the data at each read, as a pipe does; *reads* counts them."""

    def __init__(self, parts):
        self.parts = [part for part in parts if part]
        self.reads = 0

    def readable(self):
        return True

    def readinto(self, buffer):
        self.reads += 1
        if not self.parts:
            return 0
        part = self.parts.pop(0)
        if len(part) > len(buffer):
            self.parts.insert(0, part[len(buffer) :])
        taken = part[: len(buffer)]
        buffer[: len(taken)] = taken
        return len(taken)


class Told(source.Log):
    """A log that writes down what is bad."""

    def __init__(self):
        super().__init__()
        self.lines = []

    def bad(self, line, reason):
        self.lines.append(line)


BYTES = [b"a", b"\n", b" ", b"\r", b"\xe9", BOM_UTF8, b"b" * 9, *map(str.encode, "é\u2028\x0b\x0c")]


@settings(max_examples=200)
@given(
    parts=st.lists(st.lists(st.sampled_from(BYTES)).map(b"".join)),
    size=st.integers(8, 40),
)
def test_lines_are_the_same_however_they_come(parts, size):
    """Cut anywhere, by a pipe or by a buffer: lines, their numbers, and which are too long.

    Only a line feed ends one: str.splitlines would cut at U+2028 and form feeds.
    """
    told = Told()
    stream = io.BufferedReader(Pipe(parts), size)
    with mock.patch.object(source, "MAX_LINE", 12), mock.patch.object(source, "_PIECE", 10):
        found = list(source.numbered_lines(stream, told))
    rows = list(enumerate(b"".join(parts).split(b"\n"), 1))
    assert told.lines == [number for number, line in rows if len(line) >= 12]
    expected = [
        (number, line.removeprefix(BOM_UTF8 if number == 1 else b"").strip(b" \t\r"))
        for number, line in rows
        if len(line) < 12
    ]
    assert found == [(n, line.decode("utf-8", "surrogateescape")) for n, line in expected if line]
    assert source.urls_in(b"\n".join(line for _, line in expected)) == [
        source.url_of(line) for _, line in found
    ]


def test_whole_lines_do_not_wait_for_the_rest_of_another():
    """A pipe holds one line and a half: the one is there before the other is read."""
    pipe = Pipe([b"a\nb\nc", b"\nd"])
    lines = source.numbered_lines(io.BufferedReader(pipe), Told())
    assert [next(lines), next(lines), pipe.reads] == [(1, "a"), (2, "b"), 1]
    assert list(lines) == [(3, "c"), (4, "d")]


def test_an_unknown_format_names_the_known_ones(tmp_path):
    """Neither a wrong name nor a file of another kind is guessed at."""
    with pytest.raises(ConfigError, match="'arc'; known are jsonl, cdx"):
        read_log("x", format="arc")
    with pytest.raises(LogFormatError, match=r"line 1: no known format .*'hello'.*jsonl"):
        list(read_log(log(tmp_path, "hello\n")))


PIECES = [
    *("\n", " ", "\t", "\x00", " - ", "CDX N b a", "{", "}", "[", "]", ",", '"', "\\", "é", "//"),
    *('"url":', '"http://a.example/"', "2014", "200", '"blocks":', '"AAAA"'),
]


@pytest.mark.parametrize("format", [None, *FORMATS])
@settings(max_examples=150, suppress_health_check=list(HealthCheck))
@given(data=st.one_of(st.lists(st.sampled_from(PIECES)).map("".join).map(str.encode), st.binary()))
def test_any_bytes_are_rows_or_bad_rows(tmp_path, format, data):
    """Whatever a file holds, it is read, counted or refused by name: nothing else is raised."""
    path = log(tmp_path, data)
    reader = read_log(path, format=format, skip_bad=True)
    with contextlib.suppress(LogFormatError, MissingExtraError):
        assert all(row.url for row in reader)


def test_an_empty_log_has_no_rows(tmp_path):
    assert list(read_log(log(tmp_path, ""))) == []
    assert list(read_log(log(tmp_path, "\n\n"))) == []


def test_reading_streams(tmp_path):
    """The first row is there before the rest of the file is read."""
    reader = read_log(log(tmp_path, JSONL + "\n" + "{\n" * 1000))
    assert next(reader) == FULL[0]


def test_cdx_revisits_are_no_pages(tmp_path):
    """A revisit repeats a digest without a status, and must not count as a content."""
    line = f"a 20140101000000 {PAGE} warc/revisit - {SHA} - - 1043 333 x.warc.gz"
    [row] = read_log(log(tmp_path, line))
    assert not row.is_page
    assert row.content is None
