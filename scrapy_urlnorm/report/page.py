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
    from collections.abc import Callable, Sequence

    from scrapy_urlnorm.report.figures import Figures


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
        suspicious_text=plain(_suspicious_text(figures)),
        would="would be" if figures.is_forecast else "were",
        style=_part("page.css"),
        script=script,
        script_hash=f"sha256-{digest}",
    )


def _part(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def _lead(figures: Figures) -> str:
    if figures.is_forecast:
        share = percent(figures.spared / figures.requests) if figures.requests else "none"
        return (
            f"Of {counted(figures.requests, 'request')} in this log, a crawl with these rules would "
            f"not have sent {figures.spared:,} ({share}), and would have had {figures.kept:,} of "
            f"{counted(figures.distinct, 'distinct page')}."
        )
    return (
        f"This crawl got {counted(figures.requests, 'answer')}, and did not send "
        f"{counted(figures.spared, 'request')} that stock Scrapy would have sent."
    )


def _tiles(figures: Figures) -> list[str]:
    values = {
        "requests": figures.requests,
        "pages": figures.pages,
        "distinct pages": figures.distinct,
        "would not be sent" if figures.is_forecast else "not sent": figures.spared,
        "the same again, tests too": figures.left,
        "rules in force": sum(rule.status == "active" for rule in figures.rules),
        "suspicious": figures.suspicions,
    }
    return [f"<div><dt>{name}</dt><dd>{number:,}</dd></div>" for name, number in values.items()]


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
        "Rules, those that kept back most first",
        (
            ("rule", "rule", "sentence rule note"),
            ("not sent", "number", "spared"),
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
            *((name, "number", name) for name in ("requests", "pages", "distinct")),
            *(("not sent", "number", "spared"), ("left", "number", "left")),
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
