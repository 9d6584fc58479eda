"""What verbs share: how one is declared, its output, and what it shows of its progress."""

from __future__ import annotations

import errno
import json
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from scrapy_urlnorm.exceptions import naming
from scrapy_urlnorm.rules import PROFILES

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Mapping

    from scrapy_urlnorm.site_rules import SiteRule

_Item = TypeVar("_Item")
YES, NO, USAGE = 0, 1, 2
"""Exit codes: done or yes; a negative answer; wrong usage or input."""

STANDARD_OUTPUT = "standard output"
_CLEAR = "\r\x1b[K"  # back to the first column, and erase the line (ECMA-48, EL)


class UsageError(Exception):
    """The command line asks for something impossible; the message is one line."""


class Project(NamedTuple):
    """The settings of the project in which ``scrapy urlnorm`` runs."""

    profile: str
    rules: Mapping[str, object]
    site_rules: tuple[SiteRule, ...]
    store: str
    jobdir: str | None
    fingerprinter: str


# --- declaration ----------------------------------------------------------------------------

Run = Callable[["argparse.Namespace"], int]
Option = Callable[[Any], object]  #: adds itself to a parser, or to a group of one


class Verb(NamedTuple):
    """One verb: ``run`` gets the parsed arguments and returns an exit code."""

    description: str
    example: str
    options: tuple[Option, ...]
    run: Run


def verb(description: str, example: str, *options: Option) -> Callable[[Run], Verb]:
    """Make a `Verb` of a function, which has the verb's name."""
    return lambda run: Verb(description, example, options, run)


def option(usage: str, text: str, **settings: Any) -> Option:
    """Return an option with its *usage* as a help text has it, such as ``-o --output FILE``.

    Without a value and *settings*, which are more of `argparse.ArgumentParser.add_argument`, it is
    a flag. Dots say that there may be several values, brackets that there may be none.
    """
    if settings.get("default"):
        text += " (default: %(default)s)"
    *names, value = usage.split()
    if value.startswith("-"):
        names.append(value)
        settings = settings or {"action": "store_true"}
    else:
        settings["metavar"] = name = value.strip("[].")
        if not names[0].startswith("-"):
            marks = value.replace(name, "")
            settings["nargs"] = {"...": "+", "[...]": "*", "[]": "?"}.get(marks)
        elif value.endswith("..."):
            settings.update(action="append", default=[])
    return lambda parser: parser.add_argument(*names, help=text, **settings)


JSON = option("--json", "write JSON instead of text")

WHICH_RULES = (
    "--rule NAME=OPTION switches a rule of the catalogue; --site-rules FILE reads rules for "
    "single sites; --rules RULES, of evaluate, is the file to measure."
)
#: What `inputs.build_normalizer` reads.
NORMALIZER = (
    option("--profile", 'rules to apply (default: "default")', choices=PROFILES),
    option(
        "--rule NAME=OPTION...",
        "switch a rule of the catalogue: NAME, NAME=true, NAME=false, NAME=OPTION, a list as "
        "NAME=a,b or JSON; repeatable",
    ),
    option("--site-rules FILE...", "read rules for single sites, as mine writes them; repeatable"),
)


# --- output ---------------------------------------------------------------------------------


def out(line: str | bytes) -> None:
    """Write a line of data, in UTF-8, to standard output. Bytes go out as they were read."""
    if isinstance(line, bytes):
        data = line
    else:
        try:
            data = line.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError:
            data = line.encode("utf-8", "surrogatepass")
    if sys.stdout is None:  # the calling program closed it
        raise OSError(errno.EBADF, os.strerror(errno.EBADF), STANDARD_OUTPUT)
    try:
        sys.stdout.buffer.write(data + b"\n")
    except OSError:
        with naming(STANDARD_OUTPUT):  # around millions of lines it would take most of the time
            raise


def flush() -> None:
    """Hand all data to the reader of standard output. An OSError names the standard output."""
    if sys.stdout is not None:
        with naming(STANDARD_OUTPUT):
            sys.stdout.flush()


def out_json(value: object, *, indent: int | None = None) -> None:
    """Write a value as JSON, in ASCII whatever the locale.

    Bytes that are no UTF-8 are percent-encoded: a lone surrogate is no character, and readers of
    JSON refuse it (RFC 8259 section 8.2).
    """
    text = json.dumps(value, indent=indent)
    if "\\ud" in text:  # half a character outside of the basic plane, or a byte that is none
        from scrapy_urlnorm.logs.source import with_bytes_escaped  # a help text needs no logs

        value = json.loads(with_bytes_escaped(json.dumps(value, ensure_ascii=False)))
        text = json.dumps(value, indent=indent)
    out(text)


def say(text: str) -> None:
    """Write a message to standard error, below the data and in place of a progress line."""
    with suppress(OSError):  # `main` meets the same error at the end of the program
        flush()
    if sys.stderr is not None:
        with suppress(OSError):
            print(f"{_CLEAR if sys.stderr.isatty() else ''}{text}", file=sys.stderr)


def progress(items: Iterable[_Item], unit: str, *, streams: bool = False) -> Iterable[_Item]:
    """Return *items*, which are counted on standard error if that is a terminal, and tqdm is there.

    Not where the verb *streams* data to a terminal meanwhile: the two would mix.
    """
    shows, mixes = (each is not None and each.isatty() for each in (sys.stderr, sys.stdout))
    if shows and not (streams and mixes):
        with suppress(ImportError):
            from tqdm import tqdm  # type: ignore[import-untyped]  # no types

            tqdm.monitor_interval = 0  # a process that has its thread must not be forked
            counted: Iterable[_Item] = tqdm(items, unit=f" {unit}", leave=False)
            return counted
    return items
