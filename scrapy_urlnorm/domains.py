"""Which registrable domain a host belongs to, by the public suffix list."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import tldextract

MAX_HOST = 253  # characters of a domain name in text form (RFC 1035, section 2.3.4)
MAX_LABEL = 63  # octets of one of its labels (the same section)


# The list that comes with tldextract: no look-up over the network, no cache on disk. Its private
# part too: a.github.io and b.github.io belong to different people.


@lru_cache(maxsize=1)
def _public_suffixes() -> tldextract.TLDExtract:
    import tldextract  # half of the import time of this package

    return tldextract.TLDExtract(
        suffix_list_urls=(), cache_dir=None, include_psl_private_domains=True
    )


def registrable_domain(host: str) -> str:
    """Return the registrable domain of *host*; "" for a public suffix, an address for itself.

    A name outside the list falls under its default rule, "*": the last label is the suffix
    (https://publicsuffix.org/list/, "Algorithm"). A host that is too long for a name is its own
    domain.
    """
    if host[:1] == "[" or len(host) > MAX_HOST:
        return host  # and the cache does not keep it: a site makes up long hosts at no cost
    return _registrable_domain(host)


def domain_or_host(host: str) -> str:
    """Return the registrable domain of *host*, or *host* itself where it has none."""
    return registrable_domain(host) or host


@lru_cache(maxsize=1 << 16)
def _registrable_domain(host: str) -> str:
    found = _public_suffixes()(host)
    if found.ipv4:
        return host
    if found.suffix:
        return f"{found.domain}.{found.suffix}" if found.domain else ""
    return ".".join(host.split(".")[-2:])
