"""Plain URLs: the words with which a rule says what the fast path may assume.

Most URLs of a crawl are plain: no rule has to run on the whole of them. The fast path
(:mod:`~scrapy_urlnorm.fast_key`) takes a URL apart, has each part normalized by itself, and keeps
the answers that come up again. A rule that is on says by its word, ``plain_when`` in its row of
the catalogue, for which URLs that is right: a function that takes a :class:`Plain` and the
compiled option of the rule.

A rule without a word switches the fast path off as long as it is on, so that a new rule is always
right, and fast as soon as it has a word. To write one, ask what the rule looks at:

- scheme and authority alone, or what no plain URL has: :func:`always`. The fast path has the rules
  themselves run on each authority, once;
- the path alone: :func:`path_is_edited`, with the function that does it;
- the names of parameters, and no value: :func:`names_decide`. The fast path has the rules
  themselves run on each set of names, once;
- the values of some parameters too: a word that adds to ``value_tests``.

Without any word a plain URL looks like this: a scheme and any authority; a path in which no
segment begins with a dot, and no ``;``; legal characters elsewhere; escapes in upper case, none
of an unreserved character; no fragment.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from scrapy_urlnorm.rules.escapes import UNRESERVED, decode_token

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from scrapy_urlnorm.rules.sessions import SessionMatcher

Edit = Callable[[str], str]
#: A test for the value of a parameter, as it is written, on whose result a rule depends.
ValueTest = Callable[[str], bool]


@dataclass
class Plain:
    """Which URLs are plain for the rules that are on, and what the fast path does to them."""

    # The path
    add_root_slash: bool = False
    decode_path: Edit = str  # on a path that has escapes
    path_edits: list[Edit] = field(default_factory=list)  # in the order of the catalogue
    edited_ends: tuple[str, ...] = ()  # a path with another end, and no "//", needs no edit
    groups: bool = True  # whether a segment may begin with "("
    # The query
    semicolons: bool = True
    form_encode: bool = False
    names_decide: bool = False  # which parameters stay, and in which order
    #: By the name of a parameter, as it is written: the tests for its value, none for most names.
    value_tests: list[Callable[[str], Sequence[ValueTest]]] = field(default_factory=list)
    remove_empty_query: bool = False
    # The fragment
    fragment: str | None = None  # an expression for those that go, "#" included


#: A word: it changes the :class:`Plain` that it is given; the second argument is the option.
Word = Callable[[Plain, Any], None]


def always(plain: Plain, _: object) -> None:
    """The rule acts on scheme and authority, or on what no plain URL has."""


# --- path -----------------------------------------------------------------------------------


def root_slash_is_added(plain: Plain, _: object) -> None:
    """The path may be empty: the fast path adds the slash."""
    plain.add_root_slash = True


def escapes_are_decoded(edit: Edit) -> Word:
    """Return the word of a rule that looks at the escapes of the path alone, as *edit* does."""

    def word(plain: Plain, _: object) -> None:
        plain.decode_path = edit

    return word


def path_is_edited(
    edit: Callable[[str, Any], str], ends: Callable[[Any], Iterable[str]] = lambda _: ("",)
) -> Word:
    """Return the word of a rule that looks at the path alone; *edit* takes path and option.

    *ends* tells, by the option, how the paths end that the rule may act on. Paths with two slashes
    in a row are edited anyway.
    """

    def word(plain: Plain, option: object) -> None:
        plain.path_edits.append(lambda path: edit(path, option))
        plain.edited_ends += tuple(ends(option))

    return word


# --- query ----------------------------------------------------------------------------------


def no_entity(plain: Plain, _: object) -> None:
    """The query has no ``;``, which may end an ``&amp;``."""
    plain.semicolons = False


def names_decide(plain: Plain, _: object) -> None:
    """The names of the parameters decide, as long as none comes twice."""
    plain.names_decide = True


def default_values(plain: Plain, defaults: Mapping[str, frozenset[str]]) -> None:
    """Names, and whether values are the default, decide, as long as no name comes twice."""

    def value_tests(name: str) -> Sequence[ValueTest]:
        values = defaults.get(decode_token(name))
        return () if values is None else (lambda value: decode_token(value) in values,)

    plain.value_tests.append(value_tests)


def session_ids(plain: Plain, sessions: SessionMatcher) -> None:
    """No segment begins with ``(``. Names, and whether values look like ids, decide the rest."""
    plain.groups = False
    plain.value_tests.append(sessions.value_tests)


def query_is_form_encoded(plain: Plain, _: object) -> None:
    """The query may be anything printable: the fast path encodes it."""
    plain.form_encode = True


def empty_query_is_removed(plain: Plain, _: object) -> None:
    """The query may be empty: the fast path removes it."""
    plain.remove_empty_query = True


# --- fragment -------------------------------------------------------------------------------


def fragment_is_removed(plain: Plain, kept: tuple[str, ...]) -> None:
    """The fragment goes, unless it begins as those that the rule keeps, or might once decoded."""
    if not kept:
        plain.fragment = "#[!-~]*"
    else:
        beginnings = "|".join(map(re.escape, kept))
        plain.fragment = rf"#(?!{beginnings})[{UNRESERVED}!$&'()*+,:;=@/?\[\]]*"
