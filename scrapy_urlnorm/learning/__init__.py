"""Learning: from a crawl log to the rules of its sites."""

from __future__ import annotations

from .evaluation import Evaluation, evaluate
from .mining import SiteReport, mine, survey

__all__ = ["Evaluation", "SiteReport", "evaluate", "mine", "survey"]
