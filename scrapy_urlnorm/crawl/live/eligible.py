"""Which requests learning may use, keep back, or let stand for others.

Everything else is sent, whatever the learned rules say, and teaches nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy.http.request import NO_CALLBACK

if TYPE_CHECKING:
    from scrapy import Request


def may_be_evidence(request: Request) -> bool:
    """Return whether *request* asks for its URL and nothing else.

    Not so with a body, another method than GET, cookies or a session of its own, or its own say on
    normalization. Requests that never reach the spider (robots.txt, images) do not count either.
    """
    return (
        request.method == "GET"
        and not request.body
        and not request.cookies
        and "cookiejar" not in request.meta
        and "urlnorm" not in request.meta
        and "urlnorm_key" not in request.meta
        and "verbatim_url" not in request.meta
        and request.callback is not NO_CALLBACK
    )


def may_be_kept_back(request: Request) -> bool:
    """Return whether *request* may be evidence and asks for the first time.

    A request with ``dont_filter``, a retry, a redirect in progress and a start request are
    always sent.
    """
    return may_be_witness(request) and not request.meta.get("redirect_urls")


def may_be_witness(request: Request) -> bool:
    """Return whether the page of *request* may stand for other URLs.

    As `may_be_kept_back`, but the page may have come by a redirect.
    """
    meta = request.meta
    return (
        may_be_evidence(request)
        and not request.dont_filter
        and not meta.get("retry_times")
        and not meta.get("is_start_request")
    )


def depth_of(request: Request) -> int:
    """Return how many links lead from a start request to *request*, as Scrapy counts them."""
    depth = request.meta.get("depth", 0)
    return depth if isinstance(depth, int) else 0
