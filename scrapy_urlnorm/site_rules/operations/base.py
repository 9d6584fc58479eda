"""What every kind of site rule is: an operation on the slots of a URL.

A kind is one class. Its fields are what a rule of this kind says, checked when one is made; the
class reads them from a table of a rule file (`read`), writes them (`write`), and applies them
(`image`). A crawl and the learner use the same objects.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from scrapy_urlnorm.exceptions import SiteRuleError
from scrapy_urlnorm.site_rules.form import (
    DOT_SEGMENTS,
    Form,
    Slots,
    is_param,
    is_segment,
    segments,
)
from scrapy_urlnorm.site_rules.paths import Pair, check_path, refuse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from scrapy_urlnorm.site_rules.context import Context, PathText

# A host as the catalogue writes it: lower case, ASCII (or an IP literal), without a port.
_HOST = re.compile(r"[a-z0-9_](?:[a-z0-9_.-]{0,252})|\[[0-9a-f:.]+\]")
#: Learning looks for a prefix of so many segments at most (a choice: no log needs three).
LEARNED_PREFIX = 3
_NUMBER = re.compile("[0-9]+")
_SLOT = re.compile(r"\?|s-?\d{1,2}|q:.+", re.DOTALL)


class Twins(NamedTuple):
    """Two URLs of one content, as `Operation.between` compares them.

    ``one`` has the longer path. ``long`` and ``short`` are the segments of both, and ``names``
    are the slots in which they differ: never ``host`` or ``scheme``.
    """

    one: Slots
    other: Slots
    names: frozenset[str]
    long: list[str]
    short: list[str]

    @classmethod
    def of(cls, one: Slots, other: Slots, names: Iterable[str]) -> Twins:
        """Compare two URLs."""
        long, short = segments(one), segments(other)
        if (len(long), sum(map(len, long)), long) < (len(short), sum(map(len, short)), short):
            one, other, long, short = other, one, short, long
        return cls(one, other, frozenset(names), long, short)

    @property
    def by_path(self) -> bool:
        """Whether they differ in the path alone, and not only in its final slash."""
        return any(map(is_segment, self.names)) and not any(map(is_param, self.names))

    @property
    def same_slash(self) -> bool:
        """Whether both paths end in a slash, or neither does."""
        return ("slash" in self.one) is ("slash" in self.other)


@dataclass(frozen=True)
class Operation:
    """Base of all kinds.

    An operation is done after one call of `image`: what it makes, it does not change again.
    """

    #: The word for the kind in a rule file, and what a rule of this kind says, in one line.
    kind: ClassVar[str]
    summary: ClassVar[str]
    #: The operands that a table must have and may have; `_READERS` has how each is read.
    required: ClassVar[tuple[str, ...]] = ()
    optional: ClassVar[tuple[str, ...]] = ()
    #: Whether ``path`` is an operand of the kind; of all others it is part of the context.
    owns_path: ClassVar[bool] = False

    @classmethod
    def read(cls, operands: Mapping[str, Any]) -> Operation:
        """Make an operation of checked operands."""
        return cls(**operands)

    def write(self) -> dict[str, Any]:
        """Return the operands that a rule file holds, by their words."""
        raise NotImplementedError

    def image(self, slots: Slots) -> Slots | None:
        """Return what becomes of *slots*; ``None`` if nothing does. *slots* stay as they are."""
        raise NotImplementedError

    def apply(self, form: Form) -> Form | None:
        """Return what becomes of *form*; ``None`` if nothing does."""
        slots = self.image(form.slots)
        return None if slots is None else form.changed(slots)

    @property
    def slots(self) -> frozenset[str]:
        """The slots that the operation reads or changes; a context says nothing of them."""
        return frozenset()

    @property
    def key_only(self) -> bool:
        """Whether the result may be no URL that can be fetched."""
        return False

    @property
    def word(self) -> str:
        """The word for the rule in a rule file."""
        return self.kind

    @property
    def has_table(self) -> bool:
        """Whether a table says what the operation does: a longer one leaves proven what was."""
        return False

    @property
    def rank(self) -> int:
        """The place among operations of the same kind."""
        return 0

    @property
    def symbols(self) -> PathText | None:
        """What symbols stand for in the context of the rule, where the kind says it."""
        return None

    @property
    def key(self) -> object:
        """What the rule is about: two rules that agree in it and in nothing else contradict."""
        return None

    def pairs(self) -> list[Pair]:
        """Return slots with values that a URL must have for the operation to act."""
        return []

    def any_of(self) -> tuple[str, ...]:
        """Return slots of which a URL must have one; none where that cannot be said."""
        return ()

    def example(self, slots: Slots) -> Slots:
        """Return slots on which the operation acts, as like *slots* as can be."""
        return slots

    def moves(self) -> list[tuple[str, str]]:
        """Return the hosts that the operation takes to another one, each with the other one."""
        return []

    def catalogue_options(self) -> dict[str, object]:
        """Return options of the catalogue without which it would undo what the rule does."""
        return {}

    def check_context(self, context: Context) -> None:
        """Raise `SiteRuleError` if the operation may not stand in *context*."""

    # --- for learning -----------------------------------------------------------------------

    @classmethod
    def between(cls, twins: Twins) -> Iterator[Operation]:
        """Yield operations of the kind that may make one of two URLs: learning tries them."""
        return iter(())

    @property
    def family(self) -> object:
        """What the operation shares with its siblings, which learning judges together."""
        return self

    def covers(self, other: Operation) -> bool:
        """Whether the operation does all that *other* does."""
        return self == other

    def told_by(self, urls: Sequence[Slots]) -> bool:
        """Whether these URLs of one content are evidence for all that the operation does."""
        return True


# --- operands: how each word of a rule file is read -----------------------------------------


def text(name: str, value: object, *, empty: bool = False) -> str:
    """Return a text; an empty one only if *empty*."""
    if not isinstance(value, str) or not (value or empty):
        raise refuse(name, value, "a text" if empty else "a text that is not empty")
    return value


def texts(name: str, value: object) -> tuple[str, ...]:
    """Return different texts of a text or a list."""
    if isinstance(value, str):
        value = (value,)
    elif isinstance(value, (set, frozenset)):
        value = tuple(sorted(value))
    if (
        not isinstance(value, (list, tuple))
        or not all(isinstance(item, str) for item in value)
        or len(set(value)) < len(value)
    ):
        raise refuse(name, value, "a text, or a list of different texts")
    return tuple(value)


def flag(name: str, value: object) -> bool:
    """Return true or false."""
    if not isinstance(value, bool):
        raise refuse(name, value, "true or false")
    return value


def one_of(*accepted: str) -> Callable[[str, object], str]:
    """Return a reader of one of these texts."""

    def read(name: str, value: object) -> str:
        if not isinstance(value, str) or value not in accepted:
            raise refuse(name, value, ", ".join(map(repr, accepted)))
        return value

    return read


def length(name: str, value: object) -> int:
    """Return a number of characters."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise refuse(name, value, "a number of characters from 1")
    return value


