"""Builds the documentation: ``sphinx-build -W -n docs build/docs`` (pip install ".[docs]")."""

from scrapy_urlnorm import __version__

project = "scrapy-urlnorm"
copyright = "the scrapy-urlnorm developers"
release = version = __version__
extensions = ["myst_parser"]
myst_heading_anchors = 3
html_theme = "furo"
html_title = "scrapy-urlnorm"
exclude_patterns = ["_build"]
