"""Rule files: TOML that people review, edit and compare, and that the miner rewrites.

tomlkit would keep comments as well, but takes 31 s of a processor for 100,000 rules where this
takes 1 s, and a crawl rewrites its file while it runs.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from scrapy_urlnorm.caches import no_collection
from scrapy_urlnorm.exceptions import SiteRuleError, naming
from scrapy_urlnorm.site_rules.operation import LISTS
from scrapy_urlnorm.site_rules.rule import EVIDENCE, SiteRule, evidence_of, rule_from_dict
from scrapy_urlnorm.text import replace_file, shortened

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_HEADER = re.compile(r"^[ \t]*\[\[[ \t]*rule[ \t]*\]\][ \t]*(?:#.*)?$", re.MULTILINE)
# A whole statement on one line: a text or a list of texts without escapes, which JSON reads alike,
# or a plain number. Nearly all lines that we write are like this, and most repeat in a large file.
_TEXT = r'"[^"\\\x00-\x1f\x7f]*"'
_LIST = rf"\[(?:{_TEXT}(?:, {_TEXT})*)?\]"
_STATEMENT = re.compile(
    rf"([a-z_]+) = ({_TEXT}|(?:0|[1-9][0-9]{{0,15}})(?:\.[0-9]{{1,15}})?"
    rf"|{_LIST}|\[{_LIST}(?:, {_LIST})*\])"
).fullmatch
_value_of = json.JSONDecoder().raw_decode
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
#: Keys of which rules that do the same differ.
_APART = frozenset(("site", *EVIDENCE))
# A multi-line text may hold a line that looks like the header of a table.
_MOST_CHUNKS = 8
# What no rule needs, and what parsers need very long for, or the depth of Python's own calls.
_MOST_DOTS = 1_000
_MOST_LEVELS = 16
_INT64 = range(-(2**63), 2**63)  # what a TOML file may hold ("Integer" in its specification)
_TOO_LONG = "an integer has more than 64 bits"
_TOO_DEEP = "a value is nested too deeply"
_IS_LIST = "a rule file is a list of [[rule]] tables"


class Block(NamedTuple):
    """One ``[[rule]]`` table: ``above`` is what stands before its header, ``line`` its number.

    ``doing`` is what its lines say but for site and evidence: with the same, the same rule. Empty
    where that is not known. The last block is what stands below all tables: it has no lines.
    """

    line: int
    above: list[str]
    lines: list[str]
    table: dict[str, Any]
    doing: tuple[str, ...]


def load_site_rules(path: str | os.PathLike[str]) -> tuple[SiteRule, ...]:
    """Read the rules of a file, all of them or none.

    Raises `SiteRuleError` naming the file, the line and the entry, and what would be accepted;
    `OSError` if the file cannot be read.
    """
    with no_collection():
        return tuple(rule for _, rule in _read(path, text_of(path)) if rule is not None)


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
    before = text_of(path) if path.exists() else ""
    wanted: dict[str, list[SiteRule]] = {}
    for rule in rules:
        wanted.setdefault(rule.identity, []).append(rule)
    lines: list[str] = []
    for block, old in _read(path, before):
        lines += block.above
        if old is None:
            break
        if found := wanted.get(old.identity):
            new = found.pop(0)
            lines += block.lines if new == old else _updated(block, old, new)
        else:
            while lines and lines[-1].lstrip().startswith("#"):
                lines.pop()
            _close_gap(lines)
    _close_gap(lines)
    for rule in (rule for left in wanted.values() for rule in left):
        lines += [*([""] if lines else []), *write_block(table_of(rule))]
    newline = "\r\n" if "\r\n" in before else "\n"
    text = newline.join(lines)
    with naming(os.fspath(path)):
        replace_file(path, text + newline if text else "")


def _close_gap(lines: list[str]) -> None:
    """Leave no more blank lines where a rule was than a reader needs."""
    while lines and not lines[-1].strip():
        lines.pop()


def table_of(rule: SiteRule) -> dict[str, Any]:
    """The table that stands for *rule* in a file: a list of one text is that text.

    What a rule was learned from is shown without secrets.
    """
    table = rule.masked().as_dict()
    return table | {name: table[name][0] for name in LISTS if len(table.get(name, ())) == 1}


# --- reading ---------------------------------------------------------------------------------


def text_of(path: str | os.PathLike[str]) -> str:
    try:
        with naming(os.fspath(path)):
            return Path(path).read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        raise SiteRuleError(f"{path}: byte {error.start}: a rule file is UTF-8 text") from None


def _read(path: str | os.PathLike[str], text: str) -> Iterator[tuple[Block, SiteRule | None]]:
    """Yield the blocks of a file with their rules; rules that do the same share what they can."""
    known: dict[tuple[str, ...], SiteRule] = {}
    try:
        for number, block in enumerate(read_blocks(text.replace("\r\n", "\n")), 1):
            yield block, _rule_of(block, number, os.fspath(path), known) if block.lines else None
    except SiteRuleError as error:
        raise SiteRuleError(f"{os.fspath(path)}: {shortened(str(error))}") from None


def _rule_of(
    block: Block, number: int, path: str, known: dict[tuple[str, ...], SiteRule]
) -> SiteRule:
    table, doing = block.table, block.doing
    try:
        rule = (known.get(doing) if "site" in table else None) or rule_from_dict(table)
        if doing:
            known[doing] = rule
        return rule.at(table["site"], evidence_of(table), f"{path}:{block.line}")
    except SiteRuleError as error:
        named = [f"{k} = {table[k]!r}" for k in ("site", "kind") if k in table]
        shown = shortened(", ".join(named), 200)
        raise SiteRuleError(f"line {block.line}, rule {number} ({shown}): {error}") from None


def read_blocks(text: str) -> Iterator[Block]:
    """Yield the blocks of *text*, and what stands below the last of them.

    Raises `SiteRuleError` for what is not TOML, or not a list of ``[[rule]]`` tables.
    """
    starts = [match.start() for match in _HEADER.finditer(text)]
    ends = [*starts[1:], len(text)]
    above = text[: starts[0]].split("\n")[:-1] if starts else text.split("\n")
    for name in _loads("\n".join(above)):
        raise SiteRuleError(f"{name!r} stands outside of a rule; {_IS_LIST}")
    known: dict[str, tuple[str, Any]] = {}
    line, index = len(above) + 1, 0
    while index < len(starts):
        start = starts[index]
        chunk = text[start : ends[index]].split("\n")
        table, doing = _read_lines(chunk, known)
        if table is None:
            index, table = _read_chunks(text, starts, ends, index, line)
            chunk = text[start : ends[index]].split("\n")
        if ends[index] < len(text):
            chunk.pop()  # nothing stands behind the last line break
        size = len(chunk)
        while size > 1 and chunk[size - 1].lstrip()[:1] in ("", "#"):
            size -= 1  # blank lines and comments after a table are no part of it
        yield Block(line, above, chunk[:size], table, doing)
        line += len(chunk)
        above = chunk[size:]
        index += 1
    yield Block(line, above, [], {}, ())


def _read_lines(
    lines: list[str], known: dict[str, tuple[str, Any]]
) -> tuple[dict[str, Any] | None, tuple[str, ...]]:
    """Read a block whose lines are statements by themselves, with a memory for them.

    Return its table, ``None`` if they are not, and `Block.doing`.
    """
    table: dict[str, Any] = {}
    doing: list[str] = []
    for line in lines[1:]:
        if not line or line[0] == "#":
            continue
        statement = known.get(line) or _statement(line)
        if statement is None or statement[0] in table:
            return None, ()
        key, value = statement
        table[key] = value
        if key not in _APART:
            doing.append(line)
            known[line] = statement
    return table, tuple(doing)


def _statement(line: str) -> tuple[str, Any] | None:
    """Read a line; ``None`` if it may be part of something, or not what it seems."""
    match = _STATEMENT(line)
    if match is not None:
        return match[1], _value_of(match[2])[0]
    if re.match(r"[\w-]+ = [{tf]", line):  # a table on one line; true or false
        with suppress(SiteRuleError):
            (statement,) = _loads(line).items()
            _check_values(statement[1], line=1)
            return statement
    return None


def _read_chunks(
    text: str, starts: list[int], ends: list[int], index: int, line: int
) -> tuple[int, dict[str, Any]]:
    """Read the block at *index* whole; return the index of the last header in it, and its table."""
    for last in range(index, min(index + _MOST_CHUNKS, len(starts))):
        try:
            found = _loads(text[starts[index] : ends[last]])
        except SiteRuleError:
            continue
        rules = found.pop("rule")
        for name in found:
            raise SiteRuleError(f"{name!r} is not a key of a rule; {_IS_LIST}")
        if len(rules) == 1:
            _check_values(rules[0], line=line)
            return last, rules[0]
    _loads(text, line=line)  # of the whole text, the parser knows the line
    raise SiteRuleError(f"line {line}: this [[rule]] cannot be read")


def _loads(text: str, *, line: int = 1) -> dict[str, Any]:
    """Parse *text*; `SiteRuleError` names *line* where the parser knows none."""
    if any(each.count(".") > _MOST_DOTS for each in text.split("\n")):
        raise SiteRuleError(f"line {line}: a key has more than {_MOST_DOTS} parts")
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SiteRuleError(str(error)) from None
    except RecursionError:
        raise SiteRuleError(f"line {line}: {_TOO_DEEP}") from None
    except ValueError:  # Python refuses to read thousands of digits
        raise SiteRuleError(f"line {line}: {_TOO_LONG}") from None


def _check_values(value: Any, *, line: int, level: int = -1) -> None:
    """Raise `SiteRuleError` for what could not be shown in a message or written again."""
    if isinstance(value, int) and value not in _INT64:
        raise SiteRuleError(f"line {line}: {_TOO_LONG}")
    if isinstance(value, (Mapping, list)):
        if level >= _MOST_LEVELS:
            raise SiteRuleError(f"line {line}: {_TOO_DEEP}")
        for each in value.values() if isinstance(value, Mapping) else value:
            _check_values(each, line=line, level=level + 1)


# --- writing ---------------------------------------------------------------------------------


def write_block(table: Mapping[str, Any]) -> list[str]:
    return ["[[rule]]", *(_line(key, value) for key, value in table.items())]


def _line(key: str, value: Any) -> str:
    return f"{key if _BARE_KEY.fullmatch(key) else _value(key)} = {_value(value)}"


def _value(value: Any) -> str:
    """Write a value as TOML, on one line."""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, Mapping):
        pairs = ", ".join(_line(*pair) for pair in value.items())
        return f"{{ {pairs} }}" if pairs else "{}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_value, value))}]"
    return repr(value).lower()  # a number, true or false


def _updated(block: Block, old: SiteRule, new: SiteRule) -> list[str]:
    """Return the lines of a block with what *new* says, changed only there.

    Comments stay, also one behind a value. Where a value stands on several lines, or in a table
    of its own, the block is written anew below its comments.
    """
    before, after = table_of(old), table_of(new)
    changed = [key for key in {**before, **after} if before.get(key) != after.get(key)]
    # What the file spells out although it is the default, or in another way, may stay.
    wanted = {key: value for key, value in block.table.items() if key not in changed}
    wanted |= {key: after[key] for key in after if key in changed}
    lines = block.lines
    end = next((i for i, line in enumerate(lines) if i and line.lstrip()[:1] == "["), len(lines))
    found = lines[:end]
    for key in changed:
        at = [i for i, line in enumerate(found) if re.match(rf"\s*{key}\s*=", line)]
        stated = [_line(key, wanted[key])] if key in wanted else []
        if at and stated:
            stated[0] += _comment(found[at[0]])
        found = [*found[: at[0]], *stated, *found[at[0] + 1 :]] if at else found + stated
    with suppress(ValueError):  # some lines may have been part of another value
        (says,) = tomllib.loads("\n".join(found + lines[end:]))["rule"]
        if sorted(write_block(says)) == sorted(write_block(wanted)):
            return found + lines[end:]
    comments = [line for line in lines[1:] if line.lstrip().startswith("#")]
    header, *statements = write_block(wanted)
    return [header, *comments, *statements]


def _comment(line: str) -> str:
    """Return the comment behind the value on *line*, with the spaces before it."""
    for at in (i for i, character in enumerate(line) if character == "#"):
        with suppress(ValueError):  # the shortest beginning that is a statement is the statement
            tomllib.loads(line[:at])
            return line[len(line[:at].rstrip()) :]
    return ""
