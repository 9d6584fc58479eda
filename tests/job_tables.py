"""A database of a crawl with what was learned in it, written row by row."""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING

from scrapy_urlnorm.crawl.online import held, names, rules, tables
from scrapy_urlnorm.normalizer import KEY_VERSION, Normalizer
from scrapy_urlnorm.report.filtered import FilteredRecord
from scrapy_urlnorm.stores import Identity
from scrapy_urlnorm.stores.sqlite import DATABASE_NAME, Database, SqliteSeen
from scrapy_urlnorm.url import get_fingerprint

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from scrapy_urlnorm.site_rules import SiteRule


def key_of(url: str) -> bytes:
    return get_fingerprint(Normalizer().normalize(url))


class JobTables:
    """The tables of a job, and the store of its keys."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.record = FilteredRecord(database)
        for module in (tables, held, names, rules):
            database.ensure(module._TABLES)

    def page(self, url: str, content: str = "") -> None:
        names = json.dumps([content]) if content else None
        self.database.write(
            "INSERT INTO page (site, fingerprint, url, content, depth) VALUES ('', ?, ?, ?, 0)",
            *(key_of(url), url, names),
        )

    def shown(self, url: str) -> None:
        """Keep a page to which no link came: a start page."""
        self.database.write(
            "INSERT INTO shown (site, fingerprint, url, family, digest, blocks)"
            " VALUES ('', ?, ?, '', '', x'')",
            *(key_of(url), url),
        )

    def held(
        self,
        url: str,
        behind: str | None = None,
        *rules: str,
        state: int = 0,
        is_alias: bool = False,
        saves: bool = True,
        since: float = 0,
    ) -> None:
        self.database.write(
            "INSERT INTO held (site, cluster, fingerprint, state, request, checksum, url, behind,"
            " rules, is_alias, saves, since) VALUES ('', x'', ?, ?, x'', 0, ?, ?, ?, ?, ?, ?)",
            *(key_of(url), state, url, behind, json.dumps(rules), is_alias, saves, since),
        )

    def filtered(self, url: str, first: str, *rules: str, saves: bool = True) -> None:
        self.record.add(key_of(url), url, first, rules, saves=saves)

    def rule(self, rule: SiteRule, agreed: int = 0) -> None:
        self.database.write(
            "INSERT INTO rule (identity, site, status, rule, agreed) VALUES (?, ?, ?, ?, ?)",
            *(rule.identity, rule.site, rule.status, json.dumps(rule.as_dict()), agreed),
        )

    def asked(self, url: str) -> None:
        normalizer = Normalizer()
        with SqliteSeen(self.database, Identity(normalizer.digest, KEY_VERSION)) as store:
            store.add(key_of(url))


@contextmanager
def job_tables(folder: Path) -> Iterator[JobTables]:
    with Database(folder / DATABASE_NAME) as database:
        tables = JobTables(database)
        yield tables
        tables.record.close()
