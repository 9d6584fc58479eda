"""Escape expressions find the escapes that their names promise, and no other."""

from __future__ import annotations

import re
import string
from urllib.parse import quote_plus

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from scrapy_urlnorm.rules import escapes
from scrapy_urlnorm.rules.path import decode_reserved
from scrapy_urlnorm.rules.query import form_encode_query

UNRESERVED = set((string.ascii_letters + string.digits + "-._~").encode())
RESERVED = set(range(256)) - UNRESERVED
HEX_PAIRS = [a + b for a in string.hexdigits for b in string.hexdigits]


@pytest.mark.parametrize(
    ("expression", "characters"),
    [(escapes.ESCAPE, RESERVED), (escapes.ESCAPE_IN_FORM, RESERVED - {0x20})],
)
def test_an_expression_matches_its_escapes_in_upper_case(expression, characters):
    """Of all pairs of hex digits exactly those in upper case that stand for the characters."""
    matched = {pair for pair in HEX_PAIRS if re.fullmatch(expression, f"%{pair}")}
    assert matched == {f"{byte:02X}" for byte in characters}


def test_decoding_is_by_the_character():
    """Each function decodes the escapes of its characters, in both cases, and leaves the rest."""
    for pair in HEX_PAIRS:
        text, byte = f"%{pair}", int(pair, 16)
        decoded = chr(byte)
        assert escapes.without_unreserved_escapes(text) == (decoded if byte in UNRESERVED else text)
        assert decode_reserved(text) == (decoded if byte in b":@!$&'()*+,=[]" else text)
        assert escapes.token_bytes(text) == bytes([byte])
        name, _, value = escapes.form_encoded(text).partition("=")
        assert re.fullmatch(escapes.FORM_TOKEN, name)
        assert (escapes.decode_token(name), value) == (escapes.decode_token(text), "")


pieces = st.sampled_from(["%", "%2", "%20", "%2F", "%2f", "%C3%A9", "%41", "0", "2", "F", "a", "+",
                          "/", ":", ",", "|", ";", "=", "&", "?", "~", "(", '"', "-", "@"])  # fmt: skip


@given(query=st.lists(pieces, max_size=12).map("".join))
@example(query="a=%2%20&b=%/20&%:2=c")
def test_a_query_is_encoded_by_the_byte(query):
    """However it is done, the bytes of each name and value are those that a form would send."""

    def written(text):
        return quote_plus(escapes.token_bytes(text))

    pairs = [pair.partition("=") for pair in query.split("&") if pair]
    expected = "&".join(f"{written(name)}={written(value)}" for name, _, value in pairs)
    assert form_encode_query(query) == expected
