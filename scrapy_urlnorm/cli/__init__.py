"""The command line: ``scrapy-urlnorm VERB``, ``python -m scrapy_urlnorm`` and ``scrapy urlnorm``.

Data goes to standard output, messages and progress to standard error. Exit codes: 0 done or yes,
1 a negative answer, 2 wrong usage or input, 130 interrupted.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from scrapy_urlnorm.cli.parser import VERBS, parse
from scrapy_urlnorm.exceptions import UrlNormError, naming
from scrapy_urlnorm.text import shortened
from scrapy_urlnorm.url import STOCK_FINGERPRINTER

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from scrapy_urlnorm.site_rules import SiteRule

__all__ = ["VERBS", "Project", "main"]

_Item = TypeVar("_Item")
YES, NO, USAGE = 0, 1, 2
"""Exit codes: done or yes; a negative answer; wrong usage or input."""

STANDARD_OUTPUT = "standard output"
_CLEAR = "\r\x1b[K"  # back to the first column, and erase the line (ECMA-48, EL)


class UsageError(Exception):
    """The command line asks for something impossible; the message is one line."""


class Project(NamedTuple):
    """The settings of the project in which ``scrapy urlnorm`` runs."""

    profile: str = "default"
    rules: Mapping[str, object] = {}
    site_rules: tuple[SiteRule, ...] = ()
    store: str = "memory"
    jobdir: str | None = None
    fingerprinter: str = STOCK_FINGERPRINTER


def main(
    argv: Sequence[str] | None = None,
    *,
    prog: str = "scrapy-urlnorm",
    project: Project | None = None,
) -> int:
    """Run one verb and return the exit code; raises nothing but the SystemExit of argparse.

    Without a *project* the defaults of its settings hold.
    """
    argv = sys.argv[1:] if argv is None else argv
    name = prog
    try:
        try:
            if sys.stdout is None:  # the calling program closed it
                raise UsageError(f"{STANDARD_OUTPUT}: it is closed")
            args = parse(argv, prog)
            args.project = project or Project()
            name = args.parser.prog
            module, _, function = args.run.partition(".")
            code: int = getattr(import_module(f"{__name__}.{module}"), function)(args)
        finally:
            flush()
    except BrokenPipeError:
        _drop_output()  # whoever read it has enough of it
        return 0
    except OSError as error:
        if error.filename == STANDARD_OUTPUT:
            _drop_output()
            name = prog
        where = f"{error.filename}: " if error.filename else ""
        say(f"{name}: {where}{error.strerror or error}")
        return USAGE
    except (UsageError, UrlNormError) as error:
        say(f"{name}: {shortened(str(error))}")
        return USAGE
    except KeyboardInterrupt:
        say(f"{name}: interrupted")
        return 130  # what a shell says of a program that Ctrl-C ended
    return code


def _drop_output() -> None:
    """Discard the rest of the output, which the interpreter would write at its end."""
    with suppress(OSError, ValueError), Path(os.devnull).open("wb") as nowhere:
        os.dup2(nowhere.fileno(), sys.stdout.fileno())


# --- what verbs say, and to whom -----------------------------------------------------------


def out(line: str | bytes) -> None:
    """Write a line of data, in UTF-8, to standard output. Bytes go out as they were read."""
    if isinstance(line, bytes):
        data = line
    else:
        try:
            data = line.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError:
            data = line.encode("utf-8", "surrogatepass")
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


def progress(items: Iterable[_Item], unit: str) -> Iterable[_Item]:
    """Return *items*, which are counted on standard error if that is a terminal, and tqdm is there."""
    if sys.stderr is not None and sys.stderr.isatty():
        with suppress(ImportError):
            from tqdm import tqdm  # type: ignore[import-untyped]  # no types

            tqdm.monitor_interval = 0  # a process that has its thread must not be forked
            items = tqdm(items, unit=f" {unit}", leave=False)
    return items
