"""The reader of crawl logs: it finds out the format, and yields one `Observation` a row."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path

from scrapy_urlnorm.exceptions import ConfigError, LogFormatError
from scrapy_urlnorm.logs.archives import ARCHIVES
from scrapy_urlnorm.logs.line_formats import FORMATS, read_json_lines
from scrapy_urlnorm.logs.observation import Observation
from scrapy_urlnorm.logs.source import SAMPLE, Log, numbered_lines, open_log


class LogReader(Log, Iterator[Observation]):
    """An iterator over the rows of one log, in its order.

    *path* is that of a file, plain or gzipped, or of a folder for some of `ARCHIVES`; ``-`` is
    standard input. *format* is a name of `ARCHIVES` or `FORMATS`; with None the path and the first
    lines decide. For *crawl* and *skip_bad* see `Log`.

    Raises ConfigError for an unknown format; while reading LogFormatError, naming
    file, line and reason, and OSError.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        format: str | None = None,
        skip_bad: bool = False,
        crawl: str | None = None,
    ) -> None:
        known = (*FORMATS, *ARCHIVES)
        if format is not None and format not in known:
            raise ConfigError(f"unknown log format {format!r}; known are {', '.join(known)}")
        super().__init__(os.fspath(path), crawl, skip_bad=skip_bad)
        self.format = format
        self._rows = self._read()

    def __next__(self) -> Observation:
        return next(self._rows)

    def _read(self) -> Iterator[Observation]:
        self.can_be_reopened = self.path != "-"
        if self.format is None and self.can_be_reopened:
            self.format = next((n for n, (fits, _) in ARCHIVES.items() if fits(self.path)), None)
        if self.format in ARCHIVES:
            self.can_be_reopened = False
            _, rows_of = ARCHIVES[self.format]
            rows = ((n, json.dumps(row)) for n, row in rows_of(self.path, self))
            yield from read_json_lines(rows, self)
            return
        if Path(self.path).is_dir():
            what = "Scrapy's HTTP cache (*/*/pickled_meta) or of Parquet files"
            raise LogFormatError(f"{self.path}: Is a directory; one is read if it is of {what}")
        with open_log(self.path) as stream:
            lines = numbered_lines(stream, self)
            head = list(islice(lines, SAMPLE))
            if not head:
                return
            sample = [line for _, line in head]
            if self.format is None:
                self.format = next((n for n, (fits, _) in FORMATS.items() if fits(sample)), None)
            if self.format is None:
                raise LogFormatError(
                    f"{self.path}, line 1: no known format begins like {sample[0][:60]!r}; "
                    f"known are {', '.join((*FORMATS, *ARCHIVES))}"
                )
            _, read = FORMATS[self.format]
            yield from read(chain(head, lines), self)


read_log = LogReader
