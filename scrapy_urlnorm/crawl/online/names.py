"""Names: how the content of each page that arrived is called, from what of it holds still.

Two pages with one name are proposed to be one; audits decide (`verdicts`). A name is made anew when
a unit comes or goes, from the blocks of the page, which stand in the database: at a safe point of
its site, and before that the site is not mined.
"""

from __future__ import annotations

import json
import zlib
from collections import Counter, OrderedDict
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import repeat
from typing import TYPE_CHECKING, NamedTuple

from scrapy_urlnorm.crawl.online.evidence import named
from scrapy_urlnorm.crawl.online.safe_points import Work
from scrapy_urlnorm.crawl.requests import site_of
from scrapy_urlnorm.logs.blocks import digest_of, packed, unpacked
from scrapy_urlnorm.logs.differences import family_of
from scrapy_urlnorm.logs.page_identity import Identity
from scrapy_urlnorm.logs.units import Units
from scrapy_urlnorm.stores.sqlite import from_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from scrapy_urlnorm.crawl.frontier import CrawlFrontier
    from scrapy_urlnorm.crawl.online.aliases import PageAliases
    from scrapy_urlnorm.crawl.online.evidence import Evidence
    from scrapy_urlnorm.crawl.online.safe_points import SafePoints
    from scrapy_urlnorm.crawl.online.tables import Pages
    from scrapy_urlnorm.crawl.online.whole_pages import Shown
    from scrapy_urlnorm.crawl.requests import Asked
    from scrapy_urlnorm.logs.blocks import Block
    from scrapy_urlnorm.stores.sqlite import Database

_TABLES = """
CREATE TABLE IF NOT EXISTS shown (
  id INTEGER PRIMARY KEY AUTOINCREMENT, site TEXT NOT NULL, fingerprint BLOB NOT NULL UNIQUE,
  url TEXT NOT NULL, family TEXT NOT NULL, digest TEXT NOT NULL, kind TEXT,
  strict TEXT, name TEXT, apart TEXT NOT NULL DEFAULT '', blocks BLOB NOT NULL, request BLOB);
CREATE INDEX IF NOT EXISTS shown_on_site ON shown (site, id);
CREATE INDEX IF NOT EXISTS shown_as ON shown (site, strict);
CREATE TABLE IF NOT EXISTS unit_site (site TEXT PRIMARY KEY, state TEXT NOT NULL);
"""
#: So many sites have their units in memory, and more as long as the lines of them all are no more
#: than these, each of about 100 bytes: to read a site back takes as long as its last pages.
MAX_SITES, MAX_LINES = 500, 500_000
#: Pages of one site, and of all, whose blocks are kept; and how many are forgotten at a time.
MAX_PAGES, MAX_PAGES_OF_ALL, _FORGOTTEN = 20_000, 200_000, 1_000
#: Bytes of packed blocks. A page with more is named by its bytes alone.
LARGEST = 32_000
_ROWS_AT_ONCE = 50
#: Pages with blocks that are read at once, and blocks that take as long as a step (`STEPS`).
_PAGES_AT_ONCE, _BLOCKS_A_STEP = 8, 40
#: What names are made with where nothing changes by itself: see `Units.state_of`.
_STILL: tuple[object, ...] = (frozenset(), frozenset(), 0, False, ())
#: Families with pairs, after which it is known what changes on all pages of a site.
_FAMILIES = 3
#: Late fetches, before it is known what changes with time.
_LATE = 3


class Arrived(NamedTuple):
    """A page that arrived, as the database keeps it."""

    number: int
    fingerprint: bytes
    url: str
    family: str
    digest: str
    kind: str | None
    strict: str | None
    name: str | None
    apart: str  #: slots that tell it apart; so it has a name of its own, whatever it shows
    blocks: list[Block]
    request: bytes | None = None


