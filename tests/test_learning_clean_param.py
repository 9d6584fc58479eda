"""Clean-param lines of robots.txt become candidates for rules, and nothing else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_urlnorm import Normalizer
from scrapy_urlnorm.learning.clean_param import (
    MAX_BYTES,
    MAX_CANDIDATES,
    MAX_LINE,
    clean_params,
    path_of,
)
from scrapy_urlnorm.site_rules import load_site_rules, save_site_rules

HOST = "shop.test"


def read(text: str | bytes) -> list[tuple[str, str | None]]:
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
