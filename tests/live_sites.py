"""The sites of `live_model`: what they show under each URL, and the rules that hold there."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from scrapy.http import HtmlResponse

from scrapy_urlnorm.fingerprints import get_fingerprint
from scrapy_urlnorm.learning.alias_links import Link, permalink
from scrapy_urlnorm.logs.page_identity import Identity
from scrapy_urlnorm.normalizer import Normalizer
from scrapy_urlnorm.site_rules import SiteRule

if TYPE_CHECKING:
    from collections.abc import Iterable

SITES = ("shop.test", "blog.test")
#: The last is right for no page: pages with other numbers have other contents.
RULES = ("https", "www", "slash", "number")
BASE = Normalizer()


def rule_of(site: str, name: str) -> SiteRule:
    """Return the rule that is called *name* here."""
    scope = {"site": f"*.{site}", "source": "redirect", "support": 6}
    if name == "https":
        return SiteRule(kind="force-scheme", option="https", **scope)
    if name == "www":
        return SiteRule(
            site=site,
            kind="host-alias",
            host=(f"www.{site}",),
            by=site,
            source="redirect",
            support=3,
        )
    if name == "slash":
        return SiteRule(kind="trailing-slash", option="remove", **scope)
    return SiteRule(site=f"*.{site}", kind="drop-param", param="n", source="content", support=9)


def site_of(url: str) -> str:
    """The site of a URL here: its host without ``www.``."""
    return urlsplit(url).netloc.removeprefix("www.")


def learned_name(url: str, rules: Iterable[str]) -> str:
    """What the rules called so make of *url*, by hand."""
    parts = urlsplit(url)
    scheme = "https" if "https" in rules else parts.scheme
    host = parts.netloc.removeprefix("www.") if "www" in rules else parts.netloc
    path = parts.path.rstrip("/") if "slash" in rules else parts.path
    number = parts.query.removesuffix("&utm_source=x")
    if not number.startswith("topic="):
        number = "" if "number" in rules else number.partition("&")[0]
    return f"{scheme} {host} {path} {number}"


def content_of(url: str) -> Identity:
    """The content that a site shows under *url*, whatever its scheme, host and final slash.

    A topic is shown under each of its posts too. ``sub`` shows a part of a topic, and of the first
    topic all.
    """
    name = learned_name(url, ("https", "www", "slash"))
    name = name.partition("&post=")[0].replace("&sub=1", "").replace("short=", "topic=")
    return Identity(f"bytes of {name}", None, name)


@cache
def named_by(url: str) -> list[Link]:
    """The permalinks of the page of *url*: right ones, wrong ones, and one of both topics."""
    topic = content_of(url).digest.partition("topic=")[2]
    if not topic or "&" in topic:
        return []
    base = f"http://{SITES[0]}/t?topic={topic}"
    return [
        permalink(url, f"{base}&post={topic}", f"p{topic}"),
        permalink(url, f"{base}&sub={topic}", f"s{topic}"),
        *(permalink(url, f"http://{SITES[0]}/t?short={n}", f"x{topic}") for n in {"1", topic}),
    ]


@cache
def response_of(url: str) -> HtmlResponse:
    """A page with the permalinks that it has."""
    body = "".join(f'<a id="{at}" href="{link}#{at}">' for link, _, at in named_by(url))
    return HtmlResponse(url, body=body.encode(), encoding="utf-8")


@cache
def own_key(url: str) -> bytes:
    """The key of a URL under what the user configured."""
    return get_fingerprint(BASE.normalize(url))
