"""AuditResults: decides whether the answer to an audit agrees with the rules."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from scrapy import Request
from scrapy.http.request import NO_CALLBACK
from scrapy.utils.defer import deferred_from_coro

from scrapy_urlnorm.crawl.live.comparing import (
    answers_as_said,
    identity_in_crawl,
    leads_elsewhere,
    same_content,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from scrapy_urlnorm.crawl.live.audits import Audits
    from scrapy_urlnorm.crawl.live.frontier import Audit
    from scrapy_urlnorm.crawl.live.register import Register
    from scrapy_urlnorm.crawl.merges import Reason
    from scrapy_urlnorm.logs.page_identity import Identity

logger = logging.getLogger(__name__)


class AuditResults:
    """Tells `Audits` how each audit ended, and *on_disagreement* which rule is wrong, and why.

    A page with other content than its witness does not prove a rule wrong: the page may change by
    itself from one fetch to the next. So the witness is fetched once more, and *judge* is called
    with the audit, the content that answered it, and that of the witness now. It is `judge` of
    this class, in whatever its owner wraps it.
    """

    def __init__(
        self,
        crawler: Crawler,
        register: Register,
        audits: Audits,
        *,
        count: Callable[[str], None],
        on_disagreement: Callable[[Reason, str], None],
        judge: Callable[[Audit, Identity | None, Identity | None], None],
    ) -> None:
        self._crawler = crawler
        self._register = register
        self._audits = audits
        self._count = count
        self._on_disagreement = on_disagreement
        self._judge = judge
        self._fetches = 0

    @property
    def is_waiting(self) -> bool:
        """Whether a witness is being fetched again."""
        return bool(self._fetches)

    def redirect(self, audit: Audit, onto: Request) -> None:
        """Decide about an audit that was answered with a redirect to the URL of *onto*.

        A redirect that leads elsewhere may be the only way to a page, however temporary it is.
        """
        keys = self._register.keys(onto)
        if keys is not None and keys.learned == audit.keys.learned:
            self._agreed(audit)
        else:
            self._disagreed(audit, f"redirects elsewhere: {onto.url}")

    def page(
        self, audit: Audit, content: Identity | None, response: Response | None = None
    ) -> None:
        """Decide about an audit that was answered with a page, or fetch its witness again.

        Without its *response*, the links of the page are not compared.
        """
        if answers_as_said(audit, content):
            self._compare_links(audit, response)
        elif not audit.witness.url:  # the witness arrived at another crawler
            self._disagreed(audit, f"other content than its twin: {audit.request}")
        else:
            self._fetches += 1
            deferred_from_coro(self._fetch_again(audit, content))

    def _compare_links(self, audit: Audit, response: Response | None) -> None:
        """Decide about an audit that found the text of its witness."""
        url, witness = audit.url, audit.witness.url
        key_of = self._learned_key
        if response is not None and witness and leads_elsewhere(response, url, witness, key_of):
            self._disagreed(audit, f"links of {url} lead elsewhere than those of {witness}")
        else:
            self._agreed(audit)

    def _learned_key(self, url: str) -> bytes | None:
        keys = self._register.keys_of(url)
        return None if keys is None else keys.learned

    async def _fetch_again(self, audit: Audit, content: Identity | None) -> None:
        again = None
        try:
            engine = self._crawler.engine
            assert engine is not None
            request = Request(audit.witness.url, callback=NO_CALLBACK, dont_filter=True)
            response = await engine.download_async(request)
            if 200 <= response.status < 300:
                again = identity_in_crawl(response)
        except Exception as error:  # noqa: BLE001 - any failure of a download
            logger.debug("A page could not be fetched again: %(error)r", {"error": error})
        finally:
            self._fetches -= 1
        self._judge(audit, content, again)

    def judge(self, audit: Audit, content: Identity | None, again: Identity | None) -> None:
        """Decide about an audit that found *content*, other than that of its witness.

        *again* is the content of the witness now, ``None`` if it could not be fetched. Where the
        witness has changed by itself, the difference may say nothing about the rules.
        """
        before = audit.witness.content
        witness = audit._replace(witness=audit.witness._replace(content=again))
        has_changed = again is not None and before is not None and again.digest != before.digest
        if answers_as_said(witness, content):
            self._agreed(audit)
        elif has_changed and (same_content(again, content) or not same_content(again, before)):
            self._audits.undecided(audit.rules, audit.url, audit.witness.url)
        else:
            url = audit.request.url if audit.request is not None else "an audit"
            self._disagreed(audit, f"other content than {audit.witness.url}: {url}")

    def _agreed(self, audit: Audit) -> None:
        self._count("learned/audits_agreed")
        self._audits.agreed(audit.rules, audit.witness.vote)

    def _disagreed(self, audit: Audit, note: str) -> None:
        self._count("learned/audits_disagreed")
        self._audits.undecided(audit.rules)
        self._on_disagreement(self._audits.to_blame(audit.rules), note)
