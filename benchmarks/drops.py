"""What the record of drops costs a crawl: the dupefilter with it and without, in one process.

    python benchmarks/drops.py [--pages 20000] [--rounds 7]

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
from scrapy_urlnorm.report.drops import DropRecord, Point
from scrapy_urlnorm.stores import MemorySeen

SPELLINGS = ("", "&utm_source=x", "", "&utm_source=y", "")


def seconds(requests: list[Request], record: DropRecord | None) -> float:
    """Return the processor time that a new dupefilter takes for *requests*."""
    fingerprinter = UrlNormRequestFingerprinter(Normalizer())
    dupefilter = UrlNormDupeFilter(
        MemorySeen(), fingerprinter, explainer=fingerprinter, recording=record
    )
    dupefilter.keys.open()
    spider = Spider("benchmark")
    begin = time.process_time()
    for request in requests:
        if dupefilter.request_seen(request):
            dupefilter.log(request, spider)
    if record is not None:
        record.flush()
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
            record = DropRecord(Path(folder, "urlnorm.drops"), lambda: Point(0, 0))
            with_record.append(seconds([Request(url) for url in urls], record))
            record.close()
            size = sum(file.stat().st_size for file in Path(folder).iterdir())
    base, recorded = statistics.median(without), statistics.median(with_record)
    dropped = args.pages * (len(SPELLINGS) - 1)
    print(f"{len(urls):,} requests, {dropped:,} of them dropped")
    print(f"with the record / without: {recorded / base:.3f}")
    print(f"microseconds more for a request: {(recorded - base) / len(urls) * 1e6:.2f}")
    print(f"bytes of the record for a page with drops: {size / args.pages:.0f}")


if __name__ == "__main__":
    main()
