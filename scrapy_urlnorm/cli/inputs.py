"""What several verbs read: the normalizer of the options, lists of URLs, crawl logs."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING

from scrapy_urlnorm.cli import Project, UsageError, progress, say
from scrapy_urlnorm.exceptions import ConfigError
from scrapy_urlnorm.logs import read_log
from scrapy_urlnorm.normalizer import Normalizer
from scrapy_urlnorm.rules import RULES
from scrapy_urlnorm.site_rules import load_site_rules
from scrapy_urlnorm.text import counted

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from scrapy_urlnorm.logs import Observation


def build_normalizer(args: argparse.Namespace) -> Normalizer:
    """Return the normalizer of the options, which go over the project's settings.

    Raises ConfigError, SiteRuleError and OSError.
    """
    project: Project = args.project
    site_rules = list(project.site_rules)
    for path in args.site_rules:
        site_rules += load_site_rules(path)
    rules = {**project.rules, **dict(map(_rule_option, args.rule))}
    return Normalizer(args.profile or project.profile, rules, site_rules)


def _rule_option(text: str) -> tuple[str, object]:
    name, equals, value = text.partition("=")
    words = {"true": True, "false": False}
    if not equals or value.lower() in words:
        return name, words.get(value.lower(), True)
    try:
        found = json.loads(value)
    except (ValueError, RecursionError):
        found = value.split(",") if "," in value else value
    rule = next((rule for rule in RULES if rule.name == name), None)
    if rule is not None and isinstance(found, str):
        try:
            rule.compile(found)
        except ConfigError:
            return name, [found]  # perhaps a list of one; if not, the normalizer raises the error
    return name, found


def require_one_standard_input(paths: list[str]) -> None:
    if paths.count("-") > 1:
        raise UsageError("standard input (-) can be read once")


class Logs:
    """The rows of all logs of a command line, and counts of them.

    Of logs that several crawls wrote, only the rows of *crawl* are read.
    """

    def __init__(
        self, args: argparse.Namespace, paths: list[str], *, crawl: str | None = None
    ) -> None:
        require_one_standard_input(paths)
        self._args, self._paths, self._crawl = args, paths, crawl
        self.rows = self.contents = self.redirects = 0
        #: Rows that are no pages and no redirects, by the reason.
        self.left_out: Counter[str] = Counter()

    def __iter__(self) -> Iterator[Observation]:
        args = self._args
        options = {"format": args.format, "skip_bad": args.skip_bad}
        for path in self._paths:
            log = read_log(path, crawl=self._crawl, **options)
            for row in progress(log, "rows"):
                self.rows += 1
                self.contents += row.content is not None
                self.redirects += row.location is not None
                if (reason := _left_out(row)) is not None:
                    self.left_out[reason] += 1
                yield row
            if log.skipped:
                say(f"{counted(log.skipped, 'row')} skipped; the first: {log.first_bad}")


def _left_out(row: Observation) -> str | None:
    if row.is_page or row.location is not None or row.status is None:
        return None
    if 300 <= row.status < 400:
        return "redirect without a target"
    if row.status != 200:
        return "error (status 400 and above)" if row.status >= 400 else "other answer (not 200)"
    return "small file" if row.is_file else "page without a content"


def say_left_out(reasons: Counter[str]) -> None:
    if reasons:
        ranked = sorted(reasons.items(), key=lambda pair: (-pair[1], pair[0]))
        say("left out: " + ", ".join(f"{reason} {count:,}" for reason, count in ranked))
