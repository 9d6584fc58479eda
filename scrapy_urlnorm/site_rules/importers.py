"""Rules that others have written: duplicate-url-discarder, ClearURLs, AdGuard.

Each reader takes what is a plain statement about parameters or segments and says, row by row,
what it did not take and why. Nothing is read as a regular expression: a pattern that is no plain
host or name is not taken. Rules without a site become options for the normalizer.

The lists stand under their own licences (duplicate-url-discarder-rules: MIT, ClearURLs: LGPL-3,
AdGuard: GPL-3) and none is part of this package: the file is the user's own copy.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from scrapy_urlnorm.exceptions import SiteRuleError, naming
from scrapy_urlnorm.site_rules.rule import SiteRule
from scrapy_urlnorm.text import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


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

    def drop(self, host: str, names: Iterable[str], path: str | None = None) -> None:
        """Add a rule that drops parameters on *host* and those below it."""
        param = tuple(sorted(set(names)))
        self.rules.append(SiteRule(site=f"*.{host}", kind="drop-param", param=param, path=path))


def import_rules(path: str | os.PathLike[str]) -> Imported:
    """Read a rule file of another tool, told by what is in it.

    Raises `SiteRuleError` naming the file if it is none of the three.
    """
    name = os.fspath(path)
    try:
        with naming(name):
            text = Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise SiteRuleError(f"{name}: byte {error.start}: a rule file is UTF-8 text") from None
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        if "removeparam" in text:
            return _read_adguard(text, name)
        raise SiteRuleError(
            f"{name}: neither duplicate-url-discarder's JSON, nor ClearURLs' data.json, nor an "
            "AdGuard list with $removeparam"
        ) from None
    try:
        if isinstance(data, dict) and isinstance(data.get("providers"), dict):
            return _read_clearurls(data, name)
        if isinstance(data, list):
            return _read_duplicate_url_discarder(data, name)
    except (AttributeError, TypeError) as error:
        raise SiteRuleError(f"{name}: an entry is not what the format has there: {error}") from None
    raise SiteRuleError(f"{name}: JSON, but neither a list of rules nor ClearURLs' providers")


# Host and path of a url-matcher pattern; a star stands alone in a segment.
_PATTERN = re.compile(r"(?:https?://)?([a-z0-9.-]+)((?:/(?:\*|[^/*$|?#]+))*)/?", re.IGNORECASE)


def _read_duplicate_url_discarder(data: Iterable[Any], source: str) -> Imported:
    """Read the rules of duplicate-url-discarder: a pattern matches a host and those below it.

    A star in a path is any run of characters there, and one segment here: never more is merged.
    """
    found = Imported(source)
    for row in data:
        shown = json.dumps(row, sort_keys=True)
        try:
            includes, excludes = row["urlPattern"]["include"], row["urlPattern"].get("exclude")
            processor, args = row["processor"], list(row.get("args") or ())
        except (KeyError, TypeError, AttributeError):
            raise SiteRuleError(
                f"{source}, rule {found.rows + 1}: {shown} is not a rule of "
                "duplicate-url-discarder: urlPattern, processor, order, args"
            ) from None
        for include in includes:
            found.rows += 1
            if excludes:
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
    return found


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


# The pattern of one host with those below it, as ClearURLs writes it.
_PLAIN_PROVIDER = re.compile(
    r"\^https\?:\\/\\/(?:\(\?:\[a-z0-9-\]\+\\\.\)\*\??)?"
    r"([a-z0-9-]+(?:\\\.[a-z0-9-]+)+)(?:\\?/|\(\?:\[/\?\]\|\$\))?"
)
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_-]+")
_QUESTION_MARK = "(?:%3F)?"


def _read_clearurls(data: Mapping[str, Any], source: str) -> Imported:
    """Read ClearURLs' ``data.json``, as far as its patterns are plain hosts and names."""
    found = Imported(source)
    for name, provider in data["providers"].items():
        names = []
        for row in (*provider.get("rules", ()), *provider.get("referralMarketing", ())):
            found.rows += 1
            plain = row.removeprefix(_QUESTION_MARK)
            if _PLAIN_NAME.fullmatch(plain):
                names.append(plain)
            else:
                found.skipped.append((f"{name}: {row}", "a name that is an expression"))
        for key in ("rawRules", "redirections"):
            for row in provider.get(key, ()):
                found.rows += 1
                found.skipped.append((f"{name}: {row}", f"{key}, an expression over the URL"))
        pattern = provider.get("urlPattern", "")
        host = _PLAIN_PROVIDER.fullmatch(pattern)
        why = "a provider with exceptions" if provider.get("exceptions") else ""
        if names and not why and pattern == ".*":
            found.options["drop-params"] = {"add": sorted(set(names))}
        elif names and not why and host is not None:
            found.drop(host[1].replace("\\", ""), names)
        else:
            why = why or "a site that is an expression"
            found.skipped += [(f"{name}: {row}", why) for row in names]
    return found


