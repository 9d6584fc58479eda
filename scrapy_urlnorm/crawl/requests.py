"""Where requests come in: what learning reads of one, what it is for, and what may be done with it."""

from __future__ import annotations

import copyreg
import pickle
import re
from contextlib import suppress
from datetime import date
from functools import cached_property
from hashlib import blake2b
from io import BytesIO
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any
from uuid import uuid4
from weakref import WeakKeyDictionary

from scrapy import Request, Spider
from scrapy.http import HtmlResponse
from scrapy.http.request import NO_CALLBACK

from scrapy_urlnorm.domains import domain_or_host
from scrapy_urlnorm.url import split

if TYPE_CHECKING:
    from collections.abc import Sequence

# fmt: off
#: Keys of the meta that Scrapy, its middlewares and link extractors put there, or that say how a
#: request is sent, and not what for.
_NOT_OWN = frozenset((
    "allow_offsite", "bindaddress", "cached", "depth", "dont_cache", "dont_merge_cookies",
    "dont_obey_robotstxt", "dont_proxy", "dont_redirect", "dont_retry", "download_delay",
    "download_fail_on_dataloss", "download_latency", "download_maxsize", "download_slot",
    "download_timeout", "download_warnsize", "ftp_password", "ftp_user", "give_up_log_level",
    "handle_httpstatus_all", "handle_httpstatus_list", "is_start_request", "link_text",
    "max_retry_times", "nofollow", "proxy", "redirect_reasons", "redirect_times", "redirect_ttl",
    "redirect_urls", "referrer_policy", "retry_times", "verbatim_url",
))
_PREFIXES = ("_", "autothrottle_", "urlnorm")
# fmt: on
#: Keys of the meta with which a request asks for more than its URL.
_OWN_SAY = frozenset(("cookiejar", "urlnorm", "urlnorm_key", "verbatim_url"))
#: In what ``repr`` says: of an object without words of its own, or one that it cuts short.
_VAGUE = re.compile(" at 0x[0-9a-fA-F]|<Selector ")
_PURPOSES: WeakKeyDictionary[Request, str] = WeakKeyDictionary()
#: Attributes of every request that have no slots: none, but in older versions of Scrapy.
_ATTRIBUTES = frozenset(getattr(Request("data:,"), "__dict__", ()))
_OWN_NAMES: WeakKeyDictionary[object, str] = WeakKeyDictionary()


def site_of(url: str) -> str:
    """Return the registrable domain of a URL; where there is none, its host.

    What is learned holds within one site and reaches no other.
    """
    return domain_of(split(url).host or "")


def domain_of(site: str) -> str:
    return domain_or_host(site.removeprefix("*.").lower())


# --- what it is for: two pages are one for a spider only if that is equal -----------------------


def purpose_of(request: Request, *, is_strict: bool = True) -> str:
    """Return what *request* is for, besides its URL; "" for the spider's default callback alone.

    That is the name of its callback and, if there are any, a digest of the errback, the ``cb_kwargs``,
    the cookies and what of the meta is the user's own. Two pages are one for the spider only if they
    are equal. Of what cannot be said in words, each is another one if it *is_strict*, or else all are
    alike.
    """
    called = _called(request.callback, is_strict)
    name = "" if called == "parse" else called
    own = _own_attributes(request)
    is_plain = request.errback is None and not (request.cb_kwargs or request.cookies or own)
    if is_plain and request.meta.keys() <= _NOT_OWN:
        return name
    meta = {
        key: value
        for key, value in request.meta.items()
        if key not in _NOT_OWN and not str(key).startswith(_PREFIXES)
    }
    if is_plain and not meta:
        return name
    said = [_called(request.errback, is_strict)]
    for values in (request.cb_kwargs, meta, *filter(None, (request.cookies, own))):
        pairs = values.items() if isinstance(values, dict) else enumerate(values)
        said.append(repr(sorted(in_words(pair, is_strict=is_strict) for pair in pairs)))
    return f"{name}#{_digest(repr(said))}"


def _own_attributes(request: Request) -> dict[str, object]:
    """Return what a request of a class of the user's own has besides what every request has."""
    own = getattr(request, "__dict__", None)
    if not own or type(request).__module__.startswith("scrapy."):
        return {}
    return {name: value for name, value in own.items() if name not in _ATTRIBUTES}


