"""The identity of a response: whether two responses of a crawl have the same content.

A page is named by all that it shows (`blocks`), a file by its bytes. What changes by itself on the
pages of a site is learned from pairs of fetches (`units`), and never left out before.
"""

from __future__ import annotations

import re
from contextlib import suppress
from hashlib import blake2b
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urljoin
from weakref import WeakKeyDictionary

from lxml import etree, html  # type: ignore[import-untyped]  # ships no types
from scrapy.http import HtmlResponse
from scrapy.utils.response import get_base_url

from scrapy_urlnorm.logs.blocks import Block, blocks_of, digest_of, hashed
from scrapy_urlnorm.logs.self_links import names_of

if TYPE_CHECKING:
    from scrapy.http import Response


#: Bytes. The text of a larger page is not read, which would take long: its bytes name it.
MAX_BYTES = 4 * 1024 * 1024
FILE = "file"  #: the kind of a content that is no HTML
WALL = "wall"  #: the kind of a short page that asks for a login
#: A page with fewer words than this may be a login wall or an error.
_SHORT = 100
#: Text nodes, and characters, of a heading that are read: one that is never closed is the page.
_HEAD_TEXTS, _HEAD = 50, 300
#: Characters of the blocks in a row. A page with more is known by its digests.
_MOST_BLOCKS = 64_000

#: Flags that Scrapy puts on a response whose body did not arrive whole.
_CUT_OFF = frozenset(("dataloss", "download_stopped"))
_PARTIAL = 206
_HEADS = etree.XPath("(//head//title)[1] | //h1 | (//h2)[1]")
_CANONICAL = etree.XPath(
    "(/html/head//link[contains(concat(' ', normalize-space("
    "translate(@rel, 'CANOIL', 'canoil')), ' '), ' canonical ')]/@href)[1]"
)
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


class Identity(NamedTuple):
    """The names of the content of one response, in 32 hexadecimal digits."""

    digest: str  #: of the bytes of the body
    bag_digest: str | None = None  #: of what a page shows; None where only the bytes count
    #: `WALL`, `FILE`, or "missing" for a page that says under status 200 that there is none.
    kind: str | None = None

    @property
    def name(self) -> str:
        """The digest that is nearest to what a reader sees."""
        return self.bag_digest or self.digest

    def agrees(self, other: Identity) -> bool:
        """Whether both name one content: equal bytes or equal names are enough."""
        is_named = self.bag_digest is not None
        return self.digest == other.digest or (is_named and self.bag_digest == other.bag_digest)


class _Page(NamedTuple):
    blocks: list[Block]
    kind: str | None
    canonical: str | None  #: the absolute URL that it declares as its own (RFC 6596)


def shown_by(
    response: Response, most: int = MAX_BYTES
) -> tuple[Identity | None, list[Block] | None]:
    """Return the identity of a response by its bytes, and of HTML the blocks of the page.

    The identity is ``None`` for what has no content or did not arrive whole. The blocks are ``None``
    for what is no HTML, longer than *most* bytes, or cannot be parsed. The tree that is parsed for
    them is the one that the spider uses. Nothing is raised.
    """
    digest = _body_digest(response)
    if digest is None or not response.body:
        return None, None
    if not isinstance(response, HtmlResponse):
        return Identity(digest, kind=FILE), None
    page = _page(response) if len(response.body) <= most else None
    if page is None:
        return Identity(digest), None
    return Identity(digest, kind=page.kind), page.blocks


def _body_digest(response: Response) -> str | None:
    """Name the bytes of a body; None for one that was cut off."""
    return blake2b(response.body, digest_size=16).hexdigest() if is_whole(response) else None


def is_whole(response: Response) -> bool:
    """Return whether all of a page arrived, as far as Scrapy and the site say."""
    return response.status != _PARTIAL and _CUT_OFF.isdisjoint(response.flags)


#: What was read of responses that somebody still holds: a crawl that learns may have a log, too.
_READ: WeakKeyDictionary[Response, _Page | None] = WeakKeyDictionary()


def _page(response: HtmlResponse) -> _Page | None:
    if len(response.body) > MAX_BYTES:
        return None
    if response not in _READ:
        with suppress(ValueError, LookupError, etree.LxmlError, RecursionError):
            _READ[response] = _read(response)
    return _READ.setdefault(response, None)


def canonical_of(response: Response) -> str | None:
    """Return the absolute ``rel=canonical`` of a page, if it has one and can be read."""
    page = _page(response) if isinstance(response, HtmlResponse) else None
    return page.canonical if page else None


def _read(response: HtmlResponse) -> _Page:
    try:
        root, base = response.selector.root, get_base_url(response)
    except ValueError:  # Scrapy's own selector fails for a bad host in <base>
        parser, text = html.HTMLParser(encoding="utf-8"), response.text.encode("utf-8", "replace")
        root, base = html.document_fromstring(text, parser), ""
    canonical = None
    for href in _CANONICAL(root) if base else ():
        with suppress(ValueError):  # a bad host in the link
            canonical = urljoin(base, str(href).strip())
    blocks = blocks_of(root, response.url, canonical, response.text)
    words = sum(1 + block.line.count(" ") for block in blocks if block.is_text)
    return _Page(blocks, _kind(root) if words < _SHORT else None, canonical)


def _kind(root: html.HtmlElement) -> str | None:
    """Return "wall" or "missing" for a page of few words, by title and headings, else None."""
    texts = ("".join(islice(head.itertext(), _HEAD_TEXTS)) for head in _HEADS(root))
    heads = [" ".join(text.split())[:_HEAD] for text in texts]
    if any(map(_LOGIN.search, heads)) and root.xpath("boolean(//input[@type='password'])"):
        return WALL
    return "missing" if any(map(_MISSING.search, heads)) else None


# --- rows of a crawl log --------------------------------------------------------------------------


def row_of(response: Response, url: str) -> dict[str, Any]:
    """Return the row of a *response* to a GET of *url* that is no redirect.

    Links stand in it as pairs of a URL and the name of an element (`self_links`).
    """
    mime = response.headers.get(b"Content-Type", b"") or b""
    row: dict[str, Any] = {
        "url": url,
        "status": response.status,
        "mime": mime.decode("latin-1").split(";")[0].strip().lower() or None,
        "len": len(response.body),
        "digest": _body_digest(response),
        "blocks": None,
    }
    if response.status != 200 or row["digest"] is None or not isinstance(response, HtmlResponse):
        return row
    if (page := _page(response)) is not None:
        lines = [line for _, line in page.blocks]
        words = sorted(" ".join(lines).split(" "))
        row |= {"text_digest": digest_of(lines), "bag_digest": digest_of(words)}
        row |= {"kind": page.kind, "canonical": page.canonical}
        blocks = hashed(page.blocks)
        row["blocks"] = blocks if len(blocks) <= _MOST_BLOCKS else None
        links, shortlink = names_of(response)
        others = [link for link in links if link.url != url.partition("#")[0]]
        found = {"self_links": others, "shortlink": shortlink}
        row |= {name: value for name, value in found.items() if value}
    return row


def redirect_row(url: str, status: int, location: str) -> dict[str, Any]:
    """Return the row of a redirect to *location*."""
    return {"url": url, "status": status, "location": location, "blocks": None}
