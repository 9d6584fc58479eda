"""More hostile sites: twins that end in every way a request can end but with their page."""

from __future__ import annotations

from typing import Any, ClassVar

from hostile_sites import BARE, HTTPS, WWW, Answer, Hostile, Link, article
from loopback import Reply, redirect

HTML = {"Content-Type": "text/html; charset=utf-8"}
VIA_SITE = {"loopback.ViaSite": 740}


def treated_by(name: str, place: int) -> dict[str, Any]:
    """Settings with a downloader middleware of `hostile_spiders` at *place*."""
    return {
        "TWINS": f"{BARE}/new/",
        "DOWNLOADER_MIDDLEWARES": {**VIA_SITE, f"hostile_spiders.{name}": place},
    }


# --- what the twin is answered with ---------------------------------------------------------------


class TwinAnswers204(Hostile):
    """The twin is answered with success and nothing else."""

    def broken(self, twin: str, page: str) -> Answer:
        return Reply(204)


class TwinAnswers204Html(Hostile):
    """The twin is answered with 204 and says that its nothing is HTML."""

    def broken(self, twin: str, page: str) -> Answer:
        return Reply(204, b"", HTML)


class TwinAnswersEmptyPage(Hostile):
    """The twin is answered with 200 and an empty page."""

    def broken(self, twin: str, page: str) -> Answer:
        return Reply(200, b"", HTML)


