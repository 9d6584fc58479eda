"""Plain URLs: the words with which a rule says what the fast path may assume.

Most URLs of a crawl are plain: the rules leave them alone, or have one of a few simple changes to
make. :mod:`~scrapy_urlnorm.fast_key` recognizes plain URLs by one regular expression and runs no
rule on them. A rule that is on narrows this expression by its word, ``plain_when`` in its row of
the catalogue: a function that takes a :class:`Plain` and the compiled option of the rule.

A rule without a word switches the fast path off as long as it is on, so that a new rule is always
right, and fast as soon as it has a word. To write one, ask which plain URLs the rule would change:
none (:func:`always`), or some, which the word then excludes.

Without any word a plain URL looks like this: ``http`` or ``https``; a host in lower case of
letters, digits, ``-`` and ``_``, whose last label begins with a letter; no user name and no port;
a path in which no segment begins with a dot, and no ``;``; legal characters elsewhere; escapes in
upper case, none of an unreserved character; no fragment.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from scrapy_urlnorm.rules.escapes import ESCAPE, ESCAPE_IN_PATH, UNRESERVED

if TYPE_CHECKING:
    from scrapy_urlnorm.rules.params import ParamMatcher
    from scrapy_urlnorm.rules.sessions import SessionMatcher


@dataclass
class Plain:
    """Which URLs are plain for the rules that are on, and what the fast path does to them."""

    # The host and what stands before it
    scheme: str = "https?"  # an expression
    first_label: str = ""  # which every host has; "" for any
    no_first_labels: list[str] = field(default_factory=list)
    # The path
    characters: str = UNRESERVED  # besides !$&'()*+,:=@
    escape: str = ESCAPE  # an expression for one escape
    no_segment_begins: str = "./"  # characters
    no_last_segments: list[str] = field(default_factory=list)  # with or without any extension
    empty_segments: bool = True
    last_slash: bool | None = None  # there must be one, there must be none, or either
    # The query
    queries: bool = True
    empty_query: bool = True
    semicolons: bool = True
    #: Functions that tell whether a rule knows a parameter by its name, as it is written.
    no_params: list[Callable[[str], object]] = field(default_factory=list)
    # What the fast path does itself, so that the URLs that need it are plain
    add_root_slash: bool = False
    form_encode: bool = False
    sort: str | None = None  # a mode of sort-query
    remove_fragment: bool = False


#: A word: it changes the :class:`Plain` that it is given; the second argument is the option.
Word = Callable[[Plain, Any], None]


def always(plain: Plain, _: object) -> None:
    """The rule leaves every URL alone that is plain without any word."""


# --- scheme and host ------------------------------------------------------------------------


def scheme_is_forced(plain: Plain, scheme: str) -> None:
    """The scheme is the one that the rule would write."""
    plain.scheme = scheme


def www_is_right(plain: Plain, mode: str) -> None:
    """The first label is not ``www`` where the rule removes it, and is where the rule adds it."""
    if mode == "remove":
        plain.no_first_labels.append("www")
    else:
        plain.first_label = "www"


def no_mobile_label(plain: Plain, _: object) -> None:
    """The first label is neither ``m`` nor ``mobile``."""
    plain.no_first_labels += ["m", "mobile"]


# --- path -----------------------------------------------------------------------------------


def root_slash_is_added(plain: Plain, _: object) -> None:
    """The path may be empty: the fast path adds the slash."""
    plain.add_root_slash = True


def no_reserved_escape(plain: Plain, _: object) -> None:
    """The path has no escape of a reserved character that decode-path-reserved decodes."""
    plain.escape = ESCAPE_IN_PATH


def no_session_id(plain: Plain, sessions: SessionMatcher) -> None:
    """No segment may be a session id (they begin with ``(``), nor a parameter hold one."""
    plain.no_segment_begins += "("
    plain.no_params.append(sessions.knows)


def no_empty_segment(plain: Plain, _: object) -> None:
    """The path has no two slashes in a row."""
    plain.empty_segments = False


def path_in_lower_case(plain: Plain, _: object) -> None:
    """The path has no capital letter, but for those in escapes."""
    plain.characters = plain.characters.replace("A-Z", "")


def no_index_name(plain: Plain, names: frozenset[str]) -> None:
    """The last segment is no index name, nor one with another extension."""
    plain.no_last_segments += sorted({name.partition(".")[0] for name in names})


def last_slash_is_right(plain: Plain, mode: str) -> None:
    """The path ends in a slash where the rule adds one, and in none where the rule removes it."""
    plain.last_slash = mode == "add"
    if mode == "remove":
        plain.empty_segments = False


# --- query ----------------------------------------------------------------------------------


def no_query(plain: Plain, _: object) -> None:
    """The URL has no query."""
    plain.queries = False


def no_empty_query(plain: Plain, _: object) -> None:
    """A query is not empty."""
    plain.empty_query = False


def no_entity(plain: Plain, _: object) -> None:
    """The query has no ``;``, which may end an ``&amp;``."""
    plain.semicolons = False


def no_dropped_param(plain: Plain, drop: ParamMatcher) -> None:
    """No parameter is one that the rule would drop."""
    plain.no_params.append(drop.as_written.__getitem__)


def query_is_form_encoded(plain: Plain, _: object) -> None:
    """The query may be anything printable: the fast path encodes it."""
    plain.form_encode = True


def query_is_sorted(plain: Plain, mode: str) -> None:
    """The parameters may be in any order: the fast path sorts them."""
    plain.sort = mode


# --- fragment -------------------------------------------------------------------------------


def fragment_is_removed(plain: Plain, kept: tuple[str, ...]) -> None:
    """The URL may have a fragment, which the fast path removes, unless the rule keeps some."""
    plain.remove_fragment = not kept
