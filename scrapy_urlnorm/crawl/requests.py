"""Where requests come in: what learning reads of one, what it is for, and what may be done with it."""

from __future__ import annotations

import pickle
import re
from contextlib import suppress
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

from scrapy import Request
from scrapy.http.request import NO_CALLBACK

from scrapy_urlnorm.domains import domain_or_host
from scrapy_urlnorm.url import split

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# fmt: off
#: Keys of the meta that Scrapy, its middlewares and link extractors put there, or that say how a
#: request is sent, and not what for.
_NOT_OWN = frozenset((
    "allow_offsite", "bindaddress", "cached", "depth", "ftp_password", "ftp_user", "give_up_log_level",
    "is_start_request", "link_text", "max_retry_times", "proxy", "referrer_policy", "verbatim_url",
))
_PREFIXES = (
    "_", "autothrottle_", "dont_", "download_", "handle_httpstatus_", "redirect_", "retry_", "urlnorm",
)
# fmt: on
#: Keys of the meta with which a request asks for more than its URL.
_OWN_SAY = frozenset(("cookiejar", "urlnorm", "urlnorm_key", "verbatim_url"))
_ADDRESS = re.compile(" at 0x[0-9a-fA-F]+")
_PURPOSES: WeakKeyDictionary[Request, str] = WeakKeyDictionary()


def site_of(url: str) -> str:
    """Return the registrable domain of a URL; where there is none, its host.

    What is learned holds within one site and reaches no other.
    """
    return domain_of(split(url).host or "")


def domain_of(site: str) -> str:
    return domain_or_host(site.removeprefix("*.").lower())


# --- what it is for: two pages are one for a spider only if that is equal -----------------------


def purpose_of(request: Request) -> str:
    """Return what *request* is for, besides its URL; "" for the spider's default callback alone.

    That is the name of its callback and, if there are any, a digest of the errback, the ``cb_kwargs``
    and what of the meta is the user's own. Two pages are one for the spider only if they are equal.
    """
    name = _name_of(request.callback)
    name = "" if name == "parse" else name
    if request.errback is None and not request.cb_kwargs and request.meta.keys() <= _NOT_OWN:
        return name
    meta = {
        key: value
        for key, value in request.meta.items()
        if key not in _NOT_OWN and not str(key).startswith(_PREFIXES)
    }
    if request.errback is None and not request.cb_kwargs and not meta:
        return name
    said = _name_of(request.errback), *(_in_order(each) for each in (request.cb_kwargs, meta))
    return f"{name}#{blake2b(repr(said).encode(errors='replace'), digest_size=12).hexdigest()}"


def _name_of(function: object) -> str:
    name: str = getattr(function, "__name__", type(function).__name__)
    return "" if function is None else name


def _in_order(values: Mapping[str, object]) -> list[str]:
    return sorted(map(in_words, values.items()))


def in_words(value: object) -> str:
    """Return what a value is in words: an object that says only where it is in memory, pickled."""
    said = repr(value)
    if " at 0x" in said:
        with suppress(Exception):  # pickle raises what the object raises
            return pickle.dumps(value, protocol=4).hex()
    return _ADDRESS.sub("", said)


def note_purpose(request: Request) -> None:
    """Keep what *request* is for, before downloader middlewares put more into its meta."""
    _PURPOSES[request] = purpose_of(request)


def depth_of(request: Request) -> int:
    depth = request.meta.get("depth", 0)
    return depth if isinstance(depth, int) else 0


# --- a request as learning sees it --------------------------------------------------------------


class Asked:
    """What learning knows of a request. It is read once, where it comes in.

    What may be learned from, and held, is said here; everything else is sent, and teaches nothing.
    """

    # fmt: off
    __slots__ = (
        "_purpose", "_site", "depth", "handle", "is_evidence", "is_suppressible", "is_urgent",
        "may_represent", "redirects", "url",
    )
    # fmt: on

    def __init__(self, request: Any) -> None:
        meta = request.meta
        #: The request itself, which is only told from others, and handed back: see `request_in`.
        self.handle: object = request
        self.url: str = request.url
        self.depth = depth_of(request)
        self.is_urgent: bool = request.priority > 0  #: whether the user wants it before others
        self.redirects: Sequence[str] = meta.get("redirect_urls") or ()  #: URLs that led to it
        #: Whether it asks for its URL and nothing else. Not so with a body, another method than GET,
        #: cookies or a session of its own, or its own say on normalization. Requests that never
        #: reach the spider (robots.txt, images) do not count either.
        self.is_evidence: bool = (
            request.method == "GET"
            and not request.body
            and not request.cookies
            and request.callback is not NO_CALLBACK
            and meta.keys().isdisjoint(_OWN_SAY)
        )
        #: Whether its page may stand for others: it may have come by a redirect.
        self.may_represent: bool = self.is_evidence and not (
            request.dont_filter or meta.get("retry_times") or meta.get("is_start_request")
        )
        #: Whether it is evidence and asks for the first time. A request with ``dont_filter``, a retry
        #: and a start request are always sent; a redirect in progress is neither deferred nor coalesced.
        self.is_suppressible = self.may_represent and not self.redirects
        self._site: str | None = None
        self._purpose: str | None = None

    @property
    def site(self) -> str:
        if self._site is None:
            self._site = site_of(self.url)
        return self._site

    @property
    def purpose(self) -> str:
        """What it is for, see `purpose_of`: as it was noted, if it was."""
        if self._purpose is None:
            request = request_in(self)
            found = _PURPOSES.get(request)
            self._purpose = purpose_of(request) if found is None else found
        return self._purpose


class Fetch(NamedTuple):
    """A page that learning asks for again; *at_once*: right after another fetch of it."""

    asked: Asked
    at_once: bool = False


def request_in(asked: Asked) -> Request:
    """Return the request that was read: for those who send it, and not for learning."""
    assert isinstance(asked.handle, Request)
    return asked.handle


def asked_for(url: str) -> Asked:
    """Return what a plain request for *url* asks for."""
    return Asked(Request(url))
