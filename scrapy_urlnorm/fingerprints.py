"""The bytes by which stock Scrapy knows a GET of a URL, made without Scrapy.

Stores keep them. A crawl gets the same bytes for every request that is a plain GET.
"""

from __future__ import annotations

from hashlib import sha1
from json.encoder import encode_basestring_ascii
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

#: The class that makes these bytes in a crawl, where no other fingerprinter is configured.
STOCK_FINGERPRINTER = "scrapy.utils.request.RequestFingerprinter"

_json_string: Callable[[str], str] = encode_basestring_ascii
# The beginning is hashed once: to copy that costs less than to begin anew.
_of_plain_get = sha1(
    b'{"body": "", "headers": {}, "method": "GET", "url": ', usedforsecurity=False
).copy


def get_fingerprint(url: str) -> bytes:
    """Return the fingerprint, 20 bytes, of a GET without a body of exactly this URL.

    It is what ``scrapy.utils.request.fingerprint`` returns for such a request with
    ``verbatim_url``: SHA-1 of a JSON object with body, headers, method and URL, in that order.

    >>> get_fingerprint("http://example.com/").hex()
    'cebe46deeab7ee5915824a38cf73ee6f7eb0aba5'
    """
    digest = _of_plain_get()
    digest.update(f"{_json_string(url)}}}".encode())
    return digest.digest()