@dataclass(eq=False)
class Names:
    """Names the pages of all sites, and has their rows, and what they say of aliases, follow."""

    database: Database
    frontier: CrawlFrontier
    pages: Pages
    evidence: Evidence
    aliases: PageAliases
    safe_points: SafePoints

    def __post_init__(self) -> None:
        self._sites: OrderedDict[str, Units] = OrderedDict()
        self._lines = 0  # of all of them
        self._counts: Counter[str] = Counter()
        self._named: dict[str, int] = {}  # version of the units that the names are made with
        #: By site, what the names of each family were made with; ``None`` while they are made anew.
        self._states: dict[str, dict[str, tuple[object, ...] | None]] = {}
        #: Sites of which more is known, so that pages may be settled: an ordered set.
        self.news: dict[str, None] = {}
        self.database.ensure(_TABLES)
        self._counts.update(dict(self.database.read("SELECT site, count(*) FROM shown GROUP BY 1")))

    # --- units of a site --------------------------------------------------------------------

    def units(self, site: str) -> Units:
        units = self._sites.get(site)
        if units is not None:
            self._sites.move_to_end(site)
            return units
        units = self._sites[site] = self._read(site)
        self._named[site] = units.version
        self._lines += units.size
        while len(self._sites) > MAX_SITES and self._lines > MAX_LINES:
            other, forgotten = self._sites.popitem(last=False)
            self._lines -= forgotten.size
            self.safe_points.drop(other, Work.NAMES)
            self.news[other] = None
            for known in (self._named, self._states):
                known.pop(other, None)
        return units

    def _read(self, site: str) -> Units:
        units = Units()
        for (state,) in self.database.read("SELECT state FROM unit_site WHERE site = ?", site):
            units = Units.from_state(from_json(state))
        select = "SELECT blocks, url FROM shown WHERE site = ? ORDER BY id DESC LIMIT 30"
        for blocks, url in self.database.read(select, site):
            units.saw(_blocks(blocks), url)
        return units

    def moving(self) -> dict[str, list[str]]:
        found = {site: units.in_words() for site, units in self._sites.items() if units.different}
        return {site: words for site, words in found.items() if words}

    def count(self, site: str) -> int:
        return self._counts[site]

    # --- pages ------------------------------------------------------------------------------

    def arrived(
        self, asked: Asked, fingerprint: bytes, identity: Identity, blocks: list[Block]
    ) -> Identity:
        """Take note of a page; return its identity, with the name that it bears now."""
        url, site, family = asked.url, asked.site, family_of(asked.url)
        units = self.units(site)
        self._lines -= units.size
        units.saw(blocks, url)
        self._lines += units.size
        data = packed(blocks)
        if len(data) > LARGEST:
            return Identity(identity.digest, kind=identity.kind)
        strict = units.name(blocks, ())
        self.database.write(
            "INSERT OR REPLACE INTO shown (site, fingerprint, url, family, digest, kind,"
            " strict, name, blocks, request) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            *(site, fingerprint, url, family),
            *(identity.digest, identity.kind, strict, strict, data, self._packed(asked)),
        )
        ((number,),) = self.database.read("SELECT last_insert_rowid()")
        self._counts[site] += 1
        self._make_room(site, number)
        if units.version != self._named[site]:
            self._begin_renaming(site)
        if units.different or units.telling(family):
            return self.settle(fingerprint) or identity
        return identity._replace(bag_digest=strict)

    def _packed(self, asked: Asked) -> bytes | None:
        try:
            return zlib.compress(self.frontier.pack_bare(asked), 1)
        except Exception:  # noqa: BLE001 - pickle raises what the objects in the request raise
            return None

    def _make_room(self, site: str, number: int) -> None:
        """Forget the blocks of the pages that came first: they keep their names."""
        if self._counts[site] > MAX_PAGES and not self._counts[site] % _FORGOTTEN:
            ids = "SELECT id FROM shown WHERE site = ? ORDER BY id LIMIT ?"
            self.database.write(f"DELETE FROM shown WHERE id IN ({ids})", site, _FORGOTTEN)
        if not number % _FORGOTTEN:
            self.database.write("DELETE FROM shown WHERE id < ?", number - MAX_PAGES_OF_ALL)

    def urls_showing(self, site: str, blocks: list[Block]) -> list[str]:
        """Return URLs that have shown exactly this page."""
        select = "SELECT url FROM shown WHERE site = ? AND strict = ? LIMIT ?"
        strict = self.units(site).name(blocks, ())
        return [url for (url,) in self.database.read(select, site, strict, _ROWS_AT_ONCE)]

    def set_apart(self, fingerprint: bytes, slots: Iterable[str] = ("?",)) -> None:
        """Give a page a name of its own: a verdict found that it is another than its name says.

        Its URL differs in *slots*, as far as that is known, from that of the other page.
        """
        update = "UPDATE shown SET apart = ? WHERE fingerprint = ?"
        self.database.write(update, " ".join(slots), fingerprint)
        self.settle(fingerprint)

    def copies(self, fingerprint: bytes, original: bytes) -> Identity | None:
        """Have a page count as one that shows the very same as *original*, if that came before it."""
        copied, row = self.page(original), self.page(fingerprint)
        if copied is None or row is None or copied.number > row.number:
            return None
        update = "UPDATE shown SET strict = ? WHERE id = ?"
        self.database.write(update, copied.strict, row.number)
        return self.settle(fingerprint)

    def page(self, fingerprint: bytes) -> Arrived | None:
        return next(iter(self._find("fingerprint = ?", fingerprint)), None)

    def nth(self, site: str, share: float) -> Arrived | None:
        """Return a page of *site*: of all that arrived, the one after this *share* of them."""
        ids = self.database.read("SELECT min(id), max(id) FROM shown WHERE site = ?", site)
        first, last = ids[0]
        if first is None:
            return None
        number = first + int(share * (last - first))
        return next(iter(self._find("site = ? AND id >= ?", site, number, most=1)), None)

    def settle(self, fingerprint: bytes) -> Identity | None:
        """Give a page the name that it has by now; return its content under that name."""
        row = self.page(fingerprint)
        return None if row is None else self._rename(site_of(row.url), row)

    def _find(self, where: str, *values: object, most: int = _PAGES_AT_ONCE) -> list[Arrived]:
        select = (
            "SELECT id, fingerprint, url, family, digest, kind, strict, name, apart, blocks,"
            f" request FROM shown WHERE {where} ORDER BY id LIMIT ?"
        )
        rows = self.database.read(select, *values, most)
        return [Arrived._make((*row[:-2], _blocks(row[-2]), _whole(row[-1]))) for row in rows]

    # --- names ------------------------------------------------------------------------------

    def _name(self, site: str, row: Arrived) -> str | None:
        units = self.units(site)
        telling = units.telling(row.family)
        if not {*row.apart.split()}.issubset(telling):
            return digest_of([row.fingerprint.hex()])
        name = units.name(row.blocks, units.left_out(row.family))
        if name is None:
            return None
        select = (
            "SELECT name FROM shown WHERE site = ? AND strict = ? AND id < ? AND name NOT NULL"
            " AND CASE ? WHEN '' THEN apart = '' ELSE digest = ? END ORDER BY id LIMIT 1"
        )
        same = self.database.read(
            select, site, row.strict, row.number, " ".join(telling), row.digest
        )
        for (known,) in same:
            return str(known)
        if not telling:
            return name
        from scrapy_urlnorm.learning.corpus import slots_of  # on few sites

        slots = slots_of(row.url) or {}
        return digest_of([name, *(slots.get(slot, "") for slot in telling)])

    # --- other names ------------------------------------------------------------------------

    def are_one(self, first: Shown, second: Shown) -> bool:
        """Whether two fetches of a URL show one page or file, and not a page in its place."""
        if first.blocks is None or second.blocks is None:
            return first.blocks is second.blocks
        return self.units(site_of(first.url)).is_pair(first.blocks, second.blocks)

    def learn(self, family: str, first: Shown, second: Shown) -> bool:
        """Learn from two fetches of a URL, one right after the other; return whether they are one page."""
        if first.blocks is None or second.blocks is None or not self.are_one(first, second):
            return False
        with self._learning(site_of(first.url)) as units:
            units.learn(family, first.blocks, second.blocks)
        return True

    def learn_late(self, page: Arrived, second: list[Block]) -> bool:
        """Learn from a page that was fetched long after it arrived; return whether it is new."""
        with self._learning(site_of(page.url)) as units:
            return units.learn_late(page.family, page.blocks, second)

    def judged(self, url: str, slots: Iterable[str], *, is_other: bool) -> None:
        """Learn from a verdict about two pages, of which one is at *url*, that differ in *slots*."""
        units = self.units(site_of(url))
        units.judged(family_of(url), tuple(sorted(slots)), is_other=is_other)
        if units.version != self._named[site_of(url)]:
            self._learned(site_of(url), units)

    @contextmanager
    def _learning(self, site: str) -> Iterator[Units]:
        units = self.units(site)
        was_moving = units.different
        yield units
        self.frontier.count("learned/pairs")
        if units.different and not was_moving:
            self.aliases.begin_anew(site)
        self._learned(site, units)

    def _learned(self, site: str, units: Units) -> None:
        state = json.dumps(units.state)
        self.database.write("INSERT OR REPLACE INTO unit_site VALUES (?, ?)", site, state)
        self.news[site] = None
        if units.version != self._named[site]:
            self._begin_renaming(site)

    def _begin_renaming(self, site: str) -> None:
        self._named[site] = self.units(site).version
        self.safe_points.put(site, Work.NAMES, self._rename_all(site))

    def _rename_all(self, site: str) -> Iterator[None]:
        """Name the pages anew that may have got another name, one at each step.

        Those of families of which other units are left out now, and what shows the very same as a
        page that got another name.
        """
        units, known = self.units(site), self._states.get(site, {})
        select = "SELECT id, family FROM shown WHERE site = ? ORDER BY id"
        pages = self.database.read(select, site)
        families = {family for _, family in pages}
        states: dict[str, tuple[object, ...] | None] = {
            family: units.state_of(family) for family in families
        }
        changed = {each for each, state in states.items() if known.get(each, _STILL) != state}
        self._states[site] = {**known, **dict.fromkeys(changed)}  # until it is done
        names: dict[str, str] = {}
        for number, family in pages:
            if family in changed:
                is_told = bool(units.telling(family))  # then a name becomes several
                for old, new in self._named_anew(site, number):
                    if old and new and not is_told:
                        names[old] = new
                    yield
        self._states[site] = states
        self.aliases.renamed(site, names)
        self.news[site] = None

    def _named_anew(self, site: str, number: int) -> Iterator[tuple[str | None, str | None]]:
        """Name a page anew, and what shows the very same; yield the old and the new names.

        A page of many blocks is as many steps as pages that take as long.
        """
        rows, is_other = self._find("id = ?", number), False
        while rows:
            for row in rows:
                name = self._rename(site, row).bag_digest
                is_other |= name != row.name
                yield row.name, name
                yield from repeat((None, None), steps_of(row.blocks))
            same = "site = ? AND strict = ? AND id > ?"
            rows = self._find(same, site, row.strict, row.number) if is_other else []

    def _rename(self, site: str, row: Arrived) -> Identity:
        """Give a page the name that it has by now, with all who know it by its name."""
        said = Identity(row.digest, self._name(site, row), row.kind)
        if said.bag_digest != row.name:
            update = "UPDATE shown SET name = ? WHERE id = ?"
            self.database.write(update, said.bag_digest, row.number)
            self.pages.rename(row.fingerprint, said)
            self.evidence.rename(site, row.url, named(said))
        return said

    def is_settled(self, site: str, url: str) -> bool:
        """Whether what changes by itself on pages like that of *url* is known, as far as may be."""
        units = self.units(site)
        if not units.different:
            return True
        if units.late < _LATE or self.safe_points.has(site, Work.NAMES):
            return False
        return len(units.pairs) >= _FAMILIES or units.knows(family_of(url))


def steps_of(blocks: list[Block] | None) -> int:
    """Return how many steps longer than others it takes to name a page."""
    return len(blocks or ()) // _BLOCKS_A_STEP


def _whole(data: bytes | None) -> bytes | None:
    """Return a request as `CrawlFrontier.unpack` reads it; ``None`` for one that is damaged."""
    try:
        return zlib.decompress(data) if data else None
    except zlib.error:
        return None


def _blocks(data: bytes) -> list[Block]:
    """Return the blocks in a row; none of one that is damaged, which has no name then."""
    try:
        return unpacked(data)
    except (zlib.error, UnicodeDecodeError):
        return []
