"""The text of a rule file, block by block.

A block is one ``[[rule]]`` table with the comments that stand directly above it. Blocks are read
and written one at a time, so that a rewrite leaves the text of what did not change alone, down
to its comments and spaces. A block as we write it is read in one step, any other line by line with a memory,
because most lines of a large file repeat, and by the TOML parser as a whole where that fails.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from scrapy_urlnorm.site_rules.regular import NUMBER, TEXT, RegularBlocks, number_of

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_HEADER = re.compile(r"\s*\[\[\s*rule\s*\]\]\s*(#.*)?")
# A whole statement on one line, its value a text without escapes or a plain number: most lines
# are like this.
_PLAIN = re.compile(rf"([a-z_]+) = (?:{TEXT}|{NUMBER})")
# A list of texts, or of lists of texts, without escapes: JSON says the same.
_TEXTS = re.compile(r'([a-z_]+) = (\[(?:[\[\], ]|"[^"\\\x00-\x1f\x7f]*")*\])')
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
# A multi-line text may hold a line that looks like the header of a table.
_MOST_CHUNKS = 8
# What no rule needs, and what parsers need very long for, or the depth of Python's own calls.
_MOST_DOTS = 1_000
_MOST_LEVELS = 16
_INT64 = range(-(2**63), 2**63)  # what a TOML file may hold ("Integer" in its specification)
_TOO_LONG = "an integer has more than 64 bits"


@dataclass
class Block:
    """One ``[[rule]]`` table: ``above`` is what stands before its header, ``line`` its number.

    ``doing`` is the text that says what the rule does, where the table keeps it apart from site
    and evidence: the same text, the same rule but for these. ``None`` where it does not.
    """

    line: int
    above: list[str]
    lines: list[str]
    table: dict[str, Any]
    doing: str | None = None

    @property
    def comments(self) -> list[str]:
        """The comment directly above the header, which belongs to the rule."""
        at = len(self.above)
        while at and self.above[at - 1].lstrip().startswith("#"):
            at -= 1
        return self.above[at:]


class TomlError(ValueError):
    """The text is not a rule file; the message says where."""


def read_blocks(text: str) -> tuple[list[Block], list[str]]:
    """Return the blocks of *text*, and the comments after the last of them.

    Raises `TomlError` for what is not TOML, or not a list of ``[[rule]]`` tables.
    """
    lines = text.split("\n")
    starts = [i for i, line in enumerate(lines) if "[[" in line and _HEADER.fullmatch(line)]
    _check_preamble(lines[: starts[0]] if starts else lines)
    blocks: list[Block] = []
    above: list[str] = lines[: starts[0]] if starts else lines
    known: dict[str, tuple[str, Any]] = {}
    regular = RegularBlocks(lambda lines: _read_alone(lines, known))
    ends = [*starts[1:], len(lines)]
    index = 0
    while index < len(starts):
        start = starts[index]
        body = lines[start : ends[index]]
        size = _body_size(body)
        found = regular.read(body[:size])
        if found is not None:
            table, doing = found
        else:
            index, table = _read_irregular(lines, starts, ends, index, known)
            doing = None
            body = lines[start : ends[index]]
            size = _body_size(body)
        blocks.append(Block(start + 1, above, body[:size], table, doing))
        above = body[size:]
        index += 1
    return blocks, above


def _read_irregular(
    lines: list[str],
    starts: list[int],
    ends: list[int],
    index: int,
    known: dict[str, tuple[str, Any]],
) -> tuple[int, dict[str, Any]]:
    """Read the block at *index*; return the index of the last header in it, and its table."""
    start = starts[index]
    for last in range(index, min(index + _MOST_CHUNKS, len(starts))):
        table = _read_table(lines[start : ends[last]], known)
        if table is not None:
            _check_values(table, line=start + 1)
            return last, table
    _loads("\n".join(lines), line=start + 1)  # of the whole text, the parser knows the line
    raise TomlError(f"line {start + 1}: this [[rule]] cannot be read")


def _check_preamble(lines: list[str]) -> None:
    found = _loads("\n".join(lines))
    if found:
        raise TomlError(
            f"{next(iter(found))!r} stands outside of a rule; a rule file is a list of "
            "[[rule]] tables"
        )


def _loads(text: str, *, line: int = 1) -> dict[str, Any]:
    """Parse *text*; `TomlError` names *line* where the parser knows none."""
    if any(each.count(".") > _MOST_DOTS for each in text.split("\n")):
        raise TomlError(f"line {line}: a key has more than {_MOST_DOTS} parts")
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise TomlError(str(error)) from None
    except RecursionError:
        raise TomlError(f"line {line}: a value is nested too deeply") from None
    except ValueError:  # Python refuses to read thousands of digits
        raise TomlError(f"line {line}: {_TOO_LONG}") from None


def _check_values(table: Mapping[str, Any], *, line: int) -> None:
    """Raise `TomlError` for what could not be shown in a message or written again."""
    pending: list[tuple[Any, int]] = [(table, 0)]
    while pending:
        value, level = pending.pop()
        if isinstance(value, (Mapping, list)):
            if level > _MOST_LEVELS:
                raise TomlError(f"line {line}: a value is nested too deeply")
            inner = value.values() if isinstance(value, Mapping) else value
            pending += [(each, level + 1) for each in inner]
        elif isinstance(value, int) and value not in _INT64:
            raise TomlError(f"line {line}: {_TOO_LONG}")


def _read_table(lines: list[str], known: dict[str, tuple[str, Any]]) -> dict[str, Any] | None:
    """Read one block, whose first line is its header; ``None`` if it is not whole."""
    table: dict[str, Any] = {}
    for line in lines[1:]:
        plain = _PLAIN.fullmatch(line)
        if plain is not None:
            key, value, number, fraction = plain.groups()
            if number is not None:
                value = number_of(number, fraction)
        elif not line or line.isspace() or line.startswith("#"):
            continue
        elif line in known:
            key, value = known[line]
        elif (texts := _TEXTS.fullmatch(line)) is not None and _is_json(texts[2]):
            key, value = texts[1], json.loads(texts[2])
        else:
            try:
                found = _loads(line)
            except TomlError:
                return _read_whole(lines)
            if len(found) != 1 or line.lstrip().startswith("["):
                return _read_whole(lines)
            ((key, value),) = found.items()
            if isinstance(value, Mapping) and not re.match(r"\s*[\w-]+\s*=", line):
                return _read_whole(lines)  # a dotted key: more of this table may follow
            if len(known) < 10_000:
                known[line] = key, value
        if key in table:
            return _read_whole(lines)
        table[key] = value
    return table


def _read_alone(lines: list[str], known: dict[str, tuple[str, Any]]) -> dict[str, Any] | None:
    """Read some lines of a block below a header of their own; ``None`` if they are not whole."""
    try:
        table = _read_table(lines, known)
        _check_values(table or {}, line=1)
    except TomlError:  # which is told of the whole block
        return None
    return table


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):  # a comma too many, which TOML allows; or too deep
        return False
    return True


def _read_whole(lines: list[str]) -> dict[str, Any] | None:
    try:
        found = _loads("\n".join(lines))
    except TomlError:
        return None
    rules = found.pop("rule")
    if found:
        raise TomlError(
            f"{next(iter(found))!r} is not a key of a rule; a rule file is a list of [[rule]] tables"
        )
    if len(rules) != 1:
        return None
    table: dict[str, Any] = rules[0]
    return table


def _body_size(lines: list[str]) -> int:
    """How many lines of a chunk are its table; blank lines and comments after it are not."""
    size = len(lines)
    while size > 1 and (not lines[size - 1].strip() or lines[size - 1].lstrip().startswith("#")):
        size -= 1
    return size


# --- writing --------------------------------------------------------------------------------


def write_block(table: Mapping[str, Any]) -> list[str]:
    """Return the lines of a ``[[rule]]`` table."""
    return ["[[rule]]", *(f"{_key(key)} = {write_value(value)}" for key, value in table.items())]


def update_lines(lines: list[str], old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Return the lines of a table that said *old* and now says *new*, changed only there.

    Comments stay, also one behind a value. Where a value stands on several lines, or in a table
    of its own, the block is written anew below its comments.
    """
    found = _changed_lines(lines, old, new)
    if found is not None and _read_whole(found) == new:
        return found
    comments = [line for line in lines[1:] if line.lstrip().startswith("#")]
    header, *statements = write_block(new)
    return [header, *comments, *statements]


