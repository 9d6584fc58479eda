"""What every verb is made of: its description, its output, and the normalizer it is given."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from ..exceptions import ConfigError
from ..logs.source import numbered_lines, open_log, url_of, with_bytes_escaped
from ..normalizer import Normalizer
from ..rules import PROFILES, RULES
from ..site_rules import load_site_rules

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from ..site_rules import SiteRule

YES, NO, USAGE = 0, 1, 2
"""Exit codes: done or yes; a negative answer; wrong usage or input."""


class UsageError(Exception):
    """The command line asks for something that cannot be: one line says what."""


@dataclass(frozen=True)
class Verb:
    """One verb: ``run`` gets the parsed arguments and returns an exit code."""

    name: str
    help: str
    description: str
    example: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]


class Project(NamedTuple):
    """What ``scrapy urlnorm`` knows from the project's settings."""

    profile: str
    rules: Mapping[str, object]
    site_rules: tuple[SiteRule, ...]
    store: str
    store_options: Mapping[str, object]
    jobdir: str | None
    fingerprinter: str


def out(text: str) -> None:
    """Write a line of data to standard output, bytes as they came."""
    try:
        data = text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        data = text.encode("utf-8", "surrogatepass")
    sys.stdout.buffer.write(data + b"\n")


def out_json(value: object, *, indent: int | None = None) -> None:
    """Write a value as JSON, in ASCII whatever the locale.

    Bytes that are no UTF-8 are percent-encoded: a lone surrogate is no character, and readers of
    JSON refuse it (RFC 8259 section 8.2).
    """
    text = json.dumps(value, indent=indent)
    if "\\ud" in text:  # half a character outside of the basic plane, or a byte that is none
        value = json.loads(with_bytes_escaped(json.dumps(value, ensure_ascii=False)))
        text = json.dumps(value, indent=indent)
    out(text)


def say(text: str) -> None:
    """Write a message to standard error."""
    sys.stdout.buffer.flush()
    print(text, file=sys.stderr)


class Progress:
    """A line on standard error that counts, twice a second, if somebody is looking."""

    def __init__(self, what: str, *, quiet: bool = False) -> None:
        self._what = what
        self._on = not quiet and sys.stderr.isatty()
        self._next = time.monotonic() + 0.5
        self.count = 0

    def over(self, items: Iterable[Any]) -> Iterator[Any]:
        """Yield the items, counting."""
        for item in items:
            self.count += 1
            if self._on and not self.count & 1023 and time.monotonic() >= self._next:
                self._next = time.monotonic() + 0.5
                sys.stderr.write(f"\r{self.count:,} {self._what}")
                sys.stderr.flush()
            yield item
        self.clear()

    def clear(self) -> None:
        """Make room for what comes next."""
        if self._on:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


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
        metavar="NAME=VALUE",
        help="switch a rule: NAME, NAME=true, NAME=false, NAME=OPTION, a list as NAME=a,b or "
        "JSON; repeatable",
    )
    group.add_argument(
        "--site-rules",
        action="append",
        default=[],
        metavar="FILE",
        help="a file with rules for single sites; repeatable",
    )


def build_normalizer(args: argparse.Namespace) -> Normalizer:
    """Build what the options say, over the project's settings where there is a project.

    Raises ConfigError and OSError.
    """
    project: Project | None = getattr(args, "project", None)
    profile: str = args.profile or (project.profile if project else "default")
    rules: dict[str, object] = dict(project.rules) if project else {}
    site_rules = list(project.site_rules) if project else []
    for text in args.rule:
        name, option = _rule_option(text)
        rules[name] = option
    for path in args.site_rules:
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
            return name, [option]  # a list of one: if that is wrong too, the error says what is not
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
    """Yield the URLs that `add_urls` asked for, the files' ones last."""
    if not args.urls and not args.file:
        raise UsageError("give URLs, a file of them (-f FILE), or - for standard input")
    for url in args.urls:
        if url == "-":
            yield from map(url_of, lines_of(url))
        else:
            yield url_of(url)
    for path in args.file:
        yield from map(url_of, lines_of(path))


def lines_of(path: str) -> Iterator[str]:
    """Yield the lines of a file of URLs, or of standard input for ``-``, as they stand."""
    with open_log(path) as stream:
        for _, line in numbered_lines(stream, _Strict(path)):
            yield line


class _Strict:
    """A list that cannot be read ends the verb."""

    site: str | None = None

    def __init__(self, path: str) -> None:
        self.path = path

    def bad(self, line: int, reason: str) -> None:
        """Raise UsageError."""
        raise UsageError(f"{self.path}, line {line}: {reason}")