_MORE_THAN_PLAIN = "more than a host, segments and a name"
_ADGUARD = re.compile(r"(@@)?(?:\|\|([a-z0-9.-]+)(/[^*^|$]*)?\^?)?\$(.*)")


class _Removal(NamedTuple):
    """One row of an AdGuard list: the parameter, and the hosts and the path where it goes."""

    name: str
    hosts: list[str]
    path: str | None
    is_exception: bool = False


def _read_adguard(text: str, source: str) -> Imported:
    """Read a list in AdGuard's syntax, as far as its rows are ``$removeparam=NAME``.

    A name for which the list has any exception is not taken for all sites.
    """
    found = Imported(source)
    rows: list[tuple[str, _Removal]] = []
    for line in map(str.strip, text.splitlines()):
        if not line or line[0] in "![" or "removeparam" not in line:
            continue
        found.rows += 1
        row = _adguard_row(line)
        if isinstance(row, str):
            found.skipped.append((line, row))
        else:
            rows.append((line, row))
    excepted = {row.name for _, row in rows if row.is_exception}
    exceptions = {(host, row.name) for _, row in rows if row.is_exception for host in row.hosts}
    everywhere = set()
    by_place: dict[tuple[str, str | None], set[str]] = {}
    for line, row in rows:
        if row.is_exception:
            found.skipped.append((line, "an exception"))
        elif not row.hosts and row.name in excepted:
            found.skipped.append((line, "has exceptions"))
        elif not row.hosts:
            everywhere.add(row.name)
        for host in () if row.is_exception else row.hosts:
            if (host, row.name) not in exceptions:
                by_place.setdefault((host, row.path), set()).add(row.name)
    if everywhere:
        found.options["drop-params"] = {"add": sorted(everywhere)}
    for (host, path), names in by_place.items():
        found.drop(host, names, path)
    return found


def _adguard_row(line: str) -> _Removal | str:
    """Read one row; a text says why it is not taken."""
    match = _ADGUARD.fullmatch(line)
    if match is None:
        return _MORE_THAN_PLAIN
    is_exception, host, path, rest = match.groups()
    options = dict(part.partition("=")[::2] for part in rest.split(","))
    name = options.pop("removeparam", "")
    domains = [domain for domain in options.pop("domain", "").split("|") if domain]
    if is_exception:
        return _Removal(name, [host] if host else [], None, is_exception=True)
    if options or any("~" in domain or "*" in domain for domain in domains):
        return _MORE_THAN_PLAIN
    if not _PLAIN_NAME.fullmatch(name):
        return "a name that is an expression, or no name"
    if path and not path.endswith("/"):
        return "a path that may end inside a segment"
    below = f"{path.replace('#', '%23')}**" if path else None
    return _Removal(name, [host] if host else domains, below)
