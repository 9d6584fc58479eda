"""What makes two pages the same page: the identity of HTML that we fetched ourselves.

A page is its visible text, line by line, without what changes by itself: clocks and counters, the
page's own URL, the heading of a reply form. What is left out stands in tables here, each row with
its example in the tests, and each as narrow as it can be: a word too many taken away merges
two pages, a word too many left in only hides a duplicate.

Lines that stand on most pages of a site are known only after the crawl: `logs.settle` leaves them
out, from the hashes in `Page.lines`.
"""

from __future__ import annotations

import re
from base64 import b64encode
from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote, urlsplit

from lxml import etree, html  # type: ignore[import-untyped]  # ships no types

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["LINE_BYTES", "Page", "identify", "visible_lines"]

LINE_BYTES = 6
"""Bytes of a line's hash: two lines of a host with 100,000 of them share one once in 50,000 hosts."""

_SHORT = 100
"""Words: a page with fewer may be a login wall, an error or a frame for pictures."""

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
_SEAMLESS = _INLINE | _UNSEEN  # a line goes on behind them
_HEADINGS = frozenset(("h1", "h2", "h3", "h4", "h5", "h6", "legend"))
# By class: ages in cgit ("3 days"), what was seen before in shops (WooCommerce, Magento).
_BY_CLASS = re.compile(
    r"(?:^|\s)age-(?:mins|hours|days|weeks|months|years)\b|recently[-_]viewed|block-viewed-products"
)
_HIDDEN = re.compile(r"(?:^|;)\s*(?:display\s*:\s*none|visibility\s*:\s*hidden)", re.IGNORECASE)

# Sort arrows: the same listing, sorted by another column, carries them elsewhere.
_MARKS = re.compile("[↑↓⇅⇧⇩▲△▴▵▼▽▾▿⬆⬇\u200b\ufeff]")

_CLOCK = r"\d{1,2}:\d{2}(?::\d{2})?(?: ?[ap]\.?m\b\.?)?(?: ?(?:UTC|GMT)\b)?(?: ?[+-]\d{2}:?\d{2})?"
_NUMBER = r"\d[\d.,]*"
_AGE = r"(?:seconds?|secs?|minutes?|mins?|hours?|hrs?|days?|weeks?|months?|years?)"
_MADE = r"(?:\b(?:this )?(?:page|script|document|file)(?: was| is)? )?\bWORD\b"
_TOOK = _MADE + (
    r"(?:[^.\d]{0,40}\bin|:)? "
    r"\d+(?:[.,]\d+ ?(?:s|secs?|seconds?)| ?(?:ms|milliseconds?))\b"
)
_VISITORS = rf"(?:{_NUMBER}|no|one) (?:registered )?(?:users?|guests?|members?|visitors?)"
# What changes by itself: a pattern, and what WORD may be in it. A line without the word is not
# searched, and most lines are without.
_VOLATILE = [
    (word, re.compile(pattern.replace("WORD", word), re.IGNORECASE))
    for pattern, words in (
        # when it was made, and what the time is
        (
            _MADE + r".{0,80}?\d.{1,20}" + _CLOCK,
            ("generated", "rendered", "printed", "downloaded"),
        ),
        (
            r"\bWORD\b.{0,40}?" + _CLOCK,
            ("it is currently", "time now is", "time is now", "current time", "server time"),
        ),
        # how long that took
        (_TOOK, ("generated", "rendered", "created", "executed", "loaded", "served", "built")),
        # ... with the time of day in front (Discuz), with the queries behind (phpBB)
        (r"(?:\bGMT[+-]?\d*, ?[\d-]+ " + _CLOCK + r" ?, ?)?" + _TOOK, ("processed",)),
        (r"\btime ?: ?\d+[.,]\d+ ?s\b.*\bWORD\b.*", ("queries",)),
        (_TOOK, ("generation time", "execution time", "load time", "render time", "query time")),
        # how long ago something was
        (rf"\b(?:(?:\d+|an?|one) {_AGE},? (?:and )?)+WORD\b", ("ago",)),
        # how often it was seen, and who is looking
        (r"\bWORD: ?" + _NUMBER, ("views", "hits", "reads", "visits")),
        (f"^{_NUMBER} WORD$", ("views", "hits", "reads")),
        (
            r"^(?:.{0,40}\b(?:has been|was) )?WORD " + _NUMBER + r" times?\b",
            ("viewed", "accessed"),
        ),
        (
            rf"\b{_VISITORS}(?: and {_VISITORS})?(?: are| is)?(?: currently)? WORD\b(?: ?::.*)?",
            ("online", "browsing", "viewing"),
        ),
        (r"\bWORD .*", ("last visit was:", "you last visited:")),
        (r"^WORD \w+: .*", ("users browsing this",)),
        # which request it was
        (
            r"\bWORD\b[:#]? ?[0-9A-Za-z-]{8,}",
            ("request id", "trace id", "ray id", "session id"),
        ),
    )
    for word in words
]
_REPLY = re.compile(r"(?:leave|post|write|add) an? (?:reply|comment)\b", re.IGNORECASE)
_REPLY_TITLE = re.compile(r"(?:^|\s)(?:reply-title|comment-reply-title)(?:\s|$)")
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

    A parsed page is not changed. ``canonical`` is the page's declared URL; where it is printed
    says no more than the page's own.
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
    """The text a reader sees, a block a line, without what changes by itself."""
    text = _MARKS.sub(" ", "\n".join([" ".join(raw.split()) for raw in _raw_lines(root)]))
    lower = text.lower()
    volatile = [(word, pattern) for word, pattern in _VOLATILE if word in lower]
    echoes = _echoes(url, canonical)
    lines = []
    for line in text.split("\n"):
        if "/" in line:
            line = " ".join(
                [word for word in line.split() if "/" not in word or not echoes(unquote(word))]
            )
        if volatile:
            lower = line.lower()
            for word, pattern in volatile:
                if word in lower:
                    line = pattern.sub(" ", line)
        line = " ".join(line.split())
        if line:
            lines.append(line)
    return lines


