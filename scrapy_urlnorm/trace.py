"""Trace: every change on the way from a URL to its key."""

from __future__ import annotations

from typing import NamedTuple


class Step(NamedTuple):
    """One change of a URL: the rule, the URL before and after, and the reason."""

    rule: str
    before: str
    after: str
    reason: str


class Trace(NamedTuple):
    """What :meth:`Normalizer.explain` returns."""

    url: str
    normalized: str
    steps: tuple[Step, ...]

    def __str__(self) -> str:
        lines = [self.url]
        lines += [f"  {step.rule}: {step.after}  ({step.reason})" for step in self.steps]
        return "\n".join(lines)
