"""Page aliases: which of the other names that a page has for itself are true.

A page with a permalink ``U#F`` to one of its own elements, or with a ``rel=shortlink`` U, *claims*
that U shows the same page. That is often so and often not: a link in an old version of a page may
lead to the new one, whose headings have the same names. So claims are grouped by *patterns*, by
what the link looks like, and pages vote on patterns: when a crawl has both U and the page that
named it, either they have the same content or not. A pattern that five contents agree with is
accepted, one that is wrong once is dead on this site. A vote costs nothing, as both pages are
fetched in any case.

An *alias* is one exact pair: the key of U, and that of the page which named it. It holds while its
pattern does and no page of other content claims the same U (then U is *contested*).

Everything here is about one site and knows URLs by their keys. There is no Scrapy in it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple
from zlib import crc32

from scrapy_urlnorm.learning.alias_links import Link

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
_MAX_EXAMPLES = 2
_MAX_VOTES = 500


#: Where pages change by themselves, one vote against a pattern is tolerated for so many for it.
_TOLERATED = 5


class Pattern:
    """Links of one look, and the contents that agreed that they lead to their own page.

    For `Audits` in a crawl it is what a rule is.
    """

    kind = "page-alias"
    source = "page"
    prior = PRIOR
    audit_rate = AUDIT_RATE

    def __init__(self, site: str, look: tuple[str, ...], *, is_single: bool) -> None:
        self.site = site
        self.look = look
        self.is_single = is_single  #: whether each place was met on one content only
        self.agreed: set[int] = set()  #: contents, as `_vote_of` has them
        self.differed = 0  #: votes against it, where pages change by themselves
        self.is_dead = False
        self.note = ""  #: why it is dead
        self.examples: list[tuple[str, str]] = []  #: names and the pages that named them

    @property
    def identity(self) -> str:
        """A text that no other pattern or rule of any site has."""
        return f"{self.site} {' '.join(self.look)} {'one' if self.is_single else 'several'}"

    @property
    def support(self) -> int:
        """How many contents agreed."""
        return len(self.agreed)

    @property
    def is_accepted(self) -> bool:
        """Whether aliases of this pattern hold."""
        return not self.is_dead and len(self.agreed) >= VOTES

    def __str__(self) -> str:
        if self.look[0] == "shortlink":
            _, host, page, path, query = self.look
            return f"short links {host}{path}{query} of pages {page}"
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
    """The page that a name stands for, and the pattern by which it does."""

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
        #: Whether its pages change by themselves: then a name may be wrong, and one vote kills none.
        self.is_restless = False
        #: Patterns that were accepted, or were and are dead, for the owner to take out.
        self.news: list[Pattern] = []

    @classmethod
    def from_state(cls, site: str, state: dict[str, Any]) -> SiteAliases:
        """Return what had this `state`. Raises `LookupError`, `TypeError` or `ValueError` for others."""
        made = cls(site)
        patterns = []
        for look, is_single, agreed, is_dead, note, examples in state["patterns"]:
            pattern = Pattern(site, tuple(look), is_single=is_single)
            pattern.agreed, pattern.is_dead, pattern.note = set(agreed), is_dead, note
            pattern.examples = [(name, page) for name, page in examples]
            made._patterns[pattern.look, is_single] = pattern
            patterns.append(pattern)
        for key, page, content, url, number, place in state["claims"]:
            link = Link(url, patterns[number].look, place)
            claim = Claim(bytes.fromhex(page), content, link)
            name = bytes.fromhex(key)
            made._claims[name] = (*made._claims.get(name, ()), claim)
        made._places.update(state["places"])
        return made

    @property
    def state(self) -> dict[str, Any]:
        """All that is known, as JSON can hold it: for a later run of the same crawl."""
        numbers = {pattern: number for number, pattern in enumerate(self._patterns.values())}
        of_look = {pattern.look: number for pattern, number in numbers.items()}
        return {
            "patterns": [
                (p.look, p.is_single, sorted(p.agreed), p.is_dead, p.note, p.examples)
                for p in numbers
            ],
            "claims": [
                (
                    *(key.hex(), claim.page.hex(), claim.content, claim.link.url),
                    *(of_look[claim.link.look], claim.link.place),
                )
                for key, claims in self._claims.items()
                for claim in claims
            ],
            "places": self._places,
        }

    def __len__(self) -> int:
        return len(self._claims)

    def accepted(self) -> Iterator[Pattern]:
        """Yield the patterns whose aliases hold."""
        return (pattern for pattern in self._patterns.values() if pattern.is_accepted)

    # --- what to read of a page -------------------------------------------------------------

    def is_open(self, look: tuple[str, ...]) -> bool:
        """Return whether a link of this look may still become an alias."""
        both = [self._patterns.get((look, is_single)) for is_single in (True, False)]
        if None in both and len(self._patterns) >= MAX_PATTERNS:
            return any(each is not None and not each.is_dead for each in both)
        return any(each is None or not each.is_dead for each in both)

    def has_open_place(self, look: tuple[str, ...]) -> bool:
        """Return whether links to such a place, whatever their URL, may still become aliases."""
        return any(
            not pattern.is_dead and pattern.look[-1] == look[-1]
            for pattern in self._patterns.values()
        )

    def is_named(self, key: bytes) -> bool:
        """Return whether a page named this key."""
        return key in self._claims

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
            self._meet(link.place, content)
        for key, link in links:
            pattern = self._pattern(link)
            if pattern is None or pattern.is_dead:
                continue
            if len(pattern.examples) < _MAX_EXAMPLES:
                pattern.examples.append((link.url, page[1]))
            # Links of one pattern share one tuple.
            link = link._replace(look=pattern.look)
            claim = Claim(page[0], content, link)
            found = content_of(key)
            if found is not None:
                doubts += self._vote(claim, key, found)
            if self._add(key, claim):
                contested.append(link.url)
        return doubts, contested

    def arrives(self, key: bytes, content: str | None) -> list[Doubt]:
        """Have all who named *key* vote, now that a page with *content* arrived under it.

        ``None`` means that there is no such page.
        """
        claims = self._claims.get(key, ())
        return [doubt for claim in claims for doubt in self._vote(claim, key, content)]

    def alias(self, key: bytes) -> Alias | None:
        """Return which page *key* stands for, if one is known and nobody contests it."""
        claims = self._claims.get(key)
        if not claims:
            return None
        live = [
            (claim, pattern)
            for claim in claims
            if (pattern := self._pattern(claim.link)) is not None and not pattern.is_dead
        ]
        if len({claim.content for claim, _ in live}) != 1:
            return None
        claim, pattern = max(live, key=lambda each: each[1].support)
        return Alias(claim.page, pattern) if pattern.is_accepted and claim.page != key else None

    def _meet(self, place: str | None, content: str) -> None:
        """Remember on which content a place was met."""
        if place is None:
            return
        if place in self._places:
            if self._places[place] != content:
                self._places[place] = None
            return
        self._places[place] = content
        if len(self._places) > MAX_PLACES:
            del self._places[next(iter(self._places))]

    def _add(self, key: bytes, claim: Claim) -> bool:
        """Remember a claim. Return whether *key* is contested by it."""
        before = self._claims.get(key, ())
        if any(
            (each.content, each.link.look) == (claim.content, claim.link.look) for each in before
        ):
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
            found = Pattern(self.site, link.look, is_single=is_single)
            self._patterns[link.look, is_single] = found
        return found

    def _vote(self, claim: Claim, key: bytes, found: str | None) -> list[Doubt]:
        pattern = self._pattern(claim.link)
        if pattern is None or pattern.is_dead:
            return []
        if found == claim.content:
            if len(pattern.agreed) < _MAX_VOTES:
                was_accepted = pattern.is_accepted
                pattern.agreed.add(_vote_of(found))
                if pattern.is_accepted and not was_accepted:
                    self.news.append(pattern)
            return []
        pattern.differed += 1
        if pattern.is_accepted:
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
