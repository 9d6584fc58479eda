"""What the package offers to the tests of a project."""

from __future__ import annotations

import pytest
from scrapy.settings import Settings

from scrapy_urlnorm import Normalizer, SiteRule
from scrapy_urlnorm.exceptions import ConfigError
from scrapy_urlnorm.testing import assert_distinct, assert_same_key, project_normalizer

LIST = "http://shop.test/list"
RULE = SiteRule(site="shop.test", kind="drop-param", param="sort")


def test_one_page_and_two_pages():
    """Both agree with the normalizer, whatever the number of URLs."""
    assert_same_key(LIST)
    assert_same_key(f"{LIST}?b=1&a=2", f"{LIST}?a=2&b=1#top", f"{LIST}?utm_source=x&a=2&b=1")
    assert_distinct(LIST, f"{LIST}?sort=1", f"{LIST}?page=2")
    assert_same_key(LIST, f"{LIST}?sort=1", normalizer=Normalizer(site_rules=[RULE]))


def test_the_message_shows_the_way_to_each_key():
    """It names the URLs, their keys and the rules."""
    with pytest.raises(AssertionError, match=r"(?s)two keys.*list\?sort=1\n.*list\?sort=2"):
        assert_same_key(LIST + "?sort=1", LIST + "?sort=2")
    with pytest.raises(AssertionError, match=r"(?s)one key, http://shop\.test/list, .*remove-frag"):
        assert_distinct(LIST, f"{LIST}?page=2", f"{LIST}#top")


def test_the_normalizer_of_a_project(tmp_path):
    """Its profile, rules and site rules; bad settings are named."""
    path = tmp_path / "rules.toml"
    path.write_text('[[rule]]\nsite = "shop.test"\nkind = "drop-param"\nparam = "sort"\n')
    settings = Settings({"URLNORM_SITE_RULES": [str(path)], "URLNORM_RULES": {"www": "remove"}})
    assert_same_key(
        LIST, "http://www.shop.test/list?sort=1", normalizer=project_normalizer(settings)
    )
    with pytest.raises(ConfigError, match="URLNORM_PROFILE"):
        project_normalizer(Settings({"URLNORM_PROFILE": "none"}))
    assert project_normalizer() == Normalizer()  # there is no project here
