"""Masking: no secret is left in a URL that is kept, and what can be learned from it stays."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st
from log_rows import active

from scrapy_urlnorm import Normalizer, SiteRule, load_site_rules, save_site_rules
from scrapy_urlnorm.learning import mine
from scrapy_urlnorm.logs import Observation
from scrapy_urlnorm.masking import KEY_BYTES, mask_url, placeholders
from scrapy_urlnorm.rules import data
from scrapy_urlnorm.url import split

KEY, OTHER = b"k" * KEY_BYTES, b"o" * KEY_BYTES
MD5 = "0a1b2c3d4e5f60718293a4b5c6d7e8f9"
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJib2IifQ.dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"

# A URL, and the texts in it that nobody may read.
SECRETS = [
    ("http://bob:hunter2@a.test/", ["bob", "hunter2"]),
    ("http://bob@a.test/", ["bob"]),
    ("http://bob:a:b7@a.test/", ["bob", "a:b7"]),
    ("http://b%6Fb:%D0%BF%D0%B0%D1%80@a.test/", ["b%6Fb", "%D0%BF%D0%B0%D1%80"]),
    (f"http://a.test/?PHPSESSID={MD5}&id=7", [MD5]),
    (f"http://a.test/?id=7&phpsessid={MD5}", [MD5]),
    ("http://a.test/?ASPSESSIONIDQQBTTCDA=KJHGFDSAPOIUYTREWQASDFGH", ["KJHGFDSAPOIUYTREWQASDFGH"]),
    (f"http://a.test/x;jsessionid={MD5.upper()}?a=1", [MD5.upper()]),
    (f"http://a.test/x;jsessionid={MD5}/y;jsessionid={MD5[::-1]}", [MD5, MD5[::-1]]),
    (f"http://a.test/sid={MD5}/x", [MD5]),
    ("http://a.test/(S(abcdefghij012345klmnopqr))/x", ["abcdefghij012345klmnopqr"]),
    ("http://a.test/(abcdefghij012345klmnopqr)/x", ["abcdefghij012345klmnopqr"]),
    ("http://a.test/?token=abc12345", ["abc12345"]),
    (f"http://a.test/?access_token={JWT}", [JWT]),
    (f"http://a.test/cb#access_token={JWT}&state=x", [JWT]),
    (f"http://a.test/#/cb?id_token={JWT}", [JWT]),
    ("http://a.test/?api_key=AIzaSyD-9tSrke72PouQMnMX", ["AIzaSyD-9tSrke72PouQMnMX"]),
    ("http://a.test/?apiKey=AIzaSyD-9tSrke72PouQMnMX", ["AIzaSyD-9tSrke72PouQMnMX"]),
    ("http://a.test/?key=AIzaSyD-9tSrke72PouQMnMX", ["AIzaSyD-9tSrke72PouQMnMX"]),
    ("http://a.test/?X-Amz-Signature=fe5f80f77d5fa3be", ["fe5f80f77d5fa3be"]),
    ("http://a.test/?sv=1&sig=Zm9vYmFy%2BZm9vYmFyZm9v%3D", ["Zm9vYmFy", "ZmFyZm9v"]),
    ("http://a.test/?client_secret=s3cr3t", ["s3cr3t"]),
    ("http://a.test/?user=bob&pass=hunter2", ["hunter2"]),
    ("http://a.test/?user%5Bpassword%5D=hunter2", ["hunter2"]),
    ("http://a.test/?user[password]=hunter2", ["hunter2"]),
    ("http://a.test/?pwd=1234", ["1234"]),
    ("http://a.test/?reset_password_token=ykY3kLm9pQx", ["ykY3kLm9pQx"]),
    ("http://a.test/login?next=%2Faccount%3Ftoken%3Dabc12345%26x%3D1", ["abc12345"]),
    ("http://a.test/login?next=/account?token=abc12345&x=1", ["abc12345"]),
    (f"http://a.test/?a=1;sid={MD5};b=2", [MD5]),
    (f"http://a.test/?__cf_chl_tk=x&auth={MD5}", [MD5]),
    ("app://callback?token=abc12345", ["abc12345"]),
    ("mailto:a@b.test?token=abc12345", ["abc12345"]),
]


@pytest.mark.parametrize(("url", "secrets"), SECRETS, ids=[url for url, _ in SECRETS])
def test_secrets_are_masked(url, secrets):
    for kept in (mask_url(url, KEY), placeholders([url])[0]):
        for secret in secrets:
            assert secret not in kept
        assert split(kept).host == split(url).host
        assert kept.count("&") == url.count("&")
    assert mask_url(url, KEY) != mask_url(url, OTHER)


@pytest.mark.parametrize(
    "url",
    [
        "http://a.test/",
        "http://a.test/?token=7&key=blue&sid=12&session=morning&auth=basic",
        "http://a.test/?code=4%2F0AX4XfWh&state=xyz123456789abc&nonce=n0nce123456789",
        "http://a.test/?pass=2&lostpassword=1&password=",
        "http://a.test/?compass=north-by-northwest&tokens=abcdefgh12345678",
        "http://a.test/?h=fe5f80f77d5fa3beca038a248ff027d0445342fe&id=fe5f80f77d5fa3be",
        "http://a.test/?q=password&user=bob&email=bob@a.test",
        "http://a.test/(draft)/x(1)/y;v=1",
        "http://a.test/(X(1))/x",
        "http://a.test/reset/password/",
        "http://[::1]:80/?a==&&;=#",
        "not a url",
        "",
    ],
)
def test_what_is_no_secret_stays(url):
    """Words, numbers, commit ids and names choose what a page shows: they are left alone."""
    assert mask_url(url, KEY) == url
    assert placeholders([url]) == [url]


TEXT = st.text(
    st.sampled_from(string.ascii_letters + string.digits + "%&;=?#/()@:-_.é\ud800\x00 "),
    max_size=60,
)


@given(TEXT, TEXT)
def test_masking_any_text(one, other):
    """Nothing raises; structure stays; equal texts have equal masks, and once masked is enough."""
    for url in (one, f"http://{one}", f"http://a.test/{one}?token={other}#{one}"):
        kept = mask_url(url, KEY)
        assert kept == mask_url(url, KEY)
        assert split(kept)[2:4] == split(url)[2:4]
    twice = placeholders([one, f"http://{other}@a.test/?token={one}"])
    assert placeholders(twice) == twice


@given(st.lists(st.from_regex("[0-9A-Za-z_-]{16,40}", fullmatch=True), unique=True, max_size=8))
def test_different_values_have_different_masks(values):
    """What differs still differs, in its old form: kinds of characters and length stay."""
    kept = [mask_url(f"http://a.test/?token={value}", KEY).partition("=")[2] for value in values]
    assert len(set(kept)) == len(values)

    def form(text):
        return "".join(
            "d" if c.isdigit() else "l" if c.islower() else "u" if c.isupper() else c for c in text
        )

    assert [form(value) for value in kept] == [form(value) for value in values]


SAMPLES = {
    "aspnet": "abcdefghij012345klmnopqr",
    "aspnet-word": "abcdefghij012345klmnopqr",
    "base62": "Zz09" * 6,
    "base64": "Zz0a1b2_" * 4,
    "digits": "90210442",
    "hex": MD5,
    "letters": "KJHGFDSAPOIUYTREWQASDFGH",
    "mixed": "Zz09" * 6,
    "mixed-64": "Zz0-9_" * 4,
    "mixed-lower": "0123vutsrq" * 3,
    "php": "Zz0,9-" * 4,
    "scrambled": "Zz0a1b2c" * 4,
    "token": "Zz0.9~!" * 4,
    "uuid": "0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9",
}


@pytest.mark.parametrize(
    "row",
    [row for row in data.session_ids() if row.max_length > 1],
    ids=lambda row: f"{row.name or '-'} {row.alphabet}",
)
def test_guards_know_masked_sessions(row):
    """A masked session id still is one for the list that knew it, so its key is what it was."""
    value = (SAMPLES[row.alphabet] * 8)[: min(row.max_length, max(row.min_length, 32))]
    assert row.accepts(value)
    name = row.name.replace("*", "AB")
    url = {
        "group": f"http://a.test/({name}({value}))/",
        "segment": f"http://a.test/({value})/",
        "parameter": f"http://a.test/x;{name}={value}",
    }.get(getattr(row, "kind", ""), f"http://a.test/?{name}={value}")
    for kept in (mask_url(url, KEY), placeholders([url])[0]):
        assert value not in kept
        found = kept.strip("/()").rpartition("(" if "(" in url else "=")[2]
        assert row.accepts(found)


RULE = SiteRule(
    site="a.test",
    kind="drop-param",
    param="sid",
    source="content",
    support=9,
    examples=[
        [f"http://bob:pw@a.test/?p=1&sid={MD5}", f"http://bob:pw@a.test/?sid={MD5[::-1]}&p=1"],
        ["http://a.test/?p=2", f"http://a.test/?p=2&sid={MD5}"],
    ],
)


def test_examples_of_learned_rules_are_masked(tmp_path):
    path = tmp_path / "rules.toml"
    save_site_rules(path, [RULE])
    text = path.read_text()
    assert "bob" not in text
    assert MD5[:4] not in text
    [kept] = load_site_rules(path)
    one, other = kept.examples[0]
    assert one.partition("sid=")[2] == kept.examples[1][1].partition("sid=")[2]
    assert one.partition("sid=")[2] != other.partition("sid=")[2].partition("&")[0]
    normalizer = Normalizer(site_rules=[kept])
    for pair in kept.examples:
        assert len({normalizer.normalize(url) for url in pair}) == 1


def test_a_rule_file_that_is_written_again_stays(tmp_path):
    """Masked examples are masked once: the file does not change with every crawl."""
    path = tmp_path / "rules.toml"
    save_site_rules(path, [RULE])
    before = path.read_text()
    save_site_rules(path, [RULE])
    save_site_rules(path, load_site_rules(path))
    assert path.read_text() == before


def test_rules_of_people_stay_as_they_are():
    """Who wrote an example by hand meant it."""
    rule = RULE.replace(source="user")
    assert rule.masked() is rule
    assert RULE.masked().masked() == RULE.masked() != RULE


def shop(mask):
    """A log of items under changing visits, and of files that only their token tells apart."""
    rows = []
    for n in range(40):
        visits = [f"&sid={n * 7919 + visit * 104729:030x}aa" for visit in range(2)]
        items = [f"http://bob:pw@a.test/item?id={n}{visit}" for visit in ("", *visits)]
        rows += [(item, f"item {n}") for item in items]
        rows.append((f"http://a.test/file?token={n * 15485863:032x}", f"file {n}"))
    return [Observation(mask(url), 200, content, mime="text/html") for url, content in rows]


def learned(rows):
    """The rules that are mined from rows, without the examples."""
    return [rule.replace(examples=()) for rule in mine(rows)]


@pytest.mark.parametrize("name", ["sesskey", "visit_token"])
def test_a_masked_log_teaches_the_same_rules(name):
    """Visits are dropped and files are not, whether the log is masked or not."""

    def spelled(url):
        return url.replace("&sid=", f"&{name}=")

    plain = learned(shop(spelled))
    assert [rule.param for rule in plain if rule.active] == [(name,)]
    assert learned(shop(lambda url: mask_url(spelled(url), KEY))) == plain


def test_logs_with_two_keys_teach_nothing_false():
    """One file under two masks looks like two URLs of one content: that its token counts still wins."""
    rows = [*shop(lambda url: mask_url(url, KEY)), *shop(lambda url: mask_url(url, OTHER))]
    normalizer = Normalizer(site_rules=active(rows))
    files = [row.url for row in shop(str) if "/file" in row.url]
    assert len({normalizer.normalize(url) for url in files}) == len(files)
