"""RuleRegistry: the learned rules of all sites, and their one life.

A rule is *proposed* (in a file only), *active*, or *retracted*: evidence contradicts it, and it is
quarantined until it has `WITNESSES_A_CONFLICT` witnesses for each contradiction. It is *subsumed*
when another rule does all that it does. An active rule stays until the rows speak against it: what
it suppresses is not fetched, so the next mining sees less of what proves it.

HTML and binary pages speak for a rule apart: what means nothing to pages may mean something to a
table to download. A rule that binary pages refute suppresses none of them, and one that binary
pages alone prove suppresses no HTML.

The rules stand in the database of the crawl, beside what they suppress. The file of learned rules
is for people, and for the next crawl: a person may edit it between two runs of one.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from scrapy_urlnorm.crawl.online.sharing import RuleExchange, RuleFile
from scrapy_urlnorm.crawl.online.summary import why
from scrapy_urlnorm.crawl.online.tables import Reason
from scrapy_urlnorm.crawl.requests import domain_of
from scrapy_urlnorm.exceptions import SiteRuleError
from scrapy_urlnorm.learning.aliases import Pattern
from scrapy_urlnorm.learning.media import FILES_ALONE, OnFiles
from scrapy_urlnorm.masking import placeholders
from scrapy_urlnorm.report.filtered import rule_in_words, sentence_of
from scrapy_urlnorm.text import logger_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from scrapy_urlnorm.crawl.frontier import CrawlFrontier
    from scrapy_urlnorm.crawl.online.aliases import PageAliases
    from scrapy_urlnorm.crawl.online.audits import Audits
    from scrapy_urlnorm.crawl.online.evidence import Evidence
    from scrapy_urlnorm.crawl.online.keys import ClusterKeys
    from scrapy_urlnorm.crawl.online.names import Names
    from scrapy_urlnorm.crawl.online.tables import Page, Pages
    from scrapy_urlnorm.crawl.settings import Config
    from scrapy_urlnorm.learning.worker import Mined
    from scrapy_urlnorm.site_rules import SiteRule
    from scrapy_urlnorm.stores import Seen
    from scrapy_urlnorm.stores.sqlite import Database

logger = logger_of(__name__)

_TABLES = """
CREATE TABLE IF NOT EXISTS rule (
  identity TEXT PRIMARY KEY, site TEXT NOT NULL, status TEXT NOT NULL, rule TEXT NOT NULL,
  binary TEXT NOT NULL DEFAULT '[0, 0, false, false]', agreed INTEGER NOT NULL DEFAULT 0);
