"""The command line: ``scrapy-urlnorm VERB``, ``python -m scrapy_urlnorm`` and ``scrapy urlnorm``.

Data goes to standard output, messages and progress to standard error. Exit codes: 0 done or yes,
1 a negative answer, 2 wrong usage or input, 130 interrupted.
"""

from __future__ import annotations

import argparse
import os
import sys
from textwrap import fill
from typing import TYPE_CHECKING

from ..exceptions import UrlNormError
from ..text import shortened
from . import catalogue, dedupe, import_seen, learn, site_rules, stores, urls
from .verb import USAGE, UsageError, Verb, say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .verb import Project

__all__ = ["VERBS", "main"]

VERBS: tuple[Verb, ...] = (
    *urls.VERBS,
    *dedupe.VERBS,
    *catalogue.VERBS,
    *learn.VERBS,
    *site_rules.VERBS,
    *stores.VERBS,
    *import_seen.VERBS,
)

INTERRUPTED = 130


def build_parser(prog: str = "scrapy-urlnorm") -> argparse.ArgumentParser:
    """Build the parser of all verbs."""
    parser = argparse.ArgumentParser(
        prog=prog,
        description="Normalize URLs, find the ones that count as one page, and the rules for that.",
        epilog=f"{prog} VERB --help says more, with an example.",
    )
    verbs = parser.add_subparsers(metavar="VERB", dest="verb", required=True)
    for verb in VERBS:
        one = verbs.add_parser(
            verb.name,
            help=verb.help,
            description=fill(verb.description, 80),
            epilog=f"example:\n  {prog} {verb.example}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        verb.add_arguments(one)
        one.set_defaults(run=verb.run)
    return parser


def main(
    argv: Sequence[str] | None = None,
    *,
    prog: str = "scrapy-urlnorm",
    project: Project | None = None,
) -> int:
    """Run one verb and return the exit code; raises nothing but SystemExit for bad usage."""
    args = build_parser(prog).parse_args(argv)
    args.project = project
    try:
        code: int = args.run(args)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        # Whoever read our output has enough of it; the interpreter must not flush into it again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (UsageError, UrlNormError) as error:
        say(f"{prog} {args.verb}: {shortened(str(error))}")
        return USAGE
    except OSError as error:
        name = f"{error.filename}: " if error.filename else ""
        say(f"{prog} {args.verb}: {name}{error.strerror or error}")
        return USAGE
    except KeyboardInterrupt:
        say(f"{prog} {args.verb}: interrupted")
        return INTERRUPTED
    return code
