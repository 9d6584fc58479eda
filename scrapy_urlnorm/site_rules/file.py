"""Rule files: TOML that people review, edit and compare, and that the miner rewrites."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scrapy_urlnorm.collector import no_collection
from scrapy_urlnorm.exceptions import SiteRuleError, naming
from scrapy_urlnorm.site_rules.rule import (
    LISTS,
    SiteRule,
    evidence_of,
    rule_from_dict,
    with_origin,
)
from scrapy_urlnorm.site_rules.toml import (
    Block,
    TomlError,
    read_blocks,
    update_lines,
    write_block,
)
from scrapy_urlnorm.text import shortened

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


def load_site_rules(path: str | os.PathLike[str]) -> tuple[SiteRule, ...]:
    """Read the rules of a file, all of them or none.

    Raises `SiteRuleError` naming the file, the line and the entry, and what would be accepted;
    `OSError` if the file cannot be read.
    """
    with no_collection():
        blocks, _, _ = _read(Path(path))
        return tuple(_rules(path, blocks))


def save_site_rules(path: str | os.PathLike[str], rules: Iterable[SiteRule]) -> None:
    """Make the file hold exactly *rules*, changing no more of its text than that takes.

    A rule that the file has already keeps its place, its comments and its spelling; where its
    evidence or status changed, only those lines do. A rule that is gone goes with the comment
    directly above it. New rules come last, in the order given. The file is replaced in one step:
    a reader, or a crash, sees either the old or the new one. A new file is for its owner only
    (mode 0600), one that is there keeps its mode; the examples of learned rules are masked.

    Raises `SiteRuleError` if the file that is there is not a rule file: it is not overwritten.
    """
    path = Path(path)
    blocks, rest, newline = _read(path) if path.exists() else ([], [], "\n")
    wanted: dict[str, list[SiteRule]] = {}
    for rule in rules:
        wanted.setdefault(rule.identity, []).append(rule)
    lines: list[str] = []
    for block, old in zip(blocks, _rules(path, blocks), strict=True):
        found = wanted.get(old.identity)
        if found:
            new = found.pop(0)
            lines += block.above + (block.lines if new == old else _updated(block, old, new))
        else:
            lines += block.above[: len(block.above) - len(block.comments)]
            _close_gap(lines)
    lines += rest
    _close_gap(lines)
    for rule in (rule for left in wanted.values() for rule in left):
        lines += [*([""] if lines else []), *write_block(table_of(rule))]
    text = newline.join(lines)
    with naming(os.fspath(path)):
        _replace_file(path, text + newline if text else "")


def _close_gap(lines: list[str]) -> None:
    """Leave no more blank lines where a rule was than a reader needs."""
    while lines and not lines[-1].strip():
        lines.pop()


def table_of(rule: SiteRule) -> dict[str, Any]:
    """The table that stands for *rule* in a file: a list of one text is that text.

    What a rule was learned from is shown without secrets.
    """
    table = rule.masked().as_dict()
    for name in LISTS:
        if len(table.get(name, ())) == 1:
            table[name] = table[name][0]
    return table


def _updated(block: Block, old: SiteRule, new: SiteRule) -> list[str]:
    before, after = table_of(old), table_of(new)
    changed = {key for key in {**before, **after} if before.get(key) != after.get(key)}
    # What the file spells out although it is the default, or in another way, may stay.
    table = {key: value for key, value in block.table.items() if key not in changed}
    table |= {key: after[key] for key in after if key in changed}
    return update_lines(block.lines, block.table, table)


def _read(path: Path) -> tuple[list[Block], list[str], str]:
    """Return the blocks of a file, what follows the last of them, and its line ending."""
    try:
        with naming(os.fspath(path)):
            text = path.read_bytes().decode("utf-8")
        newline = "\r\n" if "\r\n" in text else "\n"
        return *read_blocks(text.replace("\r\n", "\n")), newline
    except UnicodeDecodeError as error:
        raise SiteRuleError(f"{path}: byte {error.start}: a rule file is UTF-8 text") from None
    except TomlError as error:
        raise SiteRuleError(f"{path}: {shortened(str(error))}") from None


def _rules(path: str | os.PathLike[str], blocks: Iterable[Block]) -> Iterator[SiteRule]:
    """Make the rules of the blocks; rules that do the same on many sites share what they can."""
    known: dict[str, SiteRule] = {}
    for number, block in enumerate(blocks, 1):
        table, doing = block.table, block.doing
        try:
            if doing in known:
                rule = known[doing].at(table["site"], evidence_of(table))
            else:
                rule = rule_from_dict(table)
                if doing is not None:
                    known[doing] = rule
        except SiteRuleError as error:
            named = [f"{k} = {table[k]!r}" for k in ("site", "kind") if k in table]
            shown = shortened(", ".join(named), 200)
            raise SiteRuleError(
                f"{os.fspath(path)}, line {block.line}, rule {number} ({shown}): "
                f"{shortened(str(error))}"
            ) from None
        yield with_origin(rule, f"{os.fspath(path)}:{block.line}")


def _replace_file(path: Path, text: str) -> None:
    """Write *text* to a new file beside *path*, then put it in its place."""
    path = path.resolve()
    mode = path.stat().st_mode & 0o777 if path.exists() else 0o600
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(name).chmod(mode)
        os.replace(name, path)  # noqa: PTH105 - the names are texts here
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
