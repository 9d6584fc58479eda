"""Rules that were written for duplicate-url-discarder.

The reader takes what is a plain statement about parameters or segments and says, row by row, what
it did not take and why. Nothing is read as a regular expression: a pattern that is no plain host
with whole segments is not taken. Rules without a site become options for the normalizer.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from scrapy_urlnorm.exceptions import SiteRuleError
from scrapy_urlnorm.site_rules.file import text_of
from scrapy_urlnorm.site_rules.rule import SiteRule
from scrapy_urlnorm.text import counted


@dataclass
class Imported:
    """What was read: rules for sites, options for all sites, and the rows not taken."""

    source: str
    rules: list[SiteRule] = field(default_factory=list)
    #: For ``Normalizer(rules=...)`` or the setting of the same meaning.
    options: dict[str, Any] = field(default_factory=dict)
    rows: int = 0
    skipped: list[tuple[str, str]] = field(default_factory=list)

    def __str__(self) -> str:
        """A summary for people, with the reasons counted."""
        taken = f"{len(self.skipped):,} not taken, {counted(len(self.rules), 'site rule')}"
        lines = [f"{self.source}: {counted(self.rows, 'row')}, {taken}"]
        if self.options:
            lines.append(f"for all sites: {json.dumps(self.options, sort_keys=True)}")
        reasons = sorted(Counter(why for _, why in self.skipped).items())
        return "\n".join([*lines, *(f"not taken, {count:,}: {why}" for why, count in reasons)])


def import_rules(path: str | os.PathLike[str]) -> Imported:
    """Read a rule file of duplicate-url-discarder: a pattern matches a host and those below it.

    A star in a path is any run of characters there, and one segment here: never more is merged.
    Raises `SiteRuleError` naming the file if it is none.
    """
    found, text = Imported(os.fspath(path)), text_of(path)
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        data = None
    if not isinstance(data, list):
        what = "not a list of rules as duplicate-url-discarder has it (JSON)"
        raise SiteRuleError(f"{found.source}: {what}")
    try:
        for row in data:
            _add_row(found, row)
    except (LookupError, TypeError, AttributeError):
        raise SiteRuleError(
            f"{found.source}, rule {data.index(row) + 1}: {json.dumps(row, sort_keys=True)} is not a rule of "
            "duplicate-url-discarder: urlPattern, processor, order, args"
        ) from None
    return found


# Host and path of a url-matcher pattern; a star stands alone in a segment.
_PATTERN = re.compile(r"(?:https?://)?([a-z0-9.-]+)((?:/(?:\*|[^/*$|?#]+))*)/?", re.IGNORECASE)


def _add_row(found: Imported, row: Any) -> None:
    pattern, processor, args = row["urlPattern"], row["processor"], list(row.get("args") or ())
    shown = json.dumps(row, sort_keys=True)
    for include in pattern["include"]:
        found.rows += 1
        if pattern.get("exclude"):
            found.skipped.append((shown, "a pattern with exceptions"))
        elif include:
            _add_processor(found, include, processor, args)
        elif processor == "queryRemoval":
            names = found.options.setdefault("drop-params", {"add": []})["add"]
            names += [name for name in args if name not in names]
        elif processor == "normalizer":
            found.options |= {"www": "remove", "trailing-slash": "remove"}
        else:
            found.skipped.append((shown, f"{processor} on all sites"))


def _add_processor(found: Imported, include: str, processor: str, args: list[Any]) -> None:
    match = _PATTERN.fullmatch(include)
    if match is None:
        found.skipped.append((include, "a pattern that is not a host and whole segments"))
        return
    where: dict[str, Any] = {"site": f"*.{match[1].lower()}"}
    if match[2]:
        where["path"] = f"{match[2].replace('#', '%23')}/**"
    kinds: dict[str, list[dict[str, Any]]] = {
        "queryRemoval": [{"kind": "drop-param", "param": args}],
        "queryRemovalExcept": [{"kind": "keep-param", "param": args}],
        "subpathRemoval": [{"kind": "drop-segment", "slots": [f"s{i}" for i in args]}],
        "normalizer": [
            {"kind": "trailing-slash", "option": "remove"},
            *([] if match[2] else [{"kind": "www", "option": "remove"}]),
        ],
    }
    if processor not in kinds:
        found.skipped.append((include, f"the processor {processor!r}"))
    try:
        found.rules += [SiteRule(**where, **said) for said in kinds.get(processor, ())]
    except SiteRuleError as error:
        found.skipped.append((include, str(error)))
