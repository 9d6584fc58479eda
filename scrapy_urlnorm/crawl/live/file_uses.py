"""FileUses: whether a rule holds for files too. Pages and files are proved and refuted apart.

A rule that means nothing to pages may mean something to what is no HTML: a table to download is
another file in another order, a feed names the host that it came from. So a request is withheld
behind a file only by rules that no file has refuted, and these are audited for files as if pages
had proved nothing. An audit that disagrees takes the rule back for files alone. And a rule that
files alone have proved withholds no page.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy_urlnorm.learning.on_files import FILES_ALONE, OfFiles
from scrapy_urlnorm.logs.page_identity import FILE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from scrapy_urlnorm.crawl.live.ledger import Page
    from scrapy_urlnorm.learning.on_files import OnFiles
    from scrapy_urlnorm.site_rules import SiteRule


class FileUses:
    """What is known of files, by the identities of rules."""

    def __init__(self) -> None:
        self._known: dict[str, OnFiles] = {}
        self._refuted: set[str] = set()

    def learn(self, found: Mapping[str, OnFiles]) -> bool:
        """Take note of what mining found. Return whether a rule may withhold less than before."""
        before = self._narrow()
        self._known.update(found)
        return not self._narrow() <= before

    def _narrow(self) -> set[tuple[str, bool]]:
        refuted = {(name, False) for name, each in self._known.items() if each.differ}
        return refuted | {(name, True) for name, each in self._known.items() if each.is_alone}

    def refute(self, use: OfFiles) -> None:
        """Take note that an audit of a file has disagreed."""
        self._refuted.add(use.rule.identity)

    def forget(self, rule: SiteRule) -> None:
        """Forget a rule that is no longer in force, but not that files have refuted it."""
        self._known.pop(rule.identity, None)

    def of(self, rule: SiteRule) -> OfFiles:
        """Return *rule* as far as it is about files."""
        known = self._known.get(rule.identity)
        return OfFiles(rule, 0 if known is None else known.agree)

    def reasons(self, page: Page, rules: tuple[SiteRule, ...]) -> tuple[SiteRule | OfFiles, ...]:
        """Return why a request is withheld behind *page*: *rules*, or these as far as of files."""
        return tuple(map(self.of, rules)) if is_file(page) else rules

    def allow(self, page: Page, rules: Iterable[SiteRule]) -> bool:
        """Return whether *rules* may withhold a request behind *page*."""
        if not is_file(page):
            return not any(map(self._is_alone, rules))
        return not any(map(self._is_refuted, rules))

    def _is_alone(self, rule: SiteRule) -> bool:
        """Whether files alone have proved *rule*, in this crawl or where it was learned."""
        known = self._known.get(rule.identity)
        return rule.note == FILES_ALONE if known is None else known.is_alone

    def _is_refuted(self, rule: SiteRule) -> bool:
        known = self._known.get(rule.identity)
        return rule.identity in self._refuted or (known is not None and known.differ > 0)


def is_file(page: Page) -> bool:
    """Return whether a page that arrived is no HTML."""
    return page.content is not None and page.content.kind == FILE
