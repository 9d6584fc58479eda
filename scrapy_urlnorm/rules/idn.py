"""International hosts to ASCII, as browsers do it."""

from __future__ import annotations

import re
from functools import lru_cache
from urllib.parse import unquote_to_bytes

from scrapy_urlnorm.domains import MAX_LABEL

# https://url.spec.whatwg.org/#forbidden-domain-code-point
_FORBIDDEN = re.compile(r"[\x00-\x20\"#%/:<>?@\[\\\]^`{|}\x7f]")


@lru_cache(maxsize=4_096)
def to_ascii(host: str) -> str | None:
    """Return *host* by the URL Standard's "domain to ASCII", or ``None`` where it fails.

    Escapes are decoded first; the mapping is UTS 46, non-transitional, without the rules on
    hyphens and lengths. https://url.spec.whatwg.org/#concept-domain-to-ascii
    """
    import idna

    try:
        text = unquote_to_bytes(host).decode()
        mapped = idna.uts46_remap(text, std3_rules=False, transitional=False)
        ascii_host = ".".join(_label_to_ascii(label) for label in mapped.split("."))
    except UnicodeError:  # idna.IDNAError is one
        return None
    if not ascii_host or _FORBIDDEN.search(ascii_host):
        return None
    return ascii_host


def _label_to_ascii(label: str) -> str:
    if label.isascii():
        return label
    if len(label) > MAX_LABEL:  # no host name; to encode it takes time by the square of its length
        raise UnicodeError(f"a label of {len(label)} characters")
    return "xn--" + label.encode("punycode").decode("ascii")
