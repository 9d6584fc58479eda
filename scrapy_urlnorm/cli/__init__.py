"""The command line: ``scrapy-urlnorm VERB``, ``python -m scrapy_urlnorm`` and ``scrapy urlnorm``.

Data goes to standard output, messages and progress to standard error. Exit codes: 0 done or yes,
1 a negative answer, 2 wrong usage or input, 130 interrupted, 143 ended by SIGTERM, 129 by a
closed terminal.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from scrapy_urlnorm.cli.interruption import ending_tidily, exit_code, word_for
from scrapy_urlnorm.cli.verb import (
    STANDARD_OUTPUT,
    USAGE,
    WHICH_RULES,
    UsageError,
    flush,
    out,
    say,
)
from scrapy_urlnorm.exceptions import UrlNormError
from scrapy_urlnorm.text import did_you_mean, shortened

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scrapy_urlnorm.cli.verb import Project, Verb

__all__ = ["VERBS", "main"]


class Listed(NamedTuple):
    """A verb as the help lists it; its module is imported when the verb is asked for."""

    name: str
    module: str
    help: str

    def load(self) -> Verb:
        """Import the verb."""
        found = import_module(f"{__name__}.{self.module}")
        verb: Verb = next(verb for verb in found.VERBS if verb.name == self.name)
        return verb


VERBS = (
    Listed("normalize", "urls", "print the normalized form of URLs"),
    Listed("explain", "urls", "show which rules change a URL, and why"),
    Listed("compare", "urls", "say whether two URLs count as one"),
    Listed("why", "why", "say what became of a URL in a crawl with JOBDIR"),
    Listed("report", "report", "write an HTML page about what a crawl saved, or would have"),
    Listed("dedupe", "dedupe", "keep the first spelling of each page of a URL list"),
    Listed("rules", "catalogue", "list the rules of the catalogue, or explain one"),
    Listed("mine", "learn", "learn rules from crawl logs"),
    Listed("evaluate", "learn", "measure rules on crawl logs"),
    Listed("check-rules", "site_rules", "check a file of rules for single sites"),
    Listed("import-rules", "site_rules", "turn another tool's rules into site rules"),
    Listed("rekey", "rekey", "build a seen-set from crawl logs, for other rules"),
    Listed("import-seen", "import_seen", "take over the seen-set of stock Scrapy or scrapy-redis"),
)


class _Version(argparse.Action):
    """``--version``: the version is looked up when it is asked for only."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> NoReturn:
        from scrapy_urlnorm import __version__

        out(f"scrapy-urlnorm {__version__}")
        parser.exit()


def build_parser(prog: str, asked: str | None) -> argparse.ArgumentParser:
    """Build the parser: the verb *asked* for with all its arguments, the others as names."""
    parser = argparse.ArgumentParser(
        prog=prog,
        description="Normalize URLs, find the ones that count as one page, and the rules for that.",
        epilog=f"{prog} VERB --help says more, with an example.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version")
    verbs = parser.add_subparsers(metavar="VERB", dest="verb", required=True)
    for listed in VERBS:
        if listed.name != asked:
            verbs.add_parser(listed.name, help=listed.help)
            continue
        verb = listed.load()
        one = verbs.add_parser(
            listed.name,
            help=listed.help,
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
    word = next((word for word in argv if not word.startswith("-")), None)
    parser = build_parser(prog, word)
    names = [verb.name for verb in VERBS]
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
    with ending_tidily():
        return _main(sys.argv[1:] if argv is None else argv, prog, project)


def _main(argv: Sequence[str], prog: str, project: Project | None) -> int:
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
    except KeyboardInterrupt as error:  # while the last of the output is on its way
        _drop_output()
        return exit_code(error)
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
    except RuntimeError as error:
        from concurrent.futures import BrokenExecutor  # here: few runs need it

        if not isinstance(error, BrokenExecutor):
            raise
        say(f"{name}: a process that did part of the work was ended from outside; was it memory?")
        return USAGE
    except KeyboardInterrupt as error:
        say(f"{name}: {word_for(error)}")
        return exit_code(error)
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
