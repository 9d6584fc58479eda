"""AliasMemory: keeps what is known of page aliases between two runs of one crawl."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING

from scrapy_urlnorm.learning.aliases import SiteAliases

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scrapy_urlnorm.crawl.database import Database

logger = logging.getLogger(__name__)


class AliasMemory:
    """What a run writes down at its end, in the database of the crawl.

    It is taken out when the next run begins. So a run after a kill learns anew: what is written
    down may be older than the moment when an audit refuted it.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def keep(self, sites: Iterable[SiteAliases]) -> None:
        """Write *sites* down."""
        rows = [(aliases.site, json.dumps(aliases.state)) for aliases in sites]
        self._database.write_many(
            "INSERT OR REPLACE INTO alias_site (site, state) VALUES (?, ?)", rows
        )

    def take(self) -> list[SiteAliases]:
        """Return what was written down, and forget it."""
        rows = self._database.read("SELECT site, state FROM alias_site")
        self._database.write("DELETE FROM alias_site")
        return [aliases for row in rows if (aliases := _read(*row)) is not None]


def _read(site: str, state: str) -> SiteAliases | None:
    try:
        return SiteAliases.from_state(site, json.loads(state))
    except (LookupError, TypeError, ValueError) as error:
        logger.warning(
            "What an earlier run learned of page aliases of %(site)s cannot be read and is learned "
            "anew: %(error)r",
            {"site": site, "error": error},
        )
        return None
