"""Hostile sites with a history: hosts, ports, slashes and tenants that keep a habit until they do not."""

from __future__ import annotations

from typing import Any, ClassVar

from hostile_base import HTTP, HTTPS, WWW, Answer, Hostile, Link, article
from loopback import Reply, redirect

# --- twins that fail -------------------------------------------------------------------------------


class _HttpFails(Hostile):
    """http:// redirects to https://, until the port for http begins to fail for a section."""

    alias, canonical = HTTP, HTTPS
    status = 0

    def broken(self, twin: str, page: str) -> Answer:
        return Reply(self.status, b"<h1>an error</h1>", {"Content-Type": "text/html"})


class HttpStartsFailing503(_HttpFails):
    """The port for http answers 503 where a section begins."""

    status = 503


class HttpStartsFailing404(_HttpFails):
    """The port for http answers 404 where a section begins."""

    status = 404


class HttpStartsFailing429(_HttpFails):
    """The port for http answers 429, too many requests, where a section begins."""

    status = 429


class HttpDeepLinksGoHome(Hostile):
    """The port for http sends deep links of a section to the home page."""

    alias, canonical = HTTP, HTTPS

    def broken(self, twin: str, page: str) -> Answer:
        return redirect(self.home, 302)


class HttpDropsConnections(Hostile):
    """The port for http hangs up when it is asked for a page of one section."""

    alias, canonical = HTTP, HTTPS

    def broken(self, twin: str, page: str) -> Answer:
        return Reply(ends="dropped")


class SlashTwinGoesHome(Hostile):
    """``/f/`` redirects to ``/f``, until one section's ``/f/`` goes to the home page."""

    def pair(self, path: str) -> tuple[str, str]:
        return f"{WWW}{path}/", WWW + path

    def broken(self, twin: str, page: str) -> Answer:
        return redirect(self.home)


class RobotsOfTheAlias(Hostile):
    """robots.txt of the mobile host forbids a section that the other host's allows."""

    alias = "http://m.shop.test"
    settings: ClassVar[dict[str, Any]] = {"ROBOTSTXT_OBEY": True}

    def broken(self, twin: str, page: str) -> Answer:
        return redirect(page)

    def other(self, url: Any) -> Reply:
        forbidden = "/new/" if url.startswith(self.alias) else "/nothing/"
        return Reply(200, f"User-agent: *\nDisallow: {forbidden}\n".encode())


class SpiderFollowsRedirects(Hostile):
    """The spider has redirects handed to its callback, and asks for their targets itself."""

    spider = "hostile_spiders.FollowsRedirectsItself"

    def broken(self, twin: str, page: str) -> Answer:
        return redirect(page)

    def stages(self) -> list[list[Link]]:
        return super().stages()[:2]


class NoRedirectMiddleware(SpiderFollowsRedirects):
    """REDIRECT_ENABLED is False; the spider asks for the targets of redirects itself."""

    settings: ClassVar[dict[str, Any]] = {"REDIRECT_ENABLED": False}


class SubdomainStealsPages(Hostile):
    """A user's host redirects to another user's; a third one links to copies that do not exist."""

    alias, canonical = "http://evil.users.test", "http://victim.users.test"

    def broken(self, twin: str, page: str) -> Answer:
        return Reply(404)

    def lead(self, *stages: list[Link]) -> None:
        super().lead(*stages)
        third = "http://third.users.test/links"
        self.answers[third] = self.answers[self.canonical + "/stage-1"]
        self.answers[self.canonical + "/stage-1"] = article("hub", third)


class PrivateSuffixStealsPages(SubdomainStealsPages):
    """The same below a public suffix of a private owner, where every host is its own domain."""

    alias, canonical = "http://evil.github.io", "http://victim.github.io"


