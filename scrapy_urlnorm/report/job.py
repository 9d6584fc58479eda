"""Job: what a crawl left in its JOBDIR, opened for reading."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from scrapy_urlnorm.domains import domain_or_host
from scrapy_urlnorm.exceptions import StoreError
from scrapy_urlnorm.report.database import ReadDatabase
from scrapy_urlnorm.site_rules import load_site_rules
from scrapy_urlnorm.stores import PENDING_NAME, RULES_NAME
from scrapy_urlnorm.url import split

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from scrapy_urlnorm.site_rules import SiteRule


class Withheld(NamedTuple):
    """A request that is kept back."""

    behind: str | None  #: the URL of the page that it stands behind, where that has one
    is_parked: bool  #: whether it only waits for the end of another request


class Job(ReadDatabase):
    """The database of waiting requests in *folder*, and the file of learned rules beside it.

    Raises `StoreError`, as every `ReadDatabase`, also for a folder that has no such database.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        path = folder / PENDING_NAME
        if not path.is_file():
            raise StoreError(
                f"{folder}: there is no {PENDING_NAME} in it, so it is no job directory"
            )
        super().__init__(path)
        try:
            self._one("SELECT 1 FROM page LIMIT 1")
        except StoreError:
            self.close()
            raise

    def pages(self) -> Iterator[tuple[str | None, str | None]]:
        """Return URL and content of each page that arrived, in that order; ``None`` is unknown."""
        for number, url, content in self._read("SELECT id, url, content FROM page ORDER BY id"):
            yield url, None if content is None else self._content(f"page {number}", content)

    def _content(self, what: str, text: str) -> str:
        """Return the name of a content: the digest that is nearest to the visible text."""
        names = self._json(what, text)
        try:
            return next(str(names[at]) for at in (2, 1, 0) if names[at])
        except (LookupError, TypeError, StopIteration) as error:
            raise self._damaged(what, error) from error

    def page(self, key: bytes) -> str | None:
        """Return the URL of the page that arrived under *key*: "" if it has none by itself."""
        row = self._one("SELECT url FROM page WHERE own = ?", key)
        return None if row is None else row[0] or ""

    def withheld(self, key: bytes) -> Withheld | None:
        """Return what the request with *key* is kept back behind, if it is."""
        row = self._one(
            "SELECT page.url, withheld.is_parked FROM withheld LEFT JOIN page"
            " ON page.learned = withheld.learned AND page.own != withheld.own"
            " WHERE withheld.own = ? LIMIT 1",
            key,
        )
        return None if row is None else Withheld(row[0], bool(row[1]))

    def count_withheld(self) -> int:
        """Return how many requests are withheld."""
        return int(self._one("SELECT count(*) FROM withheld WHERE NOT is_parked")[0])

    def named_by(self, key: bytes) -> str | None:
        """Return the URL of the page that names *key* as another name of its own."""
        for site, state in self._read("SELECT site, state FROM alias_site"):
            for name, page in self._claims(site, state):
                if name == key and (url := self.page(page)):
                    return url
        return None

    def _claims(self, site: str, state: str) -> Iterable[tuple[bytes, bytes]]:
        """Return what pages of a site name as theirs: pairs of keys, of the name and the page."""
        what = f"the aliases of {site}"
        claims = self._json(what, state)
        try:
            return [
                (bytes.fromhex(claim[0]), bytes.fromhex(claim[1])) for claim in claims["claims"]
            ]
        except (LookupError, TypeError, ValueError) as error:
            raise self._damaged(what, error) from error

    def holds(self, key: bytes) -> bool:
        """Return whether *key* waits here because the store may not have it yet."""
        return self._one("SELECT 1 FROM key WHERE key = ? LIMIT 1", key) is not None

    def rules(self) -> tuple[SiteRule, ...]:
        """Return the rules that the crawl learned, those that were taken back too.

        Raises SiteRuleError and OSError for the file that has them.
        """
        path = self.folder / RULES_NAME
        return load_site_rules(path) if path.is_file() else ()

    def rules_for(self, url: str) -> tuple[SiteRule, ...]:
        """Return the learned rules that are in force for the site of *url*. Raises as `rules`."""
        domain = domain_or_host((split(url).host or "").lower())
        return tuple(
            rule
            for rule in self.rules()
            if rule.active and domain_or_host(rule.site.removeprefix("*.")) == domain
        )
