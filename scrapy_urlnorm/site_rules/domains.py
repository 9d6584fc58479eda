"""Which registrable domain a host belongs to, so that no rule ever leaves it."""

from __future__ import annotations

from functools import lru_cache

import tldextract

# Never the network: the list that ships with tldextract (publicsuffix.org). Its private part
# too: a.github.io and b.github.io belong to different people.
_EXTRACT = tldextract.TLDExtract(
    suffix_list_urls=(), cache_dir=None, include_psl_private_domains=True
)


@lru_cache(maxsize=1 << 16)
def registrable_domain(host: str) -> str:
    """Return the registrable domain of *host*; "" for a public suffix, an address for itself.

    A name outside the list falls under its default rule, "*": the last label is the suffix
    (https://publicsuffix.org/list/, "Algorithm").
    """
    if host.startswith("["):
        return host
    found = _EXTRACT(host)
    if found.ipv4:
        return host
    if found.suffix:
        return f"{found.domain}.{found.suffix}" if found.domain else ""
    labels = host.split(".")
    return ".".join(labels[-2:])
