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
import logging
from contextlib import suppress
from hashlib import blake2b
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple

from scrapy_urlnorm.crawl.components import domain_of
from scrapy_urlnorm.crawl.online.summary import why
from scrapy_urlnorm.crawl.online.tables import Reason
from scrapy_urlnorm.crawl.settings import LEARNED_PATH
from scrapy_urlnorm.exceptions import SiteRuleError
from scrapy_urlnorm.learning.in_force import has_longer_table, says
from scrapy_urlnorm.learning.on_files import FILES_ALONE, OnFiles
from scrapy_urlnorm.report.filtered import rule_in_words
from scrapy_urlnorm.site_rules import save_site_rules
from scrapy_urlnorm.site_rules.rule import rule_from_dict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
    from pathlib import Path

    from scrapy_urlnorm.crawl.online.audits import Audits
    from scrapy_urlnorm.crawl.online.keys import ClusterKeys
    from scrapy_urlnorm.crawl.online.sharing import RuleExchange
    from scrapy_urlnorm.crawl.online.tables import Page
    from scrapy_urlnorm.learning.worker import Mined
    from scrapy_urlnorm.site_rules import SiteRule
    from scrapy_urlnorm.stores.sqlite import Database

logger = logging.getLogger(__name__)

_TABLES = """
CREATE TABLE IF NOT EXISTS rule (
  identity TEXT PRIMARY KEY, site TEXT NOT NULL, status TEXT NOT NULL, rule TEXT NOT NULL,
  binary TEXT NOT NULL DEFAULT '[0, 0, false, false]', agreed INTEGER NOT NULL DEFAULT 0);
CREATE TABLE IF NOT EXISTS exported (digest BLOB NOT NULL);
"""
#: Active rules of one site, and retracted rules remembered for it.
MAX_ACTIVE, MAX_RETRACTED = 64, 256
#: Witnesses that a retracted rule needs for each contradiction before it is believed again.
WITNESSES_A_CONFLICT = 50
#: How often learned rules are written to their file at most, unless they are few.
SAVE_SECONDS = 30.0


class _Binary(NamedTuple):
    """What binary pages say of a rule: as `OnFiles`, and whether an audit of one has differed."""

    agree: int = 0
    differ: int = 0
    is_alone: bool = False
    is_refuted: bool = False


