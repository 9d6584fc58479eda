"""For tests of a project that uses this package: what is one page, and what is not.

from scrapy_urlnorm.testing import assert_distinct, assert_same_key, project_normalizer

def test_sort_orders_are_one_page():
    ours = project_normalizer()
    assert_same_key("http://shop.example/list?sort=price", "http://shop.example/list", normalizer=ours)
    assert_distinct("http://shop.example/list?page=2", "http://shop.example/list", normalizer=ours)
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from scrapy_urlnorm.normalizer import Normalizer

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

__all__ = ["assert_distinct", "assert_same_key", "project_normalizer"]


def assert_same_key(first: str, *others: str, normalizer: Normalizer | None = None) -> None:
    """Raise `AssertionError` if one of *others* has another key than *first*.

    The message has the key of each URL, and what was changed on the way to it. *normalizer* is by
    default that of the default profile.
    """
    normalizer = normalizer or Normalizer()
    key = normalizer.normalize(first)
    for other in others:
        if normalizer.normalize(other) != key:
            raise AssertionError(
                f"two keys, where one is wanted:\n{normalizer.explain(first)}\n"
                f"{normalizer.explain(other)}"
            )


def assert_distinct(*urls: str, normalizer: Normalizer | None = None) -> None:
    """Raise `AssertionError` if two of *urls* have one key.

    The message has the key, and what was changed on the way to it.
    """
    normalizer = normalizer or Normalizer()
    by_key = defaultdict(list)
    for url in urls:
        by_key[normalizer.normalize(url)].append(url)
    for key, found in by_key.items():
        if len(found) > 1:
            traces = "\n".join(str(normalizer.explain(url)) for url in found)
            raise AssertionError(f"one key, {key}, where {len(found)} are wanted:\n{traces}")


def project_normalizer(settings: BaseSettings | None = None) -> Normalizer:
    """Return the normalizer that a Scrapy project crawls with, with its rules for sites.

    *settings* are by default those of the project in the working directory. Rules that crawls
    learned are not in it. Raises :class:`~scrapy_urlnorm.exceptions.ConfigError` for bad settings.
    """
    from scrapy.utils.project import get_project_settings

    from scrapy_urlnorm.crawl.settings import Config

    return Config(settings or get_project_settings()).normalizer
