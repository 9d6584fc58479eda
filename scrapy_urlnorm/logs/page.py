"""The identity of an HTML page that we fetched ourselves: when two pages are the same page.

The identity is the visible text, line by line, without text that changes by itself: clocks, ages
and counters (see `volatile`), the page's own URL, the heading of a reply form. As little as
possible is left out: to remove a word too many merges two pages, to leave in a word too many only
hides a duplicate.

Which lines stand on most pages of a site is known only after the crawl. `common_lines` then leaves
them out, by the hashes in `Page.lines`.
"""

from __future__ import annotations

import re
from base64 import b64encode
from functools import cache, partial
from hashlib import blake2b
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote, urlsplit

from lxml import etree, html  # type: ignore[import-untyped]  # ships no types

from scrapy_urlnorm.logs.volatile import without_volatile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["LINE_BYTES", "Page", "identify", "visible_lines"]

LINE_BYTES = 6
"""Bytes of a line's hash: two lines of a host with 100,000 of them share one once in 50,000 hosts."""

_HEAD_TEXTS, _HEAD = 50, 300
"""Text nodes, and characters, of a heading that are read. A page made to be slow has more."""

_SHORT = 100
"""A page with fewer words than this may be a login wall, an error or a frame for pictures."""

# fmt: off
_UNSEEN = frozenset((
    "audio", "canvas", "datalist", "iframe", "math", "noscript", "object", "script", "style", "svg",
    "template", "video",
))
_INLINE = frozenset((
    "a", "abbr", "acronym", "b", "bdi", "bdo", "big", "cite", "code", "del", "dfn", "em", "font",
    "i", "ins", "kbd", "label", "mark", "nobr", "q", "s", "samp", "small", "span", "strike",
    "strong", "sub", "sup", "tt", "u", "var", "wbr",
))
# fmt: on
_SEAMLESS = _INLINE | _UNSEEN  # these do not end a line
_HEADINGS = frozenset(("h1", "h2", "h3", "h4", "h5", "h6", "legend"))
# Classes of ages in cgit ("3 days") and of lists of products seen before (WooCommerce, Magento).
_BY_CLASS = re.compile(
    r"(?:^|\s)age-(?:mins|hours|days|weeks|months|years)\b|recently[-_]viewed|block-viewed-products"
)
_HIDDEN = re.compile(r"(?:^|;)\s*(?:display\s*:\s*none|visibility\s*:\s*hidden)", re.IGNORECASE)

# Sort arrows: the same listing, sorted by another column, carries them elsewhere.
_MARKS = re.compile("[↑↓⇅⇧⇩▲△▴▵▼▽▾▿⬆⬇\u200b\ufeff]")

_REPLY = re.compile(r"(?:leave|post|write|add) an? (?:reply|comment)\b", re.IGNORECASE)
_REPLY_TITLE = re.compile(r"(?:^|\s)(?:reply-title|comment-reply-title)(?:\s|$)")
_BEFORE_URL, _AFTER_URL = "\"'(<[", "\"')>].,;:"
_LOGIN = re.compile(
    r"log ?[io]n\b|sign ?in\b|anmeld|einloggen|connexion|identifi|iniciar ses|acceder|accedi|entrar"
    r"|вход|войти|登录|ログイン|inloggen|logga in|zaloguj",
    re.IGNORECASE,
)
_MISSING = re.compile(
    r"\b404\b.*(?:error|not found)|error 404|\bnot found\W*$|page not found"
    r"|(?:does not|doesn.t|no longer) exists?\b|nicht gefunden|introuvable|no encontrad"
    r"|não encontrad|non trovat|niet gevonden|не найден",
    re.IGNORECASE,
)


class Page(NamedTuple):
    """The identity of one page.

    Attributes
    ----------
    text_digest: of the text in its order, 32 hexadecimal digits.
    bag_digest: of its sorted words: a listing in another order is the same.
    kind: "wall" (asks for a login), "missing" (says so under status 200) or None. All pages of
        one host that are of a kind count as one content.
    lines: base64 of `LINE_BYTES` bytes a line, in order: what the second pass works on.
    """

    text_digest: str
    bag_digest: str
    kind: str | None
    lines: str

    @property
    def content(self) -> str:
        """The name of this content, as far as one page alone tells."""
        return self.kind or self.bag_digest


def identify(page: str | html.HtmlElement, url: str, canonical: str | None = None) -> Page:
    """Name the content of a page fetched from ``url``.

    A parsed page is not changed. ``canonical`` is the URL that the page declares as its own: like
    ``url``, it is left out where the page prints it.
    """
    root = _parse(page) if isinstance(page, str) else page
    lines = visible_lines(root, url, canonical)
    words = [word for line in lines for word in line.split(" ")]
    kind = None
    if len(words) < _SHORT:
        kind = _kind(root)
        lines += _frames(root)
        words = [word for line in lines for word in line.split(" ")]
    return Page(
        _digest("\n".join(lines)),
        _digest("\n".join(sorted(words))),
        kind,
        b64encode(b"".join(_line_hash(line) for line in lines)).decode("ascii"),
    )


