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
from importlib import import_module
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, NamedTuple

from scrapy_urlnorm.cli.verb import STANDARD_OUTPUT, USAGE, WHICH_RULES, UsageError, flush, say
from scrapy_urlnorm.exceptions import UrlNormError
from scrapy_urlnorm.text import did_you_mean, own_version, shortened

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
        module = import_module(f"{__name__}.{self.module}")
        verb: Verb = getattr(module, self.name.replace("-", "_"))
        return verb


VERBS = (
    Listed("normalize", "urls", "print the normalized form of URLs"),
    Listed("explain", "urls", "show which rules change a URL, and why"),
    Listed("compare", "urls", "say whether two URLs count as one"),
    Listed("why", "why", "say what became of a URL in a crawl with JOBDIR"),
    Listed("report", "why", "write an HTML page about what a crawl saved, or would have"),
    Listed("dedupe", "urls", "keep the first spelling of each page of a URL list"),
    Listed("rules", "rules", "list the rules of the catalogue, or explain one"),
    Listed("mine", "learn", "learn rules from crawl logs"),
    Listed("evaluate", "learn", "measure rules on crawl logs"),
    Listed("check-rules", "rules", "check a file of rules for single sites"),
    Listed("import-rules", "rules", "turn another tool's rules into site rules"),
    Listed("forget", "stores", "have a crawl fetch URLs again"),
)


def _parse(argv: Sequence[str], prog: str) -> argparse.Namespace:
    """Read the command line; SystemExit for help, and for a word or option that is unknown."""
    word = next((word for word in argv if not word.startswith("-")), None)
    parser = argparse.ArgumentParser(
        prog=prog,
        description="Normalize URLs, find the ones that count as one page, and the rules for that.",
        epilog=f"{prog} VERB --help says more, with an example.",
        allow_abbrev=False,
    )
    number = own_version() if "--version" in argv else ""  # to look it up takes a while
    parser.add_argument("--version", action="version", version=f"scrapy-urlnorm {number}")
    verbs = parser.add_subparsers(metavar="VERB", dest="verb", required=True)
    for listed in VERBS:
        if listed.name != word:  # of the others the names will do
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
        for add in verb.options:
            add(one)
        one.set_defaults(run=verb.run, parser=one)
    names = [verb.name for verb in VERBS]
    if word is not None and word not in names:
        hint = did_you_mean(word, names)
        parser.error(f"{word!r} is not a verb{hint} Known verbs: {', '.join(names)}.")
    args, unknown = parser.parse_known_args(argv)
    if unknown:
        option = unknown[0].partition("=")[0]
        hint = did_you_mean(option, re.findall(r"--[a-z-]+", args.parser.format_help()))
        hint = f". {WHICH_RULES}" if option == "--rules" else hint
        args.parser.error(f"unrecognized arguments: {' '.join(unknown)}{hint}")
    return args


def main(
    argv: Sequence[str] | None = None,
    *,
    prog: str = "scrapy-urlnorm",
    project: Project | None = None,
) -> int:
    """Run one verb and return the exit code; raises nothing but SystemExit for bad usage."""
    name = prog
    try:
        try:
            args = _parse(sys.argv[1:] if argv is None else argv, prog)
            args.project = project
            name = f"{prog} {args.verb}"
            code: int = args.run(args)
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
    if sys.stdout is not None:  # it may have been closed before we began
        with suppress(OSError, ValueError), Path(os.devnull).open("wb") as nowhere:
            os.dup2(nowhere.fileno(), sys.stdout.fileno())
