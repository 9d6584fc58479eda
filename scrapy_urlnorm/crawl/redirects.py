"""Where a redirect leads, as Scrapy's redirect middleware would follow it."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urljoin

from w3lib.url import safe_url_string

if TYPE_CHECKING:
    from scrapy.http import Response

PERMANENT = frozenset((301, 308))
REDIRECTS = frozenset((301, 302, 303, 307, 308))  #: RFC 9110, section 15.4, as Scrapy follows them


def target_of(response: Response, url: str) -> str | None:
    """Return the URL that *response*, an answer to *url*, redirects to.

    ``None`` if it is no redirect, or names no place that a URL can be made of.
    """
    location = response.headers.get(b"Location")
    if response.status not in REDIRECTS or not location:
        return None
    try:
        return urljoin(url, safe_url_string(location))
    except ValueError:
        return None
