"""The curated lists: tracking and session parameters, session ids in paths, index names.

Each is a table beside this module whose head explains its columns; every row names a vendor and
a source. They are read once and handed out as immutable values.
"""

from __future__ import annotations

import json
import re
from functools import cache
from hashlib import blake2b
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator


#: The tables, in the order in which :func:`lists_digest` reads them.
TABLES = ("index_names", "path_sessions", "session_params", "tracking_params")

#: How sure it is that a parameter is no content. "likely" includes the rows that are "sure".
STRENGTHS = ("sure", "likely")

#: Kinds of values, as expressions for a whole value. Each takes linear time: it is a class of
#: characters after at most three look-aheads.
_MIXED = "(?=[^0-9]*[0-9])(?=[^A-Za-z]*[A-Za-z])"
_DIGITS_ALL_OVER = "(?=[^0-9]*[0-9]+[^0-9]+[0-9]+[^0-9]+[0-9])(?=[^A-Za-z]*[A-Za-z])"
ALPHABETS = {
    "aspnet": "[a-z0-5]+",
    "aspnet-word": "(?=[^0-9]*[0-9][^0-9]*[0-9])[a-z0-5]+",
    "base64": f"(?=[^A-Z]*[A-Z])(?=[^a-z]*[a-z]){_DIGITS_ALL_OVER}[0-9A-Za-z_=-]+",
    "base62": "[0-9A-Za-z]+",
    "digits": "[0-9]+",
    "hex": "[0-9A-Fa-f]+",
    "letters": "[A-Za-z]+",
    "magento": "[SU]+",
    "mixed": f"{_MIXED}[0-9A-Za-z]+",
    "mixed-64": f"{_MIXED}[0-9A-Za-z_=-]+",
    "mixed-lower": f"{_MIXED}[0-9a-v]+",
    "php": "[0-9A-Za-z,-]+",
    "scrambled": f"{_DIGITS_ALL_OVER}[0-9A-Za-z]+",
    "token": "[0-9A-Za-z._~!:@$*+=-]+",
    "uuid": "[0-9A-Fa-f-]+",
}
_FAMILY_REST = re.compile("[0-9A-Za-z]{1,16}")


@cache
def _alphabet(name: str) -> re.Pattern[str]:
    return re.compile(ALPHABETS[name])  # when it is needed: all take a while


class SessionId(NamedTuple):
    """A name, and what its value must look like to be a session id.

    ``kind`` is "query" (a parameter), or where it stands in a path: "parameter" (``;name=value``
    within a segment), "group" (``name(value)`` within a segment of the form ``(A(…)S(…))``) or
    "segment" (``(value)`` is all of it; ``name`` is ""). A ``name`` that ends in ``*`` stands for
    one to sixteen letters or digits more. ``needs`` is the name, in lower case, of another
    parameter that the same query must have, or, with ``!`` in front, must not have.
    """

    kind: str
    name: str
    ignore_case: bool
    min_length: int
    max_length: int
    alphabet: str
    strength: str
    needs: str | None

    def accepts(self, value: str) -> bool:
        """Tell whether *value*, decoded, has the length and the characters of a session id."""
        return (
            self.min_length <= len(value) <= self.max_length
            and _alphabet(self.alphabet).fullmatch(value) is not None
        )

    def is_named(self, name: str) -> bool:
        """Tell whether *name*, decoded, is the name of this row."""
        mine = self.name
        if self.ignore_case:
            name, mine = name.lower(), mine.lower()
        stem = mine.removesuffix("*")
        if stem == mine:
            return name == mine
        return name.startswith(stem) and _FAMILY_REST.fullmatch(name, len(stem)) is not None

    def stands_among(self, names: Container[str]) -> bool:
        """Tell whether a query with these parameter *names*, in lower case, has what it needs."""
        if self.needs is None:
            return True
        return self.needs[1:] not in names if self.needs[0] == "!" else self.needs in names