def _changed_lines(
    lines: list[str], old: Mapping[str, Any], new: Mapping[str, Any]
) -> list[str] | None:
    subtable = (i for i, line in enumerate(lines) if i and line.lstrip().startswith("["))
    end = next(subtable, len(lines))
    found, rest = lines[:end], lines[end:]
    for key in {**old, **new}:
        if old.get(key) == new.get(key):
            continue
        if key not in old:
            found.append(f"{_key(key)} = {write_value(new[key])}")
            continue
        at = [i for i, line in enumerate(found) if re.match(rf"\s*{key}\s*=", line)]
        comment = _trailing_comment(found[at[0]], key, old[key]) if len(at) == 1 else None
        if comment is None:
            return None
        if key in new:
            found[at[0]] = f"{_key(key)} = {write_value(new[key])}{comment}"
        else:
            del found[at[0]]
    return found + rest


def _trailing_comment(line: str, key: str, value: Any) -> str | None:
    """What follows the value on *line*; ``None`` if the line is not this whole statement."""
    if not _says(line, key, value):
        return None
    # The shortest beginning that says the same is the statement; the rest is the comment.
    for at in [i for i, character in enumerate(line) if character == "#"]:
        if _says(line[:at], key, value):
            return line[len(line[:at].rstrip()) :]
    return ""


def _says(line: str, key: str, value: Any) -> bool:
    try:
        return _loads(line) == {key: value}
    except TomlError:
        return False


def write_value(value: Any) -> str:
    """Write a value as TOML, on one line."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, Mapping):
        pairs = ", ".join(f"{_key(key)} = {write_value(item)}" for key, item in value.items())
        return f"{{ {pairs} }}" if pairs else "{}"
    return f"[{', '.join(map(write_value, value))}]"


def _key(key: str) -> str:
    return key if _BARE_KEY.fullmatch(key) else write_value(key)
