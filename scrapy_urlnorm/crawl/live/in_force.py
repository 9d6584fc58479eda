"""InForce: puts learned rules in force and takes them back, and says so to all whom it concerns."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from scrapy_urlnorm.crawl.live.report import why
from scrapy_urlnorm.crawl.sites import domain_of
from scrapy_urlnorm.exceptions import SiteRuleError
from scrapy_urlnorm.learning.in_force import has_longer_table
from scrapy_urlnorm.masking import placeholders
from scrapy_urlnorm.site_rules import SiteRule

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from scrapy_urlnorm.crawl.live.audits import Audits
    from scrapy_urlnorm.crawl.live.content import Change
    from scrapy_urlnorm.crawl.live.exchange import Exchange
    from scrapy_urlnorm.crawl.live.file_uses import FileUses
    from scrapy_urlnorm.crawl.live.learned_file import LearnedFile
    from scrapy_urlnorm.crawl.live.learners import Learners
    from scrapy_urlnorm.crawl.live.register import Register
    from scrapy_urlnorm.learning.on_files import OfFiles
    from scrapy_urlnorm.learning.worker import Mined

logger = logging.getLogger(__name__)


class InForce:
    """Brings what `Learners` know into the `Register`, the log, the file and the store.

    *on_change* is called with a site whose rules have changed. *count* adds one to a statistic.
    *extra* is for the logger.
    """

    def __init__(
        self,
        learners: Learners,
        register: Register,
        audits: Audits,
        exchange: Exchange,
        file: LearnedFile,
        file_uses: FileUses,
        *,
        on_change: Callable[[str], None],
        count: Callable[[str], None],
        extra: Mapping[str, Any],
    ) -> None:
        self._learners = learners
        self._register = register
        self._audits = audits
        self._exchange = exchange
        self._file = file
        self._file_uses = file_uses
        self._on_change = on_change
        self._count = count
        self._extra = extra

    def begin(self) -> None:
        """Put the rules of earlier crawls in force. Nothing depends on them yet."""
        for site in self._learners.sites():
            self._put_in_force(site)

    def changed(self, rules: list[SiteRule], stat: str, what: str, *, tell: bool = True) -> None:
        """Put the rules of their sites in force, after *rules* came or went. Count and log them.

        *what* happened goes into the log. Without *tell*, other crawlers do not learn of it.
        """
        refused: list[SiteRule] = []
        for site in {domain_of(rule.site) for rule in rules}:
            refused += self._put_in_force(site)
            self._on_change(site)
        for rule in rules:
            if rule in refused:
                continue
            self._count(stat)
            arguments = {"what": what, "rule": rule, "why": why(rule)}
            logger.info("%(what)s: %(rule)s (%(why)s)", arguments, extra=self._extra)
        self._file.changed(len(rules))
        if tell:
            self._exchange.tell(rules)

    def take_back(
        self,
        rules: Iterable[SiteRule],
        what: str = "Took back",
        stat: str = "learned/retracted",
        *,
        tell: bool = True,
    ) -> None:
        """Do as `changed` for *rules* that are in force no longer."""
        rules = list(rules)
        for rule in rules:
            self._audits.forget(rule)
            self._audits.forget(self._file_uses.of(rule))
            self._file_uses.forget(rule)
        self.changed(rules, stat, what, tell=tell)

    def reject(self, rule: SiteRule, note: str) -> None:
        """Take back a rule that is wrong. *note* says why."""
        rejected = self._learners.reject(rule, note)
        if rejected is not None:
            self.take_back([rejected])

    def reject_for_files(self, use: OfFiles, note: str) -> None:
        """Take a rule back that is wrong about what is no HTML, and leave it in force for pages."""
        self._file_uses.refute(use)
        self._audits.forget(use)
        self._on_change(domain_of(use.site))
        arguments = {"rule": use.rule, "note": " ".join(placeholders(note.split(" ")))}
        logger.info("Took back for files: %(rule)s (%(note)s)", arguments, extra=self._extra)

    def mined(self, mined: Mined, change: Change) -> None:
        """Take note of what mining a site has changed, and of what was *mined* about its rules.

        Others are not told of a rule that went: they have pages of their own.
        """
        is_narrower = self._file_uses.learn(mined.on_files)
        for rule in (*change.gone, *change.replaced):
            if longer := next((each for each in change.came if has_longer_table(each, rule)), None):
                self._audits.pass_on(rule, longer)
        if change.gone:
            self.take_back(change.gone, tell=False)
        if change.replaced:
            self.take_back(change.replaced, "Replaced", "learned/replaced", tell=False)
        if change.came:
            self.changed(change.came, "learned/rules", "Learned from equal pages")
        elif not change.gone and not change.replaced:
            self._put_in_force(mined.site)  # with the evidence that they have now
        if is_narrower:
            self._on_change(mined.site)
        for rule in self._register.rules(mined.site):
            self._audits.shown(rule, mined.shown.get(rule.identity, ()))

    def release_small(self) -> bool:
        """Take back rules that withheld little and that need more audits than a site can bear.

        They are not wrong: they may come again. Return whether there were any.
        """
        content = self._learners.content
        small = (
            []
            if content is None
            else [
                rule
                for site in content.sites()
                for rule in self._audits.too_small(content.active(site))
                if isinstance(rule, SiteRule) and content.release(rule)
            ]
        )
        note = "it saves too little to be tested as it should be"
        if small:
            released = [rule.replace(status="rejected", note=note) for rule in small]
            self.take_back(released, tell=False)
        return bool(small)

    def take_news(self, *, at_once: bool = False) -> None:
        """Take over, every few seconds, the rules that others learned; tell them of ours."""
        news = self._exchange.news(at_once=at_once)
        if not news:
            return
        learned, retracted = self._learners.adopt(news)
        if learned:
            self.changed(learned, "learned/shared", "Learned by another crawler")
        # A rule of another crawler may also contradict a page that this crawler has seen.
        theirs = [rule for rule in retracted if rule in news]
        ours = [rule for rule in retracted if rule not in news]
        if theirs:
            self.take_back(theirs, "Taken back by another crawler")
        if ours:
            self.take_back(ours, "Learned by another crawler and not taken over")

    def _put_in_force(self, site: str) -> list[SiteRule]:
        """Put the learned rules of *site* in force; return those that do not go with the rest."""
        rules = list(self._learners.active(site))
        refused: list[SiteRule] = []
        while (error := self._refusal(site, rules)) is not None:
            # A rule that no site may have goes before one that does not go with the others:
            # another client of the store may have written it.
            wrong = next((r for r in rules if not self._register.accepts(site, (r,))), rules[-1])
            rules.remove(wrong)
            refused.append(wrong)
            self._learners.reject(wrong, str(error))
            logger.info("A learned rule is not applied: %(error)s", {"error": error})
        return refused

    def _refusal(self, site: str, rules: list[SiteRule]) -> SiteRuleError | None:
        """Put *rules* in force; return the error if they do not go together."""
        try:
            self._register.replace(site, rules)
        except SiteRuleError as error:
            return error
        return None

    def __len__(self) -> int:
        """Return how many rules are in force."""
        return sum(len(self._register.rules(site)) for site in self._register.sites())