@cache
def read_table(table: str) -> tuple[dict[str, str], ...]:
    """Return the rows of one of :data:`TABLES`, each by column name. Do not change them."""
    return parse_table(Path(__file__).with_name(f"{table}.tsv").read_text(encoding="utf-8"))


def parse_table(text: str) -> tuple[dict[str, str], ...]:
    """Parse tab-separated *text*: comments (``# …``), one line of column names, rows."""
    lines = [line.split("\t") for line in text.splitlines() if line and not line.startswith("#")]
    return tuple(dict(zip(lines[0], line, strict=True)) for line in lines[1:])


@cache
def tracking_params(strength: str) -> Callable[[str], bool]:
    """Return what tells whether a parameter, by its name, decoded, only tracks.

    It is as sure as *strength* or surer.
    """
    accepted = STRENGTHS[: STRENGTHS.index(strength) + 1]
    names: dict[str, set[str]] = {"exact": set(), "ignore": set(), "prefix": set(), "keep": set()}
    for row in read_table("tracking_params"):
        if row["strength"] in accepted:
            name = row["name"].removesuffix("*")
            names[row["match"]].add(name if row["match"] == "exact" else name.lower())
    prefixes = tuple(names["prefix"])

    def only_tracks(name: str) -> bool:
        lowered = name.lower()
        if name in names["exact"] or lowered in names["ignore"]:
            return True
        # The beginning alone ("utm_") is no name of its family, and some must stay (utm_zone).
        is_of_family = lowered.startswith(prefixes) and lowered not in prefixes
        return is_of_family and lowered not in names["keep"]

    return only_tracks


@cache
def session_ids() -> tuple[SessionId, ...]:
    """Return the session ids in queries, then those in paths; a name may come more than once."""
    return tuple(
        SessionId(
            kind=row.get("kind", "query"),
            name=row["name"].removeprefix("-"),
            ignore_case=row["case"] == "ignore",
            min_length=int(row["min"]),
            max_length=int(row["max"]),
            alphabet=row["alphabet"],
            strength=row["strength"],
            needs=row.get("needs", "-").lower().removeprefix("-") or None,
        )
        for table in ("session_params", "path_sessions")
        for row in read_table(table)
    )


class IndexNames(NamedTuple):
    """The names that remove-directory-index takes for the folder."""

    exact: frozenset[str]  #: spelled so
    any_case: frozenset[str] = frozenset()  #: in lower case

    def endings(self) -> Iterator[str]:
        """Yield how paths end that have one of these names; few others do."""
        for name in self.exact:
            yield f"/{name}"
        for end in sorted({name[-3:] for name in self.any_case}):
            yield from map("".join, product(*((letter, letter.upper()) for letter in end)))


#: What is taken for the folder without knowledge of the site. ``index.html`` is what most servers
#: look for first, and often alone (the defaults of Apache, nginx, static hosts and site generators).
#: ``default.asp`` and ``default.aspx`` are those of IIS, in any case, since its file system knows one;
#: a server that has them looks for no ``index.html`` before them. Other names may stand beside one of
#: these as a page of their own.
USUAL_INDEX_NAMES = IndexNames(
    frozenset(("index.html",)), frozenset(("default.asp", "default.aspx"))
)


@cache
def index_names() -> frozenset[str]:
    """Return the names that a directory index may have, spelled as servers spell them."""
    return frozenset(row["name"] for row in read_table("index_names"))


@cache
def lists_digest() -> str:
    """Return 16 hex digits that change when a part of the lists changes that decides about a URL.

    Vendors, sources, reasons and comments are left out: a correction of these must not make
    stored keys invalid.
    """
    told = {"vendor", "source", "server", "why"}
    content = [
        sorted(sorted((k, v) for k, v in row.items() if k not in told) for row in read_table(table))
        for table in TABLES
    ]
    # The guards are part of what decides, and stand in this module.
    text = json.dumps([content, sorted(ALPHABETS.items())], ensure_ascii=True)
    return blake2b(text.encode(), digest_size=8).hexdigest()
