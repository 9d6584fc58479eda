"""Extension that crawls the shop three times more and prints all four crawls side by side.

The second crawl is stock Scrapy's, and leaves a crawl log. The third has no rules for the shop: it
learns them while it runs. From the log of the second rules are learned too, and the fourth uses
them instead of those that people wrote.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from scrapy import signals

from scrapy_urlnorm.learning import mine
from scrapy_urlnorm.logs import read_log
from scrapy_urlnorm.site_rules import save_site_rules
from shop.site import PAGES

PROJECT = Path(__file__).resolve().parent.parent
LOG = PROJECT / "crawl.jsonl"
LEARNED = PROJECT / "learned.toml"
ROWS = {
    "requests": "requests sent",
    "redirects": "  answered by a redirect",
    "fetched": "pages fetched",
    "distinct": "  distinct pages",
    "again": "  the same again, under another URL",
    "twice": "fetched twice, to see what changes",
    "lost": f"lost of the {len(PAGES)} pages of the shop",
}


class Compare:
    def __init__(self, crawler):
        self.stats = crawler.stats
        self.result_path = crawler.settings.get("SHOP_RESULT")

    @classmethod
    def from_crawler(cls, crawler):
        extension = cls(crawler)
        crawler.signals.connect(extension.spider_closed, signals.spider_closed)
        return extension

    def spider_closed(self, spider):
        spider.site.close()
        distinct = set(spider.pages)
        result = {
            "requests": spider.site.requests,
            "redirects": spider.site.redirects,
            "fetched": len(spider.pages),
            "distinct": len(distinct),
            "again": len(spider.pages) - len(distinct),
            "twice": self.stats.get_value("urlnorm/learned/second_fetches", 0),
            "lost": len(PAGES - distinct),
            "pages": spider.pages,
            "learned": self.stats.get_value("urlnorm/learned/rules", 0),
        }
        if self.result_path:
            Path(self.result_path).write_text(json.dumps(result), encoding="utf-8")
        else:
            crawls = {"stock Scrapy": stock(), "learning": learning()}
            show({**crawls, "rules.toml": result, "learned.toml": learned()})


def stock():
    """The same crawl without the component, but for the log that it writes."""
    LOG.unlink(missing_ok=True)
    extensions = {"shop.compare.Compare": 500, "scrapy_urlnorm.CrawlLog": 510}
    return crawl(ADDONS="{}", URLNORM_CRAWL_LOG=LOG, EXTENSIONS=json.dumps(extensions))


def learning():
    """The same crawl without any rules for the shop: what it learns, it learns while it runs."""
    return crawl(URLNORM_SITE_RULES="")


def learned():
    """The same crawl with the rules that the log of the stock crawl gives."""
    LEARNED.unlink(missing_ok=True)
    save_site_rules(LEARNED, mine(read_log(LOG)))
    return crawl(URLNORM_SITE_RULES=LEARNED)


def crawl(**settings):
    """Run the crawl in a process of its own and return what it counted."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "result.json")
        command = [sys.executable, "-m", "scrapy", "crawl", "shop", "-s", f"SHOP_RESULT={path}"]
        for name, value in settings.items():
            command += ["-s", f"{name}={value}"]
        subprocess.run(command, check=True, cwd=PROJECT)
        return json.loads(path.read_text(encoding="utf-8"))


def show(crawls):
    print(f"{'':36}" + "".join(f"{name:>15}" for name in crawls))
    for name, label in ROWS.items():
        print(f"{label:36}" + "".join(f"{result[name]:>15,}" for result in crawls.values()))
    print(
        "learning: a first crawl that learns while it runs. rules.toml: written by people.\n"
        "learned.toml: learned from crawl.jsonl, the log of the stock crawl."
    )
