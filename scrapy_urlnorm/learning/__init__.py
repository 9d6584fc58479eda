"""Learning: from a crawl log to the rules of its sites."""

from __future__ import annotations

from scrapy_urlnorm.learning.evaluation import Evaluation, evaluate
from scrapy_urlnorm.learning.mining import SiteReport, mine, survey

__all__ = ["Evaluation", "SiteReport", "evaluate", "mine", "survey"]