def _called(function: Any, is_strict: bool) -> str:
    """Return the name of a method of the spider, and of what else is called, all that it is."""
    if function is None:
        return ""
    name: str = getattr(function, "__name__", "")
    if isinstance(getattr(function, "__self__", None), Spider):
        function, owner = function.__func__, type(function.__self__)
        if getattr(owner, name, None) is function:
            return name
        # Wrapped without `functools.wraps`: the class has it under another name.
        for own in dir(owner):
            if getattr(owner, own, None) is function:
                return own
    return f"{name}@{_digest(in_words(function, is_strict=is_strict))}"


def in_words(value: object, *, is_strict: bool = False) -> str:
    """Return what a value is in words: an object that says only where it is in memory, pickled."""
    said = repr(value)
    if not _VAGUE.search(said):
        return said
    data = BytesIO()
    with suppress(Exception):  # pickle raises what the object raises
        _Words(data, is_strict=is_strict).dump(value)
        return data.getvalue().hex()
    return _own_name(value, is_strict)


class _Words(pickle.Pickler):
    """Pickles what can be pickled, and has a name for all else in it."""

    def __init__(self, data: BytesIO, *, is_strict: bool) -> None:
        super().__init__(data, protocol=4)
        self._is_strict = is_strict

    def reducer_override(self, value: object) -> Any:
        if isinstance(value, Spider):  # there is one
            return str, ("spider",)
        if isinstance(value, MethodType) and isinstance(value.__self__, Spider):
            return str, (_called(value, self._is_strict),)
        if isinstance(value, FunctionType) and "<" in value.__qualname__:
            return str, (_own_name(value, self._is_strict),)
        if isinstance(value, (type, FunctionType)) or type(value) in copyreg.dispatch_table:
            return NotImplemented
        try:
            return value.__reduce_ex__(4)
        except Exception:  # noqa: BLE001 - what the object raises
            return str, (_own_name(value, self._is_strict),)


def _own_name(value: object, is_strict: bool) -> str:
    """Return a name that no other object has, or will have, if it *is_strict*."""
    name = type(value).__qualname__
    if not is_strict:
        return name
    with suppress(TypeError):  # it has no hash, or no weak references
        return _OWN_NAMES.setdefault(value, f"{name} {uuid4()}")
    return f"{name} {uuid4()}"


def _digest(said: str) -> str:
    return blake2b(said.encode(errors="replace"), digest_size=12).hexdigest()


def note_purpose(request: Request) -> None:
    """Keep what *request* is for, before downloader middlewares put more into its meta."""
    _PURPOSES[request] = purpose_of(request)


def may_be_copied(request: Request) -> bool:
    """Whether a copy is as good as *request*: it carries nothing that others may have, and change."""
    carried = (
        value
        for key, value in (*request.meta.items(), *request.cb_kwargs.items())
        if key not in _NOT_OWN
    )
    return type(request).__module__.startswith("scrapy.") and all(map(_is_fixed, carried))


def _is_fixed(value: object) -> bool:
    if isinstance(value, (tuple, frozenset)):
        return all(map(_is_fixed, value))
    return value is None or isinstance(value, (str, bytes, int, float, date))


def depth_of(request: Request) -> int:
    depth = request.meta.get("depth", 0)
    return depth if isinstance(depth, int) else 0


# --- a request as learning sees it --------------------------------------------------------------


class Asked:
    """What learning knows of a request. It is read once, where it comes in.

    What may be learned from, and held, is said here; everything else is sent, and teaches nothing.
    """

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

    @cached_property
    def site(self) -> str:
        return site_of(self.url)

    @cached_property
    def purpose(self) -> str:
        """What it is for, see `purpose_of`: as it was noted, if it was."""
        request = request_in(self)
        found = _PURPOSES.get(request)
        return purpose_of(request) if found is None else found


def request_in(asked: Asked) -> Request:
    """Return the request that was read: for those who send it, and not for learning."""
    assert isinstance(asked.handle, Request)
    return asked.handle


def asked_for(url: str, referer: str = "", **meta: object) -> Asked:
    """Return what a plain request for *url* asks for; *meta* says how it is sent.

    The page at *referer* led to it; "" if none did.
    """
    return Asked(Request(url, headers={"Referer": referer} if referer else None, meta=meta))


def page_from(referer: str, url: str, body: bytes, encoding: str) -> HtmlResponse:
    """Return a page that arrived, as `asked_for` asks for it."""
    request = request_in(asked_for(url, referer))
    return HtmlResponse(url, body=body, encoding=encoding, request=request)
