"""The rules of one host, each found by a slot or by a slot's value that it needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy_urlnorm.site_rules.context import Among, Has, Is, No
from scrapy_urlnorm.site_rules.form import Form, is_bare, is_param

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from scrapy_urlnorm.site_rules.paths import Pair
    from scrapy_urlnorm.site_rules.rule import SiteRule
    from scrapy_urlnorm.url import Url


class HostRules:
    """The rules of one host, each found by a slot or by a slot's value that it needs.

    ``options`` are those of the catalogue that the host has for itself.
    """

    __slots__ = (
        "_always",
        "_built",
        "_by_last",
        "_by_pair",
        "_by_slot",
        "_named",
        "_ranks",
        "options",
        "rules",
    )

    def __init__(self, rules: Iterable[SiteRule], options: Mapping[str, object]) -> None:
        self.rules = sorted(rules, key=lambda rule: rule.order)
        self.options = options
        self._built = False

    def _build(self) -> None:
        """Index the rules, once the first URL of the host comes by: most hosts never do."""
        # The ranks of the rules are their places in `rules`.
        self._ranks: list[int] = []
        self._always: list[SiteRule] = []
        self._by_pair: dict[Pair, list[int]] = {}
        self._by_slot: dict[str, list[int]] = {}
        self._by_last: dict[str, list[int]] = {}
        named: set[str] = set()
        for rank, rule in enumerate(self.rules):
            slots, pair = _needs(rule)
            for slot in slots:
                self._by_slot.setdefault(slot, []).append(rank)
            if pair is not None and pair[0] == "s-1":
                self._by_last.setdefault(pair[1], []).append(rank)
            elif pair is not None:
                self._by_pair.setdefault(pair, []).append(rank)
            elif not slots:
                self._ranks.append(rank)
                self._always.append(rule)
            named.update(_named_params(rule))
        self._named = frozenset(name for name in named if is_bare(name, ""))
        self._built = True

    def form(self, url: Url) -> Form:
        """Take a URL of the host apart."""
        if not self._built:
            self._build()
        return Form(url, self._named)

    def candidates(self, form: Form) -> Iterable[SiteRule]:
        """Return the rules that may act on a fresh *form*, in the order of application."""
        by_pair, by_slot = self._by_pair, self._by_slot
        found = []
        for pair in form.slots.items():
            if pair[0] in by_slot:
                found += by_slot[pair[0]]
            if pair in by_pair:
                found += by_pair[pair]
        if self._by_last:
            found += self._by_last.get(form.last_segment() or "", ())
        if not found:
            return self._always
        ranks = {*found, *self._ranks}
        rules = self.rules
        return [rules[rank] for rank in sorted(ranks)]


def _needs(rule: SiteRule) -> tuple[Sequence[str], Pair | None]:
    """Return slots of which a URL needs one, or a slot with a value that it needs.

    A value is better: hundreds of rules of a site may be about one parameter.
    """
    operation, context = rule.operation, rule.context
    pairs = [*operation.pairs(), *(pair for condition in context for pair in condition.pairs())]
    known = [pair for pair in pairs if pair[0] == "s-1" or pair[0][:2] != "s-"]
    rare = [pair for pair in known if pair[0] not in ("slash", "scheme", "host")]
    if known:
        return (), (rare or known)[-1]
    slots = operation.any_of()
    if not slots:
        named = [each.slot for each in context if isinstance(each, (Has, Is))]
        slots = tuple(slot for slot in named if is_param(slot))[:1]
    return slots, None


def _named_params(rule: SiteRule) -> Iterator[str]:
    slots = [*rule.operation.slots]
    slots += [each.slot for each in rule.context if isinstance(each, (Has, No, Is, Among))]
    return (slot[2:] for slot in slots if slot[:2] == "q:")
