"""The words of the command line: a row for each verb, with its options, and how they are read."""

from __future__ import annotations

import re
from argparse import ArgumentParser, ArgumentTypeError, RawDescriptionHelpFormatter
from contextlib import suppress
from textwrap import fill
from typing import TYPE_CHECKING, Any, NamedTuple

from scrapy_urlnorm.rules import PROFILES
from scrapy_urlnorm.text import did_you_mean, own_version

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence

SPELLINGS = 20
"""Most spellings that ``dedupe --groups`` shows of a page: memory must not grow with its links."""

Option = tuple[list[str], dict[str, Any]]
"""Names and settings, as `argparse.ArgumentParser.add_argument` takes them."""


class Verb(NamedTuple):
    """A verb, or an action of ``rules``. *run* is ``module.function``, imported when it is run.

    The function gets the parsed arguments and returns an exit code.
    """

    name: str
    run: str
    text: str
    example: str
    options: tuple[Option, ...]

    @property
    def help(self) -> str:
        """Its line in the overview: the first sentence of its text."""
        return self.text[0].lower() + self.text[1:].partition(". ")[0]


def _option(usage: str, text: str, **settings: Any) -> Option:
    """Return an option with its *usage* as a help text has it, such as ``-o --output FILE``.

    Without a value and *settings* it is a flag. Dots say that there may be several values, brackets
    that there may be none.
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
            settings |= {"action": "append", "default": []}
    return names, {"help": text, **settings}


def _share(text: str) -> float:
    with suppress(ValueError):
        if 0 <= float(text) <= 0.5:
            return float(text)
    raise ArgumentTypeError(f"{text!r} is no number from 0 to 0.5")


def _number(text: str) -> int:
    if text.isdecimal() and int(text):
        return int(text)
    raise ArgumentTypeError(f"{text!r} is no number from 1")


def _verb(name: str, run: str, text: str, example: str, *options: Option) -> Verb:
    return Verb(name, run, text, example, options)


_JSON = _option("--json", "write JSON instead of text")
_PROFILE = _option("--profile", "rules of the catalogue (default: default)", choices=PROFILES)
_NORMALIZER = (
    _PROFILE,
    _option(
        "--rule NAME=OPTION...", "switch one of them: NAME=true, =false, =a,b or =JSON; repeatable"
    ),
    _option("--site-rules FILE...", "rules for single sites, as mine writes them; repeatable"),
)
_LOG_OPTIONS = (
    _option("--format NAME", "of all logs, such as jsonl (default: found out)"),
    _option("--skip-bad", "count rows that cannot be read instead of stopping"),
)
_LOGS = (
    _option(
        "logs LOG...", "a crawl log, WARC or Parquet file, or Scrapy's HTTP cache; - for stdin"
    ),
    *_LOG_OPTIONS,
    _JSON,
)
_CRAWL = (
    _option(
        "--job JOBDIR", "the job directory of the crawl, or its database (default: the project's)"
    ),
    _option("--store SPEC", "its store: sqlite:PATH or redis://... (default: the project's)"),
    _option("--spider NAME", "whose store it is: stands in the prefix of one in Redis"),
)
_RULE_FILES = _option("files FILE...", "a rule file")

VERBS = (
    _verb(
        "explain",
        "urls.explain",
        "Show which rules change a URL and why, or whether two URLs have one key. The normalized "
        "form is the key. The exit code is 1 for two URLs with different keys, and for one that no "
        "client accepts, or that has no host: such text is its own key.",
        "'http://example.com/%7Efoo/?b=2&a=1'",
        _option("urls [URL...]", "one URL, or two to compare"),
        _option("--brief FILE", "print the normalized form of each line of a file; - for stdin"),
        _JSON,
        *_NORMALIZER,
    ),
    _verb(
        "dedupe",
        "urls.dedupe",
        "Keep the first spelling of each page of a URL list. Those whose normalized form was not "
        "there before are printed, as they stand and in their order. Memory grows with the number "
        "of distinct pages only.",
        "--groups urls.txt.gz",
        _option("files FILE...", "URLs, one a line; - for standard input"),
        _option("--groups", f"print only what was merged, {SPELLINGS} spellings of a key at most"),
        _option("-q --quiet", "no summary"),
        _JSON,
        *_NORMALIZER,
    ),
    _verb(
        "mine",
        "learn.mine",
        "Learn rules from crawl logs. Logs that name contents or redirects show which URLs of a "
        "site count as one; lists of URLs give proposals only. In a rule file that "
        "is there already, hand-written and rejected rules stay.",
        "crawl.jsonl.gz -o rules.toml",
        *_LOGS,
        _option("-o --output RULES", "the rule file to write (default: print the rules)"),
        _option("--risk", "expected share of wrong merges of a rule", type=_share, default=0.02),
        _option("--processes N", "work on so many sites at once (default: cores)", type=_number),
    ),
    _verb(
        "evaluate",
        "learn.evaluate",
        "Measure rule files on crawl logs. The logs have to name contents, and are best others than "
        "the rules were learned from. It prints redundant URLs found, false merges, and contents "
        "that a crawl in the order of the log would lose.",
        "--rules rules.toml crawl.jsonl.gz",
        *_LOGS,
        _option("--rules RULES...", "a rule file to measure; repeatable", required=True),
        *_NORMALIZER,
    ),
    _verb(
        "report",
        "crawls.report",
        "Write an HTML page about what a crawl saved, or would have. It shows which merges are "
        "suspicious, and what is fetched twice. Of a crawl log it says what the rules would "
        "have saved. The page needs no network.",
        "crawl.jsonl.gz --site-rules rules.toml -o report.html",
        _option("sources LOG|JOBDIR...", "crawl logs, the job directory of a crawl, or both"),
        _option("-o --output PAGE", "the HTML file to write", required=True),
        *_LOG_OPTIONS,
        *_NORMALIZER,
    ),
    _verb(
        "why",
        "crawls.why",
        "Say what became of a URL in a crawl with JOBDIR. Its page arrived, or its request was "
        "filtered or held, behind which page, by which rules, when and how often; or it "
        "waits. The crawl has to have ended or to be paused. The exit code is 1 when the crawl has "
        "not met the URL.",
        "'http://shop.example/list?sort=price' --job crawls/shop",
        _option("url URL", "the URL that you miss"),
        *_CRAWL,
        _JSON,
        *_NORMALIZER,
    ),
    _verb(
        "rules list",
        "rules.catalogue",
        "List the normalizations that all sites share, or explain one. They stand in the order in which they "
        "run, with their semantics and the profiles that have them on. With a name, it prints what "
        "that rule does and where it is from.",
        "remove-dot-segments",
        _option("name [NAME]", "one rule, with what it does"),
        _JSON,
    ),
    _verb(
        "rules check",
        "rules.check",
        "Check files of rules for single sites. Every rule has to be valid, all have to come to an "
        "end, and each pair of examples has to be merged. The exit code is 1 when something keeps "
        "a file from being used.",
        "rules.toml",
        _RULE_FILES,
        _PROFILE,
        _JSON,
    ),
    _verb(
        "rules import",
        "rules.import_",
        "Turn the rules of duplicate-url-discarder into site rules. What could not be taken is said "
        "on standard error.",
        "rules.json -o rules.toml",
        _option("files FILE...", "a rule file of that tool (JSON)"),
        _option("-o --output RULES", "add the rules to this file (default: print them)"),
        _JSON,
    ),
    _verb(
        "rules merge",
        "rules.merge",
        "Make one rule file of several. Of rules that do the same on the same site, one stays: a user's own before a rejected "
        "one, that before learned ones, of these the one with most support, and of equals the "
        "first. A rule that contradicts or undoes one before it in this order is only proposed.",
        "crawl-1.toml crawl-2.toml -o rules.toml",
        _RULE_FILES,
        _option("-o --output RULES", "write to this file, whose own rules are merged too"),
    ),
    _verb(
        "forget",
        "crawls.forget",
        "Have a crawl fetch URLs again when it meets a link to them: forget the pages that link there, "
        "too. Taken out of what it has seen are their keys, the pages that arrived under them, and "
        "the requests that are held. The crawl has to have ended or to be paused. The exit code is 1 when none of them was known.",
        "'http://shop.example/list' --job crawls/shop",
        _option("urls URL...", "the URL to fetch again"),
        _option("--prefix", "take every URL that begins so, of those that a learning crawl met"),
        *_CRAWL,
        *_NORMALIZER,
    ),
)


def parse(argv: Sequence[str], prog: str) -> Namespace:
    """Read the command line; SystemExit for help, and for a word or option that is unknown.

    Besides the options, ``run`` is that of the verb, and ``parser`` reads its options.
    """
    parser = ArgumentParser(
        prog=prog,
        description="Normalize URLs, find the ones that count as one page, and the rules for that.",
        epilog=f"{prog} VERB --help says more, with an example.",
        allow_abbrev=False,
    )
    number = own_version() if "--version" in argv else ""  # to look it up takes a while
    parser.add_argument("--version", action="version", version=f"scrapy-urlnorm {number}")
    groups: dict[str, Any] = {"": parser.add_subparsers(metavar="VERB", required=True)}
    for verb in VERBS:
        group, _, name = verb.name.rpartition(" ")
        if group not in groups:  # alone, it does what its first action does
            others = " | ".join(v.name for v in VERBS if v.name.startswith(group))
            one = groups[""].add_parser(group, help=others)
            one.set_defaults(run=verb.run, parser=one, name=None, json=False)
            groups[group] = one.add_subparsers(metavar="ACTION")
        one = groups[group].add_parser(
            name,
            help=verb.help,
            description=fill(verb.text, 80),
            formatter_class=RawDescriptionHelpFormatter,
            allow_abbrev=False,  # --site is no short way to say --site-rules
        )
        one.epilog = f"example:\n  {one.prog} {verb.example}"
        for names, settings in verb.options:
            one.add_argument(*names, **settings)
        one.set_defaults(run=verb.run, parser=one)
    args, unknown = parser.parse_known_args(argv)
    if unknown:
        option = unknown[0].partition("=")[0]
        hint = did_you_mean(option, re.findall(r"--[a-z-]+", args.parser.format_help()))
        args.parser.error(f"unrecognized arguments: {' '.join(unknown)}{hint}")
    return args