"""
#: Active rules of one site, and retracted rules remembered for it.
MAX_ACTIVE, MAX_RETRACTED = 64, 256
#: Witnesses that a retracted rule needs for each contradiction before it is believed again.
WITNESSES_A_CONFLICT = 50
_SUBSUMED = "a wider rule takes its place"


class _Binary(NamedTuple):
    """What binary pages say of a rule: as `OnFiles`, and whether an audit of one has differed."""

    agree: int = 0
    differ: int = 0
    is_alone: bool = False
    is_refuted: bool = False


_NOTHING = _Binary()


@dataclass(eq=False)
class RuleRegistry:
    """Moves rules from one state to the next, and tells keys, audits, file, crawlers, and log."""

    database: Database
    keys: ClusterKeys
    pages: Pages
    audits: Audits
    evidence: Evidence
    aliases: PageAliases
    names: Names
    frontier: CrawlFrontier
    store: Seen
    config: Config

    def __post_init__(self) -> None:
        self._exchange = RuleExchange(self.store, self.frontier.now)
        self._file = RuleFile(self.config.learned_path, self.database, self.frontier)
        #: Else rules that contents taught are not active.
        self._contents = self.config.learn == "content"
        #: Told of a site whose rules have changed.
        self.on_change: Callable[[str], None] = lambda _: None
        #: Told of pairs of URLs whose difference alone keeps a rule of a site from being learned.
        self.on_undecided: Callable[[str, Sequence[tuple[str, str]]], None] = lambda *_: None
        #: All rules by site and identity. Their status says what they are.
        self._known: defaultdict[str, dict[str, SiteRule]] = defaultdict(dict)
        self._contradictions: Counter[str] = Counter()  # by identity; rules that are retracted
        self._binary: dict[str, _Binary] = {}
        self._near: Counter[str] = Counter()  # contradicted rules about the same slots, by rule
        self._is_stopped = False
        self._came: dict[str, int] = {}  # pages there were when a rule came, by its identity
        self.database.ensure(_TABLES)

    def begin(self, of_file: Iterable[SiteRule]) -> None:
        """Put the rules of an earlier run in force, or those *of_file*, if a person changed it.

        What was retracted stays so, unless the file says otherwise.
        """
        known = self._read()
        is_of_file = not known or not self._file.is_as_written()
        if is_of_file:
            kept = {rule.identity: rule for rule in of_file}
            for rule in known.values():
                if rule.active and rule.identity not in kept:
                    self._delete(rule)
            known = {name: rule for name, rule in known.items() if not rule.active} | kept
        for name, rule in known.items():
            self._of(rule)[name] = rule
            if rule.status == "rejected":
                self._contradictions[name] = rule.conflicts or 1
        if is_of_file:  # the next run reads the database alone, until a person changes the file
            self._write(known.values())
            self._file.note()
        for site in list(self._known):
            self._apply(site)

    def _read(self) -> dict[str, SiteRule]:
        """Return the rules in the database. What stood behind one that cannot be read is sent."""
        known = {}
        for name, rule, binary in self.database.read("SELECT identity, rule, binary FROM rule"):
            from scrapy_urlnorm.site_rules.rule import rule_from_dict  # most crawls know none yet

            with suppress(SiteRuleError, ValueError, TypeError):
                known[name] = rule_from_dict(json.loads(rule))
                self._binary[name] = _Binary(*json.loads(binary))
        return known

    # --- what is known ----------------------------------------------------------------------

    @property
    def rules(self) -> tuple[SiteRule, ...]:
        found = (rule for table in self._known.values() for rule in table.values())
        return tuple(sorted(found, key=lambda rule: (rule.site, rule.order)))

    def active(self, site: str) -> tuple[SiteRule, ...]:
        return tuple(filter(self._is_active, self._known[site].values()))

    def _is_active(self, rule: SiteRule) -> bool:
        """Whether a rule is in force: not so what contents taught, if these do not teach now."""
        return rule.active and (self._contents or rule.source != "content")

    def _of(self, rule: SiteRule) -> dict[str, SiteRule]:
        return self._known[domain_of(rule.site)]

    def quarantined(self, site: str) -> dict[str, int]:
        found = {name: self._contradictions[name] for name in self._known[site]}
        return {name: WITNESSES_A_CONFLICT * number for name, number in found.items() if number}

    def newest(self, since: float) -> set[str]:
        """Return, in words, the active rules that came when there were more pages than *since*."""
        rules = filter(self._is_active, self.rules)
        return {rule_in_words(r) for r in rules if self._came.get(r.identity, 0) > since}

    def support_in_words(self) -> dict[str, int]:
        return {rule_in_words(rule): rule.support or 0 for rule in self.rules if rule.active}

    def reasons(self, site: str | None = None) -> Iterator[Reason]:
        """Yield the rules and page aliases in force for *site*, or all, as `Audits` knows them."""
        for name in list(self._known) if site is None else (site,):
            for rule in self.keys.rules(name):
                yield from (self._reason(rule, is_binary=each) for each in (False, True))
        yield from self.aliases.reasons(site)

    def between(self, site: str, url: str, page: Page) -> tuple[Reason, ...]:
        """Return the rules of *site* that suppress a request for *url* behind *page*; () if one may not."""
        rules = self.keys.between(site, url, page.url)
        for rule in rules:
            binary = self._of_binary(rule)
            if page.is_binary and (binary.is_refuted or binary.differ):
                return ()
            if not page.is_binary and (binary.is_alone or rule.note == FILES_ALONE):
                return ()
        return tuple(self._reason(rule, is_binary=page.is_binary) for rule in rules)

    def _of_binary(self, rule: SiteRule) -> _Binary:
        return self._binary.get(rule.identity, _NOTHING)

    def _reason(self, rule: SiteRule, *, is_binary: bool) -> Reason:
        binary = self._of_binary(rule)
        return Reason(rule, binary.agree if is_binary else rule.support or 0, is_binary)

    # --- changes ----------------------------------------------------------------------------

    def mined(self, found: Mined) -> bool:
        """Make active what mining found, in place of the rules before; return if any is new.

        A miner that failed leaves no rule standing: nobody has tested them. Other crawlers are not
        told of a rule that went: they have pages of their own.
        """
        if self._is_stopped:
            return False
        from scrapy_urlnorm.learning.rules import says  # most sites are never mined

        site, before = found.site, {rule.identity: rule for rule in self.active(found.site)}
        needed = self.quarantined(site)
        kept = [rule for rule in found.rules if (rule.support or 0) >= needed.get(rule.identity, 0)]
        active = {rule.identity: rule for rule in kept[:MAX_ACTIVE]}
        came = [rule for name, rule in active.items() if name not in before]
        self._came |= dict.fromkeys((rule.identity for rule in came), len(self.pages))
        gone, is_moving = [], bool(self.names.units(site).different)
        for name, rule in before.items():
            if name in active:
                continue
            if any(says(other, rule) for other in active.values()):
                gone.append(self._take_out(rule, _SUBSUMED))
            elif found.error or not is_moving:  # else a name may be wrong: audits decide
                note = found.error or "the pages that arrived contradict it"
                gone.append(self._take_out(rule, note))
        self._known[site] |= active
        if self._learn_binary(found.on_files) or came or gone:
            self._settle(site, came, gone)
        else:  # with the evidence that they have now
            self._apply(site)
            self._write(active.values())
        for rule in self.keys.rules(site):
            reason = self._reason(rule, is_binary=False)
            self.audits.covered(reason, found.shown.get(rule.identity, ()))
        if is_moving:
            self.on_undecided(site, found.in_doubt)
        return bool(came)

    def _settle(
        self, site: str, came: Sequence[SiteRule], gone: Sequence[SiteRule], by: str = ""
    ) -> None:
        """Have what came and went act on *site*, write it down, and tell everybody.

        It acts first: what cannot be written down is missed by the next run only.
        """
        from scrapy_urlnorm.learning.rules import has_grown

        grown: list[SiteRule] = []
        refused = self._apply(site)
        self.on_change(site)
        for rule in gone:
            longer = next((each for each in came if has_grown(each, rule)), None)
            if longer and rule.note == _SUBSUMED:  # and it was not found to be wrong
                self.audits.pass_on(rule, longer)
                grown += (rule, longer)
            for is_binary in (False, True):
                self.audits.forget(Reason(rule, 0, is_binary).key)
            if rule.identity not in self._of(rule):
                self._delete(rule)
        kept = [rule for rule in gone if rule.identity in self._of(rule)]
        self._write([*self.active(site), *kept])
        for rule in gone:
            if rule in grown:
                self.frontier.count("learned/grown")  # it is still there, for more values
            elif rule.note == _SUBSUMED:
                self._say("Subsumed", rule, "learned/subsumed")
            else:
                self._say(f"Retracted{by}", rule, "learned/retracted")
        for rule in came:
            if rule not in refused and rule not in grown:
                self._say(f"Learned{by}", rule, "learned/shared" if by else "learned/rules")
        self._exchange.tell([*came, *kept])
        self._file.changed(self.rules)

    def _take_out(self, rule: SiteRule, note: str) -> SiteRule:
        """Return an active rule as one that is not; it stays known if it was ever contradicted."""
        conflicts, known = self._contradictions[rule.identity], self._of(rule)
        rejected = rule.replace(status="rejected", note=note)
        if conflicts:
            known[rule.identity] = rejected = rejected.replace(conflicts=conflicts)
        else:
            known.pop(rule.identity, None)
        return rejected

    def _learn_binary(self, found: Mapping[str, OnFiles]) -> bool:
        """Take note of what binary pages say. Return whether a rule suppresses less than before."""
        is_narrower = False
        for name, (agree, differ, is_alone) in found.items():
            before = self._binary.get(name, _NOTHING)
            is_narrower |= bool(differ and not before.differ) or is_alone > before.is_alone
            self._binary[name] = _Binary(agree, differ, is_alone, before.is_refuted)
        return is_narrower

    def retract(self, reason: Reason, note: str) -> None:
        """Take a rule out of force that is contradicted, perhaps for binary pages alone."""
        name, site = reason.rule.identity, domain_of(reason.rule.site)
        known = self._known[site].get(name)
        if known is None or not self._is_active(known):
            return
        if reason.is_binary:
            self._binary[name] = self._of_binary(known)._replace(is_refuted=True)
            self.on_change(site)
            self.audits.forget(reason.key)
            self._write([known])
            self._say("Retracted for files", known.replace(status="rejected", note=note))
            return
        self._settle(site, [], [self._quarantine(known, note)])
        self.evidence.mine_again(site)

    def contradicted(self, reasons: Collection[Reason], note: str) -> None:
        """Take note that an audit has found *reasons* to be wrong together.

        The one with least support goes. The others have to be tested again, each kind; so have rules
        about the same slots, the first, second, fourth, eighth ... time.
        """
        wrong = self.audits.weakest(reasons)
        if isinstance(wrong.rule, Pattern):
            self.aliases.reject(wrong.rule, note)
            return
        slots = wrong.rule.operation.slots
        for other in self.reasons(domain_of(wrong.rule.site)):
            if other.key == wrong.key:
                continue
            is_due = other in reasons
            if not isinstance(other.rule, Pattern) and slots & other.rule.operation.slots:
                self._near[other.key] += 1
                is_due |= self._near[other.key].bit_count() == 1
            if is_due:
                self.audits.doubt(other)
        self.retract(wrong, note)

    def _quarantine(self, rule: SiteRule, note: str) -> SiteRule:
        before = self._contradictions[rule.identity] or rule.conflicts or 0
        self._contradictions[rule.identity] = before + 1
        rejected, retracted = self._take_out(rule, note), self._retracted(rule.site)
        for old in retracted[: max(0, len(retracted) - MAX_RETRACTED)]:
            del self._of(old)[old.identity], self._contradictions[old.identity]
            self._delete(old)
        return rejected

    def _retracted(self, site: str) -> list[SiteRule]:
        rules = self._known[domain_of(site)].values()
        return [rule for rule in rules if rule.status == "rejected"]

    def sync(self, *, at_once: bool = False) -> None:
        """Take over, every few seconds, the rules that other crawlers learned; tell them of ours.

        A rule that one of us retracted stays retracted.
        """
        if self._is_stopped:
            return
        changes: defaultdict[str, tuple[list[SiteRule], list[SiteRule]]]
        changes = defaultdict(lambda: ([], []))
        for rule in self._exchange.news(at_once=at_once):
            site, name, known = domain_of(rule.site), rule.identity, self._of(rule)
            before = known.get(name)
            was_active = before is not None and before.active
            if before is not None and before.status == "rejected":
                continue
            if not rule.active and (before or len(self._retracted(site)) < MAX_RETRACTED):
                known[name], self._contradictions[name] = rule, rule.conflicts or 1
                if was_active:
                    changes[site][1].append(rule)
                self._write([rule])
            elif self._is_active(rule) and not was_active and len(self.active(site)) < MAX_ACTIVE:
                known[name] = rule
                changes[site][0].append(rule)
        for site, (came, gone) in changes.items():
            self._settle(site, came, gone, " by another crawler")

    def _say(self, what: str, rule: SiteRule, stat: str | None = None) -> None:
        if stat is not None:
            self.frontier.count(stat)
        said = placeholders([sentence_of(rule).removesuffix(".")])[0]
        arguments = {"what": what, "site": rule.site, "rule": said, "why": why(rule)}
        message = "%(what)s on %(site)s: %(rule)s (%(why)s)"
        logger.info(message, arguments, extra=self.frontier.extra)

    def _apply(self, site: str) -> list[SiteRule]:
        """Put the active rules of *site* in force; return those that do not go with the rest.

        A rule that no site may have goes before one that does not go with the others: another
        client of the store may have written it.
        """
        refused: list[SiteRule] = []
        while not self._is_stopped:
            rules = self.active(site)
            try:
                self.keys.replace(site, rules)
            except SiteRuleError as error:
                wrong = next((r for r in rules if not self.keys.accepts(site, r)), rules[-1])
                self._write([self._quarantine(wrong, str(error))])
                refused.append(wrong)
                logger.info("A learned rule is not applied: %(error)s", {"error": error})
            else:
                break
        return refused

    def stop(self) -> None:
        """Take all rules out of force for good: something is wrong, and nobody knows with which."""
        self._is_stopped = True
        for site in self.keys.sites():
            self.keys.replace(site, ())

    # --- where they are kept ----------------------------------------------------------------

    def _write(self, rules: Iterable[SiteRule]) -> None:
        for rule in rules:
            said = json.dumps(rule.as_dict())
            binary = json.dumps(self._of_binary(rule))
            self.database.write(
                "INSERT INTO rule (identity, site, status, rule, binary) VALUES (?, ?, ?, ?, ?) ON"
                " CONFLICT (identity) DO UPDATE SET status = excluded.status, rule = excluded.rule,"
                " binary = excluded.binary",
                *(rule.identity, rule.site, rule.status, said, binary),
            )

    def _delete(self, rule: SiteRule) -> None:
        self.database.write("DELETE FROM rule WHERE identity = ?", rule.identity)
        self._binary.pop(rule.identity, None)

    def save(self) -> None:
        self._file.save(self.rules)
