"""``scrapy urlnorm VERB``: the command line with the settings of the project it is run in."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from scrapy.commands import ScrapyCommand
from scrapy.exceptions import UsageError
from scrapy.utils.conf import arglist_to_dict
from scrapy.utils.misc import load_object
from scrapy.utils.python import global_object_name

from scrapy_urlnorm.cli import VERBS, Project, main
from scrapy_urlnorm.crawl.fingerprinter import UrlNormRequestFingerprinter
from scrapy_urlnorm.crawl.settings import FALLBACK_FINGERPRINTER, RULES_SETTING, Config
from scrapy_urlnorm.exceptions import ConfigError
from scrapy_urlnorm.url import STOCK_FINGERPRINTER

if TYPE_CHECKING:
    from scrapy.settings import Settings


class UrlNormCommand(ScrapyCommand):
    """Runs ``scrapy-urlnorm VERB`` with the settings of a project.

    Of Scrapy's own options it offers only ``-s``: Scrapy's ``--profile`` means something else.
    """

    settings: Settings  # Scrapy sets it before it calls anything here
    requires_crawler_process = False
    default_settings = {"LOG_ENABLED": False}  # noqa: RUF012  # as Scrapy's commands have it

    def syntax(self) -> str:
        return "[-s NAME=VALUE] VERB ..."

    def short_desc(self) -> str:
        return "Normalize URLs and find duplicate ones, with the project's settings"

    def long_desc(self) -> str:
        verbs = "; ".join(f"{verb.name}: {verb.help}" for verb in VERBS)
        return f"{self.short_desc()}. {verbs}. See scrapy urlnorm VERB --help."

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """Parse ``-s``, and leave the rest to the verb."""
        parser.add_argument(
            "-s", "--set", action="append", default=[], metavar="NAME=VALUE", help="set a setting"
        )
        parser.add_argument("verb", nargs=argparse.REMAINDER, metavar="VERB ...")
        parser.set_defaults(profile=None)  # Scrapy reads it, to see whether to run a profiler

    def process_options(self, args: list[str], opts: argparse.Namespace) -> None:
        try:
            self.settings.setdict(arglist_to_dict(opts.set), priority="cmdline")
        except ValueError:
            raise UsageError("invalid -s value, use -s NAME=VALUE", print_help=False) from None

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        try:
            config = Config(self.settings)
        except ConfigError as error:
            raise UsageError(str(error), print_help=False) from error
        project = Project(
            config.normalizer.profile,
            self.settings.getdict(RULES_SETTING),
            config.normalizer.site_rules,
            config.store,
            config.jobdir,
            self._fingerprinter(),
        )
        self.exitcode = main([*args, *opts.verb], prog="scrapy urlnorm", project=project)

    def _fingerprinter(self) -> str:
        """Return the import path of the fallback fingerprinter, as the add-on would find it."""
        found = load_object(self.settings["REQUEST_FINGERPRINTER_CLASS"])
        if found is UrlNormRequestFingerprinter:
            found = load_object(self.settings.get(FALLBACK_FINGERPRINTER) or STOCK_FINGERPRINTER)
        return global_object_name(found)
