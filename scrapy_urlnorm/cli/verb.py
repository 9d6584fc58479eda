"""What verbs share: how one is declared, its output, and what it shows of its progress."""

from __future__ import annotations

import errno
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from scrapy_urlnorm.exceptions import naming
from scrapy_urlnorm.rules import PROFILES

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Iterator, Mapping

    from scrapy_urlnorm.site_rules import SiteRule

YES, NO, USAGE = 0, 1, 2
"""Exit codes: done or yes; a negative answer; wrong usage or input."""

STANDARD_OUTPUT = "standard output"
_CLEAR = "\r\x1b[K"  # back to the first column, and erase the line (ECMA-48, EL)
_EVERY = 0.5  # seconds between two looks at what a verb is doing


class UsageError(Exception):
    """The command line asks for something impossible; the message is one line."""


class Project(NamedTuple):
    """The settings of the project in which ``scrapy urlnorm`` runs."""

    profile: str
    rules: Mapping[str, object]
    site_rules: tuple[SiteRule, ...]
    store: str
    store_options: Mapping[str, object]
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
PROCESSES = option(
    "--processes N", "work on large files in so many processes (default: cores)", type=int
)

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


def out(text: str) -> None:
    """Write a line of data to standard output."""
    out_lines([bytes_of(text)])


def bytes_of(text: str) -> bytes:
    """Return *text* as it is written: in UTF-8, with the bytes that were none as they were read."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")


def out_lines(lines: Iterable[bytes]) -> None:
    """Write lines of data, given without their ends, to standard output."""
    data = b"\n".join([*lines, b""])
    if sys.stdout is None:  # the calling program closed it
        raise OSError(errno.EBADF, os.strerror(errno.EBADF), STANDARD_OUTPUT)
    try:
        sys.stdout.buffer.write(data)
    except OSError:
        with naming(STANDARD_OUTPUT):  # around millions of lines it would take most of the time
            raise


def flush() -> None:
    """Hand all data to the reader of standard output. An OSError names the standard output."""
    if sys.stdout is not None:
        with naming(STANDARD_OUTPUT):
            sys.stdout.flush()


def out_json(value: object, *, indent: int | None = None) -> None:
    """Write a value as JSON; see `json_of`."""
    out(json_of(value, indent=indent))


def json_of(value: object, *, indent: int | None = None) -> str:
    """Return a value as JSON, in ASCII whatever the locale.

    Bytes that are no UTF-8 are percent-encoded: a lone surrogate is no character, and readers of
    JSON refuse it (RFC 8259 section 8.2).
    """
    text = json.dumps(value, indent=indent)
    if "\\ud" in text:  # half a character outside of the basic plane, or a byte that is none
        from scrapy_urlnorm.logs.source import with_bytes_escaped  # a help text needs no logs

        value = json.loads(with_bytes_escaped(json.dumps(value, ensure_ascii=False)))
        text = json.dumps(value, indent=indent)
    return text


def say(text: str) -> None:
    """Write a message to standard error, below the data and in place of a progress line."""
    with suppress(OSError):  # `main` meets the same error at the end of the program
        flush()
    if sys.stderr is not None:
        with suppress(OSError):
            print(f"{_CLEAR if sys.stderr.isatty() else ''}{text}", file=sys.stderr)


class Progress:
    """Counts, and shows twice a second what a long verb is doing, if standard error is a terminal.

    That is ``doing()``, or the count of what *doing* names, and the seconds since it began. The
    signal of a timer writes the line, so that it is updated whatever the verb is busy with. Where
    there is no such timer (Windows), nothing is shown; nor where the verb writes data meanwhile
    (*streams*) and that goes to a terminal too, because the two would mix.
    """

    def __init__(
        self, doing: str | Callable[[], str], *, quiet: bool = False, streams: bool = False
    ) -> None:
        self._doing = doing
        self.count = 0
        self._is_shown = (
            not quiet
            and sys.stderr is not None
            and sys.stderr.isatty()
            and not (streams and sys.stdout is not None and sys.stdout.isatty())
            and hasattr(signal, "setitimer")
            and threading.current_thread() is threading.main_thread()
        )

    def over(self, items: Iterable[Any]) -> Iterator[Any]:
        """Yield the items, counting."""
        with self:
            for item in items:
                self.count += 1
                yield item

    def __enter__(self) -> None:
        if self._is_shown:
            self._begin = time.monotonic()
            self._before = signal.signal(signal.SIGALRM, self._show)
            signal.setitimer(signal.ITIMER_REAL, _EVERY, _EVERY)

    def __exit__(self, *_: object) -> None:
        if self._is_shown:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, self._before)
            os.write(sys.stderr.fileno(), _CLEAR.encode())

    def _show(self, *_: object) -> None:
        doing = self._doing
        text = f"{self.count:,} {doing}" if isinstance(doing, str) else doing()
        text = f"{_CLEAR}{text}, {time.monotonic() - self._begin:.0f} s"
        # Not through the stream, which may be in the middle of a write when the signal comes.
        os.write(sys.stderr.fileno(), text.encode())
