"""Hostile sites: twins that fail, lie, or are kept from the spider, by each part of Scrapy that can."""

from __future__ import annotations

from typing import Any, ClassVar

from hostile_base import BARE, Hostile, Link, article
from loopback import Reply, redirect

HTML = {"Content-Type": "text/html; charset=utf-8"}


class _TwinIsFine(Hostile):
    """The twin redirects to its page as it always did; something in the crawl is in the way."""

    def broken(self, twin: str, page: str) -> Reply:
        return redirect(page)


class TwinIsThePage(Hostile):
    """The twin does not redirect any more: it is answered with the very page."""

    def broken(self, twin: str, page: str) -> Reply:
        return article(page)


# --- answers --------------------------------------------------------------------------------------


class HttpStartsFailing404(Hostile):
    """http:// redirects to https://, until the port for http answers 404."""

    alias, canonical = BARE, "https://shop.test"

    def broken(self, twin: str, page: str) -> Reply:
        return Reply(404, b"<h1>an error</h1>", HTML)


class TwinGoesOnByMeta(Hostile):
    """The twin's page sends the crawler home by a meta element."""

    def broken(self, twin: str, page: str) -> Reply:
        return article(twin, head=f'<meta http-equiv="refresh" content="0; url={self.home}">')


class Honest(_TwinIsFine):
    """Every twin redirects to its page, which is linked to first: nothing goes wrong here."""

    def stages(self) -> list[list[Link]]:
        first, twins, pages = super().stages()
        return [first, pages, twins]


class ContradictedLate(_TwinIsFine):
    """Twins of one section redirect and are suppressed; then another section contradicts the rule."""

    def __init__(self) -> None:
        self.others = [self.pair(f"/late/{n}") for n in range(12)]
        super().__init__()
        for twin, page in self.others:
            self.answers[twin] = article(twin)
            self.answers[page] = article(page)

    @property
    def wanted(self) -> set[str]:
        return super().wanted | {name for pair in self.others for name in pair}

    def stages(self) -> list[list[Link]]:
        first, twins, pages = super().stages()
        late_twins, late_pages = zip(*self.others, strict=True)
        return [first, pages, twins, [*late_pages], [*late_twins]]


# --- who drives Scrapy ----------------------------------------------------------------------------


class SpiderFollowsRedirects(_TwinIsFine):
    """The spider has redirects handed to its callback, and asks for their targets itself."""

    spider = "hostile_spiders.FollowsRedirectsItself"

    def stages(self) -> list[list[Link]]:
        return super().stages()[:2]


class SpiderMiddlewareRefusesTwin(TwinIsThePage):
    """A spider middleware keeps the twin's answer from the spider."""

    settings: ClassVar[dict[str, Any]] = {
        "SPIDER_MIDDLEWARES": {"hostile_spiders.RefusesTwins": 900}
    }


class TwinIsOffsite(_TwinIsFine):
    """The spider's domains leave the twin's host out, but for links that allow it."""

    arguments: ClassVar[dict[str, Any]] = {"allowed_domains": ["www.shop.test"]}

    def stages(self) -> list[list[Link]]:
        first, *others = super().stages()
        return [[(twin, {"meta": {"allow_offsite": True}}) for twin in first], *others]


class TwinIsReadForItsHeaders(TwinIsThePage):
    """The spider stops the download of the twin, and takes that for a failure."""

    spider = "hostile_spiders.ReadsHeadersOnly"


class TwinIsFetchedAside(TwinIsThePage):
    """The spider downloads the twin itself, past the queue, and no callback has the answer."""

    spider = "hostile_spiders.FetchesAside"

    def twin_link(self, twin: str) -> Link:
        return twin, {"meta": {"aside": True}}


class TwinIsAFile(TwinIsThePage):
    """The files pipeline fetches the twin; no callback has the answer."""

    spider = "hostile_spiders.TakesFiles"
    settings: ClassVar[dict[str, Any]] = {
        "FILES_STORE": "{folder}",
        "ITEM_PIPELINES": {"scrapy.pipelines.files.FilesPipeline": 1},
    }

    def twin_link(self, twin: str) -> Link:
        return twin, {"meta": {"file": True}}
