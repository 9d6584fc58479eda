"""Figures: all that a report shows, as plain values."""

from __future__ import annotations

from typing import NamedTuple


class Host(NamedTuple):
    """One host. A page counts for the host where its content came first."""

    host: str
    requests: int
    pages: int
    distinct: int
    spared: int
    left: int  #: pages fetched although their content had come before


class RuleFigures(NamedTuple):
    """One rule: of the catalogue, of the user, or learned."""

    rule: str
    status: str  #: active, proposed, rejected
    source: str
    spared: int
    support: int | None
    conflicts: int | None
    upper: float | None  #: upper bound on the share of wrong merges
    tested: int | None  #: tests that it has passed
    one: str  #: an example: two URLs that it makes one
    other: str
    note: str


class Suspicion(NamedTuple):
    """Two URLs that a rule makes one, and why that may be wrong."""

    reason: str
    one: str
    other: str
    rules: str


class Group(NamedTuple):
    """Pages with one content."""

    pages: int
    hosts: int
    examples: str  #: one URL a line


class Left(NamedTuple):
    """Pages of one look that were fetched although their content had come before."""

    pattern: str
    redundant: int
    pages: int
    one: str
    other: str


class Point(NamedTuple):
    """How many distinct pages a crawl had after so many requests."""

    line: str
    requests: int
    distinct: int


class Figures(NamedTuple):
    """What a report shows."""

    title: str
    notes: tuple[str, ...]  #: what the figures mean, and what is not known
    is_forecast: bool  #: whether nothing was spared yet: the rules were applied to a log
    requests: int
    pages: int
    distinct: int
    spared: int
    left: int
    suspicions: int  #: all of them; *suspicious* are the first
    course: tuple[Point, ...]
    hosts: tuple[Host, ...]
    rules: tuple[RuleFigures, ...]
    suspicious: tuple[Suspicion, ...]
    groups: tuple[Group, ...]
    patterns: tuple[Left, ...]
