"""Hypothesis strategies for URLs that a crawler meets, and for text that is none.

`plain_urls` are as most URLs are; `urls` have all that a rule looks at, mostly well-formed; `anything`
may be any text.
"""

from __future__ import annotations

from hypothesis import strategies as st

from scrapy_urlnorm.rules import RULE_NAMES

ESCAPES = [
    "%41", "%7E", "%7e", "%2e", "%2E", "%2f", "%2F", "%25", "%2541", "%3b", "%3B", "%3f", "%23",
    "%40", "%2C", "%2c", "%3D", "%26", "%2B", "%20", "%5B", "%7c", "%E9", "%c3%a9", "%00", "%",
    "%z", "%%34%31", "%4", "%%341",
]  # fmt: skip
SEGMENTS = [
    "", ".", "..", "a", "b", "A", "index.html", "index.php", "default.asp", "a.html", "amp", "~u",
    "..;x", ".;x", ";", "a;b=1", "a;jsessionid=0A1B2C3D4E5F60718293A4B5C6D7E8F9", "*", "a+b", "|",
    "(S(lit3py55t21z5v55vlm25s55))", "(X(1)S(lit3py55t21z5v55vlm25s55))", "http:", "www", "[", "]",
    "é", "ü%FC", "a b", '"', "\\", "\t", "!$&'()*+,;=:@", "...", "a.amp.html",
]  # fmt: skip
NAMES = [
    "a", "b", "B", "id", "page", "utm_source", "UTM_Medium", "utm", "gclid", "fbclid", "sid", "ref",
    "PHPSESSID", "jsessionid", "CFID", "CFTOKEN", "x[]", "x%5B%5D", "", "é", "a%20b", "a+b", "?",
    "amp;b", "a;b", "a/b", "output", "amp", "sort",
]  # fmt: skip
VALUES = [
    "", "1", "2", "a b", "a+b", "a%20b", "%2B", "=", "a=b", "é", "%E9", "%c3%a9", "0", "x;y=1",
    "0A1B2C3D4E5F60718293A4B5C6D7E8F9", "lit3py55t21z5v55vlm25s55", "http://h//x?y", "'", "%27",
    "amp", "tl;dr", "%", "%zz", "%%34%31", "/../",
]  # fmt: skip
HOSTS = [
    "example.com", "EXAMPLE.com", "www.example.com", "www.com", "www.co.uk", "www.www.example.com",
    "m.example.com", "127.0.0.1", "0x7f.1", "2130706433", "256.1.1.1", "[::1]", "[::ffff:1.2.3.4]",
    "[2001:DB8:0:0:1:0:0:1]", "[fe80::1%25eth0]", "example.com.", "", "h", "ex%41mple.com", ".",
    "exämple.com", "straße.de", "xn--exmple-cua.com", "a_b", "h%4d", "1.2.3.4.5", "０x7f．1",
    "www.doku.localhost", "a..b", "a b", "①.example.com", "www.",
]  # fmt: skip

#: By rule: options that those without a default need, and others than a profile's for the rest.
OPTIONS: dict[str, list[object]] = {name: [True] for name in RULE_NAMES} | {
    "trailing-slash": ["add", "remove"],
    "replace-ip-with-domain": [{"127.0.0.1": "example.com", "[::1]": "www.example.com"}],
    "force-scheme": ["http", "https"],
    "www": ["add", "remove"],
    "sort-query": ["pairs", "stable"],
    "remove-session-ids": ["sure", "likely"],
    "drop-params": ["sure", "likely", ["id", "a*"], {"add": ["page"], "except": ["gclid"]}],
    "keep-params": [["id", "a", "utm_source"]],
    "drop-default-params": [{"page": "1", "sort": ["", "0"]}],
    "remove-fragment": [True, ["#!", "#/"]],
    "remove-directory-index": [True, ["a.html"]],
}

