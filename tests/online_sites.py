"""The sites of `online_model`: what they show under each URL, and the rules that hold there."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from scrapy.http import HtmlResponse

from scrapy_urlnorm.normalizer import Normalizer
from scrapy_urlnorm.site_rules import SiteRule
from scrapy_urlnorm.url import get_fingerprint

if TYPE_CHECKING:
    from collections.abc import Iterable

SITES = ("shop.test", "blog.test")
BASE = Normalizer()


@cache
def rule_of(site: str, name: str, support: int = 9) -> SiteRule:
    """The rule that is called *name* here. The last is right for no page."""
    what = {
        "https": {"kind": "force-scheme", "option": "https"},
        "www": {"kind": "host-alias", "host": (f"www.{site}",), "by": site, "site": site},
        "slash": {"kind": "trailing-slash", "option": "remove"},
        "number": {"kind": "drop-param", "param": "n"},
    }[name]
    return SiteRule(**{"site": f"*.{site}", "source": "redirect", "support": support} | what)


def site_of(url: str) -> str:
    """The site of a URL here: its host without ``www.``."""
    return urlsplit(url).netloc.removeprefix("www.")


@cache
def cluster_name(url: str, rules: Iterable[str]) -> str:
    """What the rules called so make of *url*, by hand."""
    parts = urlsplit(url)
    scheme = "https" if "https" in rules else parts.scheme
    host = parts.netloc.removeprefix("www.") if "www" in rules else parts.netloc
    path = parts.path.rstrip("/") if "slash" in rules else parts.path
    number = parts.query.removesuffix("&utm_source=x")
    if not number.startswith("topic="):
        number = "" if "number" in rules else number.partition("&")[0]
    return f"{scheme} {host} {path} {number}"


def content_of(url: str) -> str:
    """The text that a site shows under *url*, whatever its scheme, host and final slash.

    A topic is shown under each of its posts too. ``sub`` shows a part of a topic, and of the first
    topic all.
    """
    name = cluster_name(url, ("https", "www", "slash"))
    return name.partition("&post=")[0].replace("&sub=1", "").replace("short=", "topic=")


@cache
def names_of(url: str) -> list[tuple[str, str]]:
    """The permalinks of the page of *url*: right ones, wrong ones, and one of both topics."""
    topic = content_of(url).partition("topic=")[2]
    if not topic or "&" in topic:
        return []
    base = f"http://{SITES[0]}/t?topic={topic}"
    return [
        (f"{base}&post={topic}", f"p{topic}"),
        (f"{base}&sub={topic}", f"s{topic}"),
        *((f"http://{SITES[0]}/t?short={n}", f"x{topic}") for n in sorted({"1", topic})),
    ]


def response_of(url: str, text: str = "") -> HtmlResponse:
    """The page of *url* with its permalinks; with a *text*, what it shows for once."""
    links = "".join(f'<a id="{at}" href="{link}#{at}"></a>' for link, at in names_of(url))
    body = f"<html><body><p>{text or content_of(url)}</p>{links}</body></html>"
    return HtmlResponse(url, body=body.encode(), encoding="utf-8")


@cache
def key_of(url: str) -> bytes:
    """The fingerprint of a URL."""
    return get_fingerprint(BASE.normalize(url))
