"""The visible lines of a page, found node by node: slow, and easy to check by reading."""

from __future__ import annotations

import re
from itertools import islice
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from lxml import etree

from scrapy_urlnorm.logs import volatile

if TYPE_CHECKING:
    from collections.abc import Iterator

UNSEEN = {
    "audio",
    "canvas",
    "datalist",
    "iframe",
    "math",
    "noscript",
    "object",
    "script",
    "style",
    "svg",
    "template",
    "video",
}
INLINE = {
    "a",
    "abbr",
    "acronym",
    "b",
    "bdi",
    "bdo",
    "big",
    "cite",
    "code",
    "del",
    "dfn",
    "em",
    "font",
    "i",
    "ins",
    "kbd",
    "label",
    "mark",
    "nobr",
    "q",
    "s",
    "samp",
    "small",
    "span",
    "strike",
    "strong",
    "sub",
    "sup",
    "tt",
    "u",
    "var",
    "wbr",
}
HEADINGS = {"h1", "h2", "h3", "h4", "h5", "h6", "legend"}
BY_CLASS = re.compile(
    r"(?:^|\s)age-(?:mins|hours|days|weeks|months|years)\b|recently[-_]viewed|block-viewed-products"
)
HIDDEN = re.compile(r"(?:^|;)\s*(?:display\s*:\s*none|visibility\s*:\s*hidden)", re.IGNORECASE)
MARKS = re.compile("[↑↓⇅⇧⇩▲△▴▵▼▽▾▿⬆⬇\u200b\ufeff]")
REPLY = re.compile(r"(?:leave|post|write|add) an? (?:reply|comment)\b", re.IGNORECASE)
REPLY_TITLE = re.compile(r"(?:^|\s)(?:reply-title|comment-reply-title)(?:\s|$)")


def visible_lines(root, url: str, canonical: str | None = None) -> list[str]:
    """What `page.visible_lines` has to return."""
    raw = [" ".join(line.split()) for line in _raw_lines(root)]
    lines = [" ".join(line.split()) for line in MARKS.sub(" ", "\n".join(raw)).split("\n")]
    for at, line in enumerate(lines):
        if "/" in line:
            words = (word for word in line.split() if not _is_echo(word, url, canonical))
            lines[at] = " ".join(words)
    return [line for text in _without_volatile(lines) if (line := " ".join(text.split()))]


def _raw_lines(root) -> Iterator[str]:
    parts: list[str] = []
    walk = etree.iterwalk(root, events=("start", "end", "comment", "pi"))
    for event, element in walk:
        tag = element.tag
        if event == "start":
            if _is_left_out(element, root):
                walk.skip_subtree()
                continue
            if tag == "head":
                walk.skip_subtree()
                yield "".join(element.xpath("(.//title)[1]//text()"))
                continue
            if tag not in INLINE and parts:
                yield "".join(parts)
                parts.clear()
            parts.append(element.text or "")
        else:
            if tag not in INLINE | UNSEEN and event == "end" and parts:
                yield "".join(parts)
                parts.clear()
            parts.append(element.tail or "")
    yield "".join(parts)


def _is_left_out(element, root) -> bool:
    if element.tag in UNSEEN or element.get("hidden") is not None:
        return True
    if HIDDEN.search(element.get("style", "")) or BY_CLASS.search(element.get("class", "")):
        return True
    around = element.getparent()
    if element.get("class") == "trace" and around is not None:
        return "breadcrumbs" in around.get("class", "")
    return element.tag in HEADINGS and _is_reply(element, around)


def _is_reply(heading, around) -> bool:
    if REPLY_TITLE.search(f"{heading.get('id', '')} {heading.get('class', '')}"):
        return True
    text = " ".join("".join(islice(heading.itertext(), 50)).split())[:300]
    return bool(REPLY.match(text)) and bool(around.xpath(".//form[.//textarea]"))


def _is_echo(word: str, url: str, canonical: str | None) -> bool:
    if "/" not in word:
        return False
    bare = unquote(word).lstrip("\"'(<[")
    for address in (url, canonical):
        parts = urlsplit(address or "")
        path = unquote(parts.path).rstrip("/")
        places = {path} - {""}
        if parts.netloc:
            places |= {f"{scheme}//{parts.netloc}{path}" for scheme in ("http:", "https:", "")}
        for place in places:
            if bare.startswith(place):
                rest = bare[len(place) :].removeprefix("/")
                if rest.startswith(("?", "#")) or not rest.strip("\"')>].,;:"):
                    return True
    return False


def _without_volatile(lines: list[str]) -> list[str]:
    left = volatile.MAX_SEARCHED
    found = []
    for line in lines:
        lower = line.lower()
        for word, pattern in volatile.rows():
            if word in lower and len(line) <= left:
                left -= len(line)
                line = pattern.sub(" ", line)
        found.append(line)
    return found
