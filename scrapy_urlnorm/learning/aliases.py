"""Page aliases: which of the other names that a page has for itself are true.

A page with a permalink ``U#F`` to one of its own elements, or with a ``rel=shortlink`` U, *claims*
that U shows the same page. That is often so and often not: a link in an old version of a page may
lead to the new one, whose headings have the same names. So claims are grouped by *patterns*, by
what the link looks like, and pages vote on patterns: when a crawl has both U and the page that
named it, either they have the same content or not. A pattern that five contents agree with is
accepted, one that is wrong once is dead on this site. A vote costs nothing, as both pages are
fetched in any case.

If the page is ``/ID/thread/``, and another name of it ``/OTHER/thread/``, then ``/ID/thread.gz``
*claims* that ``/OTHER/thread.gz`` shows the same: what lies beside a page lies beside its names.

An *alias* is one exact pair: the key of U, and that of the page which named it. It holds while its
pattern does and no page of other content claims the same U (then U is *contested*).

Everything here is about one site and knows URLs by their keys. There is no Scrapy in it. A rule file
cannot hold aliases: only a crawl has them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple
from zlib import crc32

from scrapy_urlnorm.url import Url, split

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping


#: Contents that have to agree before a pattern is accepted.
VOTES = 5
#: How likely a pattern is right before anything has voted.
PRIOR = 0.4
#: Of what a pattern withholds, this share is fetched all the same. Votes that cost nothing satisfy
#: the law of audits early, so by the law alone hardly anything would be looked at again.
AUDIT_RATE = 0.02
#: Bounds of one site: patterns, names of pages, places in pages, claims of one name, examples.
MAX_PATTERNS = 1_000
MAX_NAMES = 30_000
MAX_PLACES = 30_000
MAX_CLAIMS = 8
#: The first segment of a path, of a URL that is split at each slash.
_FIRST_FOLDER = 3
_MAX_FOLDERS = 200  #: of the names of one page
_MAX_EXAMPLES = 2
_MAX_VOTES = 500
#: Where pages change by themselves, one vote against a pattern is tolerated for so many for it.
_TOLERATED = 5

_HEX = re.compile(r"[0-9a-f]{12,}")
_DIGITS = re.compile(r"\d+")
#: What lies beside a page: a view of it, or a file. With digits, it is one of many such.
_LONGEST_VIEW = 20
_VIEW = re.compile(rf"[A-Za-z._/-]{{1,{_LONGEST_VIEW}}}")
_SHORT_NAME = re.compile(r"[A-Za-z:_-]{0,20}(?:#|<hash>)?[a-z]?")
_PAGE_NUMBER = re.compile(
    r"(?:^|[/&?])(?:comment-)?(?:page|paged|cpage|start|offset|pg|p)[=/-]?(\d+)(?=/|&|$)",
    re.IGNORECASE,
)


class Link(NamedTuple):
    """A link by which a page claims another name, and what it looks like."""

    url: str
    look: tuple[str, ...]  #: the same for all links of one pattern and of its sibling
    place: str | None  #: the name of the element it leads to, if it leads to one


def permalink(page: str, url: str, name: str) -> Link:
    """Return the link ``url#name`` of *page*, an element of which has the name."""
    of_page, of_link = split(page), split(url)
    folder, other = (each.path[1:].partition("/")[0] for each in (of_page, of_link))
    fragment = _DIGITS.sub("#", _HEX.sub("<hash>", name))
    look = (
        "permalink",
        of_link.host or "",
        "same path" if of_page.path == of_link.path else "other path",
        "same folder" if folder == other else "other folder",
        "same end" if _end(of_page) == _end(of_link) else "other end",
        "same host" if of_page[:4] == of_link[:4] else "other host",
        _shape(of_link.path, keeps_first=True),
        _names(set(_params(of_link)).difference(_params(of_page))),
        "#" + fragment if _SHORT_NAME.fullmatch(fragment) else "#text",
    )
    return Link(url, look, name)


def shortlink(page: str, url: str) -> Link | None:
    """Return the short link *url* of *page*; ``None`` if it says nothing about the page.

    It has to have the host of the page. A page with a number, ``/comment-page-2/``, often has the
    short link of the first page.
    """
    of_page, of_link = split(page), split(url)
    if of_page.host != of_link.host or _page_numbers(of_page) - _page_numbers(of_link):
        return None
    shapes = (_shape(each.path, keeps_first=False) for each in (of_page, of_link))
    return Link(url, ("shortlink", of_link.host or "", *shapes, _names(_params(of_link))), None)


