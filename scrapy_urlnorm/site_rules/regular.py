"""Blocks of a rule file as `save_site_rules` writes them, each read in one step.

Such a block is the site, then what the rule does, then the evidence, a line each. In a large file
many sites have a rule that does the same: that text is read once. A block that is written in any
other way, by people for the most part, is left to the reader of single lines.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

#: A text without escapes, and a number that Python reads as TOML does.
TEXT = r'"([^"\\\x00-\x1f\x7f]*)"'
NUMBER = r"((?:0|[1-9][0-9]{0,15})(\.[0-9]{1,15})?)"

_URL = TEXT.replace("(", "(?:")
_PAIR = rf"\[{_URL}, {_URL}\]"
_EVIDENCE = (
    ("status", TEXT),
    ("source", TEXT),
    ("support", NUMBER),
    ("conflicts", NUMBER),
    ("false_merge_upper", NUMBER),
    ("examples", rf"(\[{_PAIR}(?:, {_PAIR})*\])"),
    ("note", TEXT),
)
_APART = ("site", *(name for name, _ in _EVIDENCE))
_REGULAR = re.compile(
    rf"\[\[rule\]\]\nsite = {TEXT}\n((?:(?!{'|'.join(_APART)})[a-z_]+ = [^\n]*\n)*)"
    + "".join(rf"(?:{name} = {value}\n)?" for name, value in _EVIDENCE)
)
_read_json = json.JSONDecoder().raw_decode  # what `json.loads` calls, without its checks


class RegularBlocks:
    """Reads the regular blocks of one file.

    *read_table* reads the lines of any one block, the header first; ``None`` if it is not whole.
    """

    def __init__(self, read_table: Callable[[list[str]], dict[str, Any] | None]) -> None:
        self._read_table = read_table
        self._known: dict[str, dict[str, Any] | None] = {}

    def read(self, lines: list[str]) -> tuple[dict[str, Any], str] | None:
        """Return the table of a block and the lines that say what the rule does.

        ``None`` if the block is not regular. Rules with the same such lines do the same.
        """
        found = _REGULAR.fullmatch("\n".join(lines) + "\n")
        if found is None:
            return None
        site, doing, status, source, support, _, conflicts, _, upper, fraction, pairs, note = (
            found.groups()
        )
        known = self._known
        same = known[doing] if doing in known else known.setdefault(doing, self._doing(doing))
        if same is None:
            return None
        table = {"site": site, **same}
        if status is not None:
            table["status"] = status
        if source is not None:
            table["source"] = source
        if support is not None:
            table["support"] = number_of(support, found[6])
        if conflicts is not None:
            table["conflicts"] = number_of(conflicts, found[8])
        if upper is not None:
            table["false_merge_upper"] = number_of(upper, fraction)
        if pairs is not None:
            table["examples"] = _read_json(pairs)[0]
        if note is not None:
            table["note"] = note
        return table, doing

    def _doing(self, text: str) -> dict[str, Any] | None:
        """Read the lines between site and evidence; ``None`` if they are not whole alone."""
        return self._read_table(["[[rule]]", *text.split("\n")])


def number_of(text: str, fraction: str | None) -> int | float:
    """Return the number that matched `NUMBER`."""
    return float(text) if fraction else int(text)
