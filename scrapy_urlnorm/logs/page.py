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
from collections import Counter
from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote, urlsplit

from lxml import etree, html  # type: ignore[import-untyped]  # ships no types

from scrapy_urlnorm.logs.visible import beginning, text_of
from scrapy_urlnorm.logs.volatile import without_volatile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["LINE_BYTES", "Names", "Page", "identify", "names_of", "visible_lines"]

LINE_BYTES = 6
"""Bytes of a line's hash: two lines of a host with 100,000 of them share one once in 50,000 hosts."""

_SHORT = 100
"""A page with fewer words than this may be a login wall, an error or a frame for pictures."""

# Sort arrows: the same listing, sorted by another column, carries them elsewhere.
_MARKS = re.compile("[↑↓⇅⇧⇩▲△▴▵▼▽▾▿⬆⬇\u200b\ufeff]")

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


_HEADS = etree.XPath("(//head//title)[1] | //h1 | (//h2)[1]")


class Names(NamedTuple):
    """The names of the content of one page: the first three of `Page`."""

    text_digest: str
    bag_digest: str
    kind: str | None


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


def identify(
    page: str | html.HtmlElement, url: str, canonical: str | None = None, raw: str | None = None
) -> Page:
    """Name the content of a page fetched from ``url``.

    A parsed page is not changed. ``canonical`` is the URL that the page declares as its own: like
    ``url``, it is left out where the page prints it. ``raw`` is the text that a parsed page was
    parsed from, which saves time.
    """
    lines, names = _read(page, url, canonical, raw)
    hashes = b"".join([_line_hash(line) for line in lines])
    return Page(*names, b64encode(hashes).decode("ascii"))


def names_of(
    page: str | html.HtmlElement, url: str, canonical: str | None = None, raw: str | None = None
) -> Names:
    """Name the content as `identify` does, without the lines: what a running crawl compares."""
    return _read(page, url, canonical, raw)[1]


def _read(
    page: str | html.HtmlElement, url: str, canonical: str | None, raw: str | None
) -> tuple[list[str], Names]:
    root = _parse(page) if isinstance(page, str) else page
    lines, words = _lines_and_words(root, url, canonical, raw)
    kind = kind_of(root, number := sum(words.values()))
    if number < _SHORT:
        frames = _frames(root)
        lines += frames
        words.update(word for line in frames for word in line.split(" "))
    return lines, Names(_digest("\n".join(lines)), _digest(_sorted(words)), kind)


def _sorted(words: Counter[str]) -> str:
    """Return the sorted words, one a line. Most words of a page stand there many times."""
    return "".join([f"{word}\n" * words[word] for word in sorted(words)])[:-1]


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


#: The digest of the words of a page without a word.
NO_WORDS = _digest("")


def visible_lines(root: html.HtmlElement, url: str, canonical: str | None = None) -> list[str]:
    """Return the text that a reader sees, one line a block, without volatile text."""
    return _lines_and_words(root, url, canonical, None)[0]


def _lines_and_words(
    root: html.HtmlElement, url: str, canonical: str | None, raw: str | None
) -> tuple[list[str], Counter[str]]:
    """Return the visible lines, and how often each of their words stands there."""
    text, mark = text_of(root, raw)
    found = text.replace(mark, f" {mark} ").split()
    lines = [line for block in " ".join(found).split(mark) if (line := block.strip(" "))]
    words = Counter(found)
    del words[mark]
    shown = without_what_it_says_of_itself(lines, url, canonical, words)
    shown = without_volatile(shown, words)
    if shown is lines:
        return lines, words
    for at, (line, before) in enumerate(zip(shown, lines, strict=True)):
        if line != before:
            kept = line.split()
            shown[at] = " ".join(kept)
            words.subtract(before.split())
            words.update(kept)
    return [line for line in shown if line], words


def without_what_it_says_of_itself(
    lines: list[str], url: str, canonical: str | None, words: Iterable[str] | None = None
) -> list[str]:
    """Return the lines without sort arrows and what repeats the URL; the same list if unchanged."""
    return _without_echoes(_without_arrows(lines, words or lines), url, canonical)


def _without_arrows(lines: list[str], words: Iterable[str]) -> list[str]:
    """Return the lines with a blank in place of sort arrows; the same list if there are none."""
    if _MARKS.search("".join(words)) is None:
        return lines
    return [" ".join(line.split()) for line in _MARKS.sub(" ", "\n".join(lines)).split("\n")]


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
        if "%" not in word and not any(place in word for place in places):
            return False  # this is quick
        bare = unquote(word).lstrip(_BEFORE_URL)
        rests = [bare[len(place) :].removeprefix("/") for place in places if bare.startswith(place)]
        return any(rest.startswith(("?", "#")) or not rest.strip(_AFTER_URL) for rest in rests)

    return echoes


def kind_of(root: html.HtmlElement, words: int) -> str | None:
    """Return "wall" or "missing" for a page of few *words*, by title and heading, else None."""
    if words >= _SHORT:
        return None
    heads = [beginning(head) for head in _HEADS(root)]
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
