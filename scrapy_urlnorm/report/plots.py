"""Plots, drawn as SVG by Vega-Lite (the package vl-convert-python, extra ``report``).

Colours are names of the page's own, so that one drawing serves light and dark. The package runs a
JavaScript engine. That has a process of its own: its memory is given back, and a text from a site
that makes it crash takes no crawl along.
"""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypeAlias

from scrapy_urlnorm.exceptions import MissingExtraError, UrlNormError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scrapy_urlnorm.report.figures import Host, Point

Spec: TypeAlias = "dict[str, Any]"

_PACKAGE = "vl_convert"
_DRAW = """
import json, sys, vl_convert
specs = json.load(sys.stdin)
print(json.dumps([vl_convert.vegalite_to_svg(spec, vl_version="5.20") for spec in specs]))
"""
_SECONDS = 120  # of two; only a machine that is busy beyond measure needs as many
_MOST_BARS = 12
_LONGEST_LABEL = 40
_INK = {"labelColor": "currentColor", "titleColor": "currentColor"}
_CONFIG = {
    "background": "transparent",
    "padding": {"left": 24, "top": 5, "right": 12, "bottom": 5},  # the browser's font may be wider
    "font": "system-ui, sans-serif",
    "view": {"stroke": None},
    "axis": {
        **_INK,
        "domainColor": "var(--line)",
        "gridColor": "var(--line)",
        "tickColor": "var(--line)",
        "labelFontSize": 12,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
    },
    "legend": {**_INK, "labelFontSize": 12, "symbolStrokeWidth": 3, "orient": "top", "title": None},
}
_COLOURS = ["var(--one)", "var(--two)"]


def course(points: Sequence[Point]) -> Spec:
    """Return a plot of distinct pages against requests, with a line for each name."""
    values = [{"line": p.line, "requests": p.requests, "distinct": p.distinct} for p in points]
    lines = list(dict.fromkeys(point.line for point in points))
    return {
        "width": 620,
        "height": 260,
        "data": {"values": values},
        "mark": {"type": "line", "strokeWidth": 2.5, "interpolate": "linear"},
        "encoding": {
            "x": {"field": "requests", "type": "quantitative", "title": "requests"},
            "y": {"field": "distinct", "type": "quantitative", "title": "distinct pages"},
            "order": {"field": "requests"},
            "color": {
                "field": "line",
                "type": "nominal",
                "scale": {"domain": lines, "range": _COLOURS},
            },
            "strokeDash": {
                "field": "line",
                "type": "nominal",
                "scale": {"domain": lines, "range": [[1, 0], [6, 4]]},
            },
        },
    }


def hosts(rows: Sequence[Host]) -> Spec:
    """Return a plot with a bar for each of the hosts where most was spared, or left."""
    ranked = sorted(rows, key=lambda host: -(host.spared + host.left))[:_MOST_BARS]
    values = [
        {"host": _label(host.host), "what": what, "requests": number}
        for host in ranked
        for what, number in (("spared", host.spared), ("left", host.left))
    ]
    return {
        "width": 480,
        "height": {"step": 22},
        "data": {"values": values},
        "mark": {"type": "bar"},
        "encoding": {
            "x": {"field": "requests", "type": "quantitative", "title": "requests"},
            "y": {"field": "host", "type": "nominal", "title": None, "sort": None},
            "color": {
                "field": "what",
                "type": "nominal",
                "scale": {"domain": ["spared", "left"], "range": _COLOURS},
            },
            "order": {"field": "what", "sort": "descending"},
        },
    }


def _label(host: str) -> str:
    """Return what stands for *host* beside its bar. What cannot be shown becomes a mark."""
    text = host[:_LONGEST_LABEL].encode("utf-8", "replace").decode("utf-8")
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def drawn(specs: Sequence[Spec]) -> list[str]:
    """Return each plot as SVG.

    Raises MissingExtraError without the package that draws, UrlNormError if it fails.
    """
    if find_spec(_PACKAGE) is None:
        raise MissingExtraError("vl-convert-python", "report", "a plot")
    text = json.dumps([{**spec, "config": _CONFIG} for spec in specs])
    try:
        done = subprocess.run(
            [sys.executable, "-c", _DRAW],
            input=text,
            capture_output=True,
            check=True,
            encoding="utf-8",
            timeout=_SECONDS,
        )
        plots: list[str] = json.loads(done.stdout)
    except (subprocess.SubprocessError, OSError, ValueError) as error:
        raise UrlNormError(f"the plots could not be drawn: {error}") from error
    return plots
