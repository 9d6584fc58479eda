"""Which requests learning may use, hold, or let stand for others; and which kinds bring nothing new.

Everything else is sent, whatever the learned rules say, and teaches nothing.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from scrapy.http.request import NO_CALLBACK

from scrapy_urlnorm.url import split

if TYPE_CHECKING:
    from scrapy import Request

#: The next URLs of a kind likely repeat what is known after so many duplicates, if so large a share
#: of its pages are (measured on ten applications: with half of the pages, too much waits that is
#: new).
LEAST_DUPLICATES, SHARE = 6, 0.7
#: Kinds of one site, and of all (65 MB): of further ones nothing is known.
MAX_KINDS, MAX_KINDS_OF_ALL = 500, 500_000
#: Paths that are deeper are of one kind.
_DEEP = 4

#: A value that may be good for a while only: letters and digits without a meaning.
_TOKEN = re.compile(
    r"(?<![A-Za-z0-9])(?=[A-Za-z]*\d[A-Za-z0-9]*[A-Za-z]|\d*[A-Za-z][A-Za-z0-9]*\d)[A-Za-z0-9]{12,}"
)
_PARAM = re.compile(r"[^&;]+")


def is_evidence(request: Request) -> bool:
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


def may_represent(request: Request) -> bool:
    """Return whether the page of *request* may stand for other URLs.

    As `is_suppressible`, but the page may have come by a redirect.
    """
    meta = request.meta
    return (
        is_evidence(request)
        and not request.dont_filter
        and not meta.get("retry_times")
        and not meta.get("is_start_request")
    )


def is_suppressible(request: Request) -> bool:
    """Return whether *request* is evidence and asks for the first time.

    A request with ``dont_filter``, a retry, a redirect in progress and a start request are
    always sent.
    """
    return may_represent(request) and not request.meta.get("redirect_urls")


def depth_of(request: Request) -> int:
    """Return how many links lead from a start request to *request*, as Scrapy counts them."""
    depth = request.meta.get("depth", 0)
    return depth if isinstance(depth, int) else 0


class DuplicateRates:
    """Counts the pages of each kind of URLs, and those whose content was there already.

    A *kind* is coarse: the host, the first folder, how deep the path is, and the names of the
    parameters. Where most pages of a kind were duplicates, the next ones likely are too. That
    proves nothing about any one of them, so none is suppressed for it: they are sent after all
    others. By then a rule may be known that says which of them to send.
    """

    def __init__(self) -> None:
        self._counts: dict[str, dict[int, tuple[int, int]]] = {}
        self._total = 0  # kinds of all sites
        self._expiring: set[tuple[str, int]] = set()

    def add(self, site: str, url: str, *, is_duplicate: bool) -> None:
        """Take note of a page of *site*, and whether its content was there already."""
        kinds, kind = self._counts.get(site, {}), kind_of(url)
        if kind not in kinds:
            if len(kinds) >= MAX_KINDS or self._total >= MAX_KINDS_OF_ALL:
                return
            self._counts[site] = kinds
            self._total += 1
        pages, duplicates = kinds.get(kind, (0, 0))
        kinds[kind] = pages + 1, duplicates + is_duplicate

    def expire(self, site: str, url: str) -> bool:
        """Take note that a URL with a token is answered no more; return whether its kind is new."""
        kind = site, kind_of(url)
        if kind in self._expiring or len(self._expiring) >= MAX_KINDS or not _TOKEN.search(url):
            return False
        self._expiring.add(kind)
        return True

    def is_high(self, site: str, url: str) -> bool:
        """Return whether *url* is of a kind that rarely brings new content, and keeps."""
        kinds = self._counts.get(site)
        if not kinds or (site, kind_of(url)) in self._expiring:
            return False
        pages, duplicates = kinds.get(kind_of(url), (0, 0))
        return duplicates >= LEAST_DUPLICATES and duplicates >= SHARE * pages


def kind_of(url: str) -> int:
    """Return the number of the kind of *url*, the same for all URLs of the kind in this run."""
    parts = split(url)
    folders = [folder for folder in parts.path.split("/") if folder]
    names = {param.partition("=")[0] for param in _PARAM.findall(parts.query or "")}
    first = folders[0] if len(folders) > 1 else ""
    return hash((parts.scheme, parts.host, first, min(len(folders), _DEEP), frozenset(names)))
