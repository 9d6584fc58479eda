"""Plots: a line chart and a bar chart as SVG.

Colours are names of the page's own, so that one drawing serves light and dark.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from scrapy_urlnorm.text import shortened

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from scrapy_urlnorm.report.figures import Host

COURSE, HOSTS = "Distinct pages against requests", "Requests spared and left, by host"
# All lengths are in pixels of a drawing that is as wide as _WIDTH.
_WIDTH, _HEIGHT = 680, 330
_TOP, _BOTTOM, _RIGHT = 50, 46, 40
_LEFT_OF_LINES, _LEFT_OF_BARS = 72, 290
_ROW, _BAR = 26, 16
_MOST_BARS, _MOST_TICKS, _LONGEST_LABEL = 12, 5, 40
_BARS = {"spared": "one", "left": "two"}  # their colours
_STYLES = (
    'stroke="var(--one)" stroke-width="2.5"',
    'stroke="var(--two)" stroke-width="2.5" stroke-dasharray="6 4"',
)


def course(lines: Mapping[str, Sequence[tuple[int, int]]]) -> str:
    """Return distinct pages against requests, the points of each of *lines*; "" for no requests."""
    points = [point for line in lines.values() for point in line]
    most = [max(numbers, default=0) for numbers in zip(*points, strict=True)] or [0, 0]
    across = _Scale(most[0], _LEFT_OF_LINES, _WIDTH - _RIGHT)
    up = _Scale(most[1], _HEIGHT - _BOTTOM, _TOP)
    if not across.most:
        return ""
    styles = dict(zip(lines, _STYLES, strict=False))
    parts = [*_legend(styles.items()), *across.columns(_TOP, _HEIGHT - _BOTTOM, "requests")]
    for tick in up.ticks:
        y = up.at(tick)
        parts.append(_line(_LEFT_OF_LINES, y, _WIDTH - _RIGHT, y))
        parts.append(_text(_LEFT_OF_LINES - 8, y + 4, f"{tick:,}", "end"))
    parts.append(_text(8, _TOP - 14, "distinct pages", "start"))
    for name, style in styles.items():
        path = " ".join(f"{across.at(x):.1f},{up.at(y):.1f}" for x, y in lines[name])
        parts.append(f'<polyline fill="none" {style} points="{path}"/>')
    return _drawing(COURSE, _HEIGHT, parts)


def hosts(rows: Sequence[Host]) -> str:
    """Return a bar for each of the hosts where most was spared, or left; "" if nothing was."""
    ranked = sorted(rows, key=lambda host: -(host.spared + host.left))[:_MOST_BARS]
    ranked = [host for host in ranked if host.spared + host.left]
    if not ranked:
        return ""
    most = ranked[0].spared + ranked[0].left
    across = _Scale(most, _LEFT_OF_BARS, _WIDTH - _RIGHT)
    bottom = _TOP + _ROW * len(ranked)
    styles = {name: f'stroke="var(--{colour})" stroke-width="10"' for name, colour in _BARS.items()}
    parts = [*_legend(styles.items()), *across.columns(_TOP, bottom, "requests")]
    for at, host in enumerate(ranked):
        y = _TOP + _ROW * at + (_ROW - _BAR) / 2
        parts.append(_text(_LEFT_OF_BARS - 8, y + 12, shortened(host.host, _LONGEST_LABEL), "end"))
        done = 0
        for name, colour in _BARS.items():
            start, done = done, done + getattr(host, name)
            x, width = across.at(start), across.at(done) - across.at(start)
            parts.append(
                f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{_BAR}" '
                f'fill="var(--{colour})"/>'
            )
    return _drawing(HOSTS, bottom + _BOTTOM, parts)


class _Scale:
    """Numbers from 0 to *most* as places from *start* to *end*, with few round ticks."""

    def __init__(self, most: int, start: float, end: float) -> None:
        self.most, self._start, self._end = most, start, end
        power = 1
        while most > _MOST_TICKS * 10 * power:
            power *= 10
        step = next(n * power for n in (1, 2, 5, 10) if most <= _MOST_TICKS * n * power)
        self.ticks = range(0, most + 1, step)

    def at(self, number: float) -> float:
        return self._start + (self._end - self._start) * number / max(self.most, 1)

    def columns(self, top: float, bottom: float, title: str) -> Iterator[str]:
        """Draw a line for each tick, and the axis below."""
        for tick in self.ticks:
            x = self.at(tick)
            yield _line(x, top, x, bottom)
            yield _text(x, bottom + 18, f"{tick:,}", "middle")
        yield _text((self._start + self._end) / 2, bottom + 38, title, "middle")


def _legend(entries: Iterable[tuple[str, str]]) -> Iterator[str]:
    for at, (name, style) in enumerate(entries):
        x = _LEFT_OF_LINES + 200 * at
        yield f'<line x1="{x}" y1="14" x2="{x + 28}" y2="14" {style}/>'
        yield _text(x + 36, 18, name, "start")


def _line(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="var(--line)"/>'


def _text(x: float, y: float, text: str, anchor: str) -> str:
    shown = "".join(letter if letter.isprintable() else "?" for letter in text)
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(shown)}</text>'


def _drawing(title: str, height: float, parts: Sequence[str]) -> str:
    size = f'role="img" aria-label="{title}" width="{_WIDTH}" height="{height}" viewBox="0 0 {_WIDTH} {height}"'
    return f'<svg {size} fill="currentColor" font-size="13">{"".join(parts)}</svg>'
