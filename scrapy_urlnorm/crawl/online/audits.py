"""Audits: how many of the requests that a rule suppresses are sent all the same, to test it.

A rule with W witnesses that agree, of an operation that is right with prior probability p, merges
wrongly about k / W^2 of the requests that it suppresses, with k = (1 - p) / p (the spike and slab
of `scrapy_urlnorm.learning.risk`). It suppresses M requests. If a lost page costs as much as C
fetches, then the total cost with a audits is a + C k M / (W + a)^2 fetches. It is least where
W + a = (2 C k M)^(1/3). So the number of audits grows with the cube root of M.

Witnesses from one part of a site say little about the others. So the first request of each kind
(`strata`) is an audit too, whatever its rules have proved, and so is one request at each doubling
of M.

What was tested, what agreed and which audits are in flight stands in the database of the crawl: a
kill in the middle of an audit leaves its kind untested.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from math import log2
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

from scrapy_urlnorm.crawl.online.keys import Keys
from scrapy_urlnorm.crawl.online.tables import Match, Page, Reason
from scrapy_urlnorm.crawl.requests import site_of
from scrapy_urlnorm.learning.aliases import Pattern
from scrapy_urlnorm.logs.differences import family_of
from scrapy_urlnorm.report.filtered import rule_in_words
from scrapy_urlnorm.stores.sqlite import from_json

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from scrapy_urlnorm.crawl.online.yields import Other
    from scrapy_urlnorm.crawl.requests import Asked
    from scrapy_urlnorm.learning.strata import Place
    from scrapy_urlnorm.site_rules import SiteRule
    from scrapy_urlnorm.stores.sqlite import Database

_TABLES = """
CREATE TABLE IF NOT EXISTS audited_rule (
  id INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT NOT NULL UNIQUE, support INTEGER NOT NULL,
  proved INTEGER NOT NULL, held INTEGER NOT NULL, agreed INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS tested (
  rule INTEGER NOT NULL, what TEXT NOT NULL, value INTEGER NOT NULL,
  PRIMARY KEY (rule, what, value)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS audit (
  fingerprint BLOB PRIMARY KEY, url TEXT NOT NULL, representative BLOB NOT NULL,
  reasons TEXT NOT NULL) WITHOUT ROWID;
"""
#: What a lost page costs, in fetches: C of the law.
COST_OF_A_LOSS = 20
#: How likely it is right, in a crawl, that one value of a parameter means another (a choice).
_EXCHANGE = 0.1
#: Contents remembered for a rule. The law asks for 67 where a rule suppresses 5,000 requests.
_MAX_VOTES = 500
#: What is remembered of a rule: kinds that were tested, contents that agreed (each has one vote),
#: and contents of which an audit was sent.
_KINDS, _AGREED, _ASKED = "kinds", "agreed contents", "asked contents"
#: Families of URLs of which a page was compared as a whole, and agreed.
_PROVED = "proved families"
#: A rule that was proved on so many families is proved on the others as well.
_TRUSTED = 3
#: One audit in so many is compared as a whole all the same. That what differs moves on nearly all
#: pages that were fetched again does not say that it moves on this one.
_WHOLE = 4


class Audit(NamedTuple):
    """A request that could be suppressed and is sent all the same, to test the rules."""

    match: Match
    url: str
    request: object = None  #: its handle; ``None`` while it waits in the queue
    needs_proof: bool = False  #: whether it is compared as a whole, whatever its kind
    is_drawn: bool = False  #: whether a bound rests on it: it is decided whatever that takes
    veto: Other | None = None  #: what the spider got of one page alone; it counts as layout does

    @property
    def slots(self) -> tuple[str, ...]:
        """What one rule changes; () where several may have made two URLs one."""
        rule, *others = (reason.rule for reason in self.match.rules)
        return () if others or isinstance(rule, Pattern) else tuple(rule.operation.slots)


class _Record:
    """How many requests one rule would suppress, and how its audits ended."""

    def __init__(self, reason: Reason, database: Database) -> None:
        rule, self._database = reason.rule, database
        self.about = () if isinstance(rule, Pattern) else tuple(sorted(rule.operation.slots))
        likely = _prior(rule)
        self._doubt = (1 - likely) / likely  # k of the law
        self._rate: float = getattr(rule, "audit_rate", 0.0)  # the least share to audit
        database.write(
            "INSERT OR IGNORE INTO audited_rule (key, support, proved, held, agreed)"
            " VALUES (?, ?, ?, 0, 0)",
            *(reason.key, reason.support, reason.support),
        )
        select = "SELECT id, support, proved, held, agreed FROM audited_rule WHERE key = ?"
        row: tuple[int, ...] = database.read(select, reason.key)[0]
        #: Support when the rule came into force, support that was told last, requests that it would
        #: suppress (audits included: M of the law), and audits that agreed.
        self.number, self._support, self.proved, self.held, self.agreed = row
        self._seen: defaultdict[str, set[int]] = defaultdict(set)
        select = "SELECT what, value FROM tested WHERE rule = ?"
        for what, value in database.read(select, self.number):
            self._seen[what].add(value)

    def write(self) -> None:
        update = "UPDATE audited_rule SET proved = ?, held = ?, agreed = ? WHERE id = ?"
        self._database.write(update, self.proved, self.held, self.agreed, self.number)

    def add(self, what: str, value: int, most: int = _MAX_VOTES) -> bool:
        """Remember a value. Return whether it is new; not so beyond *most* of a kind."""
        if value in self._seen[what] or len(self._seen[what]) >= most:
            return False
        self._seen[what].add(value)
        self._database.write("INSERT INTO tested VALUES (?, ?, ?)", self.number, what, value)
        return True

    def add_kind(self, where: Place) -> bool:
        from scrapy_urlnorm.learning.strata import MAX_KINDS

        kinds = where.kinds(self.about, self._tells)
        return sum(self.add(_KINDS, kind, MAX_KINDS) for kind in kinds) > 0

    def is_proved(self, family: str) -> bool:
        proved = self._seen[_PROVED]
        return len(proved) >= _TRUSTED or _number(family) in proved

    def _tells(self, slot: str, word: int) -> bool:
        from scrapy_urlnorm.learning.strata import most_words

        return word in self._seen[slot] or self.add(slot, word, most_words(slot))

    def discard_kind(self, where: Place) -> None:
        delete = "DELETE FROM tested WHERE rule = ? AND what = ? AND value = ?"
        for kind in where.kinds(self.about, self._tells):
            self._seen[_KINDS].discard(kind)
            self._database.write(delete, self.number, _KINDS, kind)

    def wants(self, content: int, in_flight: int) -> bool:
        """Whether one more audit is needed, and *content* can say something new."""
        if self.agreed + in_flight < self._least:
            return True
        return self.witnesses + in_flight < self._wanted and content not in self._seen[_ASKED]

    def misses_any(self, in_flight: int) -> bool:
        audits, witnesses = self.agreed + in_flight, self.witnesses + in_flight
        return self.held > 0 and (audits < self._least or witnesses < self._wanted)

    @property
    def witnesses(self) -> int:
        """The contents that speak for the rule: those of the miner, or more by audits."""
        return max(self.proved, self._support + len(self._seen[_AGREED]))

    @property
    def _wanted(self) -> float:
        """W + a of the law."""
        return float((2 * COST_OF_A_LOSS * self._doubt * self.held) ** (1 / 3))

    @property
    def _least(self) -> float:
        """The audits that it needs whatever its witnesses are."""
        return max(1.0, log2(1 + self.held) - 1, self._rate * self.held)


class Audits:
    """Decides which requests are sent as audits, and remembers how they ended.

    *normalize* makes of a URL what the settings say, without learned rules.
    """

    def __init__(self, database: Database, normalize: Callable[[str], str] = str) -> None:
        database.ensure(_TABLES)
        self._database = database
        self._normalize = normalize
        self._records: dict[str, _Record] = {}
        self._in_flight: dict[bytes, Audit] = {}  # by fingerprint
        self._counts: Counter[str] = Counter()  # audits in flight by the keys of their reasons
        self._untested: set[str] = set()  # sites with kinds whose audit ended without a verdict
        #: Rules that want more audits, and that no request they suppress could tell anything new.
        self._exhausted: set[str] = set()
        self.begun = 0  #: audits, by now

    def _place(self, url: str, twin: str) -> Place:
        """Return where a request stands, without what the catalogue takes away in any case."""
        from scrapy_urlnorm.learning.strata import Place

        return Place(self._normalize(url), self._normalize(twin) if twin else "")

    # --- whether to audit -------------------------------------------------------------------

    def is_due(self, match: Match, url: str, counted: Collection[str] = ()) -> bool:
        """Return whether to send a request that would be suppressed as an audit.

        It is counted for each of its rules, except those that *counted* it when it was held.
        """
        where, found = self._place(url, match.page.url), False
        content = _number(match.page.vote)
        for reason in match.rules:
            record = self._record(reason)
            if not counted or rule_in_words(reason.rule) not in counted:
                self._exhausted.discard(reason.key)
                record.held += 1
                record.write()
            found |= record.add_kind(where)
            found = found or record.wants(content, self._counts[reason.key])
        return found

    def has_outstanding(self, site: str, reasons: Iterable[Reason]) -> bool:
        return site in self._untested or not self._exhausted.issuperset(self._missing(reasons))

    def _missing(self, reasons: Iterable[Reason]) -> Iterator[str]:
        for reason in reasons:
            if self._record(reason).misses_any(self._counts[reason.key]):
                yield reason.key

    def all_tested(self, site: str) -> None:
        self._untested.discard(site)

    def exhausted(self, reasons: Iterable[Reason]) -> None:
        """Take note that no request that is suppressed is due as an audit of any of *reasons*."""
        self._exhausted.update(self._missing(reasons))

    def covered(self, reason: Reason, pairs: Iterable[tuple[str, str]]) -> None:
        """Take note of equal pages that a rule makes one: their kinds have had their test.

        Each of *pairs* are the URLs of a request that the rule would suppress, and of its twin.
        """
        for url, twin in pairs:
            self._record(reason).add_kind(self._place(url, twin))

    # --- in flight --------------------------------------------------------------------------

    def begin(
        self, match: Match, url: str, *, needs_proof: bool = False, is_drawn: bool = False
    ) -> None:
        content = _number(match.page.vote)
        for reason in match.rules:
            self._record(reason).add(_ASKED, content)
        self._put(Audit(match, url, needs_proof=needs_proof, is_drawn=is_drawn))

    def _put(self, audit: Audit) -> None:
        self.begun += 1
        keys = audit.match.keys
        if keys.fingerprint not in self._in_flight:
            self._counts.update(reason.key for reason in audit.match.rules)
        self._in_flight[keys.fingerprint] = audit
        self._database.write(
            "INSERT OR REPLACE INTO audit VALUES (?, ?, ?, ?)",
            *(keys.fingerprint, audit.url, audit.match.page.fingerprint),
            json.dumps([reason.key for reason in audit.match.rules]),
        )

    def get(self, fingerprint: bytes) -> Audit | None:
        return self._in_flight.get(fingerprint)

    def sent(self, audit: Audit, asked: Asked) -> None:
        self._in_flight[audit.match.keys.fingerprint] = audit._replace(request=asked.handle)

    def move(self, audit: Audit, fingerprint: bytes) -> bool:
        """Have an audit go on under another fingerprint, as a redirect leads there.

        Return ``False`` if that one is an audit itself.
        """
        if fingerprint in self._in_flight:
            return False
        self._close(audit)
        keys = audit.match.keys._replace(fingerprint=fingerprint)
        self._put(audit._replace(match=audit.match._replace(keys=keys), request=None))
        return True

    def rules_changed(
        self, site: str, in_force: Collection[str], keys_of: Callable[[str], Keys | None]
    ) -> None:
        self._exhausted.clear()
        for audit in [each for each in self._in_flight.values() if each.match.keys.site == site]:
            match, now = audit.match, keys_of(audit.url)
            if now is None or any(reason.key not in in_force for reason in match.rules):
                self.ended(audit)
            else:
                keys = match.keys._replace(cluster=now.cluster)
                self._put(audit._replace(match=match._replace(keys=keys)))

    def restore(
        self, reasons: Mapping[str, Reason], page_of: Callable[[bytes], Page | None]
    ) -> None:
        """Have the audits that an earlier run began, and that had no verdict, count as not sent.

        What of them still waits in the queue is an audit again when it leaves.
        """
        rows = self._database.read("SELECT url, representative, reasons FROM audit")
        self._database.write("DELETE FROM audit")
        for url, representative, names in rows:
            page = page_of(representative) or Page(representative, "", None, 0)
            known = tuple(reasons[name] for name in from_json(names) if name in reasons)
            for reason in known:
                self._record(reason)
            plain = Keys(site_of(url), b"", b"")
            self.untested(Audit(Match(plain, page, known), url))

    # --- ends -------------------------------------------------------------------------------

    def answered(self, audit: Audit) -> None:
        if self._in_flight.pop(audit.match.keys.fingerprint, None) is not None:
            self._counts.subtract(reason.key for reason in audit.match.rules)

    def is_proved(self, audit: Audit) -> bool:
        """Whether a page like that of *audit* was compared as a whole, and agreed, for each rule."""
        if audit.needs_proof or _number(audit.url) % _WHOLE == 0:
            return False
        family = family_of(audit.url)
        known = (self._records.get(reason.key) for reason in audit.match.rules)
        return all(record is not None and record.is_proved(family) for record in known)

    def proved(self, audit: Audit) -> None:
        for reason in audit.match.rules:
            if (record := self._records.get(reason.key)) is not None:
                record.add(_PROVED, _number(family_of(audit.url)))

    def agreed(self, audit: Audit) -> None:
        self._close(audit)
        for reason in audit.match.rules:
            if (record := self._records.get(reason.key)) is not None:
                record.agreed += 1
                record.write()
                record.add(_AGREED, _number(audit.match.page.vote))
                update = "UPDATE rule SET agreed = agreed + 1 WHERE identity = ?"
                self._database.write(update, reason.key)

    def ended(self, *audits: Audit) -> None:
        """Take note of audits without a verdict that proves anything: they count as not sent."""
        for audit in audits:
            self._close(audit)
            self.untested(audit)

    def end_all(self) -> None:
        self.ended(*self._in_flight.values())

    def untested(self, audit: Audit) -> None:
        """Take note that the kinds of an audit have had no test."""
        self._untested.add(audit.match.keys.site)
        where = self._place(audit.url, audit.match.page.url)
        for reason in audit.match.rules:
            self._exhausted.discard(reason.key)
            if (record := self._records.get(reason.key)) is not None:
                record.discard_kind(where)

    def _close(self, audit: Audit) -> None:
        self.answered(audit)
        fingerprint = audit.match.keys.fingerprint
        self._database.write("DELETE FROM audit WHERE fingerprint = ?", fingerprint)

    # --- rules ------------------------------------------------------------------------------

    def weakest(self, reasons: Collection[Reason]) -> Reason:
        return min(reasons, key=lambda reason: self._record(reason).witnesses)

    def pass_on(self, rule: SiteRule, to: SiteRule) -> None:
        """Let a rule that is new have what is known of one that it takes the place of.

        Where their names differ, what the old one holds is going to be counted for the new one.
        """
        self._records.pop(rule.identity, None)
        held = "held" if rule_in_words(rule) == rule_in_words(to) else "agreed"
        update = f"UPDATE OR IGNORE audited_rule SET key = ?, held = {held} WHERE key = ?"
        self._database.write(update, to.identity, rule.identity)

    def doubt(self, reason: Reason) -> None:
        """Have every kind of a rule tested again: one that goes with it, or beside it, was wrong."""
        self._exhausted.discard(reason.key)
        record = self._record(reason)
        record.agreed = 0
        record.write()
        self._database.write("DELETE FROM tested WHERE rule = ?", record.number)
        del self._records[reason.key]

    def forget(self, key: str) -> None:
        self._exhausted.discard(key)
        self._records.pop(key, None)
        rows = "DELETE FROM tested WHERE rule IN (SELECT id FROM audited_rule WHERE key = ?)"
        self._database.write(rows, key)
        self._database.write("DELETE FROM audited_rule WHERE key = ?", key)

    def _record(self, reason: Reason) -> _Record:
        record = self._records.get(reason.key)
        if record is None:
            record = self._records[reason.key] = _Record(reason, self._database)
        record.proved = max(record.proved, reason.support)
        return record


def _prior(rule: SiteRule | Pattern) -> float:
    if isinstance(rule, Pattern):
        return float(rule.prior)
    from scrapy_urlnorm.learning.priors import exchanges_values, prior

    likely = prior(rule.operation)
    return min(_EXCHANGE, likely) if exchanges_values(rule.operation) else likely


def _number(text: str) -> int:
    return crc32(text.encode("utf-8", "surrogatepass"))
