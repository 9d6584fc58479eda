"""More hostile sites: twins that end in every way a request can end but with their page."""

from __future__ import annotations

from typing import Any, ClassVar

from hostile_base import BARE, HTTPS, WWW, Answer, Hostile, Link, article
from loopback import Reply, redirect

HTML = {"Content-Type": "text/html; charset=utf-8"}


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
