"""The text of an HTML page that a reader sees, block by block.

To visit a tree node by node in Python takes longer than to parse it. So a stylesheet does it, in
C. What a stylesheet is slow at, to look at the attributes of every element, is done before it, and
only for pages that have such attributes at all.
"""

from __future__ import annotations

import re
from copy import deepcopy
from functools import cache, partial
from itertools import islice
from typing import TYPE_CHECKING

from lxml import etree  # type: ignore[import-untyped]  # ships no types

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lxml import html

__all__ = ["beginning", "blocks"]

_HEAD_TEXTS, _HEAD = 50, 300
"""Text nodes, and characters, of a heading that are read. A page made to be slow has more."""

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
_HEADINGS = ("h1", "h2", "h3", "h4", "h5", "h6", "legend")
# Classes of ages in cgit ("3 days") and of lists of products seen before (WooCommerce, Magento).
_AGES = ("age-mins", "age-hours", "age-days", "age-weeks", "age-months", "age-years")
_SEEN = ("recently-viewed", "recently_viewed", "block-viewed-products")
_BY_CLASS = re.compile(rf"(?:^|\s)(?:{'|'.join(_AGES)})\b|{'|'.join(_SEEN)}")
_HIDDEN = re.compile(r"(?:^|;)\s*(?:display\s*:\s*none|visibility\s*:\s*hidden)", re.IGNORECASE)
_REPLY = re.compile(r"(?:leave|post|write|add) an? (?:reply|comment)\b", re.IGNORECASE)
_REPLY_TITLE = re.compile(r"(?:^|\s)(?:reply-title|comment-reply-title)(?:\s|$)")

_NONCHARACTERS = "".join(map(chr, range(0xFDD0, 0xFDF0)))
"""Unicode gives these no meaning, so that programs can use them as marks."""

_STYLESHEET = f"""
<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform">
<xsl:output method="text" encoding="UTF-8"/>
<xsl:template match="/"><xsl:apply-templates select="*[1]"/></xsl:template>
<xsl:template match="*"><xsl:text>MARK</xsl:text><xsl:apply-templates/><xsl:text>MARK</xsl:text>
</xsl:template>
<xsl:template match="head"><xsl:text>MARK</xsl:text><xsl:value-of select="(.//title)[1]"/>
<xsl:text>MARK</xsl:text></xsl:template>
<xsl:template match="{"|".join(_INLINE)}"><xsl:apply-templates/></xsl:template>
<xsl:template match="{"|".join(_UNSEEN)}"/>
</xsl:stylesheet>"""


def blocks(root: html.HtmlElement) -> list[str]:
    """Return the text of the title and of each block in order, with the white space it has.

    Left out is what no reader sees (scripts, hidden elements) and what tells about the visit by
    its class. Some blocks are empty. The tree is not changed.
    """
    source = etree.tostring(root, encoding="unicode")
    mark = next((mark for mark in _NONCHARACTERS if mark not in source), _NONCHARACTERS[0])
    if any(True for _ in _left_out(root, source)):
        root = deepcopy(root)
        for element in list(_left_out(root, source)):
            if next(element.iterancestors("head"), None) is None:  # a title is always read
                element.clear(keep_tail=True)
    return str(_stylesheet(mark)(root)).split(mark)


@cache
def _stylesheet(mark: str) -> etree.XSLT:
    return etree.XSLT(etree.fromstring(_STYLESHEET.replace("MARK", mark)))


def _left_out(root: html.HtmlElement, source: str) -> Iterator[html.HtmlElement]:
    """Yield the elements that are left out for their attributes.

    *source* is the page as XML. To search it for a word takes a hundredth of the time that it
    takes to ask all elements, and few pages have all of these words.
    """
    if ' hidden="' in source:
        yield from root.xpath("descendant-or-self::*[@hidden]")  # "@hidden/.." takes quadratic time
    if ' style="' in source:
        yield from _with_attribute(root, source, "style", _HIDDEN)
    if "age-" in source or "viewed" in source:
        yield from _with_attribute(root, source, "class", _BY_CLASS)
    if ' class="trace"' in source:
        yield from root.xpath(
            "descendant-or-self::*[@class = 'trace'][contains(../@class, 'breadcrumbs')]"
        )
    if "reply-title" in source or "<textarea" in source:
        around_forms = cache(partial(_around_forms, root))
        yield from (head for head in root.iter(*_HEADINGS) if _is_reply(head, around_forms))


def _with_attribute(
    root: html.HtmlElement, source: str, name: str, pattern: re.Pattern[str]
) -> Iterator[html.HtmlElement]:
    """Yield the elements with an attribute in which the pattern is found."""
    values = set(re.findall(f' {name}="([^"]*)"', source))
    if any("&" in value or pattern.search(value) for value in values):
        found = root.xpath(f"descendant-or-self::*/@{name}")
        yield from (value.getparent() for value in found if pattern.search(value))


def _is_reply(element: html.HtmlElement, around_forms: Callable[[], set[html.HtmlElement]]) -> bool:
    """Whether the element is a heading such as "Leave a reply to NAME".

    The name of the person who is answered is no content. WordPress marks such a heading;
    elsewhere it has these words and stands next to a form to write in.
    """
    if _REPLY_TITLE.search(f"{element.get('id', '')} {element.get('class', '')}"):
        return True
    return _REPLY.match(beginning(element)) is not None and element.getparent() in around_forms()


def _around_forms(root: html.HtmlElement) -> set[html.HtmlElement]:
    """Return the elements that hold a form to write in."""
    found: set[html.HtmlElement] = set()
    for form in root.iter("form"):
        if next(form.iter("textarea"), None) is not None:
            for element in form.iterancestors():
                if element in found:
                    break
                found.add(element)
    return found


def beginning(element: html.HtmlElement) -> str:
    """Return the first words of a heading: one that is never closed may hold the whole page."""
    return " ".join("".join(islice(element.itertext(), _HEAD_TEXTS)).split())[:_HEAD]
