"""Page: figures as one HTML file that asks no server for anything, and needs no script to be read.

A policy in the head of the page forbids every script but ours, and every request. Whatever a site
wrote is escaped. Secrets in URLs are masked; a URL that is http or https and has none is a link.
"""

from __future__ import annotations

import base64
import hashlib
import re
from html import escape
from importlib import resources
from operator import attrgetter
from string import Template
from typing import TYPE_CHECKING, Any

from scrapy_urlnorm.masking import placeholders
from scrapy_urlnorm.text import counted, percent, shortened

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from scrapy_urlnorm.report.figures import Figures, Host


def page(figures: Figures) -> str:
    """Return the report as HTML."""
    script = _part("page.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    tables = {name: _table(name, getattr(figures, name)) for name in _TABLES}
    abouts = ((plain(term), plain(text)) for term, text in figures.about)
    return Template(_part("page.html")).substitute(
        tables,
        title=plain(figures.title),
        about="\n".join(f"<div><dt>{term}</dt><dd>{text}</dd></div>" for term, text in abouts),
        lead=plain(_lead(figures)),
        tiles="\n".join(_tiles(figures)),
        notes="\n".join(f'<p class="note">{plain(note)}</p>' for note in figures.notes),
        course_text=plain(_course_text(figures)),
        course_plot=_plot(course(figures.course), _COURSE),
        suspicious_text=plain(_suspicious_text(figures)),
        would="would be" if figures.is_forecast else "were",
        hosts_plot=_plot(hosts(figures.hosts), _HOSTS),
        style=_part("page.css"),
        script=script,
        script_hash=f"sha256-{digest}",
    )


def _part(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def _plot(drawing: str, label: str) -> str:
    """Return *drawing* as a figure that scrolls by itself on a small screen."""
    if not drawing:
        return ""
    return (
        '<figure><figcaption class="hint">Wider than this screen: scroll it.</figcaption>'
        f'<div class="scroll" tabindex="0" role="region" aria-label="Plot: {label}">{drawing}</div>'
        "</figure>"
    )


def _lead(figures: Figures) -> str:
    if figures.is_forecast:
        share = percent(figures.spared / figures.requests) if figures.requests else "none"
        return (
            f"Of {counted(figures.requests, 'request')} in this log, a crawl with these rules would "
            f"not have sent {figures.spared:,} ({share})."
        )
    return (
        f"This crawl got {counted(figures.requests, 'answer')}, and spared "
        f"{counted(figures.spared, 'request')} that stock Scrapy would have sent."
    )


def _tiles(figures: Figures) -> list[str]:
    values = {
        "requests": figures.requests,
        "pages": figures.pages,
        "distinct pages": figures.distinct,
        "would be spared" if figures.is_forecast else "spared": figures.spared,
        "still fetched twice": figures.left,
        "rules in force": sum(rule.status == "active" for rule in figures.rules),
        "suspicious": figures.suspicions,
    }
    return [f"<div><dt>{name}</dt><dd>{number:,}</dd></div>" for name, number in values.items()]


def _course_text(figures: Figures) -> str:
    if len(figures.course) < 2:
        return "How many distinct pages the crawl had after so many requests."
    ends = {name: points[-1] for name, points in figures.course.items()}
    words = [f"{name}, {pages:,} after {at:,} requests" for name, (at, pages) in ends.items()]
    return f"Distinct pages against requests: {'; '.join(words)}. The steeper line wastes less."


def _suspicious_text(figures: Figures) -> str:
    if not figures.suspicions and figures.is_forecast:
        return (
            "Nothing is suspicious: no pages with different contents have one key, and no rule has "
            "evidence against it."
        )
    if not figures.suspicions:
        return (
            "No rule has evidence against it, and none was refuted by a page. What was not fetched "
            "cannot be compared: the tests of learned rules stand for it."
        )
    shown = len(figures.suspicious)
    first = f" The first {shown:,} of them are kept." if shown < figures.suspicions else ""
    return (
        f"{counted(figures.suspicions, 'merge')} to look at: different contents under one key, or "
        "a rule with evidence against it. A page may also have changed between two fetches."
        f"{first}"
    )


# --- tables ---------------------------------------------------------------------------------

#: Rows of a table that are shown. Nobody reads more, and a browser stays quick.
MAX_ROWS = 1_000
_LONGEST_URL = 160
_NO_CHARACTER = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
_WEB = re.compile(r"https?://[^\s\"<>\\]+", re.IGNORECASE)


def plain(text: str) -> str:
    """Return *text* for a place in HTML; what is no character there becomes a mark."""
    return escape(_NO_CHARACTER.sub("?", text))


def _words(text: str) -> str:
    return plain(" ".join(shortened(word, _LONGEST_URL) for word in placeholders(text.split(" "))))


def _link(url: str, masked: str) -> str:
    shown = plain(shortened(masked, _LONGEST_URL))
    if url != masked or not url.isprintable() or not _WEB.fullmatch(url):
        return shown
    return f'<a href="{plain(url)}" rel="noopener noreferrer" target="_blank">{shown}</a>'


def _rule(texts: tuple[str, str, str]) -> str:
    sentence, name, note = texts
    details = filter(None, (name.partition(" [")[0], note))
    return _words(sentence) + "".join(f"<small>{_words(text)}</small>" for text in details)


#: How the cells of a column are written, by its kind, which is also their class.
_WRITERS: dict[str, Callable[[Any], str]] = {
    "text": _words,
    "urls": lambda urls: "<br>".join(map(_link, urls, placeholders(urls))),
    "rule": _rule,
    "number": lambda number: "" if number is None else f"{number:,}",
    "share": lambda share: "" if share is None else percent(share),
}
_PAIR = ("two URLs that count as one", "urls", "one other")
#: The caption of each table, and its columns: heading, kind, and what of a row they show.
_TABLES: dict[str, tuple[str, tuple[tuple[str, str, str], ...]]] = {
    "suspicious": (
        "Merges to look at first",
        (("why", "text", "reason"), _PAIR, ("by", "text", "rules")),
    ),
    "rules": (
        "Rules, those that spared most first",
        (
            ("rule", "rule", "sentence rule note"),
            ("spared", "number", "spared"),
            ("status", "text", "status"),
            ("learned from", "text", "source"),
            ("for it", "number", "support"),
            ("against", "number", "conflicts"),
            ("may be wrong", "share", "upper"),
            ("tests passed", "number", "tested"),
            _PAIR,
        ),
    ),
    "hosts": (
        "Hosts, those with most requests first",
        (
            ("host", "text", "host"),
            *(
                (name, "number", name)
                for name in ("requests", "pages", "distinct", "spared", "left")
            ),
        ),
    ),
    "patterns": (
        "Looks of pages with contents that came before",
        (
            ("look", "text", "pattern"),
            ("left", "number", "redundant"),
            ("of pages", "number", "pages"),
            ("two URLs with one content", "urls", "one other"),
        ),
    ),
    "groups": (
        "Contents, those with most URLs first",
        (
            ("URLs", "number", "pages"),
            ("hosts of these", "number", "hosts"),
            ("the first of them", "urls", "examples"),
        ),
    ),
}


def _table(name: str, rows: Sequence[Any]) -> str:
    if not rows:
        return '<p class="note">There is nothing to show.</p>'
    caption, columns = _TABLES[name]
    if len(rows) > MAX_ROWS:
        caption += f": the first {MAX_ROWS:,} of {len(rows):,}"
    heads = "".join(f'<th scope="col" class="{kind}">{head}</th>' for head, kind, _ in columns)
    cells = [(kind, _WRITERS[kind], attrgetter(*names.split())) for _, kind, names in columns]
    body = []
    for row in rows[:MAX_ROWS]:
        written = (f'<td class="{kind}">{write(of(row))}</td>' for kind, write, of in cells)
        body.append(f"<tr>{''.join(written)}</tr>\n")
    return (
        f'<div class="table" data-table="{name}">'
        f'<div class="scroll" tabindex="0" role="region" aria-label="{caption}">'
        f"<table><caption>{caption}</caption><thead><tr>{heads}</tr></thead>"
        f"<tbody>\n{''.join(body)}</tbody></table></div></div>"
    )


# --- plots: SVG with colours of the page, so that one drawing serves light and dark ------------

_COURSE, _HOSTS = "Distinct pages against requests", "Requests spared and left, by host"
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
    return _drawing(_COURSE, _HEIGHT, parts)


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
    return _drawing(_HOSTS, bottom + _BOTTOM, parts)


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
