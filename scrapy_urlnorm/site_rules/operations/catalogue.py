"""The rules of the catalogue as kinds of site rules.

Without a context such a rule is a switch: it changes what the catalogue does for the site. With
one it runs among the other site rules, where the context holds.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from scrapy_urlnorm.exceptions import ConfigError, SiteRuleError
from scrapy_urlnorm.rules import RULES
from scrapy_urlnorm.site_rules.form import Form, Slots, is_param, is_path, path_and_query, segments
from scrapy_urlnorm.site_rules.operation import Operation, Twins, Word
from scrapy_urlnorm.site_rules.operations.values import lowercase_first
from scrapy_urlnorm.url import split

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from scrapy_urlnorm.site_rules.context import Context

#: The rules that learning tries, and which paths each may change.
_LEARNED: dict[str, Callable[[list[str]], bool]] = {
    "lowercase-path": lambda path: any(segment != segment.lower() for segment in path),
    "remove-duplicate-slashes": lambda path: "" in path,
}
_BY_NAME = {rule.name: rule for rule in RULES}
# These rules cannot differ from path to path.
_WHOLE_HOST = ("www", "strip-mobile-host", "remove-host-dot", "normalize-ip-host")


@dataclass(frozen=True)
class CatalogueRule(Operation):
    """The rule ``name`` of the catalogue with an option; ``False`` switches it off."""

    words = tuple(
        Word(name, "the rule of the catalogue, for this site", "option") for name in _BY_NAME
    )

    name: str
    option: Any = field(default=True, hash=False)

    def __post_init__(self) -> None:
        if self.name == "replace-ip-with-domain":
            raise SiteRuleError(
                f"{self.name} is not for one site, since it leaves it; it belongs into the rules "
                "of the normalizer"
            )
        try:
            _ = self._compiled
        except ConfigError as error:
            raise SiteRuleError(f"option of {self.name}: {error}") from None

    @classmethod
    def read(cls, word: str, operands: dict[str, Any]) -> CatalogueRule:
        return cls(word, operands["option"])

    def write(self) -> dict[str, Any]:
        return {"option": self.option}

    @property
    def word(self) -> str:
        return self.name

    @property
    def switch(self) -> object:
        """The option for the catalogue; a file may have ``"keep"`` for ``False``."""
        return False if self.option == "keep" else self.option

    @cached_property
    def _compiled(self) -> tuple[Any, Any]:
        return (False, None) if self.switch is False else _BY_NAME[self.name].compile(self.switch)

    @property
    def canonical_option(self) -> Any:
        """The option as JSON has it, to compare two switches of one site."""
        return self._compiled[0]

    def image(self, slots: Slots) -> Slots | None:
        if self.name in _LEARNED and not _LEARNED[self.name](segments(slots)):
            return None  # learning asks for many URLs, and to write each as text takes long
        url = split(f"http://h{path_and_query(slots)}")._replace(
            scheme=slots["scheme"], host=slots["host"]
        )
        form = self.apply(Form(url))
        kept = {n: text for n, text in slots.items() if not (is_path(n) or is_param(n))}
        return None if form is None else kept | form.slots

    def apply(self, form: Form) -> Form | None:
        before = form.to_url()
        after = _BY_NAME[self.name].apply(before, self._compiled[1])
        return None if after == before else form.of(after)

    def check_context(self, context: Context) -> None:
        if not context:
            return
        if self.name in _WHOLE_HOST:
            raise SiteRuleError(f"{self.name} is for a whole site only: without 'path' and 'when'")
        if self.switch is False:
            raise SiteRuleError(
                f"{self.name} is switched off for a whole site only: without 'path' and 'when'"
            )

    @classmethod
    def between(cls, twins: Twins) -> Iterator[CatalogueRule]:
        if not twins.by_path:
            return
        long, short = twins.long, twins.short
        if list(filter(None, long)) == list(filter(None, short)):
            yield cls("remove-duplicate-slashes")
        lowered = [segment.lower() for segment in long]
        if twins.same_slash and lowered == [segment.lower() for segment in short]:
            made = cls("lowercase-path")
            if made.told_by((twins.one, twins.other)):
                yield made

    def told_by(self, urls: Sequence[Slots]) -> bool:
        """URLs that differ in first letters alone are evidence for the edit lowercase-first."""
        if self.name != "lowercase-path":
            return True
        return len({tuple(map(lowercase_first, segments(slots))) for slots in urls}) > 1

    def sentence(self) -> str:
        what = _BY_NAME[self.name].summary.rstrip(".")
        return f"Not here: {what}" if self.switch is False else what
