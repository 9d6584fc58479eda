"""The text of an HTML page that a reader sees, block by block.

To visit a tree node by node in Python takes longer than to parse it. So a stylesheet does it, in
C. What a stylesheet is slow at, to look at the attributes of every element, is done before it, and
only for pages in whose source the words of such attributes stand at all.
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

__all__ = ["INLINE", "UNSEEN", "beginning", "prepared", "text_of"]

_HEAD_TEXTS, _HEAD = 50, 300
"""Text nodes, and characters, of a heading that are read. A page made to be slow has more."""

# fmt: off
UNSEEN = (
    "audio", "canvas", "datalist", "iframe", "math", "noscript", "object", "script", "style", "svg",
    "template", "video",
)
INLINE = (
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
_SEEN_NAMES = [name.encode() for name in _SEEN]
_IN_CLASSES = re.compile(b"age-(?:%s)" % "|".join(name[4:] for name in _AGES).encode())
_HIDDEN_NAME = re.compile(rb"hidden(?<!=\"hidden)")  # not that of type="hidden"
# Where each attribute "style" is, with its value; of hostile pages, the beginning of the value.
_STYLE = re.compile(rb"style\s*=\s*(?=(\"[^\"]*|'[^']*|[^\s>]{0,60}))")
_ANYTHING = re.compile("")
_HIDDEN = re.compile(r"(?:^|;)\s*(?:display\s*:\s*none|visibility\s*:\s*hidden)", re.IGNORECASE)
_REPLY = re.compile(r"(?:leave|post|write|add) an? (?:reply|comment)\b", re.IGNORECASE)
_REPLY_TITLE = re.compile(r"(?:^|\s)(?:reply-title|comment-reply-title)(?:\s|$)")

# A number in place of a character, but for quotes, "&", "@", angle brackets and what is not ASCII:
# it may be a letter of a word that is searched for.
_ESCAPED = re.compile(
    rb"&#(?!(?:3[489]|6[024]|1[6-9][0-9]|[2-9][0-9]{2}|[1-9][0-9]{3,4}"
    rb"|x(?:2[267]|3[ce]|40|[a-f][0-9a-f]|[1-9a-f][0-9a-f]{2,3}));)"
)

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
<xsl:template match="{"|".join(INLINE)}"><xsl:apply-templates/></xsl:template>
<xsl:template match="{"|".join(UNSEEN)}"/>
</xsl:stylesheet>"""


def text_of(root: html.HtmlElement, raw: str | None = None) -> tuple[str, str]:
    """Return the text of the title and of each block in order, and the mark between blocks.

    Often several marks stand together, and blanks around them. Left out is what no reader sees
    (scripts, hidden elements) and what tells about the visit by its class. The tree is not
    changed. *raw* is the text that was parsed; without it, the page is written out once more.
    """
    root, (mark,) = prepared(root, raw, 1)
    return str(_stylesheet(mark)(root)), mark


def prepared(
    root: html.HtmlElement, raw: str | None, number: int
) -> tuple[html.HtmlElement, list[str]]:
    """Return the tree without what is left out, and a *number* of marks that no text of it has."""
    source = _source(root, raw)
    unused = (mark for mark in _NONCHARACTERS if not _may_hold(source, mark))
    marks = list(islice(unused, number))
    if any(True for _ in _left_out(root, source)):
        root = deepcopy(root)
        for element in list(_left_out(root, source)):
            if next(element.iterancestors("head"), None) is None:  # a title is always read
                element.clear(keep_tail=True)
    return root, marks if len(marks) == number else list(_NONCHARACTERS[:number])


def _source(root: html.HtmlElement, raw: str | None) -> bytes:
    """Return bytes with every word of the page, in small letters, to search for rare words.

    To search them takes a hundredth of the time that it takes to ask all elements.
    """
    if raw is not None:
        source = raw.encode("utf-8", "replace").lower().replace(b"\x00", b"")
        if _ESCAPED.search(source) is None:
            return source
    return bytes(etree.tostring(root, encoding="utf-8").lower())


def _may_hold(source: bytes, character: str) -> bool:
    """Whether a character, or its number, stands in the source of a page."""
    written = (character.encode(), b"%x" % ord(character), b"%d" % ord(character))
    return any(text in source for text in written)


@cache
def _stylesheet(mark: str) -> etree.XSLT:
    return etree.XSLT(etree.fromstring(_STYLESHEET.replace("MARK", mark)))


def _left_out(root: html.HtmlElement, source: bytes) -> Iterator[html.HtmlElement]:
    """Yield the elements that are left out for their attributes.

    A page without the words in its source has no such elements, and most pages have none of them.
    """
    if _HIDDEN_NAME.search(source):
        yield from _with_attribute(root, "hidden", _ANYTHING)
    if any(map(_may_hide, _STYLE.findall(source))):
        yield from _with_attribute(root, "style", _HIDDEN)
    if _IN_CLASSES.search(source) or (b"viewed" in source and any(map(source.count, _SEEN_NAMES))):
        yield from _with_attribute(root, "class", _BY_CLASS)
    if b"trace" in source and b"breadcrumbs" in source:
        yield from root.xpath(
            "descendant-or-self::*[@class = 'trace'][contains(../@class, 'breadcrumbs')]"
        )
    if b"reply-title" in source or b"<textarea" in source:
        around_forms = cache(partial(_around_forms, root))
        yield from (head for head in root.iter(*_HEADINGS) if _is_reply(head, around_forms))


def _may_hide(style: bytes) -> bool:
    """Whether `_HIDDEN` may be found in a value. To it, U+017F is an "s", and U+0131 an "i"."""
    return (b"play" in style and b"none" in style) or b"dden" in style


@cache
def _values(name: str) -> etree.XPath:
    return etree.XPath(f"descendant-or-self::*/@{name}")  # "@NAME/.." takes quadratic time


def _with_attribute(
    root: html.HtmlElement, name: str, pattern: re.Pattern[str]
) -> Iterator[html.HtmlElement]:
    """Yield the elements with an attribute in which the pattern is found."""
    for value in _values(name)(root):
        if pattern.search(value):
            yield value.getparent()


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