def _folders(page: str, name: str) -> tuple[str, str] | None:
    """Return the folders of a page and of its other name, if nothing else tells their URLs apart."""
    one, two = (url.partition("#")[0].partition("?") for url in (page, name))
    ours, theirs = one[0].split("/"), two[0].split("/")
    differ = [at for at, pair in enumerate(zip(ours, theirs, strict=False)) if len({*pair}) > 1]
    if one[1:] != two[1:] or len(ours) != len(theirs) or len(differ) != 1:
        return None
    end = differ[0] + 1
    if end <= _FIRST_FOLDER or not _VIEW.fullmatch("/".join(ours[end:])):
        return None
    return "/".join((*ours[:end], "")), "/".join((*theirs[:end], ""))


def _end(url: Url) -> str:
    return _DIGITS.sub("#", url.path.rstrip("/").rpartition("/")[2])


def _params(url: Url) -> list[str]:
    return [each for each in (url.query or "").replace(";", "&").split("&") if each]


def _names(params: Iterable[str]) -> str:
    return "?" + "&".join(sorted({each.partition("=")[0] for each in params}))


def _page_numbers(url: Url) -> set[str]:
    return set(_PAGE_NUMBER.findall(f"{url.path}?{url.query or ''}"))


def _shape(path: str, *, keeps_first: bool) -> str:
    """Return a path with ``#`` for segments with digits and ``w`` for others.

    The first of several segments stays as it is: it may be one of many applications on a host.
    """
    *folders, last = path.split("/")
    shape = ["#" if _DIGITS.search(segment) else "w" if segment else "" for segment in folders]
    if keeps_first and len(shape) > 1 and shape[1] == "w" and (last or len(shape) > 2):
        shape[1] = folders[1]
    name, dot, extension = last.rpartition(".")
    end = "#" if _DIGITS.search(name or last) else "w" if last else ""
    return "/".join((*shape, end + dot + extension if dot and len(extension) <= 5 else end))


@dataclass(eq=False)
class Pattern:
    """Links of one look, and the contents that agreed that they lead to their own page.

    For `Audits` in a crawl it is what a rule is.
    """

    kind = "page-alias"
    source = "page"
    prior = PRIOR
    audit_rate = AUDIT_RATE

    site: str
    look: tuple[str, ...]
    is_single: bool  #: whether each place was met on one content only
    agreed: set[int] = field(default_factory=set)  #: contents, as `_vote_of` has them
    is_dead: bool = False
    note: str = ""  #: why it is dead
    examples: list[tuple[str, str]] = field(default_factory=list)  #: names, pages that named them
    differed: int = 0  #: votes against it, where pages change by themselves

    @property
    def identity(self) -> str:
        """A text that no other pattern or rule of any site has."""
        return f"{self.site} {' '.join(self.look)} {'one' if self.is_single else 'several'}"

    @property
    def support(self) -> int:
        return len(self.agreed)

    @property
    def is_accepted(self) -> bool:
        return not self.is_dead and self.support >= VOTES

    def __str__(self) -> str:
        if self.look[0] == "shortlink":
            _, host, page, path, query = self.look
            return f"short links {host}{path}{query} of pages {page}"
        if self.look[0] == "beside":
            return f"{self.look[1]} beside what {replace(self, look=self.look[2:])} show"
        _, host, *_, path, query, place = self.look
        of_page = " of the page itself" if "same path" in self.look else ""
        often = "" if self.is_single else ", at places that many pages have"
        return f"permalinks {host}{path}{query}{place}{of_page}{often}"


class Claim(NamedTuple):
    """What one page said of one name."""

    page: bytes  #: the key of the page
    content: str
    link: Link


class Alias(NamedTuple):
    page: bytes
    pattern: Pattern


class Doubt(NamedTuple):
    """A name that showed other content than the page that named it, against its pattern."""

    pattern: Pattern
    key: bytes  #: of the name
    url: str  #: the name
    page: bytes


