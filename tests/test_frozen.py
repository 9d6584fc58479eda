"""Keys and mined rules stay what they are; see `frozen`."""

from __future__ import annotations

import frozen
import pytest
import simulator

from scrapy_urlnorm import load_site_rules, save_site_rules


def test_keys():
    """Every generated URL has the keys that it had, in every profile."""
    with frozen.KEYS.open(encoding="utf-8", newline="\n") as lines:
        known = [line.rstrip("\n").split("\t") for line in lines]
    assert len(known) > 500
    assert [[url, *frozen.keys_of(url)] for url in frozen.urls()] == known


@pytest.mark.parametrize("kind", simulator.SITES)
def test_rules(kind, tmp_path):
    """A simulated site teaches the rules that it taught, with the same evidence, as one text."""
    rules = frozen.simulated(kind)
    path = frozen.FROZEN / f"{kind}.toml"
    assert list(load_site_rules(path)) == rules
    save_site_rules(tmp_path / "rules.toml", rules)
    assert (tmp_path / "rules.toml").read_text() == path.read_text()
