"""Which registrable domain a host belongs to, by the public suffix list."""

from __future__ import annotations

import re
from contextlib import suppress
from functools import lru_cache
from importlib.resources import files
from ipaddress import AddressValueError, IPv4Address
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import tldextract

MAX_HOST = 253  # characters of a domain name in text form (RFC 1035, section 2.3.4)
MAX_LABEL = 63  # octets of one of its labels (the same section)


#: A host to which the list can be applied as it stands: `xn--` labels stand decoded in it.
_plain = re.compile(r"(?!xn--)[a-z0-9_-]+(?:\.(?!xn--)[a-z0-9_-]+)*").fullmatch

# The list that comes with tldextract: no look-up over the network, no cache on disk. Its private
# part too: a.github.io and b.github.io belong to different people.


@lru_cache(maxsize=1)
def _public_suffixes() -> tldextract.TLDExtract:
    import tldextract  # half of the import time of this package

    return tldextract.TLDExtract(
        suffix_list_urls=(), cache_dir=None, include_psl_private_domains=True
    )


@lru_cache(maxsize=1)
def _rules() -> tuple[set[str], set[str]]:
    """Return the rules of the list, and what stands behind a dot in one of them.

    Sets take a fifth of the time and the memory that tldextract's own tree takes.
    """
    rules: set[str] = set()
    inner: set[str] = set()
    with files("tldextract").joinpath(".tld_set_snapshot").open(encoding="utf-8") as lines:
        for line in lines:  # one by one: all of them take as much memory as the sets
            if line[:2] not in ("\n", "//"):
                rule = line.split(None, 1)[0]
                rules.add(rule)
                _, dot, rest = rule.partition(".")
                while dot:
                    inner.add(rest)
                    _, dot, rest = rest.partition(".")
    return rules, inner


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
    labels = host.split(".")
    if not _plain(host):
        found = _public_suffixes()(host)
        if found.ipv4:
            return host
        if found.suffix:
            return f"{found.domain}.{found.suffix}" if found.domain else ""
        return ".".join(labels[-2:])
    with suppress(AddressValueError):
        return str(IPv4Address(host))
    rules, inner = _rules()
    for at in range(len(labels)):  # the longest suffix first
        name, parent = ".".join(labels[at:]), ".".join(labels[at + 1 :])
        if f"!{name}" in rules:
            return name
        if name in rules or (f"*.{parent}" in rules and name not in inner):
            return ".".join(labels[at - 1 :]) if at else ""
    return ".".join(labels[-2:])
