"""A page as a list of blocks: what a reader is shown, each with the place where it stands.

That is the visible text, the addresses of pictures and players, data blocks (JSON-LD and other JSON
in scripts), and the values of fields to write in. Nothing is left out by its words or its class;
what the page says of its own URL is, and arrows that say by which column a listing is sorted.

A stylesheet does it in C: to visit a tree node by node in Python takes longer than to parse it.
"""

from __future__ import annotations

import re
import zlib
from copy import deepcopy
from functools import cache, lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote, urlsplit

from lxml import etree  # type: ignore[import-untyped]  # ships no types

from scrapy_urlnorm.caches import BoundedCache
from scrapy_urlnorm.logs.echoes import Echoes, plain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from lxml import html


_STEPS = 3  # the innermost elements of a path: templates of one site differ in the outer ones
#: What a block that is no text begins with. No line of text has this character.
SHOWN = "\x00"
_LONGEST = 300  # characters of an address or a value; of longer ones, the digest
_LONGEST_STEP = 200  # characters of a step; one of 100,000 in each path would take gigabytes

# fmt: off
_UNSEEN = (
    "audio", "canvas", "datalist", "iframe", "math", "noscript", "object", "script", "style", "svg",
    "template", "video",
)
_INLINE = (
    "a", "abbr", "acronym", "b", "bdi", "bdo", "big", "cite", "code", "del", "dfn", "em", "font",
    "i", "ins", "kbd", "label", "mark", "nobr", "q", "s", "samp", "small", "span", "strike",
    "strong", "sub", "sup", "tt", "u", "var", "wbr",
)
# fmt: on
_DIGITS = re.compile(r"\d+")
HIDDEN = re.compile(r"(?:^|;)\s*(?:display\s*:\s*none|visibility\s*:\s*hidden)", re.IGNORECASE)
_ARROWS = re.compile("[↑↓⇅⇧⇩▲△▴▵▼▽▾▿⬆⬇\u200b\ufeff]")
#: Seconds or milliseconds since 1970 in the query of an address: when it was made, in most.
_STAMP = re.compile(r"(?<=[?&=])1[4-9]\d{8}(?:\d{3})?(?=&|\Z)")
_BEFORE_URL, _AFTER_URL = "\"'(<[", "\"')>].,;:"
#: What the stylesheet writes between texts: characters to which Unicode gives no meaning, so that
#: programs can use them as marks. Their numbers are other ways to write them.
_OPEN, _NEXT, _SHUT, _SHOW = _MARKS = "\ufdd0\ufdd1\ufdd2\ufdd3"
_NUMBERS = re.compile("&#(?:[xX]0*[fF][dD][dD][0-3]|0*6497[6-9])")
# "@hidden/.." would take quadratic time on a page of many elements.
_ATTRIBUTES = etree.XPath("descendant-or-self::*/@hidden | descendant-or-self::*/@style")
_STYLESHEET = f"""
<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform">
<xsl:output method="text" encoding="UTF-8"/>
<xsl:template match="/"><xsl:apply-templates select="*[1]"/></xsl:template>
<xsl:template match="*">{_OPEN}<xsl:value-of select="name()"/>
<xsl:if test="@id">#<xsl:value-of select="@id"/></xsl:if>
<xsl:if test="@class and not(self::body or self::html)"><xsl:text> </xsl:text><xsl:value-of select="@class"/></xsl:if>
<xsl:text>{_NEXT}</xsl:text><xsl:apply-templates/><xsl:text>{_SHUT}</xsl:text></xsl:template>
<xsl:template match="head">{_OPEN}title{_NEXT}<xsl:value-of select="(.//title)[1]"/>
<xsl:apply-templates select=".//script"/><xsl:text>{_SHUT}</xsl:text></xsl:template>
<xsl:template match="{"|".join(_INLINE)}"><xsl:apply-templates/></xsl:template>
<xsl:template match="{"|".join(_UNSEEN)}"/>
<xsl:template match="img|iframe[@src]|video[@src]|audio[@src]|source[@src]|embed[@src]|object[@data]">
<xsl:text>{_SHOW}</xsl:text><xsl:value-of select="name()"/><xsl:text> </xsl:text>
<xsl:value-of select="(@data-src|@src[not(../@data-src)]|@data)[1]"/>
<xsl:text>{_NEXT}</xsl:text><xsl:apply-templates/></xsl:template>
<xsl:template match="video|audio"><xsl:apply-templates select="source[@src]"/></xsl:template>
<xsl:template match="input[@value][not(@type) or @type='text' or @type='search' or @type='email'
 or @type='url' or @type='number' or @type='tel']">
<xsl:text>{_SHOW}</xsl:text>input <xsl:value-of select="@value"/><xsl:text>{_NEXT}</xsl:text>
</xsl:template>
<xsl:template match="script[contains(@type, 'json')]">
<xsl:text>{_SHOW}</xsl:text>data <xsl:value-of select="."/><xsl:text>{_NEXT}</xsl:text></xsl:template>
</xsl:stylesheet>"""