_escape = st.sampled_from(ESCAPES)
_text = st.lists(st.one_of(st.sampled_from(SEGMENTS), _escape), max_size=3).map("".join)
_segments = st.lists(st.one_of(st.sampled_from(SEGMENTS), _text), max_size=6).map("/".join)
_name = st.one_of(st.sampled_from(NAMES), _escape)
_value = st.one_of(st.sampled_from(VALUES), _text)
_pair = st.one_of(
    st.builds("{}={}".format, _name, _value),
    _name,
    st.just(""),
    st.builds("{}={}".format, _name, _name),
)
queries = st.lists(_pair, max_size=5).flatmap(
    lambda pairs: st.sampled_from(["&", "&", "&", ";", "&amp;"]).map(lambda sep: sep.join(pairs))
)
fragments = st.sampled_from(["top", "!/a", "/a", "", ":~:text=x", "/a:~:text=x", "a#b", "é", "%zz"])
schemes = st.sampled_from(["http", "https", "HTTP", "http", "https", "ftp", "ws", "s3", "foo"])
userinfos = st.sampled_from(["", "", "", "", "@", ":@", "u@", "u:p@", "U%41:p%40@", "a@b@"])
ports = st.sampled_from(["", "", "", ":", ":80", ":443", ":0080", ":8080", ":0", ":65536", ":x"])


@st.composite
def urls(draw: st.DrawFn) -> str:
    """URLs, mostly well-formed, of all that the rules look at."""
    url = f"{draw(schemes)}://{draw(userinfos)}{draw(st.sampled_from(HOSTS))}{draw(ports)}"
    path = draw(_segments)
    if path or draw(st.booleans()):
        url += "/" + path
    if draw(st.booleans()):
        url += "?" + draw(queries)
    if draw(st.integers(0, 4)) == 0:
        url += "#" + draw(fragments)
    return url


#: Any text at all, lone surrogates included.
texts = st.text(st.characters(codec=None), max_size=60)
anything = st.one_of(urls(), urls(), texts, st.builds("{}{}".format, urls(), texts))


# Pieces of which many are plain for most rules, and few for all.
_ID = "0A1B2C3D4E5F60718293A4B5C6D7E8F9"
_plain_segments = st.sampled_from(
    ["a", "b.c", "A", "a,b", "a%2Cb", "%20", "%C3%A9", "(a)", "(S(lit3py55t21z5v55vlm25s55))", "",
     "", "index", "a.html", "index.html", "x.index.html", "amp", "a..", "wwww", "@", "[", "a;b"]
)  # fmt: skip
_plain_labels = st.sampled_from(
    ["www.", "m.", "mobile.", "w.", "a-b.", "1.", "xn--a.", "ww_w.", ""]
)
_plain_pairs = st.sampled_from(
    ["a=1", "b=2", "A=1", "id=1", "id=0", "page=1", "utm_source=a", "x=", "x", "=", "", "a+b=%20",
     "%C3%A9=1", "%2C=%2c", "a/b=?", "[]=1", "a=1;b=2", "'=(", '"=1', "|", "%", "é=1", "a=b=c",
     "output=amp", "amp", f"PHPSESSID={_ID}", f"sid={_ID}", "sid=1"]
)  # fmt: skip


@st.composite
def plain_urls(draw: st.DrawFn) -> str:
    """URLs as most are: plain, or nearly so, for the rules that are on."""
    url = f"{draw(st.sampled_from(['http', 'https']))}://{draw(_plain_labels)}{draw(_plain_labels)}"
    url += draw(st.sampled_from(["example.com", "example.com", "co.uk", "h", "a1"]))
    for segment in draw(st.lists(_plain_segments, max_size=3)):
        url += f"/{segment}"
    if draw(st.booleans()):
        separator = draw(st.sampled_from(["&", "&", "&", "&amp;"]))
        url += "?" + separator.join(draw(st.lists(_plain_pairs, max_size=3)))
    if draw(st.integers(0, 3)) == 0:
        url += draw(st.sampled_from(["#top", "#", "#!/a"]))
    return url
