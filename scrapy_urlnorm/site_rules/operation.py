"""What every kind of site rule is: an operation on the slots of a URL, with its operands.

A kind is one class. Its `words` are what a rule file calls it, with their operands; its fields are
those operands, checked when a rule is made. A field is read and written by its name (that of the
operand ``slots`` is ``names``), unless the class does it itself. `Operation.image` applies it: a
crawl and the learner use the same objects. `OPERANDS` has every word of the language, and how a
rule file says it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from scrapy_urlnorm.exceptions import SiteRuleError
from scrapy_urlnorm.site_rules.form import (
    Form,
    Slots,
    is_param,
    is_segment,
    path_text,
    segments,
    segments_of,
    with_value,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

#: Learning looks for a prefix of so many segments at most (a choice: no log needs three).
LEARNED_PREFIX = 3
_NUMBER = re.compile("[0-9]+")
_PLACES = ("first", "second", "third", "fourth")
_PARTS = {"slash": "the final slash", "?": "a parameter without a name", "s-1": "the last segment"}
# A host as the catalogue writes it: lower case, ASCII (or an IP literal), without a port.
_HOST = re.compile(r"[a-z0-9_](?:[a-z0-9_.-]{0,252})|\[[0-9a-f:.]+\]")
_SLOT = re.compile(r"\?|s-?\d{1,2}|q:.+", re.DOTALL)
#: What a path segment may look like where its text is not known beforehand.
SHAPES = {
    "digits": re.compile("[0-9]+"),
    "hex": re.compile("[0-9A-Fa-f]+"),
    "alphanumeric": re.compile("[0-9A-Za-z]+"),
}

Reader = Callable[[str, Any], Any]


def refuse(what: str, value: object, accepted: str) -> SiteRuleError:
    """Return the error for a value that a rule may not hold."""
    return SiteRuleError(f"{what} = {value!r} is not accepted; accepted: {accepted}")


def is_host(value: object) -> bool:
    """Whether *value* is a host as the catalogue writes it."""
    return isinstance(value, str) and _HOST.fullmatch(value) is not None


def is_slot(name: str) -> bool:
    return _SLOT.fullmatch(name) is not None


def checked(check: Callable[[Any], object], accepted: str) -> Reader:
    def read(name: str, value: Any) -> Any:
        if not check(value):
            raise refuse(name, value, accepted)
        return value

    return read


def listed(name: str, value: Any) -> tuple[str, ...]:
    """Return the texts of a text or a list, which may repeat them."""
    found = (value,) if isinstance(value, str) else value
    if not isinstance(found, (list, tuple)) or not found or not all(map(_is_text, found)):
        raise refuse(name, value, "a text, or a list of texts")
    return tuple(found)


def texts(name: str, value: Any) -> tuple[str, ...]:
    """Return different texts of a text, a list or a set; a list may be empty."""
    value = sorted(value) if isinstance(value, (set, frozenset)) else value
    found = listed(name, value) if value not in ((), []) else ()
    if len(set(found)) < len(found):
        raise refuse(name, value, "a text, or a list of different texts")
    return found


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def check_table(name: str, table: object, check_value: Reader | None = None) -> Mapping[str, Any]:
    if not isinstance(table, Mapping):
        raise refuse(name, table, "a table")
    for key, value in table.items():
        if not isinstance(key, str):
            raise refuse(f"{name} key", key, "a text")
        if check_value is not None:
            check_value(f"{name}.{key}", value)
    return table


def check_path(name: str, value: object) -> str:
    if not isinstance(value, str) or not value.startswith("/"):
        raise refuse(name, value, "a path that starts with '/'")
    if "?" in value:
        raise refuse(name, value, "a path without '?' (write %3F if it is part of a segment)")
    return value


def folder(name: str, value: object) -> tuple[str, ...]:
    """Return the segments of a path, whether it ends in a slash or not."""
    return segments_of(check_path(name, value))[0]


def _slots(name: str, value: object) -> tuple[str, ...]:
    found = texts(name, value)
    for slot in found:
        if not is_slot(slot):
            accepted = "s0, s1, … s-1 (the last segment), q:NAME, ? (a token alone)"
            raise refuse("slot", slot, accepted)
    return found


class Operand(NamedTuple):
    """How a word of the language is read and written, and what a rule without it has there."""

    read: Reader = lambda name, value: value
    absent: Any = None
    write: Callable[[Any], Any] = lambda value: value


flag = checked(lambda value: isinstance(value, bool), "true or false")
scheme = checked(("http", "https").__contains__, "'http', 'https'")
_text = checked(lambda value: isinstance(value, str) and value, "a text that is not empty")
_any_text = checked(_is_text, "a text")
_shape = checked(lambda value: value in tuple(SHAPES), ", ".join(map(repr, SHAPES)))
_length = checked(lambda value: type(value) is int and value > 0, "a number of characters from 1")
#: All operands, in the order in which a rule file has them. What is here is read alike in all
#: kinds; a kind may have a reader of its own.
OPERANDS = {
    "param": Operand(texts, ()),
    "default": Operand(check_table, {}, dict),
    "old": Operand(check_table, {}),
    "new": Operand(check_table, {}),
    "host": Operand(texts, ()),
    "slots": Operand(_slots, ()),
    "edit": Operand(_any_text),
    "text": Operand(_text),
    "prefix": Operand(folder, None, path_text),
    "segment": Operand(_text),
    "shape": Operand(_shape),
    "min_length": Operand(_length),
    "tail": Operand(check_path),
    "by": Operand(_any_text, write=lambda by: path_text(by) if isinstance(by, tuple) else by),
    "separator": Operand(_text),
    "slash": Operand(flag, False),
    "semicolons": Operand(flag, False),
    "bare": Operand(flag, False),
    "option": Operand(),
    "within": Operand(_slots, ()),
    "ranges": Operand(texts, ()),
    "values": Operand(texts, ()),
    "path": Operand(check_path),
}
#: Operands that hold several texts; a file may have one text in their place.
LISTS = tuple(word for word, operand in OPERANDS.items() if operand.absent == ())


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


class Word(NamedTuple):
    """What a rule file calls a kind: what that says, its operands that must and that may be.

    ``says`` is the sentence for people, with an operand's word in place of its value.
    """

    word: str
    says: str
    required: str = ""
    optional: str = ""


@dataclass(frozen=True)
class Operation:
    """Base of all kinds.

    An operation is done after one call of `image`: what it makes, it does not change again.
    """

    words: ClassVar[tuple[Word, ...]]
    #: How the kind reads operands that others read in another way.
    readers: ClassVar[Mapping[str, Reader]] = {}
    #: Fields that say what becomes of it: two rules that differ in them alone contradict.
    answers: ClassVar[tuple[str, ...]] = ()
    #: Whether a table says what the operation does: a longer one leaves proven what was.
    has_table: ClassVar[bool] = False

    @classmethod
    def read(cls, word: str, operands: dict[str, Any]) -> Operation:
        """Make an operation of checked operands."""
        return cls(**{"names" if n == "slots" else n: value for n, value in operands.items()})

    def write(self) -> dict[str, Any]:
        """Return the operands that a rule file holds, by their words."""
        said: dict[str, Any] = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if field.default is MISSING or value != field.default:
                word = "slots" if field.name == "names" else field.name
                said[word] = OPERANDS[word].write(value)
        return said

    @property
    def word(self) -> str:
        """The word for the rule in a rule file."""
        return self.words[0].word

    def image(self, slots: Slots) -> Slots | None:
        """Return what becomes of *slots*; ``None`` if nothing does. *slots* stay as they are."""
        raise NotImplementedError

    def apply(self, form: Form) -> Form | None:
        """Return what becomes of *form*; ``None`` if nothing does."""
        slots = self.image(form.slots)
        return None if slots is None else form.changed(slots)

    def sentence(self) -> str:
        """Say what the rule does, to people who have never seen a rule file."""
        says = {each.word: each.says for each in self.words}[self.word]
        return says.format(**{name: shown(name, value) for name, value in self.write().items()})

    @property
    def slots(self) -> frozenset[str]:
        """The slots that the operation reads or changes; a context says nothing of them."""
        return frozenset(getattr(self, "names", ()))

    @property
    def key_only(self) -> bool:
        """Whether the result may be no URL that can be fetched."""
        return False

    @property
    def key(self) -> object:
        """What the rule is about: two rules that agree in it and in nothing else contradict."""
        about = [getattr(self, f.name) for f in fields(self) if f.name not in self.answers]
        return tuple(about) if self.answers else None

    def pairs(self) -> list[tuple[str, str]]:
        """Return slots with values that a URL must have for the operation to act."""
        return []

    def any_of(self) -> tuple[str, ...]:
        """Return slots of which a URL must have one; none where that cannot be said."""
        names: tuple[str, ...] = getattr(self, "names", ())
        return names if all(map(is_param, names)) else ()

    def example(self, slots: Slots) -> Slots:
        """Return slots on which the operation acts, as like *slots* as can be."""
        for slot, value in self.pairs():
            slots = with_value(slots, slot, value)
        return slots

    def check_context(self, context: tuple[Any, ...]) -> None:
        """Raise `SiteRuleError` if the operation may not stand in *context*."""

    # What learning asks besides.

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


def numbered(prefix: Iterable[str]) -> list[tuple[str, str]]:
    """Return the first segments of a path as slots with values."""
    return [(f"s{at}", text) for at, text in enumerate(prefix)]


def same_digits(text: str) -> str:
    """Return *text* with one ``#`` for each number: ``page-1`` and ``page-23`` are siblings."""
    return _NUMBER.sub("#", text)


def begins(slots: Slots, pairs: Iterable[tuple[str, str]]) -> bool:
    for slot, value in pairs:  # noqa: SIM110 - a generator would cost more than the loop
        if slots.get(slot) != value:
            return False
    return True


def all_of(words: Iterable[str]) -> str:
    *most, last = words
    return f"{', '.join(most)} and {last}" if most else last


def shown(word: str, value: Any) -> str:
    """Return the value of an operand as people would say it."""
    if word == "slots":
        return all_of(map(_named, value))
    if isinstance(value, dict):
        pairs = ((slot.removeprefix("q:"), shown("", each)) for slot, each in value.items())
        return all_of(f"“{name}={each}”" for name, each in pairs)
    return " or ".join(value) if isinstance(value, (list, tuple)) else str(value)


def _named(slot: str) -> str:
    if slot.startswith("q:"):
        return f"the parameter {slot[2:]}"
    if slot[1:].isdigit() and int(slot[1:]) < len(_PLACES):
        return f"the {_PLACES[int(slot[1:])]} segment of the path"
    return _PARTS.get(slot, f"the part {slot}")