class Block(NamedTuple):
    """A line of a page, and where it stands."""

    #: The innermost elements around it, with id and classes, digits as 0. Classes of the page as a
    #: whole say what it is about, so that its template would have as many paths as there are pages.
    path: str
    line: str

    @property
    def is_text(self) -> bool:
        """Whether a reader reads it: it is no picture, data, or value of a field."""
        return not self.line.startswith(SHOWN)


def blocks_of(
    root: html.HtmlElement, url: str, canonical: str | None = None, raw: str | None = None
) -> list[Block]:
    """Return the blocks of a page that was fetched from *url*, in their order.

    What the page says of its own URL, or of that which it declares as its own (*canonical*), is
    left out. The tree is not changed. *raw* is the text that was parsed, which saves time. Raises
    ValueError for a page that has one of our marks, which no text has.
    """
    source = etree.tostring(root, encoding="unicode") if raw is None else raw
    if any(mark in source for mark in _MARKS) or _NUMBERS.search(source):
        raise ValueError("it has characters that no text has")
    found = _read(str(_stylesheet()(_without_hidden(root))), Echoes([url]))
    lines = [line for _, line in found]
    shown = _without_echoes(_without_arrows(lines), url, canonical)
    if shown is lines:
        return found
    return [Block(path, line) for (path, _), line in zip(found, shown, strict=True) if line]


def _without_hidden(root: html.HtmlElement) -> html.HtmlElement:
    """Return the tree, or a copy of it without the elements that no reader sees."""
    if not _hidden(root):
        return root
    root = deepcopy(root)
    for element in _hidden(root):
        if next(element.iterancestors("head"), None) is None:  # a title is always read
            element.clear(keep_tail=True)
    return root


def _hidden(root: html.HtmlElement) -> list[html.HtmlElement]:
    values = _ATTRIBUTES(root)
    return [
        value.getparent() for value in values if value.attrname == "hidden" or HIDDEN.search(value)
    ]


@cache
def _stylesheet() -> etree.XSLT:
    return etree.XSLT(etree.fromstring(_STYLESHEET))


def _read(text: str, echoes: Echoes) -> list[Block]:
    """Read what the stylesheet wrote: elements that begin and end, things shown, and text.

    Data says nothing of the page's own query (*echoes*).
    """
    found: list[Block] = []
    # Of the elements around what is read now: their steps, and how many cells of each were read.
    steps, cells = [""] * _STEPS, [0]
    line = ""

    def add(line: str) -> None:
        if said := " ".join(line.split()):
            found.append(Block("/".join(filter(None, steps[-_STEPS:])), said))

    def read(said: str) -> str:
        """Take what is shown out of a text."""
        text, *things = said.split(_SHOW)
        for thing in things:
            head, _, rest = thing.partition(_NEXT)
            name, _, value = head.partition(" ")
            if value:
                value = echoes.without(plain(value)) if name == "data" else _STAMP.sub("", value)
                path = "/".join((*steps[-_STEPS + 1 :], name))
                found.append(Block(path, f"{SHOWN}{name} {_short(value)}"))
            text += rest
        return text

    for number, piece in enumerate(text.split(_OPEN)):
        if number:
            if line:
                add(line)
            head, _, piece = piece.partition(_NEXT)
            step = _steps[head]
            if step[:2] in ("td", "th"):
                cells[-1] += 1
                step = f"{step}:{cells[-1]}"  # a column of a table is a place of its own
            steps.append(step)
            cells.append(0)
        line, *others = piece.split(_SHUT)
        line = read(line) if _SHOW in line else line
        for other in others:
            if line:
                add(line)
            del steps[-1], cells[-1]
            line = read(other) if _SHOW in other else other
    return found


def _step(head: str) -> str:
    """Return what stands for an element in a path: ``div#id.class.class``."""
    name, *classes = head.split()
    tag, mark, number = name.partition("#")
    step = ".".join(
        (tag + mark + without_digits(number), *sorted(set(map(without_digits, classes))))
    )
    return step if len(step) <= _LONGEST_STEP else f"{tag}#{digest_of([step])}"


#: Templates of a site have few elements, so the steps of one page are those of the next.
_steps = BoundedCache(_step, most=4_096, longest=_LONGEST_STEP)


def _short(value: str) -> str:
    return " ".join(value.split()) if len(value) <= _LONGEST else digest_of([value])


def without_digits(line: str) -> str:
    """Return the shape of a line: 0 for each number."""
    return _DIGITS.sub("0", line)


def digest_of(words: Iterable[str]) -> str:
    """Return the digest of words in their order, 32 hexadecimal digits."""
    text = "\n".join(words)
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


# --- what a page says of itself -------------------------------------------------------------------


