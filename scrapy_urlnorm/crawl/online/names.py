"""Names: how the content of each page that arrived is called, from what of it holds still.

Two pages with one name are proposed to be one; audits decide (`verdicts`). A name is made anew when
a unit comes or goes, from the blocks of the page, which stand in the database: in slices, beside
the crawl. Until that is done, the site is not mined.
"""

from __future__ import annotations

import json
import pickle
import zlib
from collections import Counter, OrderedDict
from typing import TYPE_CHECKING, NamedTuple

from scrapy_urlnorm.crawl.components import site_of
from scrapy_urlnorm.logs.blocks import packed, unpacked
from scrapy_urlnorm.logs.differences import Unit, family_of, place_of
from scrapy_urlnorm.logs.page_identity import Identity
from scrapy_urlnorm.logs.units import Units

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from scrapy import Request, Spider

    from scrapy_urlnorm.logs.blocks import Block
    from scrapy_urlnorm.stores.sqlite import Database

_TABLES = """
CREATE TABLE IF NOT EXISTS shown (
  id INTEGER PRIMARY KEY AUTOINCREMENT, site TEXT NOT NULL, fingerprint BLOB NOT NULL UNIQUE,
  url TEXT NOT NULL, family TEXT NOT NULL, place TEXT NOT NULL, digest TEXT NOT NULL, kind TEXT,
  strict TEXT, name TEXT, blocks BLOB NOT NULL, request BLOB);
CREATE INDEX IF NOT EXISTS shown_on_site ON shown (site, id);
CREATE INDEX IF NOT EXISTS shown_as ON shown (site, strict);
CREATE TABLE IF NOT EXISTS shown_at (
  site TEXT NOT NULL, unit TEXT NOT NULL, page INTEGER NOT NULL, place TEXT NOT NULL,
  value INTEGER NOT NULL, PRIMARY KEY (site, unit, page)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS unit_site (site TEXT PRIMARY KEY, state TEXT NOT NULL);
"""
#: Sites whose units are in memory; pages of one site, and of all, whose blocks are kept; and how many
#: are forgotten at a time.
MAX_SITES, MAX_PAGES, MAX_PAGES_OF_ALL, _FORGOTTEN = 500, 20_000, 200_000, 1_000
#: Bytes of packed blocks. A page with more is named by its bytes alone.
LARGEST = 32_000
#: Pages around one that are asked whether a unit tells the time, and how many have to agree.
_AROUND, _LEAST_BESIDE = 12, 2
_ROWS_AT_ONCE = 50
#: Families with pairs, after which it is known what changes on all pages of a site.
_FAMILIES = 3
#: Late fetches, before it is known what changes with time.
_LATE = 3
#: A page that so many other URLs have shown says nothing of its own.
_SHARED = 3


class Arrived(NamedTuple):
    """A page that arrived, as the database keeps it."""

    number: int
    url: str
    family: str
    blocks: list[Block]
    request: bytes | None


class _Row(NamedTuple):
    """What the database has of a page, to name it."""

    number: int
    fingerprint: bytes
    url: str
    family: str
    place: str
    digest: str
    kind: str | None
    strict: str | None
    name: str | None
    blocks: list[Block]