class SiteAliases:
    """The patterns of one site, its votes, and its aliases."""

    def __init__(self, site: str) -> None:
        self.site = site
        self._patterns: dict[tuple[tuple[str, ...], bool], Pattern] = {}
        self._claims: dict[bytes, tuple[Claim, ...]] = {}  # by the key of the name
        self._places: dict[str, str | None] = {}  # the one content that has it; None: several
        #: By the folder of a name of a page, those of all its names, and what they look like. A later
        #: run learns them anew.
        self._folders: dict[str, dict[str, tuple[str, ...]]] = {}
        #: Whether its pages change by themselves: then a name may be wrong, and one vote kills none.
        self.is_restless = False
        #: Patterns that were accepted, or were and are dead, for the owner to take out.
        self.news: list[Pattern] = []

    @classmethod
    def from_state(cls, site: str, state: dict[str, Any]) -> SiteAliases:
        """Return what had this `state`. Raises `LookupError`, `TypeError` or `ValueError` for others."""
        made = cls(site)
        for look, is_single, agreed, is_dead, note, examples in state["patterns"]:
            pairs = [(name, page) for name, page in examples]
            pattern = Pattern(site, tuple(look), is_single, set(agreed), is_dead, note, pairs)
            made._patterns[pattern.look, is_single] = pattern
        looks = [look for look, _ in made._patterns]
        for key, page, content, url, number, place in state["claims"]:
            claim = Claim(bytes.fromhex(page), content, Link(url, looks[number], place))
            name = bytes.fromhex(key)
            made._claims[name] = (*made._claims.get(name, ()), claim)
        made._places.update(state["places"])
        return made

    @property
    def state(self) -> dict[str, Any]:
        """All that is known, as JSON can hold it: for a later run of the same crawl."""
        numbers = {look: number for number, (look, _) in enumerate(self._patterns)}
        return {
            "patterns": [
                (p.look, p.is_single, sorted(p.agreed), p.is_dead, p.note, p.examples)
                for p in self._patterns.values()
            ],
            "claims": [
                (key.hex(), page.hex(), content, link.url, numbers[link.look], link.place)
                for key, claims in self._claims.items()
                for page, content, link in claims
            ],
            "places": self._places,
        }

    def __len__(self) -> int:
        return len(self._claims)

    def accepted(self) -> Iterator[Pattern]:
        return (pattern for pattern in self._patterns.values() if pattern.is_accepted)

    # --- what to read of a page -------------------------------------------------------------

    def is_open(self, look: tuple[str, ...]) -> bool:
        known = [self._patterns.get((look, is_single)) for is_single in (True, False)]
        # In a folder of many pages each of their names is a look of its own: half of the room is left.
        most = MAX_PATTERNS // 2 if look[0] == "beside" else MAX_PATTERNS
        has_room = None in known and len(self._patterns) < most
        return has_room or any(pattern and not pattern.is_dead for pattern in known)

    def is_named(self, key: bytes) -> bool:
        return key in self._claims

    def beside(self, url: str) -> Iterator[Link]:
        """Yield *url* in the folders of the other names of a page, if it lies beside that page."""
        url = url.partition("#")[0]
        at = max(0, len(url) - _LONGEST_VIEW - 2)
        while self._folders and (at := url.find("/", at + 1)) >= 0:
            folder, rest = url[: at + 1], url[at + 1 :]
            others = self._folders.get(folder, {}) if _VIEW.fullmatch(rest) else {}
            for other, look in others.items():
                yield Link(other + rest, ("beside", rest, *look), None)

    # --- claims and votes -------------------------------------------------------------------

    def names(
        self,
        page: tuple[bytes, str],
        content: str,
        links: Iterable[tuple[bytes, Link]],
        content_of: Callable[[bytes], str | None],
    ) -> tuple[list[Doubt], list[str]]:
        """Take note that a *page* with *content* names other keys for itself.

        *page* is its key and URL. *content_of* returns the content of a name that arrived before,
        ``None`` where it is not known: that is a vote at once. Return the doubts that came of it,
        and the names that are contested now.
        """
        doubts: list[Doubt] = []
        contested: list[str] = []
        links = list(links)
        for _, link in links:
            if link.place is not None and self._places.setdefault(link.place, content) != content:
                self._places[link.place] = None
            if len(self._places) > MAX_PLACES:
                del self._places[next(iter(self._places))]
        for key, link in links:
            pattern = self._pattern(link)
            if pattern is None or pattern.is_dead:
                continue
            if len(pattern.examples) < _MAX_EXAMPLES:
                pattern.examples.append((link.url, page[1]))
            # Links of one pattern share one tuple.
            claim = Claim(page[0], content, link._replace(look=pattern.look))
            found = content_of(key)
            if found is not None:
                doubts += self._vote(claim, key, found)
            if self._add(key, claim):
                contested.append(link.url)
            if link.place is not None and (folders := _folders(page[1], link.url)):
                self._are_of_one_page(folders, link.look)
        return doubts, contested

    def _are_of_one_page(self, folders: tuple[str, str], look: tuple[str, ...]) -> None:
        one, two = (self._folders.get(each, {each: look}) for each in folders)
        if (
            one is not two
            and len(one) + len(two) <= _MAX_FOLDERS
            and len(self._folders) < MAX_NAMES
        ):
            known = one | two
            self._folders |= dict.fromkeys(known, known)

    def arrives(self, key: bytes, content: str | None) -> list[Doubt]:
        """Have all who named *key* vote, now that a page with *content* arrived under it.

        ``None`` means that there is no such page.
        """
        claims = self._claims.get(key, ())
        return [doubt for claim in claims for doubt in self._vote(claim, key, content)]

    def alias(self, key: bytes) -> Alias | None:
        """Return which page *key* stands for, if one is known and nobody contests it."""
        live = [
            (claim, pattern)
            for claim in self._claims.get(key, ())
            if (pattern := self._pattern(claim.link)) is not None and not pattern.is_dead
        ]
        if len({claim.content for claim, _ in live}) != 1:
            return None
        claim, pattern = max(live, key=lambda each: each[1].support)
        return Alias(claim.page, pattern) if pattern.is_accepted and claim.page != key else None

    def _add(self, key: bytes, claim: Claim) -> bool:
        before = self._claims.get(key, ())
        if any((c.content, c.link.look) == (claim.content, claim.link.look) for c in before):
            return False
        if len(before) < MAX_CLAIMS:
            self._claims[key] = (*before, claim)
        if len(self._claims) > MAX_NAMES:
            del self._claims[next(iter(self._claims))]
        return any(each.content != claim.content for each in before)

    def _pattern(self, link: Link) -> Pattern | None:
        """Return the pattern of a link now: whether its place is on one content only may change."""
        is_single = link.place is None or self._places.get(link.place, "") is not None
        found = self._patterns.get((link.look, is_single))
        if found is None and len(self._patterns) < MAX_PATTERNS:
            found = Pattern(self.site, link.look, is_single)
            self._patterns[link.look, is_single] = found
        return found

    def _vote(self, claim: Claim, key: bytes, found: str | None) -> list[Doubt]:
        pattern = self._pattern(claim.link)
        if pattern is None or pattern.is_dead:
            return []
        was_accepted = pattern.is_accepted
        if found == claim.content:
            if pattern.support < _MAX_VOTES:
                pattern.agreed.add(_vote_of(found))
            if pattern.is_accepted and not was_accepted:
                self.news.append(pattern)
            return []
        pattern.differed += 1
        if was_accepted:
            return [Doubt(pattern, key, claim.link.url, claim.page)]
        if not self.is_restless or _TOLERATED * pattern.differed > pattern.support + _TOLERATED:
            self.kill(pattern, f"other content than the page that named it: {claim.link.url}")
        return []

    def rename(self, names: Mapping[str, str]) -> None:
        """Take note that contents have other names: the new one by the old one."""
        for place, content in self._places.items():
            self._places[place] = names.get(content, content) if content else None
        for key, claims in self._claims.items():
            self._claims[key] = tuple(
                claim._replace(content=names.get(claim.content, claim.content)) for claim in claims
            )
        votes = {_vote_of(old): _vote_of(new) for old, new in names.items()}
        for pattern in self._patterns.values():
            pattern.agreed = {votes.get(vote, vote) for vote in pattern.agreed}

    def kill(self, pattern: Pattern, note: str) -> None:
        """Take note that a pattern is wrong: its aliases hold no more on this site.

        If it had been accepted, the pattern that differs only in how often its places are met has
        to be accepted anew: what was wrong with one may be wrong with both.
        """
        if pattern.is_accepted:
            self.news.append(pattern)
            sibling = self._patterns.get((pattern.look, not pattern.is_single))
            if sibling is not None:
                sibling.agreed.clear()
        pattern.is_dead = True
        pattern.note = note
        pattern.agreed.clear()


def _vote_of(content: str) -> int:
    """Return a number for *content* that is the same in every process, and small to keep."""
    return crc32(content.encode("utf-8", "surrogatepass"))