def _without_arrows(lines: list[str]) -> list[str]:
    # The same listing, sorted by another column, carries them elsewhere.
    text = "\n".join(lines)
    if text.isascii() or _ARROWS.search(text) is None:
        return lines
    return [" ".join(line.split()) for line in _ARROWS.sub(" ", text).split("\n")]


def _without_echoes(lines: list[str], url: str, canonical: str | None) -> list[str]:
    """Return the lines without words that repeat the URL; the same list if there are none."""
    echoes = _echoes(url, canonical)
    shown = lines
    for at, line in enumerate(lines):
        if "/" in line:
            words = line.split()
            kept = [word for word in words if "/" not in word or not echoes(word)]
            if len(kept) < len(words):
                shown = list(lines) if shown is lines else shown
                shown[at] = " ".join(kept)
    return shown


def _echoes(url: str, canonical: str | None) -> Callable[[str], bool]:
    """Return a function that tells whether a word only repeats the URL of the page.

    The word may be the URL with a part of its query or without it, in full or from its path on.
    """
    places, own = set(), set[str]()
    for address in (url, canonical):
        try:
            parts = urlsplit(address or "")
        except ValueError:
            continue
        path = unquote(parts.path).rstrip("/")
        if parts.netloc:
            places |= {f"{scheme}//{parts.netloc}{path}" for scheme in ("http:", "https:", "")}
        if path:
            places.add(path)
        own.update(unquote(parts.query).split("&"))

    def echoes(word: str) -> bool:
        if "%" not in word and not any(place in word for place in places):
            return False  # this is quick
        bare = unquote(word).lstrip(_BEFORE_URL)
        rests = (bare[len(place) :].removeprefix("/") for place in places if bare.startswith(place))
        for rest in rests:
            end, _, query = rest.partition("#")[0].rstrip(_AFTER_URL).partition("?")
            if not end and own.issuperset(query.split("&") if query else ()):
                return True
        return False

    return echoes


# --- as text --------------------------------------------------------------------------------------


def packed(blocks: Iterable[Block]) -> bytes:
    """Return the blocks as few bytes."""
    return zlib.compress(_as_text(blocks).encode("utf-8", "surrogatepass"), 1)


def unpacked(data: bytes) -> list[Block]:
    """Return the blocks that were `packed`."""
    return _from_text(zlib.decompress(data).decode("utf-8", "surrogatepass"))


def _as_text(blocks: Iterable[Block]) -> str:
    before, lines = None, []
    for path, line in blocks:
        lines.append(line if path == before else f"{path}\t{line}")
        before = path
    return "\n".join(lines)


def _from_text(text: str) -> list[Block]:
    path, found = "", []
    for said in text.split("\n") if text else ():
        before, is_new, line = said.partition("\t")
        path = before if is_new else path
        found.append(Block(path, line if is_new else said))
    return found


#: Words at either end of a longer line that are hashed one by one: a span begins or ends there.
_ENDS = 3
_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
_NO_TEXT = "*"  # stands for `SHOWN`


def hashed(blocks: Iterable[Block]) -> str:
    """Return the blocks with a hash for each path and word, in which `units` finds the same.

    The hash of a word ends in its numbers; the rest is that of its shape. The words in the middle
    of a line of more than seven have one hash. Title and first heading are known by their paths.
    """
    hashes = (Block(_hashed_path(path), _hashed_line(line)) for path, line in blocks)
    return _as_text(hashes)


def from_hashed(text: str) -> list[Block]:
    """Return the blocks of which `hashed` is the text."""
    return _from_text(text.replace(_NO_TEXT, SHOWN))


@lru_cache(10_000)
def _hashed_path(path: str) -> str:
    step = path.rpartition("/")[2]
    name = step if step == "title" else "h1" if step.startswith("h1") else ""
    return f"{_letters(path, 5)}/{name}" if name else _letters(path, 5)


def _hashed_line(line: str) -> str:
    words = line.removeprefix(SHOWN).split(" ")
    if len(words) > 2 * _ENDS + 1:
        words[_ENDS:-_ENDS] = [" ".join(words[_ENDS:-_ENDS])]
    return ("" if line[0] != SHOWN else _NO_TEXT) + " ".join(map(_hashed_word, words))


@lru_cache(50_000)
def _hashed_word(word: str) -> str:
    """Return six letters: of 10,000 pages that differ in a word, two look alike in one of 400."""
    numbers = "-".join(_DIGITS.findall(word))
    if len(numbers) > 6 or not numbers.isascii():
        numbers = str(int.from_bytes(blake2b(numbers.encode(), digest_size=5).digest(), "big"))
    return _letters(without_digits(word), 6) + numbers


def _letters(text: str, length: int) -> str:
    data = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    number, letters = int.from_bytes(data, "big"), ""
    for _ in range(length):
        number, at = divmod(number, len(_LETTERS))
        letters += _LETTERS[at]
    return letters
