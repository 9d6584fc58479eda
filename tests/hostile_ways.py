"""More hostile sites: twins that are well, and something in the crawl that gets in their way."""

from __future__ import annotations

from typing import Any, ClassVar

from hostile_base import BARE, WWW, Answer, Hostile, Link, article
from loopback import Reply, redirect

HTML = {"Content-Type": "text/html; charset=utf-8"}
VIA_SITE = {"loopback.ViaSite": 740}


def treated_by(name: str, place: int) -> dict[str, Any]:
    """Settings with a downloader middleware of `hostile_spiders` at *place*."""
    return {
        "TWINS": f"{BARE}/new/",
        "DOWNLOADER_MIDDLEWARES": {**VIA_SITE, f"hostile_spiders.{name}": place},
    }


# --- what gets in the way of the twin -------------------------------------------------------------


class _TwinIsFine(Hostile):
    """The twin redirects to its page as it always did; something in the crawl is in the way."""

    def broken(self, twin: str, page: str) -> Answer:
        return redirect(page)


class TwinIsThePage(Hostile):
    """The twin does not redirect any more: it is answered with the very page."""

    def broken(self, twin: str, page: str) -> Answer:
        return article(page)


class Honest(_TwinIsFine):
    """Every twin redirects to its page, which is linked to first: nothing goes wrong here."""

    def stages(self) -> list[list[Link]]:
        first, twins, pages = super().stages()
        return [first, pages, twins]


class ContradictedLate(_TwinIsFine):
    """Twins of one section redirect and are suppressed; then another section contradicts the rule."""

    def __init__(self, taught: int = 36, victims: int = 12, **more: Any) -> None:
        self.others = [self.pair(f"/late/{n}") for n in range(victims)]
        super().__init__(taught, victims, **more)
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


class TwinFailsOnce(Hostile):
    """The twin fails at the first visit, and redirects to its page at the next."""

    settings: ClassVar[dict[str, Any]] = {"RETRY_ENABLED": True}

    def broken(self, twin: str, page: str) -> Answer:
        visits: list[str] = []

        def answer(url: Any) -> Reply:
            visits.append(url)
            return Reply(503) if len(visits) == 1 else redirect(page)

        return answer


class TwinFailsOnceAndGoesHome(TwinFailsOnce):
    """The twin fails at the first visit, and redirects to the home page at the next."""

    def broken(self, twin: str, page: str) -> Answer:
        answer = super().broken(twin, page)
        return lambda url: redirect(self.home) if (answer(url)).status == 301 else Reply(503)


class TwinIsDroppedFirst(_TwinIsFine):
    """A middleware of the project drops the twin before it comes to any other."""

    settings = treated_by("Drop", 50)


class TwinIsDroppedLast(_TwinIsFine):
    """A middleware of the project drops the twin just before the download."""

    settings = treated_by("Drop", 950)


class TwinMeetsABug(_TwinIsFine):
    """A middleware of the project raises ValueError for the twin."""

    settings = treated_by("Fail", 50)


class TwinMeetsABugLate(_TwinIsFine):
    """A middleware of the project raises ValueError for the twin just before the download."""

    settings = treated_by("Fail", 950)


class TwinIsSaidToBeGone(_TwinIsFine):
    """A middleware of the project answers 404 for the twin, without a download."""

    settings = treated_by("Answer404", 50)


class TwinIsAnsweredWithAWall(_TwinIsFine):
    """A middleware of the project answers one page for all twins, without a download."""

    settings = treated_by("AnswerWall", 50)


class TwinIsSentHome(_TwinIsFine):
    """A middleware of the project puts a request for the home page in place of the twin's."""

    settings = treated_by("SendHome", 50)


class TwinIsLostOnItsWay(TwinIsThePage):
    """A middleware of the project drops what the twin was answered with."""

    settings = treated_by("Lose", 50)


class TwinIsLostNearTheDownloader(TwinIsThePage):
    """A middleware of the project drops the twin's answer before any other sees it."""

    settings = treated_by("Lose", 950)


class TwinIsReplaced(TwinIsThePage):
    """A middleware of the project puts one page in place of all that twins are answered with."""

    settings = treated_by("Replace", 50)


class TwinIsMadeGone(TwinIsThePage):
    """A middleware of the project turns the twin's answer into 410."""

    settings = treated_by("Gone", 50)


class SpiderMiddlewareRefusesTwin(TwinIsThePage):
    """A spider middleware keeps the twin's answer from the spider."""

    settings: ClassVar[dict[str, Any]] = {
        "TWINS": f"{BARE}/new/",
        "SPIDER_MIDDLEWARES": {"hostile_spiders.Refuse": 900},
    }


