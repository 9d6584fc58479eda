"""A crawl in a process of its own, to be interrupted, killed, or run beside others.

``start`` begins it; the process handles signals as ``scrapy crawl`` does.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from loopback import HERE, job_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from loopback import Site


def start(
    site: Site,
    urls: list[str],
    settings: Mapping[str, Any],
    log: Path,
    *,
    spider: str = "loopback.Follow",
    beside: Sequence[Mapping[str, Any]] = (),
    **arguments: Any,
) -> subprocess.Popen[bytes]:
    """Start a crawl of *site* from *urls*; its log is appended to *log*.

    In the same process are others *beside* it, by the arguments of their spiders.
    """
    own = {"ADDONS": {"scrapy_urlnorm.Addon": 900}, "CONCURRENT_REQUESTS": 4, "LOG_FILE": str(log)}
    job = job_of(site, {**own, **settings}, spider, urls=urls, **arguments)
    job["arguments"] = [job["arguments"], *beside]
    path = os.pathsep.join([str(HERE), *filter(None, sys.path)])
    return subprocess.Popen(
        [sys.executable, "-W", "ignore", str(HERE / "crawl_process.py"), json.dumps(job)],
        env={**os.environ, "PYTHONPATH": path},
        stdin=subprocess.DEVNULL,
    )


def _main() -> None:
    from scrapy.crawler import CrawlerProcess
    from scrapy.utils.misc import load_object

    job = json.loads(sys.argv[1])
    process = CrawlerProcess(job["settings"])
    for arguments in job["arguments"]:
        process.crawl(load_object(job["spider"]), **arguments)
    process.start()


if __name__ == "__main__":
    _main()
