"""Doors: one page that asks for a password stands at every URL of a form.

``/newreply.php?tid=7`` shows a visitor the same login page for every thread. All of it is one
content, and so one vote, and a site that is down for a while shows one content too. What tells a
door is that it asks for a password, and that it stands at *every* URL of its form. So it is
believed in a crawl, where other rules of one content are not; it represents no URL but those of
its rule, and the first audit that finds another page opens it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy_urlnorm.learning.slots import slots_of
from scrapy_urlnorm.normalizer import Normalizer

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from scrapy_urlnorm.logs import Observation
    from scrapy_urlnorm.site_rules import SiteRule
    from scrapy_urlnorm.site_rules.form import Slots

#: What the content of a row begins with that asks for a password.
OF_WALL = "wall "
#: The note of a rule for a door.
DOOR = "a door: each of these URLs asks for a password"
_PLAIN = Normalizer("default")


def is_wall(content: str) -> bool:
    """Whether a content asks for a password."""
    return content.startswith(OF_WALL)


def with_doors(rules: Iterable[SiteRule], rows: Sequence[Observation]) -> tuple[SiteRule, ...]:
    """Return *rules*, those with a note that act on URLs of pages that ask for a password alone."""
    rules = tuple(rules)
    if not any(is_wall(row.content or "") for row in rows):
        return rules
    pages = [row for row in rows if row.is_page and row.content]
    known = [(slots_of(_PLAIN.normalize(row.url)), is_wall(row.content or "")) for row in pages]
    return tuple(_with_note(rule, known) for rule in rules)


def _with_note(rule: SiteRule, known: Sequence[tuple[Slots | None, bool]]) -> SiteRule:
    if rule.kind not in ("ignore-value", "drop-param"):
        return rule
    acted = [wall for slots, wall in known if slots and rule.image(slots) is not None]
    if acted and all(acted):
        return rule.replace(note=DOOR)
    return rule.replace(note=None) if rule.note == DOOR else rule
