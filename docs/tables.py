"""Write the tables of the documentation from the code.

    python docs/tables.py

A table stands between ``<!-- begin: NAME -->`` and ``<!-- end -->``. A test runs this too, and
fails if it would change anything.
"""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import TYPE_CHECKING

from scrapy_urlnorm import exceptions
from scrapy_urlnorm.cli import VERBS
from scrapy_urlnorm.logs.observation import COLUMNS
from scrapy_urlnorm.rules import PROFILES, RULES
from scrapy_urlnorm.site_rules.operations import WORDS

if TYPE_CHECKING:
    from collections.abc import Iterable

DOCS = Path(__file__).parent
_BLOCK = re.compile(r"(<!-- begin: ([a-z]+) -->)(.*?)(<!-- end -->)", re.DOTALL)


def table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a table in Markdown, on lines of its own."""
    heads = list(heads)
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n" + "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def rules() -> str:
    """Return the catalogue, each rule with its first example."""
    rows = []
    for rule in RULES:
        before, after = re.findall(r"(\S+://\S+) ->\s+(\S+://\S+)", rule.documentation)[0]
        marks = [rule.option(profile) for profile in PROFILES]
        cells = ["-" if mark is False else "x" if mark is True else f'"{mark}"' for mark in marks]
        rows.append([rule.name, rule.semantics, *cells, f"`{before}` → `{after}`"])
    return table(["rule", "semantics", *PROFILES, "example"], rows)


def columns() -> str:
    """Return the keys of a row of a crawl log."""
    return table(["key", "meaning"], [[f"`{name}`", text] for name, text in COLUMNS.items()])


def verbs() -> str:
    """Return the verbs of the command line."""
    return table(["verb", "does"], [[f"`{verb.name}`", verb.help] for verb in VERBS])


def kinds() -> str:
    """Return the kinds of site rules, within a line."""
    return ", ".join(f"`{kind}`" for kind in WORDS)


def errors() -> str:
    """Return every error class, with what it is also a kind of."""
    rows = []
    for name, cls in vars(exceptions).items():
        if isinstance(cls, type) and issubclass(cls, exceptions.UrlNormError):
            also = ", ".join(f"`{base.__name__}`" for base in cls.__bases__)
            rows.append([f"`{name}`", also, inspect.getdoc(cls).partition("\n")[0]])
    return table(["error", "is a kind of", "when"], rows)


TABLES = {
    "columns": columns,
    "errors": errors,
    "kinds": kinds,
    "rules": rules,
    "verbs": verbs,
}


def filled(text: str) -> str:
    """Return *text* with every table as the code has it."""
    return _BLOCK.sub(lambda found: f"{found[1]}{TABLES[found[2]]()}{found[4]}", text)


def main() -> None:
    """Write the tables of all pages."""
    for path in sorted(DOCS.rglob("*.md")):
        text = path.read_text(encoding="utf-8")
        if (new := filled(text)) != text:
            path.write_text(new, encoding="utf-8")
            print(f"wrote the tables of {path.relative_to(DOCS)}")


if __name__ == "__main__":
    main()