def _parse(text: str) -> html.HtmlElement:
    parser = html.HTMLParser(encoding="utf-8", recover=True)
    data = text.replace("\x00", "").encode("utf-8", "replace")
    try:
        return html.document_fromstring(data, parser)
    except etree.ParserError:  # there is no element in it
        return html.Element("html")


def _digest(text: str) -> str:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def _line_hash(line: str) -> bytes:
    return blake2b(line.encode("utf-8", "surrogatepass"), digest_size=LINE_BYTES).digest()


def visible_lines(root: html.HtmlElement, url: str, canonical: str | None = None) -> list[str]:
    """Return the text that a reader sees, one line a block, without volatile text."""
    raw = [" ".join(line.split()) for line in _raw_lines(root)]
    lines = _MARKS.sub(" ", "\n".join(raw)).split("\n")
    echoes = _echoes(url, canonical)
    for at, line in enumerate(lines):
        if "/" in line:
            words = [word for word in line.split() if "/" not in word or not echoes(word)]
            lines[at] = " ".join(words)
    return [line for text in without_volatile(lines) if (line := " ".join(text.split()))]


def _raw_lines(root: html.HtmlElement) -> Iterator[str]:
    parts: list[str] = []
    around_forms = cache(partial(_around_forms, root))
    walk = etree.iterwalk(root, events=("start", "end", "comment", "pi"))
    for event, element in walk:
        tag = element.tag
        if event == "start":
            if (
                tag in _UNSEEN
                or _is_hidden(element)
                or _is_of_the_visit(element)
                or (tag in _HEADINGS and _is_reply(element, around_forms))
            ):
                walk.skip_subtree()
                continue
            if tag == "head":
                walk.skip_subtree()
                yield "".join(element.xpath("(.//title)[1]//text()"))
                continue
            if tag not in _INLINE and parts:
                yield "".join(parts)
                parts.clear()
            text = element.text
        else:
            if tag not in _SEAMLESS and event == "end" and parts:
                yield "".join(parts)
                parts.clear()
            text = element.tail
        if text:
            parts.append(text)
    if parts:
        yield "".join(parts)


def _is_hidden(element: html.HtmlElement) -> bool:
    style = element.get("style")
    return element.get("hidden") is not None or (
        style is not None and _HIDDEN.search(style) is not None
    )


def _is_of_the_visit(element: html.HtmlElement) -> bool:
    """Whether an element tells about the time or the way of the visit, by its class."""
    name = element.get("class")
    if name is None:
        return False
    if name == "trace":  # DokuWiki's trail of pages seen before
        around = element.getparent()
        return around is not None and "breadcrumbs" in around.get("class", "")
    return _BY_CLASS.search(name) is not None


def _is_reply(element: html.HtmlElement, around_forms: Callable[[], set[html.HtmlElement]]) -> bool:
    """Whether the element is a heading such as "Leave a reply to NAME".

    The name of the person who is answered is no content. WordPress marks such a heading;
    elsewhere it has these words and stands next to a form to write in.
    """
    if _REPLY_TITLE.search(f"{element.get('id', '')} {element.get('class', '')}"):
        return True
    return _REPLY.match(_beginning(element)) is not None and element.getparent() in around_forms()


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


def _echoes(url: str, canonical: str | None) -> Callable[[str], bool]:
    """Return a function that tells whether a word only repeats the URL of the page.

    The word may be the URL without the query, in full or from its path on.
    """
    places = set()
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

    def echoes(word: str) -> bool:
        bare = unquote(word).lstrip(_BEFORE_URL)
        ends = [bare[len(place) :].removeprefix("/") for place in places if bare.startswith(place)]
        return any(end.startswith(("?", "#")) or not end.strip(_AFTER_URL) for end in ends)

    return echoes


def _beginning(element: html.HtmlElement) -> str:
    """Return the first words of a heading: one that is never closed may hold the whole page."""
    return " ".join("".join(islice(element.itertext(), _HEAD_TEXTS)).split())[:_HEAD]


def _kind(root: html.HtmlElement) -> str | None:
    """Return "wall" or "missing" for a short page, by its title and main heading, else None."""
    heads = [_beginning(head) for head in root.xpath("(//head//title)[1] | //h1 | (//h2)[1]")]
    if any(_LOGIN.search(head) for head in heads) and root.xpath(
        "boolean(//input[@type='password'])"
    ):
        return "wall"
    if any(_MISSING.search(head) for head in heads):
        return "missing"
    return None


def _frames(root: html.HtmlElement) -> list[str]:
    """Return a line for each picture, player and data block: a page with little text shows them.

    Without these lines, all pictures of a gallery and all items of a client-side application
    would be one content.
    """
    found = []
    for element in root.iter("img", "iframe", "video", "audio", "source", "embed", "script"):
        if element.tag == "script":
            if "json" in element.get("type", ""):
                found.append("\x00data " + _digest(element.text or ""))
        elif element.get("src") and element.get("width") not in ("0", "1"):
            found.append(f"\x00{element.tag} {element.get('src').split('?', 1)[0]}")
    return found
