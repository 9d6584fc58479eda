"""AliasDoubts: decides when a page is not what the page that named it said."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy import Request

from scrapy_urlnorm.crawl.live.frontier import Audit
from scrapy_urlnorm.learning.aliases import Pattern

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from scrapy_urlnorm.crawl.live.audit_results import AuditResults
    from scrapy_urlnorm.crawl.live.page_aliases import PageAliases
    from scrapy_urlnorm.crawl.live.register import Register
    from scrapy_urlnorm.crawl.live.witness import Witnesses
    from scrapy_urlnorm.crawl.merges import Reason
    from scrapy_urlnorm.learning.aliases import Doubt
    from scrapy_urlnorm.logs.page_identity import Identity


class AliasDoubts:
    """Brings what speaks against an accepted pattern before `AuditResults`.

    The page that named the other one may change by itself, so it is fetched again before its
    pattern is blamed.
    """

    def __init__(
        self,
        register: Register,
        aliases: PageAliases,
        witnesses: Witnesses,
        results: AuditResults,
    ) -> None:
        self._register = register
        self._aliases = aliases
        self._witnesses = witnesses
        self._results = results

    def examine(
        self,
        doubts: Iterable[Doubt],
        content: Identity | None,
        *,
        keys: Collection[bytes] | None = None,
        examined: Iterable[Reason] = (),
    ) -> None:
        """Have *doubts* decided, one of each pattern, except those *examined* already.

        *content* is what arrived, under *keys*; ``None`` stands for all.
        """
        blamed = set(examined)
        for doubt in doubts:
            if doubt.pattern in blamed:
                continue
            blamed.add(doubt.pattern)
            witness = self._aliases.page_at(doubt.page)
            names = self._register.keys_of(doubt.url)
            if witness is None or names is None:
                self._aliases.reject(doubt.pattern, f"other content: {doubt.url}")
                continue
            found = content
            if keys is not None and doubt.key not in keys:  # it arrived before
                page = self._aliases.page_at(doubt.key)
                found = None if page is None else page.content
            self._results.page(
                Audit(names, witness, (doubt.pattern,), doubt.url, Request(doubt.url)), found
            )

    def redirected(self, audit: Audit, onto: Request, *, is_known: bool) -> None:
        """Have the audit of an alias go on with what arrives behind a redirect to *onto*.

        If the dupefilter knows *onto* (*is_known*), nothing will arrive: the page that arrived
        before decides.
        """
        if not is_known:
            self._witnesses.open_audits.follow(audit, onto)
            return
        page = self._aliases.page_at(self._register.own_key(onto))
        if page is None:
            self._witnesses.open_audits.close_undecided(audit)
        else:
            self._witnesses.open_audits.close(audit)
            self._results.page(audit, page.content)


def is_by_alias(audit: Audit) -> bool:
    """Return whether *audit* tests an alias."""
    return any(isinstance(reason, Pattern) for reason in audit.rules)