class Names:
    """Names the pages of all sites.

    *on_renamed* is told of each page that bears another name now, *on_all_renamed* when all pages
    of a site have theirs, with the new names by the old ones; *on_moving* of a site of which a pair
    differs for the first time.
    """

    def __init__(
        self,
        database: Database,
        spider: Spider | None,
        *,
        on_renamed: Callable[[str, bytes, str, Identity], None],
        on_all_renamed: Callable[[str, dict[str, str]], None],
        on_moving: Callable[[str], None],
    ) -> None:
        self._database = database
        self._spider = spider
        self._on_renamed = on_renamed
        self._on_all_renamed = on_all_renamed
        self._on_moving = on_moving
        self._moving: set[str] = set()  # sites that were told of
        self._sites: OrderedDict[str, Units] = OrderedDict()
        self._pages: Counter[str] = Counter()
        self._named: dict[str, int] = {}  # version of the units that the names are made with
        self._renaming: dict[str, Iterator[None]] = {}
        self._last: dict[str, int] = {}  # the number of the page that arrived last
        self._unsure: dict[str, dict[bytes, int]] = {}  # pages with too few neighbours so far
        database.ensure(_TABLES)
        counts = database.read("SELECT site, count(*) FROM shown GROUP BY 1")
        self._pages.update(dict(counts))

    # --- units of a site --------------------------------------------------------------------

    def units(self, site: str) -> Units:
        """Return what is known of the pages of *site*."""
        units = self._sites.get(site)
        if units is not None:
            self._sites.move_to_end(site)
            return units
        units = self._sites[site] = self._read(site)
        self._named[site] = units.version
        if len(self._sites) > MAX_SITES:
            other, _ = self._sites.popitem(last=False)
            self._renaming.pop(other, None)
            self._named.pop(other)
        return units

    def _read(self, site: str) -> Units:
        units = Units()
        for (state,) in self._database.read("SELECT state FROM unit_site WHERE site = ?", site):
            units = Units.from_state(json.loads(state))
            self._moving.update((site,) if units.different else ())
        select = "SELECT blocks, url FROM shown WHERE site = ? ORDER BY id DESC LIMIT 30"
        for blocks, url in self._database.read(select, site):
            units.saw(_blocks(blocks), url)
        return units

    def keep(self, site: str) -> None:
        """Write down what is known of *site*, after a pair."""
        self._database.write(
            "INSERT OR REPLACE INTO unit_site VALUES (?, ?)",
            *(site, json.dumps(self.units(site).state)),
        )

    def moving(self) -> dict[str, list[str]]:
        """Say of each site what on its pages changes by itself."""
        found = {site: units.in_words() for site, units in self._sites.items() if units.different}
        return {site: words for site, words in found.items() if words}

    def count(self, site: str) -> int:
        """Return how many pages of *site* have arrived."""
        return self._pages[site]

    # --- pages ------------------------------------------------------------------------------

    def arrived(
        self, request: Request, fingerprint: bytes, identity: Identity, blocks: list[Block]
    ) -> Identity:
        """Take note of a page; return its identity, with the name that it bears now."""
        site, family = site_of(request.url), family_of(request.url)
        units = self.units(site)
        units.saw(blocks, request.url)
        data = packed(blocks)
        if len(data) > LARGEST:
            return Identity(identity.digest, kind=identity.kind)
        strict = units.name(blocks, ())
        place = place_of(blocks) or request.url
        self._database.write(
            "INSERT OR REPLACE INTO shown (site, fingerprint, url, family, place, digest, kind,"
            " strict, blocks, request) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            *(site, fingerprint, request.url, family, place),
            *(identity.digest, identity.kind, strict, data, self._packed(request)),
        )
        ((number,),) = self._database.read("SELECT last_insert_rowid()")
        self._pages[site] += 1
        self._last[site] = number
        name = strict
        if units.different:
            place_in = (fingerprint, request.url, family, place, identity.digest, identity.kind)
            name = self._name(site, _Row(number, *place_in, strict, None, blocks))
            self._look_again(site)
        self._database.write("UPDATE shown SET name = ? WHERE id = ?", name, number)
        self._make_room(site, number)
        if units.version != self._named[site]:
            self._begin_renaming(site)
        return identity._replace(text_digest=None, bag_digest=name)

    def _packed(self, request: Request) -> bytes | None:
        try:
            asked = request.replace(callback=None, errback=None, cb_kwargs={})
            return zlib.compress(pickle.dumps(asked.to_dict(spider=self._spider), protocol=4), 1)
        except Exception:  # noqa: BLE001 - pickle raises what the objects in the request raise
            return None

    def _make_room(self, site: str, number: int) -> None:
        """Forget the blocks of the pages that came first: they keep their names."""
        if self._pages[site] > MAX_PAGES and not self._pages[site] % _FORGOTTEN:
            ids = "SELECT id FROM shown WHERE site = ? ORDER BY id LIMIT ?"
            self._database.write(f"DELETE FROM shown WHERE id IN ({ids})", site, _FORGOTTEN)
        if not number % _FORGOTTEN:
            self._database.write("DELETE FROM shown WHERE id < ?", number - MAX_PAGES_OF_ALL)
            self._database.write("DELETE FROM shown_at WHERE page < ?", number - MAX_PAGES_OF_ALL)

    def strict_name(self, url: str, blocks: list[Block]) -> str | None:
        """Return the name of a page of which nothing is left out."""
        return self.units(site_of(url)).name(blocks, ())

    def is_shared(self, site: str, blocks: list[Block] | None, url: str) -> bool:
        """Whether several other URLs have shown exactly this page."""
        if blocks is None:
            return False
        select = "SELECT count(*) FROM shown WHERE site = ? AND strict = ? AND url != ?"
        strict = self.units(site).name(blocks, ())
        return bool(self._database.read(select, site, strict, url)[0][0] >= _SHARED)

    def page(self, fingerprint: bytes) -> Arrived | None:
        """Return the page that arrived under *fingerprint*, if its blocks are kept."""
        return self._first("fingerprint = ?", fingerprint)

    def nth(self, site: str, share: float) -> Arrived | None:
        """Return a page of *site*: of all that arrived, the one after this *share* of them."""
        ids = self._database.read("SELECT min(id), max(id) FROM shown WHERE site = ?", site)
        first, last = ids[0]
        if first is None:
            return None
        return self._first("site = ? AND id >= ?", site, first + int(share * (last - first)))

    def identity(self, fingerprint: bytes) -> Identity | None:
        """Return how the content of a page is called now, if its blocks are kept."""
        select = "SELECT digest, name, kind FROM shown WHERE fingerprint = ?"
        for digest, name, kind in self._database.read(select, fingerprint):
            return Identity(digest, None, name, kind)
        return None

    def _first(self, where: str, *values: object) -> Arrived | None:
        select = f"SELECT id, url, family, blocks, request FROM shown WHERE {where} LIMIT 1"
        for number, url, family, blocks, request in self._database.read(select, *values):
            return Arrived(number, url, family, _blocks(blocks), _whole(request))
        return None

    # --- names ------------------------------------------------------------------------------

    def _name(self, site: str, row: _Row) -> str | None:
        """Return the name of a page. Pages that show the very same bear one name."""
        units = self.units(site)
        timed = {unit for unit in units.timed if self._tells_time(site, unit, row)}
        name = units.name(row.blocks, units.left_out(row.family) | timed | units.aged(row.family))
        if name is not None:
            select = (
                "SELECT name FROM shown WHERE site = ? AND strict = ? AND id < ? AND name NOT NULL"
                " ORDER BY id LIMIT 1"
            )
            for (known,) in self._database.read(select, site, row.strict, row.number):
                return str(known)
        return name

    def _tells_time(self, site: str, unit: Unit, row: _Row) -> bool:
        """Whether pages that arrived beside this one show the same value of a unit."""
        value = self.units(site).value(unit, row.blocks)
        if not value:
            return False
        self._database.write(
            "INSERT OR REPLACE INTO shown_at VALUES (?, ?, ?, ?, ?)",
            *(site, _text(unit), row.number, row.place, _hash(value)),
        )
        same, _ = self._beside(site, unit, value, row.number, row.place)
        if same < _LEAST_BESIDE and self._last.get(site, 0) < row.number + _AROUND:
            self._unsure.setdefault(site, {})[row.fingerprint] = row.number
        return same >= _LEAST_BESIDE

    def _beside(
        self, site: str, unit: Unit, value: tuple[str, ...], number: int, place: str
    ) -> tuple[int, int]:
        """Return how many of the nearest pages of other places show *value*, and how many not."""
        seen, same, other = {place}, 0, 0
        for shown, where in self._values(site, unit, number):
            if where not in seen:
                seen.add(where)
                same += shown == _hash(value)
                other += shown != _hash(value)
            if same + other >= _AROUND:
                break
        return same, other

    def _values(self, site: str, unit: Unit, number: int) -> Iterator[tuple[int, str]]:
        """Yield what the pages around one show in the place of a unit, the nearest first."""
        select = "SELECT page, value, place FROM shown_at WHERE site = ? AND unit = ? AND page "
        found: list[tuple[int, int, str]] = []
        for where in ("< ? ORDER BY page DESC", "> ? ORDER BY page"):
            found += self._database.read(f"{select}{where} LIMIT 40", site, _text(unit), number)
        for _, value, place in sorted(found, key=lambda row: abs(row[0] - number)):
            yield value, place

    def tells_time(self, site: str, unit: Unit, value: tuple[str, ...]) -> bool:
        """Whether the pages that arrived last show *value* in the place of a unit."""
        units, seen, same, other = self.units(site), set[str](), 0, 0
        select = "SELECT blocks, place FROM shown WHERE site = ? ORDER BY id DESC LIMIT 40"
        for blocks, place in self._database.read(select, site):
            shown = units.value(unit, _blocks(blocks))
            if shown and place not in seen:
                seen.add(place)
                same += shown == value
                other += shown != value
            if same + other >= _AROUND:
                break
        return same >= 3 and same >= 0.8 * (same + other)

    # --- other names ------------------------------------------------------------------------

    def learned(self, site: str) -> None:
        """Take note that units of *site* may have changed: its pages get other names."""
        self.keep(site)
        if self.units(site).different and site not in self._moving:
            self._moving.add(site)
            self._on_moving(site)
        if self.units(site).version != self._named[site]:
            self._begin_renaming(site)

    def _begin_renaming(self, site: str) -> None:
        self._named[site] = self.units(site).version
        self._renaming[site] = self._rename(site)

    def _rename(self, site: str) -> Iterator[None]:
        """Give each page of *site* the name that it has by now, a page at each step."""
        # Twice where units tell the time: the first pages are compared with those after them.
        names: dict[str, str] = {}
        for _ in range(2 if self.units(site).timed else 1):
            last = 0
            while rows := self._rows("site = ? AND id > ?", site, last):
                for row in rows:
                    last = row.number
                    names |= self._rename_row(site, row)
                    yield
        # In two passes, what had one name may have got another one, and then the last.
        self._on_all_renamed(site, {old: names.get(new, new) for old, new in names.items()})

    def _rows(self, where: str, *values: object) -> list[_Row]:
        select = (
            "SELECT id, fingerprint, url, family, place, digest, kind, strict, name, blocks FROM"
            f" shown WHERE {where} ORDER BY id LIMIT ?"
        )
        rows = self._database.read(select, *values, _ROWS_AT_ONCE)
        return [_Row._make((*row[:-1], _blocks(row[-1]))) for row in rows]

    def _rename_row(self, site: str, row: _Row) -> dict[str, str]:
        """Give a page the name that it has by now; return the new name by the old one."""
        name = self._name(site, row)
        if name == row.name:
            return {}
        self._database.write("UPDATE shown SET name = ? WHERE id = ?", name, row.number)
        said = Identity(row.digest, None, name, row.kind)
        self._on_renamed(site, row.fingerprint, row.url, said)
        return {row.name: name} if row.name and name else {}

    def _look_again(self, site: str, *, is_last: bool = False) -> None:
        """Name pages anew that had too few neighbours to tell the time from."""
        unsure = self._unsure.get(site, {})
        for fingerprint, number in list(unsure.items()):
            if not is_last and self._last[site] < number + _AROUND:
                return
            del unsure[fingerprint]
            for row in self._rows("fingerprint = ?", fingerprint):
                self._rename_row(site, row)

    def finish(self) -> None:
        """Name the pages that still wait for neighbours: no more will come."""
        for site in list(self._unsure):
            self._look_again(site, is_last=True)
            self._unsure[site].clear()

    def is_named(self, site: str) -> bool:
        """Whether the pages of *site* bear the names that they have by what is known."""
        return site not in self._renaming

    def is_settled(self, site: str, url: str, fingerprint: bytes) -> bool:
        """Whether what changes by itself on pages like that of *url* is known, as far as may be."""
        units = self.units(site)
        if not units.different:
            return True
        if fingerprint in self._unsure.get(site, ()):
            return False
        pairs = units.pairs
        is_known = pairs[family_of(url)] or len(pairs) >= _FAMILIES
        return bool(is_known) and units.late >= _LATE and self.is_named(site)

    @property
    def is_renaming(self) -> bool:
        """Whether pages of a site are to get other names."""
        return bool(self._renaming)

    def work(self, is_time_over: Callable[[], bool]) -> None:
        """Go on giving pages other names until it is done or *is_time_over* says so."""
        while self._renaming:
            site, job = next(iter(self._renaming.items()))
            for _ in job:
                if is_time_over():
                    return
            if self._renaming.get(site) is job:
                del self._renaming[site]


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


def _text(unit: Unit) -> str:
    return json.dumps(unit)


def _hash(value: tuple[str, ...]) -> int:
    return zlib.crc32("\n".join(value).encode("utf-8", "surrogatepass"))