class SpiderMiddlewareRefusesTwinFirst(TwinIsThePage):
    """A spider middleware keeps the twin's answer from the spider, before all others."""

    settings: ClassVar[dict[str, Any]] = {
        "TWINS": f"{BARE}/new/",
        "SPIDER_MIDDLEWARES": {"hostile_spiders.Refuse": 10},
    }


class SpiderMiddlewareDropsWhatTwinYields(TwinIsThePage):
    """A spider middleware drops all that the callback makes of the twin."""

    settings: ClassVar[dict[str, Any]] = {
        "TWINS": f"{BARE}/new/",
        "SPIDER_MIDDLEWARES": {"hostile_spiders.Mute": 900},
    }


class TwinIsOffsite(_TwinIsFine):
    """The spider's domains leave the twin's host out, but for links that allow it."""

    arguments: ClassVar[dict[str, Any]] = {"allowed_domains": ["www.shop.test"]}

    def stages(self) -> list[list[Link]]:
        first, *others = super().stages()
        return [[(twin, {"meta": {"allow_offsite": True}}) for twin in first], *others]


class TwinIsTooLong(_TwinIsFine):
    """The twin's URL is longer than URLLENGTH_LIMIT, its page's is not."""

    settings: ClassVar[dict[str, Any]] = {"URLLENGTH_LIMIT": 100}

    def pair(self, path: str) -> tuple[str, str]:
        if path.startswith("/new/"):
            path += "-" * (100 - len(WWW + path))
            return f"{WWW}{path}/", WWW + path
        return f"{WWW}{path}/", WWW + path


class TwinIsReadForItsHeaders(TwinIsThePage):
    """The spider stops the download of the twin, and takes that for a failure."""

    spider = "hostile_spiders.ReadsHeadersOnly"
    settings: ClassVar[dict[str, Any]] = {"TWINS": f"{BARE}/new/"}


class TwinIsFetchedAside(TwinIsThePage):
    """The spider downloads the twin itself, past the queue, and no callback has the answer."""

    spider = "hostile_spiders.FetchesAside"

    def twin_link(self, twin: str) -> Link:
        return twin, {"meta": {"aside": True}}


class TwinIsFetchedAsideByRedirect(TwinIsFetchedAside):
    """The same, and the twin redirects to its page."""

    def broken(self, twin: str, page: str) -> Answer:
        return redirect(page)


class TwinIsAFile(TwinIsThePage):
    """The files pipeline fetches the twin; no callback has the answer."""

    spider = "hostile_spiders.TakesFiles"
    settings: ClassVar[dict[str, Any]] = {
        "FILES_STORE": "{folder}",
        "ITEM_PIPELINES": {"scrapy.pipelines.files.FilesPipeline": 1},
    }

    def twin_link(self, twin: str) -> Link:
        return twin, {"meta": {"file": True}}


class TwinIsBusy(Hostile):
    """The twin says that it is busy, under 200; the spider asks again, and gives up."""

    spider = "hostile_spiders.RetriesBusyPages"

    def broken(self, twin: str, page: str) -> Answer:
        return Reply(200, b"<h1>busy</h1>", HTML)


class TwinIsAskedForWhenIdle(_TwinIsFine):
    """What follows is asked for when the spider has nothing else to do."""

    spider = "hostile_spiders.AsksWhenIdle"

    def page_link(self, page: str) -> Link:
        return page, {"meta": {"later": True}}

    def broken(self, twin: str, page: str) -> Answer:
        return Reply(404)


class HttpCacheKeepsAll(_TwinIsFine):
    """Scrapy's HTTP cache keeps every answer, redirects too."""

    settings: ClassVar[dict[str, Any]] = {"HTTPCACHE_ENABLED": True, "HTTPCACHE_DIR": "{folder}"}


class HttpCacheKeepsFailures(HttpCacheKeepsAll):
    """The same, and the twins are gone."""

    def broken(self, twin: str, page: str) -> Answer:
        return Reply(404)


class HttpCacheByTheBook(HttpCacheKeepsAll):
    """The HTTP cache keeps what RFC 9111 lets it keep."""

    settings: ClassVar[dict[str, Any]] = {
        "HTTPCACHE_ENABLED": True,
        "HTTPCACHE_DIR": "{folder}",
        "HTTPCACHE_POLICY": "scrapy.extensions.httpcache.RFC2616Policy",
    }


class PutBackRequestsKeepAll(_TwinIsFine):
    """What was suppressed comes back with all that its request carried."""

    spider = "hostile_spiders.Labels"

    def broken(self, twin: str, page: str) -> Answer:
        number = int(twin.rpartition("/")[2])
        return article(twin) if number == len(self.victims) - 1 else redirect(page)

    @property
    def wanted(self) -> set[str]:
        return set()
