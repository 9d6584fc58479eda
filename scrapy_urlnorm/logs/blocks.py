"""A page as a list of blocks: what a reader is shown, each with the place where it stands.

That is the visible text, the addresses of pictures and players, data blocks (JSON-LD and other JSON
in scripts), and the values of fields to write in. A stylesheet does it in C, as in `visible`: to
visit a tree node by node in Python takes longer than to parse it.
"""

from __future__ import annotations

import re
import zlib
from functools import cache
from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple

from lxml import etree  # type: ignore[import-untyped]  # ships no types

from scrapy_urlnorm.logs.page import without_what_it_says_of_itself
from scrapy_urlnorm.logs.visible import INLINE, UNSEEN, prepared

if TYPE_CHECKING:
    from lxml import html

__all__ = ["Block", "blocks_of", "packed", "unpacked", "without_digits"]

#: The innermost elements of a path: templates of one site differ in the outer ones.
_STEPS = 3
#: What a block that is no text begins with. A line of text has no such character.
_SHOWN = "\x00"

_DIGITS = re.compile(r"\d+")
_STYLESHEET = f"""
<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform">
<xsl:output method="text" encoding="UTF-8"/>
<xsl:template match="/"><xsl:apply-templates select="*[1]"/></xsl:template>
<xsl:template match="*">OPEN<xsl:value-of select="name()"/>
<xsl:if test="@id">#<xsl:value-of select="@id"/></xsl:if>
<xsl:if test="@class"><xsl:text> </xsl:text><xsl:value-of select="@class"/></xsl:if>
<xsl:text>NEXT</xsl:text><xsl:apply-templates/><xsl:text>SHUT</xsl:text></xsl:template>
<xsl:template match="head">OPENtitleNEXT<xsl:value-of select="(.//title)[1]"/>
<xsl:apply-templates select=".//script"/><xsl:text>SHUT</xsl:text></xsl:template>
<xsl:template match="{"|".join(INLINE)}"><xsl:apply-templates/></xsl:template>
<xsl:template match="{"|".join(UNSEEN)}"/>
<xsl:template match="img|iframe[@src]|video[@src]|audio[@src]|source[@src]|embed[@src]">
<xsl:text>SHOW</xsl:text><xsl:value-of select="name()"/><xsl:text> </xsl:text><xsl:choose>
<xsl:when test="@data-src"><xsl:value-of select="@data-src"/></xsl:when>
<xsl:otherwise><xsl:value-of select="@src"/></xsl:otherwise></xsl:choose>
<xsl:text>NEXT</xsl:text><xsl:apply-templates/></xsl:template>
<xsl:template match="video|audio"><xsl:apply-templates select="source[@src]"/></xsl:template>
<xsl:template match="input[@value][not(@type) or @type='text' or @type='search' or @type='email'
 or @type='url' or @type='number' or @type='tel']">
<xsl:text>SHOW</xsl:text>input <xsl:value-of select="@value"/><xsl:text>NEXT</xsl:text>
</xsl:template>
<xsl:template match="script[contains(@type, 'json')]">
<xsl:text>SHOW</xsl:text>data <xsl:value-of select="."/><xsl:text>NEXT</xsl:text></xsl:template>
</xsl:stylesheet>"""


class Block(NamedTuple):
    """A line of a page, and where it stands."""

    path: str  #: the innermost elements around it, with id and classes, digits as 0
    line: str

    @property
    def is_text(self) -> bool:
        """Whether a reader reads it: it is no picture, data, or value of a field."""
        return not self.line.startswith(_SHOWN)


def blocks_of(
    root: html.HtmlElement, url: str, canonical: str | None = None, raw: str | None = None
) -> list[Block]:
    """Return the blocks of a page that was fetched from *url*, in their order.

    What the page says of its own URL, or of that which it declares as its own (*canonical*), is
    left out. The tree is not changed. *raw* is the text that was parsed, which saves time.
    """
    root, marks = prepared(root, raw, 4)
    found = _read(str(_stylesheet(*marks)(root)), *marks)
    lines = [line for _, line in found]
    shown = without_what_it_says_of_itself(lines, url, canonical)
    if shown is lines:
        return found
    return [Block(path, line) for (path, _), line in zip(found, shown, strict=True) if line]


@cache
def _stylesheet(start: str, after: str, end: str, show: str) -> etree.XSLT:
    text = _STYLESHEET
    for name, mark in (("OPEN", start), ("NEXT", after), ("SHUT", end), ("SHOW", show)):
        text = text.replace(name, mark)
    return etree.XSLT(etree.fromstring(text))


def _read(text: str, start: str, after: str, end: str, show: str) -> list[Block]:
    """Read what the stylesheet wrote: elements that begin and end, things shown, and text."""
    found: list[Block] = []
    step_of = cache(_step)
    steps = [""] * _STEPS  # of the elements around what is read now
    paths, cells = [""], [0]  # of each of them: its path, and how many cells of it were read
    line = ""

    def read(said: str) -> str:
        """Take what is shown out of a text."""
        text, *things = said.split(show)
        for thing in things:
            head, _, rest = thing.partition(after)
            name, _, value = head.partition(" ")
            if value:
                path = "/".join((*steps[-_STEPS + 1 :], name))
                found.append(Block(path, f"{_SHOWN}{name} {_short(value)}"))
            text += rest
        return text

    for number, piece in enumerate(text.split(start)):
        if number:
            if line and (said := " ".join(line.split())):
                found.append(Block(paths[-1], said))
            head, _, piece = piece.partition(after)
            step = step_of(head)
            if step[:2] in ("td", "th"):
                cells[-1] += 1
                step = f"{step}:{cells[-1]}"  # a column of a table is a place of its own
            steps.append(step)
            paths.append("/".join(filter(None, steps[-_STEPS:])))
            cells.append(0)
        line, *others = piece.split(end)
        line = read(line) if show in line else line
        for other in others:
            if line and (said := " ".join(line.split())):
                found.append(Block(paths[-1], said))
            del steps[-1], paths[-1], cells[-1]
            line = read(other) if show in other else other
    return found


def _step(head: str) -> str:
    """Return what stands for an element in a path: ``div#id.class.class``."""
    name, *classes = head.split()
    tag, mark, number = name.partition("#")
    return ".".join(
        (tag + mark + without_digits(number), *sorted(set(map(without_digits, classes))))
    )


def _short(value: str) -> str:
    """Return an address or a value; of long data, its digest."""
    if len(value) <= 300:
        return " ".join(value.split())  # as text: a block is one line
    return blake2b(value.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def without_digits(line: str) -> str:
    """Return the shape of a line: 0 for each number."""
    return _DIGITS.sub("0", line)


def packed(blocks: list[Block]) -> bytes:
    """Return the blocks as few bytes: a path is written where it differs from the one before."""
    before, lines = None, []
    for path, line in blocks:
        lines.append(line if path == before else f"{path}\t{line}")
        before = path
    return zlib.compress("\n".join(lines).encode("utf-8", "surrogatepass"), 1)


def unpacked(data: bytes) -> list[Block]:
    """Return the blocks that were `packed`."""
    path, found = "", []
    for said in zlib.decompress(data).decode("utf-8", "surrogatepass").split("\n"):
        before, is_new, line = said.partition("\t")
        path = before if is_new else path
        found.append(Block(path, line if is_new else said))
    return found
