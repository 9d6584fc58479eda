"""Evidence: what a crawl saw under each URL, kept in the database for the miner.

Memory does not grow with them: one small record a site. A site with more than `MAX_ROWS` rows
keeps those of a share of its paths, all URLs of a path or none: a sample by URL would tear the
pairs apart that refute a rule.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

from scrapy_urlnorm.learning.media import OF_FILE, OF_WALL, looks_like_an_act
from scrapy_urlnorm.learning.worker import PERMANENT
from scrapy_urlnorm.logs.differences import family_of
from scrapy_urlnorm.logs.page_identity import FILE, WALL
from scrapy_urlnorm.url import split

if TYPE_CHECKING:
    from scrapy_urlnorm.logs.page_identity import Identity
    from scrapy_urlnorm.stores.sqlite import Database

_TABLE = """
CREATE TABLE IF NOT EXISTS evidence (
  site TEXT NOT NULL, url TEXT NOT NULL, status INTEGER NOT NULL, content TEXT, target TEXT,
  place INTEGER NOT NULL, PRIMARY KEY (site, url)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS evidence_of_content ON evidence (site, content)
  WHERE content IS NOT NULL;
CREATE TABLE IF NOT EXISTS other (
  site TEXT NOT NULL, url TEXT NOT NULL, other TEXT NOT NULL, PRIMARY KEY (site, url)) WITHOUT ROWID;
"""
#: Rows of one site, of all sites, and sites that have rows.
MAX_ROWS = 20_000
MAX_ROWS_OF_ALL = 1_000_000
MAX_SITES = 10_000
LONGEST_URL = 2_000
#: URLs among which one with another content is looked for.
_MOST_BESIDE = 500
#: A site is mined after so many new events, and so large a share of new rows: the first after
#: something new was found, twice as much after each mining that finds nothing, up to the second.
LEAST, NEW_ROWS, MOST_NEW_ROWS = 3, 0.05, 0.2
#: The last look at a site, when the crawl has nothing else to do, costs as much as all before it:
#: it is worth it for so large a share of new events.
LAST_FACTOR = 0.1
#: So many rows may be mined for each page of a site that arrived. To begin counts as rows.
ROWS_A_PAGE, BEGIN = 6, 50


class Row(NamedTuple):
    """One answer of the site: a page with its content, or a redirect with its target.

    A page without a content was served, and is compared with no other. How the content of what is
    no HTML begins, says `named`.
    """

    url: str
    status: int
    content: str | None
    target: str | None


@dataclass(slots=True)
class _Site:
    """How many rows a site has, and what the miner has seen of it."""

    rows: int = 0
    parts: int = 1  #: rows of one path in so many are kept
    events: int = 0
    events_mined: int = 0
    rows_mined: int = 0
    earned: int = 0  #: how many rows may still be mined
    new_rows: float = NEW_ROWS
    is_contradicted: bool = False  #: whether a rule was retracted since the site was mined


class Evidence:
    """Evidence by site, with the question when a site is worth mining again.

    An *event* is a page whose content was seen before on its site, or a permanent redirect, but not
    an audit: what it tells is a rule already. Rows grow whether there is anything to learn or not;
    where the rules work, events stop, and so does mining.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        database.ensure(_TABLE)
        counts = database.read("SELECT site, count(*) FROM evidence GROUP BY 1")
        self._sites = {site: _Site(rows) for site, rows in counts}
        self._total = sum(site.rows for site in self._sites.values())
        self.later: dict[str, None] = {}  #: sites that may be worth mining, and wait for their turn
        #: Sites of which some deferred requests were sent and not mined since: a few new events will
        #: do for a last look.
        self.eager: set[str] = set()

    def __len__(self) -> int:
        """Return the number of sites."""
        return len(self._sites)

    def add(self, name: str, row: Row, *, is_audit: bool = False) -> bool | None:
        """Write a row of the site *name* down, in place of one with the same URL.

        Return whether its content was seen before, or it is a permanent redirect; ``None`` if it was
        not written: a very long URL would take the miner long, and teach little.
        """
        if len(row.url) > LONGEST_URL:
            return None
        site = self._sites.get(name)
        if site is None:
            self._make_room()
            site = self._sites[name] = _Site()
        site.earned += ROWS_A_PAGE
        place = crc32(_path(row.url)) & 0x7FFFFFFF
        if site.parts > 1 and place % site.parts:
            return None
        is_known = self._is_known(name, row)
        site.events += is_known and not is_audit
        self._database.write(
            "INSERT OR REPLACE INTO evidence (site, url, status, content, target, place)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            *(name, row.url, row.status, row.content, row.target, place),
        )
        site.rows += 1
        self._total += 1
        if site.rows > MAX_ROWS:
            self._thin_out(name, site)
        return is_known

    def _is_known(self, name: str, row: Row) -> bool:
        if row.content is None:
            return row.status in PERMANENT
        select = "SELECT 1 FROM evidence WHERE site = ? AND content = ? AND url != ? LIMIT 1"
        return bool(self._database.read(select, name, row.content, row.url))

    def beside(self, name: str, url: str, content: str) -> str | None:
        """Return a URL of the same host with another content than that of *url*.

        One of the same family, if it is among the first ones of the same folder.
        """
        parts, first = url.split("/", 4), None
        for start in ("/".join(parts[: max(3, len(parts) - 1)]), "/".join(parts[:3])):
            rows = self._database.read(
                "SELECT url FROM evidence WHERE site = ? AND content NOT NULL AND content != ?"
                " AND url > ? AND url < ? ORDER BY url LIMIT ?",
                *(name, content, f"{start}/", f"{start}0", _MOST_BESIDE),
            )
            for (other,) in rows:
                if looks_like_an_act(other):
                    continue  # it will be fetched again
                if family_of(other) == family_of(url):
                    return str(other)
                first = first or str(other)
        return first

    def _of(self, name: str) -> _Site:
        return self._sites.get(name) or _Site()

    def rename(self, name: str, url: str, content: str | None) -> None:
        update = "UPDATE evidence SET content = ? WHERE site = ? AND url = ?"
        if self._database.write(update, content, name, url) and content:
            self._of(name).events += self._is_known(name, Row(url, 200, content, None))
            self.later[name] = None

    def are_two(self, name: str, url: str, other: str) -> None:
        """Take note that a verdict found two pages of a site to be two."""
        self._database.write("INSERT OR REPLACE INTO other VALUES (?, ?, ?)", name, url, other)

    def others(self, name: str) -> dict[str, str]:
        """Return by the URL of a page that of another, as verdicts found."""
        return dict(self._database.read("SELECT url, other FROM other WHERE site = ?", name))

    def _thin_out(self, name: str, site: _Site) -> None:
        site.parts *= 2
        delete = "DELETE FROM evidence WHERE site = ? AND place % ? != 0"
        self._database.write(delete, name, site.parts)
        rows = self._database.read("SELECT count(*) FROM evidence WHERE site = ?", name)[0][0]
        self._total -= site.rows - rows
        site.rows = rows
        site.rows_mined = min(site.rows_mined, rows)

    def _make_room(self) -> None:
        while self._sites and (
            len(self._sites) >= MAX_SITES or self._total >= MAX_ROWS_OF_ALL - MAX_ROWS
        ):
            name = next(iter(self._sites))
            self._total -= self._sites.pop(name).rows
            for table in ("evidence", "other"):
                self._database.write(f"DELETE FROM {table} WHERE site = ?", name)

    def count(self, name: str) -> int:
        return self._of(name).rows

    def is_due(self, name: str, advance: int) -> bool:
        """Return whether to mine a site, for *advance* rows more than it has earned at most.

        What a retracted rule has left cannot wait until it has earned it.
        """
        site = self._of(name)
        if site.events - site.events_mined < LEAST:
            return False
        is_grown = site.rows >= (1 + site.new_rows) * site.rows_mined
        return site.is_contradicted or (is_grown and BEGIN + site.rows <= site.earned + advance)

    def pay(self, name: str, advance: int) -> int:
        """Have a site pay for being mined; return what is left of the *advance*, in rows."""
        site = self._of(name)
        site.earned -= BEGIN + site.rows
        lent = min(advance, max(0, -site.earned))
        site.earned += lent
        return advance - lent

    def unmined(self) -> list[str]:
        found = []
        for name, site in self._sites.items():
            least = 0 if name in self.eager else LAST_FACTOR * site.events_mined
            if site.events - site.events_mined >= max(LEAST, least):
                found.append(name)
        return found

    def take(self, name: str) -> list[Row]:
        site = self._of(name)
        site.events_mined, site.rows_mined = site.events, site.rows
        site.is_contradicted = False
        select = "SELECT url, status, content, target FROM evidence WHERE site = ?"
        return [Row(*row) for row in self._database.read(select, name)]

    def found(self, name: str, *, something: bool) -> None:
        self.eager.discard(name)
        site = self._of(name)
        site.new_rows = NEW_ROWS if something else min(2 * site.new_rows, MOST_NEW_ROWS)

    def mine_again(self, name: str) -> None:
        site = self._of(name)
        site.events = max(site.events, site.events_mined + LEAST)
        site.is_contradicted = True


def named(content: Identity) -> str:
    """Return how a row calls a content: what is no HTML, or asks for a password, says so."""
    kinds = {FILE: OF_FILE, WALL: OF_WALL}
    return kinds.get(content.kind or "", "") + content.name


def _path(url: str) -> bytes:
    return split(url).path.rstrip("/").encode("utf-8", "surrogatepass")
