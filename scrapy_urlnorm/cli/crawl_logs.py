"""The crawl logs of a command line: its options, a reader, and a count of the rows."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from scrapy_urlnorm.cli.verb import Progress, UsageError, add_json, say
from scrapy_urlnorm.logs import ARCHIVES, FORMATS, read_log
from scrapy_urlnorm.text import counted

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from scrapy_urlnorm.logs import Observation


class Logs:
    """The rows of all logs of a command line, and counts of them.

    With ``quiet`` the caller shows the progress.
    """

    def __init__(self, args: argparse.Namespace, *, quiet: bool = False) -> None:
        if args.logs.count("-") > 1:
            raise UsageError("standard input (-) can be read once")
        self._args = args
        self._progress = Progress("rows", quiet=quiet)
        self.contents = self.redirects = 0
        self.read = False
        #: Rows that are no pages and no redirects, by the reason.
        self.left_out: Counter[tuple[str, str]] = Counter()

    @property
    def rows(self) -> int:
        """Rows read so far."""
        return self._progress.count

    def __iter__(self) -> Iterator[Observation]:
        for path in self._args.logs:
            yield from self._progress.over(self._read(path))
        self.read = True

    def _read(self, path: str) -> Iterator[Observation]:
        args = self._args
        log = read_log(path, format=args.format, skip_bad=args.skip_bad, site=args.site)
        for row in log:
            self.contents += row.content is not None
            self.redirects += row.location is not None
            reason = _left_out(row)
            if reason is not None:
                self.left_out[reason] += 1
            yield row
        if log.skipped:
            self._progress.clear()
            say(f"{counted(log.skipped, 'row')} skipped; the first: {log.first_bad}")


_REDIRECTS = range(300, 400)


def _left_out(row: Observation) -> tuple[str, str] | None:
    """Say why a row is neither a page nor a redirect, for one such row and for more."""
    if row.is_page or row.location is not None or row.status is None:
        return None
    if row.status in _REDIRECTS:
        return "redirect without a target", "redirects without a target"
    if row.status >= 400:
        return "error (status 400 and above)", "errors (status 400 and above)"
    if row.status != 200:
        return "other answer (not 200)", "other answers (not 200)"
    if row.is_file:
        return "small file", "small files"
    return "page without a content", "pages without a content"


def say_left_out(reasons: Counter[tuple[str, str]]) -> None:
    """Tell the user how many rows did not count, and why."""
    if reasons:
        ranked = sorted(reasons.items(), key=lambda pair: (-pair[1], pair[0]))
        say("left out: " + ", ".join(counted(count, *words) for words, count in ranked))


def add_logs(parser: argparse.ArgumentParser) -> None:
    """Offer crawl logs, and how to read them."""
    parser.add_argument(
        "logs",
        nargs="+",
        metavar="LOG",
        help="a crawl log, plain or gzipped; a WARC or Parquet file; the HTTP cache of a spider; - for "
        "standard input",
    )
    add_log_options(parser)
    add_json(parser)


def add_log_options(parser: argparse.ArgumentParser) -> None:
    """Offer the ways to read crawl logs."""
    parser.add_argument(
        "--format",
        choices=(*FORMATS, *ARCHIVES),
        help="of all logs (default: found by their names and first lines)",
    )
    parser.add_argument(
        "--site", metavar="URL", help="scheme and host of logs that name none (access logs)"
    )
    parser.add_argument(
        "--skip-bad", action="store_true", help="count rows that cannot be read instead of stopping"
    )
