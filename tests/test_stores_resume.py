"""A crawl with JOBDIR that is stopped and started again: every page once, over both runs."""

from __future__ import annotations

import signal
import threading
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from crawl_process import start
from loopback import Site, page
from scrapy import Request

from scrapy_urlnorm.fingerprinter import UrlNormRequestFingerprinter
from scrapy_urlnorm.normalizer import Normalizer
from scrapy_urlnorm.stores import open_store

if TYPE_CHECKING:
    from loopback import Reply

HOME = "http://shop.test/"
PAGES = 120
KILLED = "Scrapy loses the requests that wait in its queue"  #: in the log after a kill
STOP_AFTER = 40  #: requests of the first run; from then on pages come slowly


class Shop:
    """A site of `PAGES` pages that link to one another, with two spellings of each link."""

    def __init__(self) -> None:
        self.is_reached = threading.Event()
        self.go_on = threading.Event()
        self.asked = 0

    def __call__(self, url: str) -> Reply:
        self.asked += 1
        if self.asked >= STOP_AFTER:
            self.is_reached.set()
            self.go_on.wait(0.05)
        number = int(url.rpartition("/")[2] or 0)
        near = range(number + 1, min(PAGES, 2 * number + 10))
        links = [f"/{n}{end}" for n in near for end in ("", "?utm_source=x")]
        return page(str(number), *links)


def stop_and_resume(folder, store, stop):
    """Crawl, send the signal *stop* in the middle, and crawl on; requests of the two runs."""
    shop = Shop()
    settings = {
        "JOBDIR": str(folder / "job"),
        "URLNORM_STORE": f"{store}:{folder / 'keys'}",
    }
    with Site(shop) as site:
        first = start(site, [HOME], settings, folder / "log")
        assert shop.is_reached.wait(60)
        first.send_signal(stop)
        code = first.wait(60)
        requests = site.requests[:]
        shop.go_on.set()
        yield code, requests
        second = start(site, [HOME], settings, folder / "log")
        assert second.wait(60) == 0
        yield code, site.requests[len(requests) :]


stores = pytest.mark.parametrize("store", ["file", "lmdb"])


@stores
@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "SIGTERM"])
def test_a_paused_crawl_fetches_every_page_once(tmp_path, store, stop):
    """Both runs together fetch every page, and none twice but the start page.

    Scrapy sends start requests past every dupefilter, in each run.
    """
    if store == "lmdb":
        pytest.importorskip("lmdb")
    (code, first), (_, second) = stop_and_resume(tmp_path, store, stop)
    assert code == 0
    assert STOP_AFTER <= len(first) < PAGES
    assert KILLED not in (tmp_path / "log").read_text()
    times = Counter(url.partition("?")[0] for url in first + second)
    assert times.pop(HOME) == 2
    assert times == {f"{HOME}{number}": 1 for number in range(1, PAGES)}


def test_a_killed_crawl_fetches_no_page_again(tmp_path):
    """After kill -9 the file knows all that was requested, and the crawl starts again with it.

    Requests that waited are lost, and the second run says so: Scrapy writes down which queues it
    has when it closes them.
    """
    runs = stop_and_resume(tmp_path, "file", signal.SIGKILL)
    code, first = next(runs)
    assert code == -signal.SIGKILL
    normalizer = Normalizer()
    fingerprint = UrlNormRequestFingerprinter(normalizer).fingerprint
    with open_store(f"file:{tmp_path / 'keys'}", digest=normalizer.digest) as seen:
        assert [url for url in first[1:] if fingerprint(Request(url)) not in seen] == []
    _, second = next(runs)
    assert set(first) & set(second) == {HOME}
    log = (tmp_path / "log").read_text()
    assert "damaged" not in log
    assert log.count(KILLED) == 1
    assert not (tmp_path / "job" / "urlnorm.running").exists()


def test_a_killed_crawl_opens_its_lmdb_store_again(tmp_path):
    """After kill -9 the file is whole; no page is fetched twice in one run."""
    pytest.importorskip("lmdb")
    runs = stop_and_resume(tmp_path, "lmdb", signal.SIGKILL)
    code, _ = next(runs)
    assert code == -signal.SIGKILL
    _, second = next(runs)
    assert set(Counter(second).values()) == {1}
    assert "CRITICAL" not in (tmp_path / "log").read_text()
