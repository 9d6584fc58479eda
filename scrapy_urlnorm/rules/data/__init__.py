"""The curated lists: tracking and session parameters, session ids in paths, index names.

Each is a table beside this module whose head explains its columns; every row names a vendor and
a source. They are read once and handed out as immutable values.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from functools import cache
from hashlib import blake2b
from importlib.resources import files
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Container

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
_COMPILED = {name: re.compile(expression) for name, expression in ALPHABETS.items()}
_FAMILY_REST = re.compile("[0-9A-Za-z]{1,16}")


class TrackingParams(NamedTuple):
    """Names of parameters that only track; all but ``exact`` are in lower case.

    ``kept`` are names that a prefix covers and that must stay all the same (``utm_zone``).
    """

    exact: frozenset[str]
    folded: frozenset[str]
    prefixes: tuple[str, ...]
    kept: frozenset[str]

    def __contains__(self, name: object) -> bool:
        """Tell whether the parameter *name*, decoded, only tracks."""
        if not isinstance(name, str):
            return False
        if name in self.exact:
            return True
        lowered = name.lower()
        if lowered in self.folded:
            return True
        # The beginning alone ("utm_") is no name of its family.
        return (
            lowered.startswith(self.prefixes)
            and lowered not in self.prefixes
            and lowered not in self.kept
        )


@dataclass(frozen=True)
class _Guard:
    """A name, and what its value must look like to be a session id."""

    name: str
    ignore_case: bool
    min_length: int
    max_length: int
    alphabet: str
    strength: str
    vendor: str

    def accepts(self, value: str) -> bool:
        """Tell whether *value*, decoded, has the length and the characters of a session id."""
        return (
            self.min_length <= len(value) <= self.max_length
            and _COMPILED[self.alphabet].fullmatch(value) is not None
        )

    def is_named(self, name: str) -> bool:
        """Tell whether *name*, decoded, is the name of this row."""
        mine = self.name
        if self.ignore_case:
            name, mine = name.lower(), mine.lower()
        if not mine.endswith("*"):
            return name == mine
        stem = mine[:-1]
        return name.startswith(stem) and _FAMILY_REST.fullmatch(name, len(stem)) is not None


@dataclass(frozen=True)
class SessionParam(_Guard):
    """A query parameter that holds a session id.

    A ``name`` that ends in ``*`` stands for one to sixteen letters or digits more. ``needs`` is
    the name, in lower case, of another parameter that the same query must have, or, with ``!``
    in front, must not have.
    """

    needs: str | None = field(kw_only=True)

    def stands_among(self, names: Container[str]) -> bool:
        """Tell whether a query with these parameter *names*, in lower case, has what it needs."""
        if self.needs is None:
            return True
        if self.needs.startswith("!"):
            return self.needs[1:] not in names
        return self.needs in names


@dataclass(frozen=True)
class PathSession(_Guard):
    """A session id in a path.

    ``kind`` is "parameter" (``;name=value`` within a segment), "group" (``name(value)`` within a
    segment of the form ``(A(…)S(…))``) or "segment" (``(value)`` is all of it; ``name`` is "").
    """

    kind: str = field(kw_only=True)


@cache
def read_table(table: str) -> tuple[dict[str, str], ...]:
    """Return the rows of one of :data:`TABLES`, each by column name. Do not change them."""
    text = files(__name__).joinpath(f"{table}.tsv").read_text(encoding="utf-8")
    return parse_table(text)


def parse_table(text: str) -> tuple[dict[str, str], ...]:
    """Parse tab-separated *text*: comments (``# …``), one line of column names, rows."""
    lines = [line.split("\t") for line in text.splitlines() if line and not line.startswith("#")]
    return tuple(dict(zip(lines[0], line, strict=True)) for line in lines[1:])


@cache
def tracking_params(strength: str = STRENGTHS[-1]) -> TrackingParams:
    """Return the names of parameters that only track, as sure as *strength* or surer."""
    accepted = STRENGTHS[: STRENGTHS.index(strength) + 1]
    rows = [row for row in read_table("tracking_params") if row["strength"] in accepted]

    def named(match: str) -> list[str]:
        return [row["name"] for row in rows if row["match"] == match]

    return TrackingParams(
        exact=frozenset(named("exact")),
        folded=frozenset(name.lower() for name in named("ignore")),
        prefixes=tuple(name.lower().removesuffix("*") for name in named("prefix")),
        kept=frozenset(name.lower() for name in named("keep")),
    )


@cache
def session_params() -> tuple[SessionParam, ...]:
    """Return the query parameters that hold session ids; a name may come more than once."""
    return tuple(
        SessionParam(
            name=row["name"],
            ignore_case=row["case"] == "ignore",
            min_length=int(row["min"]),
            max_length=int(row["max"]),
            alphabet=row["alphabet"],
            strength=row["strength"],
            vendor=row["vendor"],
            needs=None if row["needs"] == "-" else row["needs"].lower(),
        )
        for row in read_table("session_params")
    )


@cache
def path_sessions() -> tuple[PathSession, ...]:
    """Return the forms of session ids in paths; a name may come more than once."""
    return tuple(
        PathSession(
            name="" if row["name"] == "-" else row["name"],
            ignore_case=row["case"] == "ignore",
            min_length=int(row["min"]),
            max_length=int(row["max"]),
            alphabet=row["alphabet"],
            strength=row["strength"],
            vendor=row["vendor"],
            kind=row["kind"],
        )
        for row in read_table("path_sessions")
    )


#: The index that most servers look for first, and often alone (the defaults of Apache, nginx, static
#: hosts and site generators). Two index names in one folder may be two pages: without knowledge of
#: the site only one name can stand for the folder.
USUAL_INDEX_NAME = "index.html"


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