class RuleRegistry:
    """Moves rules from one state to the next, and tells keys, audits, file, crawlers, and log.

    *contents* says whether rules that contents taught may be active. *on_change* is called with a
    site whose rules have changed, *on_retracted* with one of which a rule was retracted, and
    *on_doubted* with one of which pages seem to contradict a rule and change by themselves
    (*is_restless*). *pages* are those that arrived. *count* adds one to a statistic, *extra* is for the logger.
    """

    def __init__(
        self,
        database: Database,
        keys: ClusterKeys,
        audits: Audits,
        exchange: RuleExchange,
        path: Path | None,
        *,
        contents: bool,
        on_change: Callable[[str], None],
        on_retracted: Callable[[str], None],
        on_doubted: Callable[[str], None],
        is_restless: Callable[[str], bool],
        pages: Sized,
        count: Callable[[str], None],
        extra: Mapping[str, Any],
    ) -> None:
        self._database = database
        self._keys = keys
        self._audits = audits
        self._exchange = exchange
        self._path = path
        self._contents = contents
        self._on_change = on_change
        self._on_retracted = on_retracted
        self._on_doubted = on_doubted
        self._is_restless = is_restless
        self._pages = pages
        self._count = count
        self._extra = extra
        self._active: dict[str, dict[str, SiteRule]] = {}  # by site and identity
        self._retracted: dict[str, dict[str, SiteRule]] = {}
        self._others: list[SiteRule] = []  # proposed, or of a source that is not believed now
        self._binary: dict[str, _Binary] = {}
        self._unsaved = self._in_file = 0
        self._saved_at = monotonic()
        self._is_stopped = False
        self._came: dict[str, int] = {}  # pages there were when a rule came, by its identity
        database.ensure(_TABLES)

    def begin(self, of_file: Iterable[SiteRule]) -> None:
        """Put the rules of an earlier run in force, or those *of_file*, if a person changed it.

        What was retracted stays so, unless the file says otherwise.
        """
        known = self._read()
        is_of_file = not known or not self._is_file_as_written()
        if is_of_file:
            new = None, _Binary()
            kept = {r.identity: (r, known.get(r.identity, new)[1]) for r in of_file}
            for rule, _ in known.values():
                if rule.active and rule.identity not in kept:
                    self._delete(rule)
            known = {name: each for name, each in known.items() if not each[0].active} | kept
        for rule, binary in known.values():
            self._binary[rule.identity] = binary
            if rule.status == "proposed" or not self._is_ours(rule):
                self._others.append(rule)
                continue
            table = self._active if rule.active else self._retracted
            table.setdefault(domain_of(rule.site), {})[rule.identity] = rule
        if is_of_file:  # the next run reads the database alone, until a person changes the file
            self._write(rule for rule, _ in known.values())
            self._note_file()
        for site in self._active:
            self._apply(site)

    def _read(self) -> dict[str, tuple[SiteRule, _Binary]]:
        """Return the rules in the database. What stood behind one that cannot be read is sent."""
        known = {}
        for name, rule, binary in self._database.read("SELECT identity, rule, binary FROM rule"):
            with suppress(SiteRuleError, ValueError, TypeError):
                known[name] = rule_from_dict(json.loads(rule)), _Binary(*json.loads(binary))
        return known

    # --- what is known ----------------------------------------------------------------------

    @property
    def rules(self) -> tuple[SiteRule, ...]:
        """Everything worth keeping for the next crawl, in a fixed order."""
        found = {rule.identity: rule for rule in self._others}
        for table in (*self._retracted.values(), *self._active.values()):
            found |= table  # one that was retracted and is believed again is active
        return tuple(sorted(found.values(), key=lambda rule: (rule.site, rule.order)))

    def active(self, site: str) -> tuple[SiteRule, ...]:
        """Return the active rules of *site*, a registrable domain."""
        return tuple(self._active.get(site, {}).values())

    def quarantined(self, site: str) -> dict[str, int]:
        """Return how many witnesses each retracted rule of *site* needs, by identity."""
        retracted = self._retracted.get(site, {})
        return {name: _needed(rule) for name, rule in retracted.items()}

    def newest(self, since: float) -> set[str]:
        """Return, in words, the active rules that came when there were more pages than *since*."""
        came = {name for name, pages in self._came.items() if pages > since}
        rules = (rule for table in self._active.values() for rule in table.values())
        return {rule_in_words(rule) for rule in rules if rule.identity in came}

    def support_in_words(self) -> dict[str, int]:
        """Return how many witnesses the active rules have, by the rules in words."""
        rules = (rule for table in self._active.values() for rule in table.values())
        return {rule_in_words(rule): rule.support or 0 for rule in rules}

    def __len__(self) -> int:
        """Return how many rules are active."""
        return sum(map(len, self._active.values()))

    def reasons(self, site: str | None = None) -> Iterator[Reason]:
        """Yield the rules in force for *site*, or all, as `Audits` knows them."""
        for name in self._active if site is None else (site,):
            for rule in self._keys.rules(name):
                yield self._reason(rule, is_binary=False)
                yield self._reason(rule, is_binary=True)

    def between(self, url: str, page: Page) -> tuple[Reason, ...]:
        """Return the rules that suppress a request for *url* behind *page*; () if one may not."""
        rules = self._keys.between(url, page.url)
        for rule in rules:
            binary = self._binary.get(rule.identity, _Binary())
            if page.is_binary and (binary.is_refuted or binary.differ):
                return ()
            if not page.is_binary and (binary.is_alone or rule.note == FILES_ALONE):
                return ()
        return tuple(self._reason(rule, is_binary=page.is_binary) for rule in rules)

    def _reason(self, rule: SiteRule, *, is_binary: bool) -> Reason:
        binary = self._binary.get(rule.identity, _Binary())
        return Reason(rule, binary.agree if is_binary else rule.support or 0, is_binary)

    # --- changes ----------------------------------------------------------------------------

    def mined(self, found: Mined) -> bool:
        """Make active what mining found, in place of the rules before; return if any is new.

        A miner that failed leaves no rule standing: nobody has tested them. Other crawlers are not
        told of a rule that went: they have pages of their own.
        """
        if self._is_stopped:
            return False
        site, before = found.site, self._active.get(found.site, {})
        needed = self.quarantined(site)
        kept = [rule for rule in found.rules if (rule.support or 0) >= needed.get(rule.identity, 0)]
        active = self._active[site] = {rule.identity: rule for rule in kept[:MAX_ACTIVE]}
        came = [rule for name, rule in active.items() if name not in before]
        self._came |= dict.fromkeys((rule.identity for rule in came), len(self._pages))
        gone, subsumed = [], []
        is_doubted = False
        for name, rule in before.items():
            if name in active:
                continue
            if any(says(other, rule) for other in active.values()):
                note = "a wider rule takes its place"
                subsumed.append(rule.replace(status="rejected", note=note))
            else:
                if not found.error and self._is_restless(site):
                    active[name] = rule  # a name may be wrong: pages that are fetched again decide
                    is_doubted = True
                    continue
                note = found.error or "the pages that arrived contradict it"
                gone.append(rule.replace(status="rejected", note=note))
        if self._learn_binary(found.on_files) or came or gone or subsumed:
            refused = self._act_on({site})
        else:
            refused = self._apply(site)  # with the evidence that they have now
        for rule in (*gone, *subsumed):
            if longer := next((each for each in came if has_longer_table(each, rule)), None):
                self._audits.pass_on(rule, longer)
        self._write(active.values())
        self._go(gone, "Retracted", "learned/retracted")
        self._go(subsumed, "Subsumed", "learned/subsumed")
        if came or gone or subsumed:
            self._say([r for r in came if r not in refused], "Learned", "learned/rules")
            self._changed(came, len(came) + len(gone) + len(subsumed))
        for rule in self._keys.rules(site):
            reason = self._reason(rule, is_binary=False)
            self._audits.covered(reason, found.shown.get(rule.identity, ()))
        if is_doubted:
            self._on_doubted(site)
        return bool(came)

    def _learn_binary(self, found: Mapping[str, OnFiles]) -> bool:
        """Take note of what binary pages say. Return whether a rule suppresses less than before."""
        is_narrower = False
        for name, (agree, differ, is_alone) in found.items():
            before = self._binary.get(name, _Binary())
            is_narrower |= bool(differ and not before.differ) or is_alone > before.is_alone
            self._binary[name] = _Binary(agree, differ, is_alone, before.is_refuted)
        return is_narrower

    def retract(self, reason: Reason, note: str) -> None:
        """Take a rule out of force that is contradicted, perhaps for binary pages alone."""
        name, site = reason.rule.identity, domain_of(reason.rule.site)
        known = self._active.get(site, {}).get(name)
        if known is None:
            return
        if reason.is_binary:
            self._binary[name] = self._binary.get(name, _Binary())._replace(is_refuted=True)
            self._on_change(site)
            self._audits.forget(reason.key)
            self._write([known])
            self._say([known.replace(status="rejected", note=note)], "Retracted for files")
            return
        del self._active[site][name]
        self._act_on({site})
        rejected = self._quarantine(known, note)
        self._go([rejected], "Retracted", "learned/retracted")
        self._changed([rejected], 1)
        self._on_retracted(site)

    def _quarantine(self, rule: SiteRule, note: str) -> SiteRule:
        table = self._retracted.setdefault(domain_of(rule.site), {})
        conflicts = (table.pop(rule.identity, rule).conflicts or 0) + 1
        rejected = rule.replace(status="rejected", conflicts=conflicts, note=note)
        table[rule.identity] = rejected
        if len(table) > MAX_RETRACTED:
            self._delete(table.pop(next(iter(table))))
        self._write([rejected])
        return rejected

    def sync(self, *, at_once: bool = False) -> None:
        """Take over, every few seconds, the rules that other crawlers learned; tell them of ours.

        A rule that one of us retracted stays retracted.
        """
        if self._is_stopped:
            return
        came, gone = [], []
        for rule in self._exchange.news(at_once=at_once):
            site, name = domain_of(rule.site), rule.identity
            active, retracted = (t.setdefault(site, {}) for t in (self._active, self._retracted))
            if not rule.active:
                if name not in retracted and len(retracted) < MAX_RETRACTED:
                    retracted[name] = rule
                    self._write([rule])
                if active.pop(name, None) is not None:
                    gone.append(rule)
            elif (
                name not in active | retracted and len(active) < MAX_ACTIVE and self._is_ours(rule)
            ):
                active[name] = rule
                came.append(rule)
        if came or gone:
            refused = self._act_on({domain_of(rule.site) for rule in (*came, *gone)})
            self._write(came)
            self._go(gone, "Retracted by another crawler", "learned/retracted")
            taken = [rule for rule in came if rule not in refused]
            self._say(taken, "Learned by another crawler", "learned/shared")
            self._changed([*came, *gone], len(came) + len(gone))

    def _is_ours(self, rule: SiteRule) -> bool:
        """Whether rules of this source are believed in this crawl."""
        return self._contents or rule.source != "content"

    def _act_on(self, sites: Iterable[str]) -> list[SiteRule]:
        """Have what is active now act on *sites*; return the rules that do not go with the rest.

        That comes first: what cannot be written down is missed by the next run only.
        """
        refused: list[SiteRule] = []
        for site in sites:
            refused += self._apply(site)
            self._on_change(site)
        return refused

    def _go(self, rules: list[SiteRule], what: str, stat: str) -> None:
        """Have audits and database forget *rules*, which are in force no longer."""
        for rule in rules:
            self._audits.forget(rule.identity)
            self._audits.forget(Reason(rule, 0, is_binary=True).key)
            retracted = self._retracted.get(domain_of(rule.site), {}).get(rule.identity)
            if retracted is None:
                self._delete(rule)
            else:  # it may have been believed again
                self._write([retracted])
        self._say(rules, what, stat)

    def _say(self, rules: Iterable[SiteRule], what: str, stat: str | None = None) -> None:
        for rule in rules:
            if stat is not None:
                self._count(stat)
            arguments = {"what": what, "rule": rule, "why": why(rule)}
            logger.info("%(what)s: %(rule)s (%(why)s)", arguments, extra=self._extra)

    def _apply(self, site: str) -> list[SiteRule]:
        """Put the active rules of *site* in force; return those that do not go with the rest.

        A rule that no site may have goes before one that does not go with the others: another
        client of the store may have written it.
        """
        refused: list[SiteRule] = []
        while not self._is_stopped:
            rules = self.active(site)
            try:
                self._keys.replace(site, rules)
            except SiteRuleError as error:
                wrong = next((r for r in rules if not self._keys.accepts(site, r)), rules[-1])
                del self._active[site][wrong.identity]
                self._quarantine(wrong, str(error))
                refused.append(wrong)
                logger.info("A learned rule is not applied: %(error)s", {"error": error})
            else:
                break
        return refused

    def stop(self) -> None:
        """Take all rules out of force for good: something is wrong, and nobody knows with which."""
        self._is_stopped = True
        for site in self._keys.sites():
            self._keys.replace(site, ())

    # --- where they are kept ----------------------------------------------------------------

    def _write(self, rules: Iterable[SiteRule]) -> None:
        for rule in rules:
            said = json.dumps(rule.as_dict())
            binary = json.dumps(self._binary.get(rule.identity, _Binary()))
            self._database.write(
                "INSERT INTO rule (identity, site, status, rule, binary) VALUES (?, ?, ?, ?, ?) ON"
                " CONFLICT (identity) DO UPDATE SET status = excluded.status, rule = excluded.rule,"
                " binary = excluded.binary",
                *(rule.identity, rule.site, rule.status, said, binary),
            )

    def _delete(self, rule: SiteRule) -> None:
        self._database.write("DELETE FROM rule WHERE identity = ?", rule.identity)
        self._binary.pop(rule.identity, None)

    def _changed(self, tell: Iterable[SiteRule], number: int) -> None:
        """Tell the other crawlers, and write the file if much has changed."""
        self._exchange.tell(tell)
        self._unsaved += number
        if self._unsaved * 8 >= self._in_file or monotonic() - self._saved_at > SAVE_SECONDS:
            self.save()

    def save(self) -> None:
        """Write the rules to their file, if there are any."""
        rules = self.rules
        self._unsaved, self._in_file, self._saved_at = 0, len(rules), monotonic()
        if self._path is None or not (rules or self._path.exists()):
            return
        try:
            save_site_rules(self._path, rules)
        except OSError as error:
            logger.error(
                "Learned rules cannot be written to %(setting)s = %(path)s: %(error)s",
                {"setting": LEARNED_PATH, "path": str(self._path), "error": error},
                extra=self._extra,
            )
        else:
            self._note_file()

    def _note_file(self) -> None:
        self._database.write("DELETE FROM exported")
        self._database.write("INSERT INTO exported VALUES (?)", self._file_digest())

    def _is_file_as_written(self) -> bool:
        """Whether no person has changed the file; a rule may be here though it has no file."""
        rows = self._database.read("SELECT digest FROM exported")
        return self._path is None or self._file_digest() == (rows[0][0] if rows else b"")

    def _file_digest(self) -> bytes:
        if self._path is None or not self._path.exists():
            return b""
        return blake2b(self._path.read_bytes(), digest_size=16).digest()


def _needed(rule: SiteRule) -> int:
    return WITNESSES_A_CONFLICT * (rule.conflicts or 1)
