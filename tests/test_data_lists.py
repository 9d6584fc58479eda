"""The curated lists: their form, what they match, and what they must never match."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from urllib.parse import parse_qs, quote_plus

import pytest

from scrapy_urlnorm import normalize
from scrapy_urlnorm.rules import data
from scrapy_urlnorm.url import split

HERE = Path(data.__file__).parent
MUST_NOT_MATCH = data.parse_table(
    (Path(__file__).parent / "data" / "must_not_match.tsv").read_text(encoding="utf-8")
)


def is_session(name, value, query=(), strength="likely", kind="query"):
    """Whether the lists take this for a session id, in a query with these names or in a path."""
    present = {other.lower() for other in query}
    return any(
        row.is_named(name) and row.accepts(value) and row.stands_among(present)
        for row in data.session_ids()
        if row.kind == kind and row.strength in ("sure", strength)
    )


# --- form -----------------------------------------------------------------------------------


@pytest.mark.parametrize("table", data.TABLES)
def test_head_explains_every_column(table):
    assert {path.stem for path in HERE.glob("*.tsv")} == set(data.TABLES)
    lines = (HERE / f"{table}.tsv").read_text(encoding="utf-8").splitlines()
    head = list(itertools.takewhile(lambda line: line.startswith("#"), lines))
    text = "\n".join(head)
    for column in lines[len(head)].split("\t"):
        assert re.search(rf"^# (\w+, )?{column}\b", text, re.MULTILINE), column
    assert not any(line.startswith("#") for line in lines[len(head) :])


@pytest.mark.parametrize("table", data.TABLES)
def test_rows_are_whole(table):
    """No cell is empty or padded, and each row names a vendor or server and a source."""
    rows = data.read_table(table)
    assert rows
    for row in rows:
        assert {"source"} < set(row)
        assert {"vendor", "server"} & set(row)
        assert all(cell and cell == cell.strip() for cell in row.values()), row


@pytest.mark.parametrize("table", data.TABLES)
def test_rows_are_sorted_and_distinct(table):
    """Rows stand in the order that the head promises, and none decides what another does."""
    rows = data.read_table(table)
    told = {"vendor", "source", "server", "why"}
    keys = [
        (row.get("kind", ""), row["name"].lower(), row["name"], *map(str, row.values()))
        for row in rows
    ]
    assert keys == sorted(keys)
    deciding = [tuple(v for k, v in row.items() if k not in told) for row in rows]
    assert len(set(deciding)) == len(deciding)


def test_guards_are_sound():
    """Each guard has a known alphabet, a length range and a known partner."""
    names = {param.name.lower() for param in data.session_ids() if param.kind == "query"}
    for guard in data.session_ids():
        assert guard.alphabet in data.ALPHABETS
        assert 1 <= guard.min_length <= guard.max_length <= 1024
        assert guard.needs is None or guard.needs[0] == "!" or guard.needs in names
    assert {row["case"] for row in data.read_table("session_params")} == {"exact", "ignore"}
    kinds = {session.kind for session in data.session_ids()}
    assert kinds == {"query", "parameter", "group", "segment"}
    assert {guard.alphabet for guard in data.session_ids()} == set(data.ALPHABETS)


# --- what must never match ------------------------------------------------------------------


@pytest.mark.parametrize("row", MUST_NOT_MATCH, ids=lambda row: f"{row['name']}={row['value']}")
def test_must_not_match(row):
    """What may be content is in no list; what likely is none is in no list of the default profile."""
    name, value, strength = row["name"], row["value"], row["not"]
    assert row["reason"]
    assert strength in data.STRENGTHS
    assert not data.tracking_params(strength)(name)
    assert not is_session(name, value, query=(name, "id"), strength=strength)
    url = f"http://example.com/a?{name}={quote_plus(value)}&id=1"
    profiles = ["safe", "default", "aggressive"][: 2 + (strength == "likely")]
    assert {parse_qs(split(normalize(url, p)).query)[name][0] for p in profiles} == {value}


# --- what must match ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    ["utm_source", "utm_medium", "UTM_Campaign", "utm_zoneid", "gclid", "gbraid", "wbraid", "dclid",
     "_ga", "_gl", "fbclid", "msclkid", "ttclid", "twclid", "yclid", "ysclid", "mc_cid", "mc_eid",
     "_hsenc", "_hsmi", "__hstc", "hsCtaTracking", "hsa_cam", "mkt_tok", "mtm_campaign",
     "pk_campaign", "piwik_kwd", "oly_anon_id", "oly_enc_id", "vero_id", "__s", "_kx", "igshid",
     "li_fat_id", "wickedid", "epik", "ScCid", "sccid", "irclickid", "awc", "dm_i", "at_campaign",
     "xtor", "wt_mc", "WT.mc_id", "wt.mc_n", "elqTrackId", "_openstat", "s_kwcid"],
)  # fmt: skip
def test_tracking_params_match(name):
    """The parameters that crawls meet most are listed, in the case in which they come.

    And they are sure, but for two: the id of a mailing, and a name near those of coordinates.
    """
    assert data.tracking_params("likely" if name in ("mc_cid", "utm_zoneid") else "sure")(name)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PHPSESSID", "32831b793108f3e61177227c8eaae865"),
        ("phpsessid", "hl5dk4od9258lu1p4kkklbdm65"),
        ("jsessionid", "56E3E9184B40A557B71FD94E56181CAC.node1"),
        ("JSESSIONID", "node01abc2def3"),
        ("sid", "b37b436a61c19a3917123f42ad44676a"),
        ("s", "b37b436a61c19a3917123f42ad44676a"),
        ("s", "b37b436a61c19a3917123f42ad44676ab37b436a"),
        ("SID", "hl5dk4od9258lu1p4kkklbdm65"),
        ("___SID", "U"),
        ("osCsid", "fd1f58e6d6f5212d4c63f88480995712"),
        ("zenid", "3vjgmivht1mebrk6sdi795ibp2"),
        ("XTCsid", "fd1f58e6d6f5212d4c63f88480995712"),
        ("sessionid", "g0q1vnu8m6d0rsjbped1svk8e7"),
        ("session_id", "0b1e0e0c-5d07-4e4e-9d0e-8f6a1a4f1f5e"),
        ("sessid", "00000000000000000000000000000001"),
        ("ASPSESSIONIDQQBCDEFG", "ABCDEFGHIJKLMNOPQRSTUVWX"),
        ("CFTOKEN", "77012708"),
        ("CFTOKEN", "b0bd95f7bc4ec1e7-4A9D1E2F-0A1B-2C3D-4E5F60718293A4B5"),
        ("g2_GALLERYSID", "fe5963911aa5eae63e3e18fd907d50eb"),
    ],
)
def test_session_params_match(name, value):
    """Session ids as applications write them are recognized; where only those do, for sure."""
    assert is_session(name, value)
    words = {"sid", "s", "sessionid", "session_id", "sessid"}
    assert is_session(name, value, strength="sure") == (name not in words)


def test_cfid_goes_with_its_token():
    """CFID is a plain number: only the CFTOKEN beside it makes it a session id."""
    assert is_session("CFID", "9780600", query=("CFID", "cftoken"))
    assert not is_session("CFID", "9780600", query=("CFID", "token"))
    assert is_session("cftoken", "0", query=("cfid", "cftoken"))


#: By kind and name: values as servers write them, and values that may be content.
IN_PATHS = {
    ("parameter", "jsessionid"): ["56E3E9184B40A557B71FD94E56181CAC",
        "GkTn1l!-123456789!1234567890"],
    ("parameter", "JSESSIONID"): ["0000abcdEFGH1234:15g1h2k3"],
    ("parameter", "sid"): ["b37b436a61c19a3917123f42ad44676a",
        "dEGhGm7OtE2hG_nJuAwCFmxOP0hUr_Fa2gyYbT88e6RR3GbLzlqpfNBFg=="],
    ("parameter", "PHPSESSID"): ["hl5dk4od9258lu1p4kkklbdm65"],
    ("group", "S"): ["5pnh11553sszre45oevthxnn"],
    ("group", "s"): ["5pnh11553sszre45oevthxnn"],
    ("group", "X"): ["1"],
    ("group", "A"): ["mK9jJx8ZygEkAAAAZTJhY2I0"],
    ("segment", ""): ["5pnh11553sszre45oevthxnn"],
}  # fmt: skip
NOT_IN_PATHS = {
    ("parameter", "v"): ["0123456789abcdef0123456789abcdef"],
    ("parameter", "sid"): ["7", "introduction-to-geology", "product-overview-2024",
        "chapter-1-part-2-section-3-of-the-book"],
    ("parameter", "PHPSESSID"): ["1234"],
    ("parameter", "sessionid"): ["morning", "chapter12introduction"],
    ("parameter", "xjsessionid"): ["0123456789abcdef"],
    ("group", "S"): ["summary", "5pnh11553sszre45oevthxn9"],
    ("group", "B"): ["5pnh11553sszre45oevthxnn"],
    ("group", "X"): ["chromosome"],
    ("group", "A"): ["disambiguation"],
    ("segment", ""): ["disambiguation", "counterrevolutionariesof", "counterrevolutionarieso1",
        "electroencephalographist1",
        "5pnh11553sszre45oevthxn"],
    ("parameter", "jsessionid"): ["page1"],
    ("segment", "S"): ["5pnh11553sszre45oevthxnn"],
}  # fmt: skip


@pytest.mark.parametrize(("found", "tables"), [(True, IN_PATHS), (False, NOT_IN_PATHS)])
def test_session_ids_in_paths(found, tables):
    for (kind, name), values in tables.items():
        assert {is_session(name, value, kind=kind) for value in values} == {found}, name


# --- the digest -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "is_another"),
    [({"name": "x_new"}, True), ({"vendor": "Another", "source": "elsewhere"}, False)],
)
def test_the_digest_changes_with_what_decides(change, is_another, monkeypatch):
    """Another name makes another digest, a corrected vendor or source does not: keys still fit."""
    before = data.lists_digest()
    tables = {table: [dict(row) for row in data.read_table(table)] for table in data.TABLES}
    tables["tracking_params"][0].update(change)
    monkeypatch.setattr(data, "read_table", lambda table: tuple(tables[table]))
    assert (data.lists_digest.__wrapped__() != before) is is_another


def test_prefixes_are_families():
    """A prefix ends in an underscore after two or more characters: it is nobody's word."""
    rows = data.read_table("tracking_params")
    prefixes = {
        row["name"][:-1].lower(): row["strength"] for row in rows if row["match"] == "prefix"
    }
    for row in rows:
        if row["match"] in ("exact", "ignore"):
            name = row["name"].lower()
            found = [strength for prefix, strength in prefixes.items() if name.startswith(prefix)]
            # A name that its family covers already is noise, unless it is surer than that.
            assert not found or (found, row["strength"]) == (["likely"], "sure"), row
    for prefix in prefixes:
        assert re.fullmatch(r"[a-z_.]{2,}_", prefix), prefix
    kept = [row["name"].lower() for row in rows if row["match"] == "keep"]
    assert all(name.startswith(tuple(prefixes)) for name in kept)
