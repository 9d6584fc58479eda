"""Verb, and what verbs share: output, progress, and the options that make a normalizer."""

from __future__ import annotations

import errno
import json
import os
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO

from scrapy_urlnorm.exceptions import ConfigError, naming
from scrapy_urlnorm.normalizer import Normalizer
from scrapy_urlnorm.rules import PROFILES, RULE_NAMES, RULES
from scrapy_urlnorm.site_rules import load_site_rules

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from scrapy_urlnorm.learning.probe import Probe
    from scrapy_urlnorm.site_rules import SiteRule

YES, NO, USAGE = 0, 1, 2
"""Exit codes: done or yes; a negative answer; wrong usage or input."""

STANDARD_OUTPUT = "standard output"

WHICH_RULES = (
    "--rule NAME=OPTION switches a rule of the catalogue; --site-rules FILE reads rules for "
    "single sites; --rules RULES, of evaluate, is the file to measure."
)


class UsageError(Exception):
    """The command line asks for something impossible; the message is one line."""


@dataclass(frozen=True)
class Verb:
    """One verb: ``run`` gets the parsed arguments and returns an exit code."""

    name: str
    description: str
    example: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]


class Project(NamedTuple):
    """The settings of the project in which ``scrapy urlnorm`` runs."""

    profile: str
    rules: Mapping[str, object]
    site_rules: tuple[SiteRule, ...]
    store: str
    store_options: Mapping[str, object]
    jobdir: str | None
    fingerprinter: str
    probe: Callable[[Iterable[Probe]], None] | None = None  #: fetches the pairs of probes


def out(text: str) -> None:
    """Write a line of data to standard output; bytes that are no UTF-8 come out as they went in."""
    out_lines([bytes_of(text)])


