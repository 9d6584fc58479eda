"""The command line: ``scrapy-urlnorm VERB``, ``python -m scrapy_urlnorm`` and ``scrapy urlnorm``.

Data goes to standard output, messages and progress to standard error. Exit codes: 0 done or yes,
1 a negative answer, 2 wrong usage or input, 130 interrupted.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from contextlib import suppress
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any, NoReturn

from scrapy_urlnorm.cli import catalogue, dedupe, import_seen, learn, rekey, site_rules, urls
from scrapy_urlnorm.cli.verb import (
    STANDARD_OUTPUT,
    USAGE,
    WHICH_RULES,
    UsageError,
    Verb,
    flush,
    out,
    say,
)
from scrapy_urlnorm.exceptions import UrlNormError
from scrapy_urlnorm.text import did_you_mean, shortened

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scrapy_urlnorm.cli.verb import Project

__all__ = ["VERBS", "main"]

VERBS: tuple[Verb, ...] = (
    *urls.VERBS,
    *dedupe.VERBS,
    *catalogue.VERBS,
    *learn.VERBS,
    *site_rules.VERBS,
    *rekey.VERBS,
    *import_seen.VERBS,
)

INTERRUPTED = 130


class _Version(argparse.Action):
    """``--version``: the version is looked up when it is asked for only."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> NoReturn:
        from scrapy_urlnorm import __version__

        out(f"scrapy-urlnorm {__version__}")
        parser.exit()


def build_parser(prog: str = "scrapy-urlnorm") -> argparse.ArgumentParser:
    """Build the parser of all verbs."""
    parser = argparse.ArgumentParser(
        prog=prog,
        description="Normalize URLs, find the ones that count as one page, and the rules for that.",
        epilog=f"{prog} VERB --help says more, with an example.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version")
    verbs = parser.add_subparsers(metavar="VERB", dest="verb", required=True)
    for verb in VERBS:
        one = verbs.add_parser(
            verb.name,
            help=verb.help,
            description=fill(verb.description, 80),
            epilog=f"example:\n  {prog} {verb.example}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,  # --site is no short way to say --site-rules
        )
        verb.add_arguments(one)
        one.set_defaults(run=verb.run, parser=one)
    return parser


def _parse(argv: Sequence[str], prog: str) -> argparse.Namespace:
    """Read the command line; SystemExit for help, and for a word or option that is unknown."""
    parser = build_parser(prog)
    names = [verb.name for verb in VERBS]
    word = next((word for word in argv if not word.startswith("-")), None)
    if word is not None and word not in names:
        hint = did_you_mean(word, names)
        parser.error(f"{word!r} is not a verb{hint} Known verbs: {', '.join(names)}.")
    args, unknown = parser.parse_known_args(argv)
    if unknown:
        _refuse(args.parser, unknown)
    return args


def _refuse(parser: argparse.ArgumentParser, unknown: list[str]) -> NoReturn:
    """Tell the user which arguments the verb does not have, and which one is closest."""
    option = unknown[0].partition("=")[0]
    if option == "--rules":
        hint = f". {WHICH_RULES}"
    else:
        hint = did_you_mean(option, re.findall(r"--[a-z-]+", parser.format_help()))
    parser.error(f"unrecognized arguments: {' '.join(unknown)}{hint}")


def main(
    argv: Sequence[str] | None = None,
    *,
    prog: str = "scrapy-urlnorm",
    project: Project | None = None,
) -> int:
    """Run one verb and return the exit code; raises nothing but SystemExit for bad usage."""
    argv = sys.argv[1:] if argv is None else argv
    try:
        try:
            args = _parse(argv, prog)
            args.project = project
            code = _run(args, f"{prog} {args.verb}")
        finally:
            flush()
    except BrokenPipeError:
        _drop_output()  # whoever read it has enough of it
        return 0
    except OSError as error:
        _drop_output()
        say(f"{prog}: {_described(error)}")
        return USAGE
    except KeyboardInterrupt:  # while the last of the output is on its way
        _drop_output()
        return INTERRUPTED
    return code


def _run(args: argparse.Namespace, name: str) -> int:
    """Run the verb and print an error as one line. `main` handles errors of the output."""
    try:
        code: int = args.run(args)
    except (UsageError, UrlNormError) as error:
        say(f"{name}: {shortened(str(error))}")
        return USAGE
    except OSError as error:
        if isinstance(error, BrokenPipeError) or error.filename == STANDARD_OUTPUT:
            raise
        say(f"{name}: {_described(error)}")
        return USAGE
    except KeyboardInterrupt:
        say(f"{name}: interrupted")
        return INTERRUPTED
    return code


def _described(error: OSError) -> str:
    name = f"{error.filename}: " if error.filename else ""
    return f"{name}{error.strerror or error}"


def _drop_output() -> None:
    """Discard the rest of the output, which the interpreter would write at its end."""
    if sys.stdout is None:  # it was closed before we began
        return
    with suppress(OSError, ValueError), Path(os.devnull).open("wb") as nowhere:
        os.dup2(nowhere.fileno(), sys.stdout.fileno())