class TenantTeachesSlashes(Hostile):
    """Of many users of one host one teaches that ``/x/`` is ``/x``: elsewhere they differ."""

    status = 200

    def pair(self, path: str) -> tuple[str, str]:
        section, name = path.strip("/").split("/")
        path = f"/~bob/{name}" if section == "new" else f"/~evil/{name}"
        return f"{WWW}{path}/", WWW + path

    @property
    def wanted(self) -> set[str]:
        return {name for pair in self.victims for name in pair}

    def broken(self, twin: str, page: str) -> Answer:
        answer = article(twin)
        return Reply(self.status, answer.body, answer.headers)

    def intact(self, twin: str, page: str) -> Answer:
        answer = article(page)
        return Reply(self.status, answer.body, answer.headers)


class TenantsAnswer203(TenantTeachesSlashes):
    """The same, and the other users' pages come from a proxy that changed them: 203."""

    status = 203


class EmptyPaths(Hostile):
    """A page with 150 links whose path is empty, on a host whose rule is known."""

    def broken(self, twin: str, page: str) -> Answer:
        return redirect(page)

    def stages(self) -> list[list[Link]]:
        first, twins, pages = super().stages()
        return [first, [*(f"{self.alias}#{n}" for n in range(150)), *twins], pages]


# --- habits that end or differ --------------------------------------------------------------------


class NamesFlip(Hostile):
    """Without www. redirects to www. in some sections, and the other way round in another."""

    def broken(self, twin: str, page: str) -> Answer:
        return article(page)

    def intact(self, twin: str, page: str) -> Answer:
        return redirect(twin)


class SlashForSomePaths(Hostile):
    """``/x/`` redirects to ``/x``, but in one section it is a page of its own."""

    def pair(self, path: str) -> tuple[str, str]:
        return f"{WWW}{path}/", WWW + path

    @property
    def wanted(self) -> set[str]:
        return {name for pair in self.victims for name in pair}

    def broken(self, twin: str, page: str) -> Answer:
        return article(twin)


class IndexDiffers(Hostile):
    """``/x/index.php`` redirects to ``/x/``, but in one section it is a page of its own."""

    def pair(self, path: str) -> tuple[str, str]:
        return f"{WWW}{path}/index.php", f"{WWW}{path}/"

    @property
    def wanted(self) -> set[str]:
        return {name for pair in self.victims for name in pair}

    def broken(self, twin: str, page: str) -> Answer:
        return article(twin)


class AliasHasPagesOfItsOwn(SlashForSomePaths):
    """One name of a host redirects to the other, but serves other pages in one section."""

    def pair(self, path: str) -> tuple[str, str]:
        return Hostile.pair(self, path)


class ChangesItsMind(AliasHasPagesOfItsOwn):
    """The redirects stop in the middle of the crawl: both names serve pages of their own."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.has_changed = False

    def broken(self, twin: str, page: str) -> Answer:
        def answer(url: Any) -> Reply:
            number = int(url.rpartition("/")[2])
            return redirect(page) if number < len(self.victims) // 2 else article(twin)

        return answer

    @property
    def wanted(self) -> set[str]:
        late = self.victims[len(self.victims) // 2 :]
        return {page for _, page in self.victims} | {twin for twin, _ in late}


class LoginWall(Hostile):
    """Pages of a section redirect to one login form under as many URLs as there are pages."""

    def broken(self, twin: str, page: str) -> Answer:
        return redirect(f"{WWW}/login?next=/new/{twin.rpartition('/')[2]}", 302)

    def other(self, url: Any) -> Reply:
        return article("please log in") if "/login?" in url else Reply(404)


class LoginTeaches(LoginWall):
    """What is taught is nothing but permanent redirects to that login form."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        for twin, page in self.taught:
            number = page.rpartition("/")[2]
            self.answers[twin] = redirect(f"{WWW}/login?next={number}")


class TemporaryRedirects(AliasHasPagesOfItsOwn):
    """The redirects are temporary ones, and say nothing about other pages."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        for twin, page in self.taught:
            self.answers[twin] = redirect(page, 302)


class RedirectLoops(Hostile):
    """Pages redirect to themselves and to each other, after the rule is known."""

    wanted: ClassVar[set[str]] = set()

    def broken(self, twin: str, page: str) -> Answer:
        return redirect(page)

    def intact(self, twin: str, page: str) -> Answer:
        return redirect(page if int(page.rpartition("/")[2]) % 2 else twin)
