"""Rows of logs, for tests of learning."""

from __future__ import annotations

from scrapy_urlnorm.logs import Observation


def page(url: str, content: str) -> Observation:
    return Observation(url, 200, content, mime="text/html")
