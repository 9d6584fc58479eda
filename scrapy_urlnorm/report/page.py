"""Page: figures as one HTML file that asks no server for anything.

What a site wrote (URLs, hosts, titles) stands in a block of JSON, from which the script puts it into
the tables as text; in the few other places it is escaped. A policy in the head of the page forbids
every script but ours, and every request.
"""

from __future__ import annotations

import base64
import hashlib
import json
from html import escape
from importlib import resources
from string import Template
from typing import TYPE_CHECKING

from scrapy_urlnorm.exceptions import UrlNormError
from scrapy_urlnorm.report import plots
from scrapy_urlnorm.text import counted

if TYPE_CHECKING:
    from scrapy_urlnorm.report.figures import Figures

#: Columns of each table: the field, its heading, and how it is shown.
_COLUMNS: dict[str, tuple[str, tuple[tuple[str, str, str], ...]]] = {
    "suspicious": (
        "Merges to look at first",
        (
            ("reason", "why", "text"),
            ("one", "URL", "text"),
            ("other", "counts as the same", "text"),
            ("rules", "by", "text"),
        ),
    ),
    "rules": (
        "Rules, those that spared most first",
        (
            ("rule", "rule", "text"),
            ("spared", "spared", "number"),
            ("status", "status", "short"),
            ("source", "learned from", "short"),
            ("support", "for it", "number"),
            ("conflicts", "against", "number"),
            ("upper", "may be wrong", "number"),
            ("tested", "tests passed", "number"),
            ("one", "example", "text"),
            ("other", "counts as the same", "text"),
            ("note", "note", "text"),
        ),
    ),
    "hosts": (
        "Hosts, those with most requests first",
        (
            ("host", "host", "text"),
            ("requests", "requests", "number"),
            ("pages", "pages", "number"),
            ("distinct", "distinct", "number"),
            ("spared", "spared", "number"),
            ("left", "left", "number"),
        ),
    ),
    "patterns": (
        "Looks of pages with contents that came before",
        (
            ("pattern", "look", "text"),
            ("redundant", "left", "number"),
            ("pages", "of pages", "number"),
            ("one", "example", "text"),
            ("other", "has the same content", "text"),
        ),
    ),
    "groups": (
        "Contents, those with most URLs first",
        (
            ("pages", "URLs", "number"),
            ("hosts", "hosts of these", "number"),
            ("examples", "the first of them", "text"),
        ),
    ),
}


def page(figures: Figures) -> str:
    """Return the report as HTML. Without the package that draws, it says so in place of plots."""
    script = _part("page.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    would = "would be" if figures.is_forecast else "were"
    course, hosts = _plots(figures)
    return Template(_part("page.html")).substitute(
        title=_plain(figures.title),
        lead=_plain(_lead(figures)),
        tiles="\n".join(_tiles(figures)),
        notes="\n".join(f'<p class="note">{_plain(note)}</p>' for note in figures.notes),
        course_text=_plain(_course_text(figures)),
        course_plot=course,
        suspicious_text=_plain(_suspicious_text(figures)),
        rules_text=_plain(
            f"What each rule spared, and what it stands on. Requests that several rules {would} needed "
            "for count for each of them; where a host has many, the numbers are estimates from a "
            "sample. A rule that was retracted says why in its note."
        ),
        hosts_text=_plain(
            f"Requests that {would} spared, and pages that were fetched although their content had "
            "come before (left). A content counts as distinct at the host where it came first."
        ),
        hosts_plot=hosts,
        style=_part("page.css"),
        script=script,
        script_hash=f"sha256-{digest}",
        data=_data(figures),
    )


def _part(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def _plain(text: str) -> str:
    """Return *text* for a place between tags; what is no character becomes a mark."""
    return escape(text.encode("utf-8", "replace").decode("utf-8"))


def _plots(figures: Figures) -> list[str]:
    """Return the plot of the course and that of the hosts, or for each a line that says why not."""
    words = ("Distinct pages against requests", "Requests spared and left, by host")
    try:
        drawn = plots.drawn([plots.course(figures.course), plots.hosts(figures.hosts)])
    except UrlNormError as error:
        return [f'<p class="note">There is no plot here: {_plain(str(error))}</p>' for _ in words]
    return [
        f'<figure role="img" aria-label="{label}">{svg}</figure>'
        for label, svg in zip(words, drawn, strict=True)
    ]


def _lead(figures: Figures) -> str:
    share = f"{figures.spared / figures.requests:.1%}" if figures.requests else "none"
    if figures.is_forecast:
        return (
            f"Of {counted(figures.requests, 'request')} in this log, a crawl with these rules would "
            f"not have sent {figures.spared:,} ({share})."
        )
    return (
        f"This crawl got {counted(figures.requests, 'answer')}, and spared "
        f"{counted(figures.spared, 'request')} that stock Scrapy would have sent."
    )


def _tiles(figures: Figures) -> list[str]:
    spared = "would be spared" if figures.is_forecast else "spared"
    values = {
        "requests": figures.requests,
        "pages": figures.pages,
        "distinct pages": figures.distinct,
        spared: figures.spared,
        "still fetched twice": figures.left,
        "rules": len(figures.rules),
        "suspicious": figures.suspicions,
    }
    return [f"<div><dt>{name}</dt><dd>{number:,}</dd></div>" for name, number in values.items()]


def _course_text(figures: Figures) -> str:
    lines = list(dict.fromkeys(point.line for point in figures.course))
    if len(lines) < 2:
        return "How many distinct pages the crawl had after so many requests."
    ends = {point.line: point for point in figures.course}
    words = [
        f"{name}: {end.distinct:,} after {end.requests:,} requests" for name, end in ends.items()
    ]
    return f"Distinct pages against requests. {'; '.join(words)}. The steeper line wastes less."


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
    first = f" The first {shown:,} of them are shown." if shown < figures.suspicions else ""
    return (
        f"{counted(figures.suspicions, 'merge')} to look at: different contents under one key, or a rule "
        f"with evidence against it. A page may also have changed between two fetches.{first}"
    )


def _data(figures: Figures) -> str:
    """Return the tables as JSON that cannot end the element it stands in."""
    tables = {
        name: {
            "caption": caption,
            "columns": [{"name": heading, "kind": kind} for _, heading, kind in columns],
            "rows": [
                [getattr(row, field) for field, _, _ in columns] for row in getattr(figures, name)
            ],
        }
        for name, (caption, columns) in _COLUMNS.items()
    }
    text = json.dumps(tables, separators=(",", ":"))
    return text.replace("<", "\\u003c")
