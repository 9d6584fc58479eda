"""What it costs a crawl to write down what it filters: the dupefilter with it and without, in one process.

    python benchmarks/filtered.py [--pages 20000] [--rounds 7]

Each page is asked for once, twice more under its own URL, and twice under other ones that the
default profile takes for the same. Processor time, interleaved; the medians are compared.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

from scrapy import Request, Spider

from scrapy_urlnorm import Normalizer, UrlNormDupeFilter, UrlNormRequestFingerprinter
from scrapy_urlnorm.report.filtered import FilteredRecord
from scrapy_urlnorm.stores import MemorySeen
from scrapy_urlnorm.stores.sqlite import DATABASE_NAME, Database

SPELLINGS = ("", "&utm_source=x", "", "&utm_source=y", "")


class Recorded:
    """What the dupefilter calls of a `Recording`."""

    def __init__(self, database: Database) -> None:
        self.record = FilteredRecord(database)
        self.dropped = self.record.add

    def open(self) -> None:
        """It is open."""


def seconds(requests: list[Request], recording: Recorded | None) -> float:
    """Return the processor time that a new dupefilter takes for *requests*."""
    fingerprinter = UrlNormRequestFingerprinter(Normalizer())
    dupefilter = UrlNormDupeFilter(
        MemorySeen(),
        fingerprinter,
        explainer=fingerprinter,
        recording=recording,  # type: ignore[arg-type]  # all that it calls
    )
    dupefilter.open()
    spider = Spider("benchmark")
    begin = time.process_time()
    for request in requests:
        if dupefilter.request_seen(request):
            dupefilter.log(request, spider)
    if recording is not None:
        recording.record.write()
    return time.process_time() - begin


def main() -> None:
    """Print the ratio, and the size of the record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pages", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=7)
    args = parser.parse_args()
    urls = [
        f"http://shop{page % 100}.test/list?page={page}{spelling}"
        for page in range(args.pages)
        for spelling in SPELLINGS
    ]
    without, with_record = [], []
    for _ in range(args.rounds):
        without.append(seconds([Request(url) for url in urls], None))
        with tempfile.TemporaryDirectory() as folder:
            database = Database(Path(folder, DATABASE_NAME))
            database.open()
            recording = Recorded(database)
            with_record.append(seconds([Request(url) for url in urls], recording))
            recording.record.close()
            database.close()
            size = sum(file.stat().st_size for file in Path(folder).iterdir())
    base, recorded = statistics.median(without), statistics.median(with_record)
    dropped = args.pages * (len(SPELLINGS) - 1)
    print(f"{len(urls):,} requests, {dropped:,} of them dropped")
    print(f"with the record / without: {recorded / base:.3f}")
    print(f"microseconds more for a request: {(recorded - base) / len(urls) * 1e6:.2f}")
    print(f"bytes of the record for a page with drops: {size / args.pages:.0f}")


if __name__ == "__main__":
    main()
