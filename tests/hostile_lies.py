"""Hostile sites that lie about their pages' names, or keep a habit in one part and not in another.

Their pages and twins are on one host where nothing else is said.
"""

from __future__ import annotations

import itertools
from typing import Any, ClassVar

from hostile_base import BARE, WORDS, WWW, Answer, Hostile, Link, article
from loopback import Reply, redirect


class _BothArePages(Hostile):
    """Twin and page of a victim are different pages."""

    alias = WWW

    @property
    def wanted(self) -> set[str]:
        return {name for pair in self.victims for name in pair}

    def broken(self, twin: str, page: str) -> Answer:
        return article(twin)


# --- habits of one part ---------------------------------------------------------------------------


class CaseDiffers(_BothArePages):
    """Capitals redirect to small letters, but in one section both are pages."""

    def pair(self, path: str) -> tuple[str, str]:
        section, number = path.strip("/").split("/")
        name = f"{WORDS[int(number)]}-{WORDS[-1 - int(number)]}"
        return f"{WWW}/{section}/{name.upper()}", f"{WWW}/{section}/{name}"


class FirstLetterDiffers(CaseDiffers):
    """A small first letter redirects to a capital; further letters tell pages apart."""

    def pair(self, path: str) -> tuple[str, str]:
        section, number = path.strip("/").split("/")
        name = WORDS[int(number)]
        twin = name.upper() if section == "new" else name
        return f"{WWW}/{section}/{twin}", f"{WWW}/{section}/{name.capitalize()}"


class ParameterMatters(_BothArePages):
    """A parameter is dropped by redirects, but in one section it selects a page."""

    def pair(self, path: str) -> tuple[str, str]:
        return f"{WWW}{path}?view=full", WWW + path


class VersionDiffers(_BothArePages):
    """``/latest/`` redirects to ``/v3/``, but has pages of its own in one section."""

    def pair(self, path: str) -> tuple[str, str]:
        return f"{WWW}/latest{path}", f"{WWW}/v3{path}"


class VersionIsGone(VersionDiffers):
    """``/latest/`` redirects to ``/v3/``, but is gone in one section."""

    @property
    def wanted(self) -> set[str]:
        return {page for _, page in self.victims}

    def broken(self, twin: str, page: str) -> Answer:
        return Reply(404)


class PortDiffers(_BothArePages):
    """Port 8080 redirects to port 80, but serves pages of its own in one section."""

    def pair(self, path: str) -> tuple[str, str]:
        return f"http://www.shop.test:8080{path}", WWW + path


class TwoDifferencesAtOnce(Hostile):
    """Twins differ from their pages by host and final slash, together and one by one; all fail."""

    def pair(self, path: str) -> tuple[str, str]:
        return f"{BARE}{path}/", WWW + path

    def broken(self, twin: str, page: str) -> Answer:
        return Reply(404)

    def stages(self) -> list[list[Link]]:
        first, twins, pages = super().stages()
        others = [page + "/" for _, page in self.victims]
        return [first, [*twins, *others, *(page.replace(WWW, BARE) for page in pages)], pages]


class SlashAndNoSlashFlip(Hostile):
    """Some sections redirect to the final slash, others away from it."""

    def pair(self, path: str) -> tuple[str, str]:
        short, long = WWW + path, f"{WWW}{path}/"
        return (short, long) if path.startswith("/old/") else (long, short)

    def broken(self, twin: str, page: str) -> Answer:
        return redirect(self.home)


class ShownToGuestsOnly(_BothArePages):
    """The alias redirects guests; who has the cookie that it sets sees pages of its own."""

    alias = BARE

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        for twin, page in self.taught:
            self.answers[twin] = Reply(
                301, b"", {"Location": page, "Set-Cookie": "known=1; Path=/"}
            )

    def broken(self, twin: str, page: str) -> Answer:
        return lambda asked: article(twin) if asked.headers.get("Cookie") else redirect(page)


# --- lies in pages --------------------------------------------------------------------------------


