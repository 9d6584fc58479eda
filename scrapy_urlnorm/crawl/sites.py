"""The site of a URL: what is learned holds within one site and reaches no other."""

from __future__ import annotations

from scrapy_urlnorm.domains import registrable_domain
from scrapy_urlnorm.url import split


def site_of(url: str) -> str:
    """Return the registrable domain of a URL; where there is none, its host."""
    return domain_of(split(url).host or "")


def domain_of(site: str) -> str:
    """Return the registrable domain of a host, or of the ``site`` of a rule."""
    host = site.removeprefix("*.").lower()
    return registrable_domain(host) or host
