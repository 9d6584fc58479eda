"""Mining a crawl log that is on a cluster, with PySpark (extra ``spark``).

The rows of a site come together on one machine, where they are learned from as `mine` of a file
learns from them: equal rows give equal rules. Needs pandas and pyarrow there, as PySpark's
``applyInPandas`` does, and this package.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from scrapy_urlnorm.exceptions import LogFormatError, MissingExtraError
from scrapy_urlnorm.learning import evidence
from scrapy_urlnorm.learning.evidence import site_of
from scrapy_urlnorm.learning.mining import SiteJob, report_on
from scrapy_urlnorm.learning.risk import Limits
from scrapy_urlnorm.logs.line_formats import read_json_lines
from scrapy_urlnorm.logs.observation import COLUMNS
from scrapy_urlnorm.logs.source import Log
from scrapy_urlnorm.site_rules.rule import rule_from_dict

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy_urlnorm.site_rules import SiteRule

__all__ = ["mine"]

# Frames of PySpark and of pandas: neither package has to be here.
_Frame = Any


def mine(dataframe: _Frame, *, risk: float = 0.02, noise: float = 0.001) -> list[SiteRule]:
    """Learn the rules of every site of a crawl log, which may be larger than any one machine.

    *dataframe* has the columns of a crawl log (docs/reference/log-format.md); only ``url`` has to
    be there, others are not read. *risk* and *noise* are those of `scrapy_urlnorm.learning.mine`.
    Of a site with more than 300,000 rows a sample of its paths goes to the machine that learns.
    Rules come in the order of their sites.

    Raises MissingExtraError without PySpark, LogFormatError for a frame without ``url``. A row
    that cannot be read fails the job, with the reason.
    """
    try:
        from pyspark.sql import functions as f  # type: ignore[import-not-found,unused-ignore]
    except ImportError as error:
        raise MissingExtraError("pyspark[sql]", "spark", "mining on a cluster") from error

    columns = [name for name in COLUMNS if name in dataframe.columns]
    if "url" not in columns:
        names = ", ".join(map(repr, dataframe.columns))
        raise LogFormatError(f"no column 'url'; the frame has {names}")
    # Rows as the lines of a log, numbered: their order counts for common lines.
    lines = dataframe.select(
        "url",
        f.to_json(f.struct(*columns)).alias("line"),
        f.monotonically_increasing_id().alias("number"),
    )
    most = evidence.MAX_ROWS
    placed = lines.mapInPandas(_placed, "site string, path long, number long, line string")
    sizes = placed.groupBy("site").count()
    giant = sizes.where(f.col("count") > most).select(
        "site", f.ceil(f.col("count") / most).alias("parts")
    )
    sampled = (
        placed.join(f.broadcast(giant), "site", "left")
        .where(f.col("path") % f.coalesce("parts", f.lit(1)) == 0)
        .select("site", "number", "line")
    )
    limits = Limits(risk, noise)

    def learned(rows: _Frame) -> _Frame:
        return rows.iloc[:1][["site"]].assign(rules=_learned(rows, limits))

    found = sampled.groupBy("site").applyInPandas(learned, "site string, rules string").collect()
    rules = {row.site: json.loads(row.rules) for row in found}
    return [rule_from_dict(rule) for site in sorted(rules) for rule in rules[site]]


def _placed(batches: Iterator[_Frame]) -> Iterator[_Frame]:
    """Add to each row its site, and what decides whether it is in the sample of a giant one."""
    for batch in batches:
        if batch["url"].isna().any():
            raise LogFormatError("a row needs an absolute 'url'")
        # In letters that every part of a cluster puts in one order.
        sites = [site_of(url).encode("utf-8", "surrogatepass").hex() for url in batch["url"]]
        paths = [evidence.path_hash(url) for url in batch["url"]]
        located = batch.assign(site=sites, path=paths)
        yield located.loc[located["site"] != "", ["site", "path", "number", "line"]]


def _learned(rows: _Frame, limits: Limits) -> str:
    lines = rows.sort_values("number")["line"]
    site = bytes.fromhex(rows["site"].iloc[0]).decode("utf-8", "surrogatepass")
    observations = list(read_json_lines(enumerate(lines, 1), _Lines()))
    report = report_on(SiteJob(site, observations, limits))
    return json.dumps([rule.as_dict() for rule in report.rules])


class _Lines(Log):
    """The log that the reader of JSON lines knows: these lines, which are in no file."""

    def bad(self, line: int, reason: str) -> None:
        raise LogFormatError(f"the frame, row {line} of a site: {reason}")
