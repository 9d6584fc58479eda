"""The rules of the catalogue as kinds of site rules.

Without a context such a rule is a switch: it changes what the catalogue does for the site. With
one it runs among the other site rules, where the context holds.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from scrapy_urlnorm.exceptions import ConfigError, SiteRuleError
from scrapy_urlnorm.rules import RULES
from scrapy_urlnorm.site_rules.form import (
    Form,
    Slots,
    is_param,
    is_path,
    path_and_query,
    segments,
)
from scrapy_urlnorm.site_rules.operations.base import Operation
from scrapy_urlnorm.site_rules.operations.edits import lowercase_first
from scrapy_urlnorm.url import split

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from scrapy_urlnorm.site_rules.context import Context
    from scrapy_urlnorm.site_rules.operations.base import Twins

#: The rules that learning tries, and which paths each may change.
_LEARNED: dict[str, Callable[[list[str]], bool]] = {
    "lowercase-path": lambda path: any(segment != segment.lower() for segment in path),
    "remove-duplicate-slashes": lambda path: "" in path,
}
_BY_NAME = {rule.name: rule for rule in RULES}
CATALOGUE_NAMES = tuple(_BY_NAME)
# These rules cannot differ from path to path.
_WHOLE_HOST = ("www", "strip-mobile-host", "remove-host-dot", "normalize-ip-host")
# This rule maps one host onto another without regard to the site, which no site rule may.
_NOT_FOR_SITES = ("replace-ip-with-domain",)


@dataclass(frozen=True)
class CatalogueRule(Operation):
    """The rule ``name`` of the catalogue with an option; ``False`` switches it off."""

    kind = "a rule of the catalogue"
    summary = "the rule of the catalogue, for this site"
    required = ("option",)

    name: str
    option: Any = field(default=True, hash=False)
    #: The option as JSON has it, and as the rule takes it.
    _compiled: tuple[Any, Any] = field(default=(False, None), init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.name in _NOT_FOR_SITES:
            raise SiteRuleError(
                f"{self.name} is not for one site, since it leaves it; it belongs into the rules "
                "of the normalizer"
            )
        if self.switch is False:
            return
        try:
            compiled = _BY_NAME[self.name].compile(self.switch)
        except ConfigError as error:
            raise SiteRuleError(f"option of {self.name}: {error}") from None
        object.__setattr__(self, "_compiled", compiled)

    @property
    def word(self) -> str:
        return self.name

    def write(self) -> dict[str, Any]:
        return {"option": self.option}

    @property
    def switch(self) -> object:
        """The option for the catalogue; a file may have ``"keep"`` for ``False``."""
        return False if self.option == "keep" else self.option

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