class _Declares(_BothArePages):
    """Pages say what their name is: truly where they teach, falsely where victims are."""

    def pair(self, path: str) -> tuple[str, str]:
        return f"{WWW}{path}?ref=list", WWW + path

    def declaration(self, page: str) -> str:
        return f'<link rel="canonical" href="{page}">'

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        for twin, page in self.taught:
            self.answers[twin] = self.answers[page] = article(page, head=self.declaration(page))

    def broken(self, twin: str, page: str) -> Answer:
        return article(twin, head=self.declaration(page))

    def intact(self, twin: str, page: str) -> Answer:
        return article(page, head=self.declaration(page))


class CanonicalLies(_Declares):
    """rel=canonical is right in some sections, and names other pages in one."""


class CanonicalNamesHome(_Declares):
    """rel=canonical of every page of a section names the home page."""

    def broken(self, twin: str, page: str) -> Answer:
        return article(twin, head=self.declaration(self.home))

    intact = broken

    @property
    def wanted(self) -> set[str]:
        return {twin for twin, _ in self.victims}


class CanonicalNamesPageThatFails(_Declares):
    """rel=canonical of a section's pages names URLs that are gone."""

    def intact(self, twin: str, page: str) -> Answer:
        return Reply(404)

    @property
    def wanted(self) -> set[str]:
        return {twin for twin, _ in self.victims}


class OpenGraphLies(_Declares):
    """og:url is right in some sections, and names other pages in one."""

    def declaration(self, page: str) -> str:
        return f'<meta property="og:url" content="{page}">'


class ShortLinksAreShared(_Declares):
    """rel=shortlink is a page's own in some sections, and one for all pages in another."""

    def pair(self, path: str) -> tuple[str, str]:
        return f"{WWW}/?p={path.rpartition('/')[2]}{path[1]}", WWW + path

    def declaration(self, page: str) -> str:
        number = f"{page.rpartition('/')[2]}{page.split('/')[3][0]}"
        return f'<link rel="shortlink" href="{WWW}/?p={"0n" if "/new/" in page else number}">'


class PermalinksLie(_Declares):
    """The permalink of a part of a page names that page, and in one section the page after it."""

    def pair(self, path: str) -> tuple[str, str]:
        return f"{WWW}{path}?reply=1", WWW + path

    def page_with_part(self, name: str, owner: str) -> Reply:
        number = int(owner.rpartition("/")[2])
        if "/new/" in owner:
            owner = f"{owner.rpartition('/')[0]}/{(number + 1) % len(self.victims)}"
        reply = article(name, f"{owner}#comment-{number}")
        text = reply.body.decode().replace("<p>", f'<div id="comment-{number}"><p>')
        return Reply(200, text.encode(), reply.headers)

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        for twin, page in self.taught:
            self.answers[twin] = self.answers[page] = self.page_with_part(page, page)
        for twin, page in self.victims:
            self.answers[twin] = self.page_with_part(twin, page)
            self.answers[page] = self.page_with_part(page, page)


class RobotsNameIdleParameters(_BothArePages):
    """robots.txt says that a parameter never matters; in one section it does."""

    settings: ClassVar[dict[str, Any]] = {"ROBOTSTXT_OBEY": True}

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        for twin, page in self.taught:
            self.answers[twin] = article(page)

    def pair(self, path: str) -> tuple[str, str]:
        return f"{WWW}{path}?ref=list", WWW + path

    def other(self, url: Any) -> Reply:
        return Reply(200, b"User-agent: *\nDisallow: /nothing/\nClean-param: ref /\n")


class EqualUntilTheyDiffer(RobotsNameIdleParameters):
    """Two names of a host serve the same, without a redirect, but for one section."""

    settings: ClassVar[dict[str, Any]] = {}

    def pair(self, path: str) -> tuple[str, str]:
        return BARE + path, WWW + path

    def other(self, url: Any) -> Reply:
        return Reply(404)


# --- what text does not show -----------------------------------------------------------------------


class LinksDiffer(Hostile):
    """Twin and page have the same text, but the twin alone links to further pages."""

    def child(self, page: str) -> str:
        return page + "/child"

    def broken(self, twin: str, page: str) -> Answer:
        self.answers[self.child(page)] = article(self.child(page))
        return article(page, self.child(page))

    def stages(self) -> list[list[Link]]:
        first, twins, pages = super().stages()
        return [first, pages, twins]

    @property
    def wanted(self) -> set[str]:
        return {name for _, page in self.victims for name in (page, self.child(page))}