def bytes_of(text: str) -> bytes:
    """Return *text* as it is written: in UTF-8, with the bytes that were none as they were read."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")


def out_lines(lines: Iterable[bytes]) -> None:
    """Write lines of data, given without their ends, to standard output."""
    data = b"\n".join([*lines, b""])  # each line with its end, and nothing for no lines
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


_CLEAR = "\r\x1b[K"  # back to the first column, and erase the line (ECMA-48, EL)


class Progress:
    """Counts items, and shows the count twice a second if standard error is a terminal.

    ``streams`` says that the verb writes data meanwhile: if that goes to a terminal too, nothing
    is shown, because the two would mix.
    """

    def __init__(self, what: str, *, quiet: bool = False, streams: bool = False) -> None:
        self._what = what
        self._on = not quiet and _is_terminal(sys.stderr)
        self._on = self._on and not (streams and _is_terminal(sys.stdout))
        self._next = time.monotonic() + 0.5
        self.count = 0

    def over(self, items: Iterable[Any]) -> Iterator[Any]:
        """Yield the items, counting."""
        for item in items:
            self.count += 1
            if not self.count & 1023:
                self._show()
            yield item
        self.clear()

    def add(self, count: int) -> None:
        """Count *count* items."""
        self.count += count
        self._show()

    def _show(self) -> None:
        if self._on and time.monotonic() >= self._next:
            self._next = time.monotonic() + 0.5
            sys.stderr.write(f"\r{self.count:,} {self._what}")
            sys.stderr.flush()

    def clear(self) -> None:
        """Erase the line."""
        if self._on:
            sys.stderr.write(_CLEAR)
            sys.stderr.flush()


def _is_terminal(stream: TextIO | None) -> bool:
    return stream is not None and stream.isatty()


def add_json(parser: argparse.ArgumentParser) -> None:
    """Offer ``--json``."""
    parser.add_argument("--json", action="store_true", help="write JSON instead of text")


def add_normalizer(parser: argparse.ArgumentParser) -> None:
    """Offer the options that a normalizer is built from."""
    group = parser.add_argument_group("the normalizer")
    group.add_argument("--profile", choices=PROFILES, help='rules to apply (default: "default")')
    group.add_argument(
        "--rule",
        action="append",
        default=[],
        metavar="NAME=OPTION",
        help='switch a rule of the catalogue (the verb "rules" lists them): NAME, NAME=true, '
        "NAME=false, NAME=OPTION, a list as NAME=a,b or JSON; repeatable",
    )
    group.add_argument(
        "--site-rules",
        action="append",
        default=[],
        metavar="FILE",
        help="read rules for single sites, as mine writes them; repeatable",
    )


def build_normalizer(args: argparse.Namespace) -> Normalizer:
    """Return the normalizer of the options, which add to the project's settings if there are any.

    Raises ConfigError, OSError, and UsageError for a file in place of a rule or a rule in place
    of a file.
    """
    project: Project | None = getattr(args, "project", None)
    profile: str = args.profile or (project.profile if project else "default")
    rules: dict[str, object] = dict(project.rules) if project else {}
    site_rules = list(project.site_rules) if project else []
    for text in args.rule:
        name, option = _rule_option(text)
        if name not in RULE_NAMES and Path(text).suffix == ".toml":
            raise UsageError(f"--rule {text}: a file is no rule of the catalogue. {WHICH_RULES}")
        rules[name] = option
    for path in args.site_rules:
        if path.partition("=")[0] in RULE_NAMES and not Path(path).exists():
            raise UsageError(f"--site-rules {path}: there is no such file. {WHICH_RULES}")
        site_rules += load_site_rules(path)
    return Normalizer(profile, rules, site_rules)


def _rule_option(text: str) -> tuple[str, object]:
    name, equals, value = text.partition("=")
    words = {"true": True, "false": False}
    if not equals or value.lower() in words:
        return name, words.get(value.lower(), True)
    try:
        option = json.loads(value)
    except (ValueError, RecursionError):
        option = value.split(",") if "," in value else value
    rule = next((rule for rule in RULES if rule.name == name), None)
    if rule is not None and isinstance(option, str):
        try:
            rule.compile(option)
        except ConfigError:
            return name, [option]  # perhaps a list of one; if not, the normalizer raises the error
    return name, option


def add_urls(parser: argparse.ArgumentParser) -> None:
    """Offer URLs as arguments, in a file or on standard input."""
    parser.add_argument("urls", nargs="*", metavar="URL", help="a URL, or - for standard input")
    parser.add_argument(
        "-f",
        "--file",
        action="append",
        default=[],
        metavar="FILE",
        help="a file of URLs, one a line, plain or gzipped; - for standard input; repeatable",
    )


def given_urls(args: argparse.Namespace) -> Iterator[str]:
    """Yield the URLs of the command line, then those of its files. Raises UsageError for none."""
    from scrapy_urlnorm.logs.source import urls_in  # a help text needs no logs

    return chain.from_iterable(map(urls_in, given(args)))


def given(args: argparse.Namespace) -> Iterator[str | bytes]:
    """Yield each URL of the command line, then the lines of its files, many at once.

    Raises UsageError for none.
    """
    if not args.urls and not args.file:
        raise UsageError("give URLs, a file of them (-f FILE), or - for standard input")
    for url in args.urls:
        if url == "-":
            yield from blocks_of(url)
        else:
            _hint_at_file(url)
            yield url
    for path in args.file:
        yield from blocks_of(path)


def _hint_at_file(text: str) -> None:
    """Tell the user when *text*, given as a URL, is the name of a file."""
    with suppress(OSError, ValueError):
        if "://" not in text and Path(text).is_file():
            say(f"{text!r} is a file, and was taken for a URL: -f {text} reads the URLs in it")


def blocks_of(path: str) -> Iterator[bytes]:
    """Yield the lines of a file of URLs, or of standard input for ``-``, many at once."""
    from scrapy_urlnorm.logs.source import blocks, open_log  # a help text needs no logs

    with open_log(path) as stream:
        for _, block in blocks(stream, _Strict(path)):
            yield block


class _Strict:
    """A list of URLs in which a bad line ends the verb."""

    site: str | None = None
    can_be_reopened = True

    def __init__(self, path: str) -> None:
        self.path = path

    def bad(self, line: int, reason: str) -> None:
        """Raise UsageError."""
        raise UsageError(f"{self.path}, line {line}: {reason}")
