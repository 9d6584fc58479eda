"""Clean-param lines of robots.txt become candidates for rules, which contents prove."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_urlnorm import Normalizer
from scrapy_urlnorm.learning.media import OF_FILE
from scrapy_urlnorm.learning.mined import mined
from scrapy_urlnorm.learning.robots import (
    MAX_BYTES,
    MAX_CANDIDATES,
    MAX_LINE,
    NEEDED,
    clean_params,
    path_of,
)
from scrapy_urlnorm.learning.worker import Job
from scrapy_urlnorm.site_rules import load_site_rules, save_site_rules

HOST = "shop.test"


def read(text):
    """Return parameter and path of each candidate."""
    data = text if isinstance(text, bytes) else text.encode()
    return [(rule.param[0], rule.path) for rule in clean_params(data, HOST)]


@pytest.mark.parametrize(
    ("text", "candidates"),
    [
        ("", []),
        ("User-agent: *\nDisallow: /x", []),
        ("Clean-param: sid", [("sid", None)]),
        ("Clean-param: sid /", [("sid", None)]),
        ("Clean-param: sid&ref /forum/show.php", [("sid", "/forum/show.php/**"),
                                                  ("ref", "/forum/show.php/**")]),
        ("User-agent: Yandex\r\nDisallow:\r\nclean-PARAM : s /a/\r\n", [("s", "/a/**")]),
        ("\tClean-param:\ts\t/a # why", [("s", "/a/**")]),
        ("Clean-param: s /a\rClean-param: t /a", [("s", "/a/**"), ("t", "/a/**")]),
        ("\ufeffClean-param: s", [("s", None)]),
        ("Clean-param: s /a\nClean-param: s /a", [("s", "/a/**")]),
        ("Clean-param: a%5B%5D", [("a[]", None)]),
        ("Clean-param: &&s&", [("s", None)]),
        # What the syntax does not know says nothing.
        ("Clean-param:", []),
        ("Clean-param: # s", []),
        ("Clean-param: s=1", []),
        ("Clean-param: utm_*", []),
        ("Clean-param: one two", []),
        ("Clean-param: s /a /b", []),
        ("Clean-param s /a", []),
        ("# Clean-param: s", []),
        ("Clean-param: s /" + "a" * MAX_LINE, []),
        (b"Clean-param: \xff\xfe /a", [("\ufffd\ufffd", "/a/**")]),
    ],
)  # fmt: skip
def test_lines(text, candidates):
    assert read(text) == candidates


@pytest.mark.parametrize(
    ("prefix", "path"),
    [
        ("", ""),
        ("*", ""),
        ("/*", ""),
        ("/$", "/"),
        ("/a", "/a/**"),
        ("/a/", "/a/**"),
        ("/a*", "/a/**"),
        ("/a/*", "/a/**"),
        ("/a$", "/a"),
        ("/a/$", "/a/"),
        ("/a/*/b", "/a/*/b/**"),
        ("/*.php", "/*.php/**"),
        ("*.php", "/**/*.php"),
        ("*/print", "/**/print"),
        ("*/print/", "/**/print/"),
        ("/news/article*/default.asp", None),
        ("/a?b=", None),
        ("a", None),
        ("*a", None),
        ("/a$b", None),
        ("$", None),
        ("*$", None),
    ],
)
def test_prefixes(prefix, path):
    assert path_of(prefix) == path


def test_a_candidate_is_proposed_and_stands_in_a_rule_file(tmp_path):
    """It changes nothing by itself; once active it drops the parameter below the prefix."""
    rules = clean_params(b"Clean-param: ref /a", HOST)
    path = tmp_path / "rules.toml"
    save_site_rules(path, rules)
    assert load_site_rules(path) == tuple(rules)
    assert (rules[0].status, rules[0].source) == ("proposed", "robots")
    active = Normalizer("safe", site_rules=[rules[0].replace(status="active")])
    assert active.normalize("http://shop.test/a/b?ref=1&x=2") == "http://shop.test/a/b?x=2"
    assert active.normalize("http://shop.test/ab?ref=1") == "http://shop.test/ab?ref=1"


def test_a_file_is_read_to_its_bounds():
    """The site decides how long its file is, and we how much of it is read."""
    lines = b"".join(b"Clean-param: p%d\n" % number for number in range(10_000))
    assert len(clean_params(lines, HOST)) == MAX_CANDIDATES
    assert read(b"#" * MAX_BYTES + b"\nClean-param: s") == []


@pytest.mark.parametrize("host", ["", "no host", "127.0.0.1", "[::1]", "shop.test:80", "SHOP"])
def test_any_host(host):
    for rule in clean_params(b"Clean-param: s /a", host):
        assert rule.site == host


LINES = st.lists(
    st.one_of(
        st.text(max_size=40),
        st.builds(
            "Clean-param: {} {}".format,
            st.text(max_size=20),
            st.text(alphabet="/*$ab.?#% ", max_size=12),
        ),
    ),
    max_size=8,
).map(lambda lines: "\n".join(lines).encode("utf-8", "surrogatepass"))


@given(st.one_of(st.binary(max_size=200), LINES))
def test_whatever_the_file_says(data):
    """Nothing is raised, and each candidate can be applied."""
    rules = clean_params(data, HOST)
    assert len(rules) <= MAX_CANDIDATES
    for rule in rules:
        assert rule.kind == "drop-param"
        assert rule.site == HOST
        Normalizer("safe", site_rules=[rule.replace(status="active")]).normalize(
            "http://shop.test/"
        )


@given(
    st.text(alphabet="/ab.", max_size=8).map("/{}".format),
    st.text(alphabet="/ab.", max_size=12).map("/{}".format),
)
def test_a_rule_holds_below_its_prefix_alone(prefix, path):
    """The one exception is the folder itself, without its final slash."""
    rules = clean_params(f"Clean-param: s {prefix}".encode(), HOST)
    active = Normalizer("safe", site_rules=[rule.replace(status="active") for rule in rules])
    plain = Normalizer("safe").normalize(f"http://shop.test{path}")
    if active.normalize(f"http://shop.test{path}?s=1") == plain:
        below = plain.removeprefix("http://shop.test")
        assert below.startswith(prefix) or f"{below}/" == prefix


# --- what proves a candidate ----------------------------------------------------------------------

WWW = "www.shop.test"
PAIRS = [f"/a/{n} {n}" for n in range(NEEDED)] + [f"/a/{n}?ref={n} {n}" for n in range(NEEDED)]


def rows_of(pages, host=WWW):
    """Rows of pages, each "URL content"."""
    split = (page.split() for page in pages)
    return [(f"http://{host}{url}", 200, content, None) for url, content in split]


def proved(lines, rows, accepted=(), **options):
    """The rules in force after these rows, of which robots.txt has these lines."""
    text = "\n".join(f"Clean-param: {line}" for line in lines).encode()
    job = Job("shop.test", rows, tuple(accepted), {}, clean_params(text, WWW))
    found = mined(job._replace(**options))
    assert found.error is None
    return found.rules


@pytest.mark.parametrize("contents", [True, False])
@pytest.mark.parametrize(
    ("lines", "pages", "names"),
    [
        (["ref"], PAIRS, ["ref"]),
        (["ref"], PAIRS[::-1], ["ref"]),
        (["ref /a"], PAIRS, ["ref"]),
        (["ref /b"], PAIRS, []),
        (["ref"], PAIRS[:-1], []),
        (["ref"], [], []),
        ([], PAIRS, []),
        # One content votes once, however many URLs have it.
        (["ref"], [f"/a?ref={n} one" for n in range(20)], []),
        # One disagreement is enough, wherever it stands.
        (["ref"], ["/b x", "/b?ref=1 y", *PAIRS], []),
        (["ref"], [*PAIRS[:-1], "/b x", "/b?ref=1 y", PAIRS[-1]], []),
        # Parameters that come together are tried together, and blamed together.
        (["ref&pos"], [f"/{n}?ref={m}&pos={m} {n}" for n in "abc" for m in "12"], ["pos", "ref"]),
        (["ref&pos"], ["/b?ref=1&pos=1 x", "/b?ref=2&pos=2 y", *PAIRS], []),
        # The others go on.
        (["pos&ref"], ["/b?pos=1 x", "/b?pos=2 y", *PAIRS], ["ref"]),
        (["pos&ref"], [*PAIRS, *(f"/c/{n}?pos={m} {n}" for n in "abc" for m in "12")],
         ["pos", "ref"]),
        # What the catalogue merges anyway proves nothing.
        (["utm_source"], [f"/{n}?utm_source={m} {n}" for n in "abc" for m in "12"], []),
        # Only what differs is proved.
        (["ref&pos"], [f"/{n}?ref={m}&pos=1 {n}" for n in "abc" for m in "12"], ["ref"]),
        # Files say nothing.
        (["ref"], [page.replace(" ", " file-") for page in PAIRS], []),
    ],
)  # fmt: skip
def test_a_few_contents_prove_a_candidate(lines, pages, names, contents):
    rows = [(*row[:2], row[2].replace("file-", OF_FILE), None) for row in rows_of(pages)]
    rules = proved(lines, rows, contents=contents)
    assert sorted(rule.param[0] for rule in rules if rule.source == "robots") == names


def test_a_proven_rule_tells_its_evidence():
    (rule,) = proved(["ref /a"], rows_of(PAIRS))
    assert (rule.site, rule.path, rule.source) == (WWW, "/a/**", "robots")
    assert (rule.status, rule.support, rule.conflicts) == ("active", NEEDED, 0)
    assert set(rule.examples[0]) == {f"http://{WWW}/a/0", f"http://{WWW}/a/0?ref=0"}


def test_other_hosts_are_not_concerned():
    assert proved(["ref"], rows_of(PAIRS, host="shop.test")) == ()


@pytest.mark.parametrize("contents", [True, False])
def test_a_rule_in_force_stays_until_a_page_refutes_it(contents):
    """Pages without a content do not."""
    rules = proved(["ref"], rows_of(PAIRS))
    unknown = [(f"http://{WWW}/b{query}", 200, None, None) for query in ("", "?ref=1")]
    assert proved([], unknown, rules, contents=contents) == rules
    refuting = rows_of(["/b x", "/b?ref=1 y"])
    assert proved(["ref"], unknown + refuting, rules, contents=contents) == ()
