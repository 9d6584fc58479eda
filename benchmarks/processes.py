"""Processes of their own for what is measured, so that nothing is warm that another has used."""

from __future__ import annotations

import resource
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

_Result = TypeVar("_Result")


def new_process() -> ProcessPoolExecutor:
    return ProcessPoolExecutor(1, get_context("spawn"))


def apart(function: Callable[..., _Result], *arguments: object) -> _Result:
    """Return what *function* returns in a process of its own."""
    with new_process() as process:
        return process.submit(function, *arguments).result()


def processor_seconds() -> float:
    """Return the processor time of this process and of those that it started and that ended."""
    spent = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in spent)