class TwinAnswers206(Hostile):
    """The twin is answered with the first part of its page."""

    def broken(self, twin: str, page: str) -> Answer:
        body = article(page).body
        return Reply(206, body[: len(body) // 2].replace(b"<h1>", b"<h1>part of "), HTML)


class TwinAnswers203(Hostile):
    """The twin is answered by a proxy with something else than its page."""

    def broken(self, twin: str, page: str) -> Answer:
        return Reply(203, article(twin).body, HTML)


class TwinAnswers304(Hostile):
    """The twin is answered with 304 although nobody asked under a condition."""

    def broken(self, twin: str, page: str) -> Answer:
        return Reply(304)


class TwinAnswersPdf(Hostile):
    """The twin is answered with a file."""

    def broken(self, twin: str, page: str) -> Answer:
        return Reply(200, b"%PDF-1.4 " + twin.encode(), {"Content-Type": "application/pdf"})


class TwinsAreOneFile(Hostile):
    """All twins are answered with one and the same file."""

    def broken(self, twin: str, page: str) -> Answer:
        return Reply(200, b"\x00" * 100, {"Content-Type": "application/octet-stream"})


class TwinSaysNotFound(Hostile):
    """The twin is answered with 200 and a page that says: not found."""

    def broken(self, twin: str, page: str) -> Answer:
        return Reply(200, b"<h1>404 - page not found</h1>", HTML)


class TwinsAreOneWall(Hostile):
    """All twins are answered with one login form under 200."""

    def broken(self, twin: str, page: str) -> Answer:
        return Reply(200, b"<h1>log in</h1><form><input type=password></form>", HTML)


class TwinIsSilent(Hostile):
    """The twin is not answered before the download times out."""

    def broken(self, twin: str, page: str) -> Answer:
        return Reply(ends="silent")

    def twin_link(self, twin: str) -> Link:
        return twin, {"meta": {"download_timeout": 0.1}}


class TwinIsCutShort(Hostile):
    """The connection breaks in the middle of the twin's page."""

    settings: ClassVar[dict[str, Any]] = {"DOWNLOAD_FAIL_ON_DATALOSS": True}

    def broken(self, twin: str, page: str) -> Answer:
        return Reply(200, article(page).body, HTML, ends="short")


class TwinIsCutShortAndTaken(TwinIsCutShort):
    """The same, and the project takes what came."""

    settings: ClassVar[dict[str, Any]] = {"DOWNLOAD_FAIL_ON_DATALOSS": False}

    def broken(self, twin: str, page: str) -> Answer:
        body = article(page).body.replace(b"<h1>", b"<h1>part of ")
        return Reply(200, body, HTML, ends="short")


class TwinIsTooLarge(Hostile):
    """The twin's page is larger than DOWNLOAD_MAXSIZE."""

    settings: ClassVar[dict[str, Any]] = {"DOWNLOAD_MAXSIZE": 50_000}

    def broken(self, twin: str, page: str) -> Answer:
        return Reply(200, article(page).body + b" " * 60_000, HTML)


class TwinIsBadlyPacked(Hostile):
    """The twin's page says that it is gzipped, and is not."""

    def broken(self, twin: str, page: str) -> Answer:
        return Reply(200, b"\x1f\x8b not so", {**HTML, "Content-Encoding": "gzip"})


# --- where the twin leads -------------------------------------------------------------------------


class TwinLoops(Hostile):
    """The twin leads into a loop of redirects."""

    def broken(self, twin: str, page: str) -> Answer:
        return redirect(f"{BARE}/round?0")

    def other(self, url: Any) -> Reply:
        start, _, number = url.partition("/round?")
        return redirect(f"{start}/round?{(int(number) + 1) % 3}") if number else Reply(404)


class TwinLeadsToItsNeighbour(Hostile):
    """The twin redirects to the page after its own, so nothing leads to the first page."""

    def broken(self, twin: str, page: str) -> Answer:
        start, _, number = page.rpartition("/")
        is_last = int(number) == len(self.victims) - 1
        return redirect(self.home if is_last else f"{start}/{int(number) + 1}")


class TwinsLeadToOnePage(Hostile):
    """All twins redirect, for good, to the first of the pages."""

    def broken(self, twin: str, page: str) -> Answer:
        return redirect(f"{WWW}/new/0")


class TwinLeadsToPageThatFailsOnce(Hostile):
    """The twin redirects to its page, which fails at the first visit and is linked to again."""

    def broken(self, twin: str, page: str) -> Answer:
        return redirect(page + "?from=twin")

    def other(self, url: Any) -> Reply:
        return Reply(503)


class TwinLeadsToAnotherDomain(Hostile):
    """The twin redirects to another registrable domain, which has nothing of the kind."""

    def broken(self, twin: str, page: str) -> Answer:
        return redirect(page.replace("shop.test", "parked.example"))


class TwinLeadsNowhere(Hostile):
    """The twin is a redirect whose target is no URL that can be fetched."""

    TARGETS = (
        "",
        "http://",
        "http://[::1",
        "mailto:a@b.test",
        "javascript:void(0)",
        "//",
        "http:///x",
    )

    def broken(self, twin: str, page: str) -> Answer:
        number = int(twin.rpartition("/")[2])
        target = self.TARGETS[number % len(self.TARGETS)]
        return Reply(301, b"", {"Location": target} if target else {})


class TwinGoesOnByMeta(Hostile):
    """The twin's page sends the crawler home by a meta element."""

    def broken(self, twin: str, page: str) -> Answer:
        return article(twin, head=f'<meta http-equiv="refresh" content="0; url={self.home}">')


class TwinGoesToItsPageByMeta(Hostile):
    """The twin's page sends the crawler to its page by a meta element."""

    def broken(self, twin: str, page: str) -> Answer:
        return article(twin, head=f'<meta http-equiv="refresh" content="0; url={page}">')


class ChainBreaks(Hostile):
    """http leads to https, that to www.; later the middle of the chain fails."""

    alias, canonical = BARE, "https://www.shop.test"

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        for twin, page in self.taught:
            middle = page.replace("www.", "")
            self.answers[twin] = redirect(middle)
            self.answers[middle] = redirect(page)

    def broken(self, twin: str, page: str) -> Answer:
        return redirect(twin.replace(BARE, HTTPS))

    def other(self, url: Any) -> Reply:
        return Reply(503) if url.startswith(HTTPS + "/new/") else Reply(404)


class ChainEndsElsewhere(ChainBreaks):
    """The same chain; later its middle goes to the home page."""

    def other(self, url: Any) -> Reply:
        return redirect(self.home) if url.startswith(HTTPS + "/new/") else Reply(404)


# --- how the twin is asked for --------------------------------------------------------------------


class TwinIsNotRedirected(Hostile):
    """The request for the twin says that no redirect is to be followed."""

    def broken(self, twin: str, page: str) -> Answer:
        return redirect(page)

    def twin_link(self, twin: str) -> Link:
        return twin, {"meta": {"dont_redirect": True}}


class TwinTakesAnyStatus(Hostile):
    """The request for the twin has every status handed to its callback."""

    def broken(self, twin: str, page: str) -> Answer:
        return redirect(page)

    def twin_link(self, twin: str) -> Link:
        return twin, {"meta": {"handle_httpstatus_all": True}}


class TwinIsUnfiltered(Hostile):
    """The request for the twin carries dont_filter, and its redirect does too."""

    def broken(self, twin: str, page: str) -> Answer:
        return redirect(self.home)

    def twin_link(self, twin: str) -> Link:
        return twin, {"dont_filter": True}


class TwinIsPosted(Hostile):
    """The twin is posted to, and answers with something else than to GET."""

    def broken(self, twin: str, page: str) -> Answer:
        return lambda asked: article(twin) if asked.method == "POST" else redirect(page)

    def twin_link(self, twin: str) -> Link:
        return twin, {"method": "POST", "body": "x=1"}


class TwinIsAskedForItsHead(Hostile):
    """Only the head of the twin is asked for."""

    def broken(self, twin: str, page: str) -> Answer:
        return article(page)

    def twin_link(self, twin: str) -> Link:
        return twin, {"method": "HEAD"}


class TwinHasCookiesOfItsOwn(Hostile):
    """Twin and page are asked for with the cookies of two sessions, and differ by them."""

    def intact(self, twin: str, page: str) -> Answer:
        return lambda asked: article(f"{page} for {asked.headers.get('Cookie', 'nobody')}")

    def broken(self, twin: str, page: str) -> Answer:
        return lambda asked: article(f"{page} for {asked.headers.get('Cookie', 'nobody')}")

    def twin_link(self, twin: str) -> Link:
        return twin, {"meta": {"cookiejar": 1}, "cookies": {"who": "ann"}}

    def page_link(self, page: str) -> Link:
        return page, {"meta": {"cookiejar": 2}, "cookies": {"who": "bob"}}

    @property
    def wanted(self) -> set[str]:
        return {f"{page} for who=bob" for _, page in self.victims}


class TwinIsLeftAlone(Hostile):
    """The request for the twin asks that it be left alone."""

    def broken(self, twin: str, page: str) -> Answer:
        return redirect(self.home)

    def twin_link(self, twin: str) -> Link:
        return twin, {"meta": {"urlnorm": False}}


class TwinIsVerbatim(Hostile):
    """The request for the twin says that its URL is to be taken as it stands."""

    def broken(self, twin: str, page: str) -> Answer:
        return Reply(404)

    def twin_link(self, twin: str) -> Link:
        return twin, {"meta": {"verbatim_url": True}}


class PageIsVerbatim(TwinIsVerbatim):
    """The same, said in the request for the page."""

    def twin_link(self, twin: str) -> Link:
        return twin

    def page_link(self, page: str) -> Link:
        return page, {"meta": {"verbatim_url": True}}


class TwinWaitsAtTheEnd(Hostile):
    """The twin is asked for first, but its priority is the lowest of all."""

    def broken(self, twin: str, page: str) -> Answer:
        return Reply(404)

    def twin_link(self, twin: str) -> Link:
        return twin, {"priority": -1000}


class PageWaitsAtTheEnd(Hostile):
    """The page's priority is the lowest of all; its twin, linked to later, fails before."""

    def broken(self, twin: str, page: str) -> Answer:
        return Reply(404)

    def page_link(self, page: str) -> Link:
        return page, {"priority": -1000}

    def stages(self) -> list[list[Link]]:
        first, twins, pages = super().stages()
        return [first, pages, twins]


class TwinsAreStartRequests(Hostile):
    """The twin was a start request of the spider, and failed."""

    arguments: ClassVar[dict[str, Any]] = {"filter_start": True}

    def broken(self, twin: str, page: str) -> Answer:
        return Reply(404)

    def starts(self) -> list[str]:
        return [self.home, *(twin for twin, _ in self.victims)]


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
    """Twins of one section redirect and are withheld; then another section contradicts the rule."""

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
    """What was withheld comes back with all that its request carried."""

    spider = "hostile_spiders.Labels"

    def broken(self, twin: str, page: str) -> Answer:
        number = int(twin.rpartition("/")[2])
        return article(twin) if number == len(self.victims) - 1 else redirect(page)

    @property
    def wanted(self) -> set[str]:
        return set()