def slot_names(name: str, value: object) -> tuple[str, ...]:
    """Return names of slots."""
    found = texts(name, value)
    for slot in found:
        if not _SLOT.fullmatch(slot):
            raise refuse(
                "slot", slot, "s0, s1, … s-1 (the last segment), q:NAME, ? (a token alone)"
            )
    return found


def host(value: object) -> str:
    """Return a host as the catalogue writes it."""
    if not isinstance(value, str) or not _HOST.fullmatch(value):
        raise refuse("host", value, "a lower-case host")
    return value


def is_host(value: object) -> bool:
    """Whether *value* is a host as the catalogue writes it."""
    return isinstance(value, str) and _HOST.fullmatch(value) is not None


_READERS: dict[str, Callable[[str, Any], Any]] = {
    "param": texts,
    "host": texts,
    "by": lambda name, value: text(name, value, empty=True),
    "prefix": check_path,
    "segment": text,
    "shape": one_of("digits", "hex", "alphanumeric"),
    "min_length": length,
    "tail": check_path,
    "slots": slot_names,
    "ranges": texts,
    "values": texts,
    "within": slot_names,
    "text": text,
    "separator": text,
    "slash": flag,
    "semicolons": flag,
    "bare": flag,
    "path": check_path,
}


def read_operands(cls: type[Operation], table: Mapping[str, Any]) -> dict[str, Any]:
    """Return the checked operands of *table* for a kind; `SiteRuleError` names what is wrong."""
    allowed = (*cls.required, *cls.optional)
    for name in table:
        if name not in allowed:
            known = ", ".join(word for word in allowed if word != "path")
            raise SiteRuleError(f"a {cls.kind} rule has no {name!r}; it has: {known}, path, when")
    for name in cls.required:
        # An empty text says something ("by" nothing); an empty list or table does not.
        if table.get(name) is None or table[name] in ((), [], {}):
            raise SiteRuleError(f"a {cls.kind} rule needs {name!r} ({cls.summary})")
    return {
        name: _READERS[name](name, table[name]) if name in _READERS else table[name]
        for name in allowed
        if table.get(name) is not None
    }


# --- shared by kinds ------------------------------------------------------------------------


def check_no_dots(name: str, value: str, segments: Iterable[str], accepted: str) -> None:
    """Raise `SiteRuleError` if one of *segments* would vanish or be resolved away."""
    if any(segment in DOT_SEGMENTS for segment in segments):
        raise refuse(name, value, accepted)


def numbered(prefix: Iterable[str]) -> tuple[Pair, ...]:
    """Return the first segments of a path as slots with values."""
    return tuple((f"s{at}", text) for at, text in enumerate(prefix))


def same_digits(text: str) -> str:
    """Return *text* with one ``#`` for each number: ``page-1`` and ``page-23`` are siblings."""
    return _NUMBER.sub("#", text)


def begins(slots: Slots, pairs: Iterable[Pair]) -> bool:
    """Whether *slots* have all of *pairs*."""
    for slot, value in pairs:  # noqa: SIM110 - a generator would cost more than the loop
        if slots.get(slot) != value:
            return False
    return True
