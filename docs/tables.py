"""Write the tables and lists of the documentation from the code.

    python docs/tables.py

Each stands between ``<!-- begin: NAME -->`` and ``<!-- end -->``. A test runs this too, and
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

if TYPE_CHECKING:
    from collections.abc import Iterable

DOCS = Path(__file__).parent
_BLOCK = re.compile(r"(<!-- begin: ([a-z]+) -->)(.*?)(<!-- end -->)", re.DOTALL)


def listed(rows: Iterable[tuple[str, str]]) -> str:
    """Return a list in Markdown, on lines of its own: a word, and what it means."""
    return "\n" + "".join(f"- {word}: {text}\n" for word, text in rows)


def rules() -> str:
    """Return the catalogue, each rule with the profiles that have it and its first example."""
    rows = []
    for rule in RULES:
        before, after = re.findall(r"(\S+://\S+) ->\s+(\S+://\S+)", rule.documentation)[0]
        options = {profile: rule.option(profile) for profile in PROFILES}
        on = [
            name if option is True else f'{name} "{option}"'
            for name, option in options.items()
            if option
        ]
        where = "all" if on == list(PROFILES) else ", ".join(on) or "none"
        rows.append((f"`{rule.name}` ({rule.semantics}; {where})", f"`{before}` → `{after}`"))
    return listed(rows)


def columns() -> str:
    """Return the keys of a row of a crawl log."""
    return listed((f"`{name}`", text) for name, text in COLUMNS.items())


def verbs() -> str:
    """Return the verbs of the command line."""
    return listed((f"`{verb.name}`", verb.help) for verb in VERBS)


def errors() -> str:
    """Return every error class, with what it is a kind of."""
    rows = []
    for name, cls in vars(exceptions).items():
        if isinstance(cls, type) and issubclass(cls, exceptions.UrlNormError):
            also = ", ".join(f"`{base.__name__}`" for base in cls.__bases__)
            rows.append((f"`{name}` ({also})", inspect.getdoc(cls).partition("\n")[0]))
    return listed(rows)


TABLES = {
    "columns": columns,
    "errors": errors,
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
