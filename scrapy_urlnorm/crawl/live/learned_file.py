"""LearnedFile: keeps what a crawl learned for the next one."""

from __future__ import annotations

import logging
from time import monotonic
from typing import TYPE_CHECKING

from scrapy_urlnorm.crawl.settings import LEARNED_PATH
from scrapy_urlnorm.site_rules import save_site_rules

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from scrapy import Spider

    from scrapy_urlnorm.site_rules import SiteRule

logger = logging.getLogger(__name__)

#: How often learned rules are written at most, unless they are few.
SAVE_SECONDS = 30.0


class LearnedFile:
    """Writes all *rules* to *path*, as often as they change much. ``None`` writes nothing."""

    def __init__(
        self, path: Path | None, rules: Callable[[], Sequence[SiteRule]], spider: Spider | None
    ) -> None:
        self._path = path
        self._rules = rules
        self._spider = spider
        self._unsaved = 0
        self._in_file = 0
        self._saved_at = monotonic()

    def changed(self, number: int) -> None:
        """Take note that *number* rules have changed. Write all when enough have."""
        self._unsaved += number
        if self._unsaved * 8 >= self._in_file or monotonic() - self._saved_at > SAVE_SECONDS:
            self._write()

    def close(self) -> None:
        """Write the rules, if there are any."""
        if self._rules():
            self._write()

    def _write(self) -> None:
        self._unsaved = 0
        self._saved_at = monotonic()
        if self._path is None:
            return
        rules = self._rules()
        self._in_file = len(rules)
        try:
            save_site_rules(self._path, rules)
        except OSError as error:
            logger.error(
                "Learned rules cannot be written to %(setting)s = %(path)s: %(error)s",
                {"setting": LEARNED_PATH, "path": str(self._path), "error": error},
                extra={"spider": self._spider},
            )