class RelativeLinksDiffer(LinksDiffer):
    """``/x/`` and ``/x`` have the same source, whose relative link leads to different pages."""

    def pair(self, path: str) -> tuple[str, str]:
        return f"{WWW}{path}/", WWW + path

    def child(self, page: str) -> str:
        return f"{page}/part-{page.rpartition('/')[2]}"

    def broken(self, twin: str, page: str) -> Answer:
        self.answers[self.child(page)] = article(self.child(page))
        return self.intact(twin, page)

    def intact(self, twin: str, page: str) -> Answer:
        return article(page, f"part-{page.rpartition('/')[2]}")


class PagesChangeAtEveryVisit(Hostile):
    """A page's text is another one at every visit; its twin redirects to it."""

    def broken(self, twin: str, page: str) -> Answer:
        return redirect(page)

    def intact(self, twin: str, page: str) -> Answer:
        visits: list[str] = []

        def answer(url: Any) -> Reply:
            visits.append(url)
            text = " ".join(WORDS[len(visits) * 7 % 50 : len(visits) * 7 % 50 + 20])
            body = article(page).body.replace(b"<p>", f"<p>{text} {len(visits)} ".encode())
            return Reply(200, body, {"Content-Type": "text/html; charset=utf-8"})

        return answer


class TwinChangesAtEveryVisit(PagesChangeAtEveryVisit):
    """The twin does not redirect any more, and its text is another one at every visit."""

    def broken(self, twin: str, page: str) -> Answer:
        return self.intact(twin, page)


# --- depth ----------------------------------------------------------------------------------------


class PageIsTooDeep(Hostile):
    """A page is fetched at DEPTH_LIMIT, its links cut; its twin, linked to later, is not as deep."""

    settings: ClassVar[dict[str, Any]] = {"DEPTH_LIMIT": 5}

    def child(self, page: str) -> str:
        return page + "/child"

    def broken(self, twin: str, page: str) -> Answer:
        self.answers[self.child(page)] = article(self.child(page))
        return article(page, self.child(page))

    intact = broken

    @property
    def wanted(self) -> set[str]:
        return {name for _, page in self.victims for name in (page, self.child(page))}

    def lead(self, *stages: list[Link]) -> None:
        """The way to the pages is long but taken first; that to the twins is short."""
        first, twins, pages = stages
        way = [f"{WWW}/way-{n}" for n in range(4)]
        late: list[Link] = [(str(twin), {"priority": -100}) for twin in twins]
        second = f"{WWW}/second"
        self.answers[self.home] = article("home", *first, second)
        self.answers[second] = article("second", *late, way[0])
        for here, there in itertools.pairwise(way[:3]):
            self.answers[here] = article(here, there)
        self.answers[way[2]] = article(way[2], *pages)
        self.answers[self.alias + "/"] = redirect(self.home)


class TwinIsTooDeep(PageIsTooDeep):
    """A twin is fetched at DEPTH_LIMIT, its links cut; its page, linked to later, is not as deep."""

    def lead(self, *stages: list[Link]) -> None:
        first, twins, pages = stages
        super().lead(first, pages, twins)


class CalendarWithoutEnd(Hostile):
    """Every day links to the next under both names; only DEPTH_LIMIT ends it."""

    settings: ClassVar[dict[str, Any]] = {"DEPTH_LIMIT": 30}
    wanted: ClassVar[set[str]] = {f"{WWW}/day/{n}" for n in range(28)}

    def broken(self, twin: str, page: str) -> Answer:
        return redirect(page)

    def stages(self) -> list[list[Link]]:
        return [[*super().stages()[0], f"{WWW}/day/0"]]

    def other(self, url: Any) -> Reply:
        host, found, day = url.partition("/day/")
        if not found:
            return Reply(404)
        if host == BARE:
            return redirect(f"{WWW}/day/{day}")
        return article(str(url), f"{BARE}/day/{int(day) + 1}", f"{WWW}/day/{int(day) + 1}")