def _raw_lines(root: html.HtmlElement) -> Iterator[str]:
    parts: list[str] = []
    walk = etree.iterwalk(root, events=("start", "end", "comment", "pi"))
    for event, element in walk:
        tag = element.tag
        if event == "start":
            if (
                tag in _UNSEEN
                or _is_hidden(element)
                or _is_of_the_visit(element)
                or (tag in _HEADINGS and _is_reply(element))
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


def _is_reply(element: html.HtmlElement) -> bool:
    """A heading such as "Leave a reply to NAME": who is answered is not what the page says.

    WordPress marks it; elsewhere it is a heading of those words, next to a form to write in.
    """
    if _REPLY_TITLE.search(f"{element.get('id', '')} {element.get('class', '')}"):
        return True
    if not _REPLY.match("".join(element.itertext()).strip()):
        return False
    around = element.getparent()
    return around is not None and bool(around.xpath("boolean(.//form//textarea)"))


def _echoes(url: str, canonical: str | None) -> Callable[[str], object]:
    """Words that only repeat where the page is: its URL without the query, in full or as path."""
    places = set()
    for address in (url, canonical):
        try:
            parts = urlsplit(address or "")
        except ValueError:
            continue
        path = re.escape(unquote(parts.path).rstrip("/"))
        if parts.netloc:
            places.add(rf"(?:https?:)?//{re.escape(parts.netloc)}{path}")
        if path:
            places.add(path)
    either = "|".join(sorted(places)) or "(?!)"
    return re.compile(rf"[\"'(<\[]*(?:{either})/?(?:[?#]\S*)?[\"')>\].,;:]*$").match


def _kind(root: html.HtmlElement) -> str | None:
    """Whether a short page is a login wall or a soft 404, by its title and main heading."""
    heads = [
        " ".join("".join(head.itertext()).split())
        for head in root.xpath("(//head//title)[1] | //h1 | (//h2)[1]")
    ]
    if any(_LOGIN.search(head) for head in heads) and root.xpath(
        "boolean(//input[@type='password'])"
    ):
        return "wall"
    if any(_MISSING.search(head) for head in heads):
        return "missing"
    return None


def _frames(root: html.HtmlElement) -> list[str]:
    """What a page with little text may be about: its pictures, players and data.

    Without this, all pictures of a gallery and all items of a client-side application would be
    one content.
    """
    found = []
    for element in root.iter("img", "iframe", "video", "audio", "source", "embed", "script"):
        if element.tag == "script":
            if "json" in element.get("type", ""):
                found.append("\x00data " + _digest(element.text or ""))
        elif element.get("src") and element.get("width") not in ("0", "1"):
            found.append(f"\x00{element.tag} {element.get('src').split('?', 1)[0]}")
    return found
