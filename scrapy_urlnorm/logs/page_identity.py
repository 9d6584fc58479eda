"""The identity of a response: whether two responses of a crawl have the same content."""

from __future__ import annotations

from contextlib import suppress
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from urllib.parse import urljoin

from lxml import etree  # type: ignore[import-untyped]  # ships no types
from scrapy.http import HtmlResponse
from scrapy.utils.response import get_base_url

from scrapy_urlnorm.logs.blocks import Block, blocks_of
from scrapy_urlnorm.logs.page import NO_WORDS, identify, kind_of, names_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy.http import Response

__all__ = [
    "FILE",
    "MAX_BYTES",
    "WALL",
    "Identity",
    "PageText",
    "body_digest",
    "identity_of",
    "read_text",
]

_Named = TypeVar("_Named")

MAX_BYTES = 4 * 1024 * 1024
"""Bytes. The text of a larger page is not read, which would take long: its bytes name it."""

FILE = "file"
"""The kind of a content that is no HTML."""

WALL = "wall"
"""The kind of a short page that asks for a login."""

_CUT_OFF = frozenset(("dataloss", "download_stopped"))
"""Flags that Scrapy puts on a response whose body did not arrive whole."""

_CANONICAL = etree.XPath(
    "(/html/head//link[contains(concat(' ', normalize-space("
    "translate(@rel, 'CANOIL', 'canoil')), ' '), ' canonical ')]/@href)[1]"
)


class Identity(NamedTuple):
    """The names of the content of one response.

    Attributes
    ----------
    digest: of the bytes of the body, 32 hexadecimal digits like the others.
    text_digest: of the visible text in its order; None where only the bytes count.
    bag_digest: of the sorted words of the visible text; None where only the bytes count.
    kind: "wall" for a short page that asks for a login, "missing" for one that says under status
        200 that there is no page, `FILE` for what is no HTML, else None.
    """

    digest: str
    text_digest: str | None = None
    bag_digest: str | None = None
    kind: str | None = None

    @property
    def name(self) -> str:
        """The digest that is nearest to what a reader sees."""
        return self.bag_digest or self.digest

    def agrees(self, other: Identity) -> bool:
        """Whether both name one content: equal bytes, equal text or equal words are enough."""
        return any(
            mine is not None and mine == theirs
            for mine, theirs in zip(self[:3], other[:3], strict=True)
        )


class PageText(NamedTuple):
    """The text of an HTML page, hashed, and the URL that it declares.

    Attributes
    ----------
    text_digest, bag_digest, kind, lines: see `page.Page`.
    canonical: the absolute URL that the page declares as its own (RFC 6596), or None.
    """

    text_digest: str
    bag_digest: str
    kind: str | None
    lines: str
    canonical: str | None


def identity_of(response: Response, most: int = MAX_BYTES) -> Identity | None:
    """Name the content of a response; None when it has none or did not arrive whole.

    Every body is named by its bytes, HTML of at most *most* bytes by its text as well. The tree
    that is parsed for this is the one that the spider uses: see `read_text`. Nothing is raised.

    Two pages without a word may be two pictures. So the bytes of such a page name it alone.
    """
    digest = body_digest(response)
    if digest is None or not response.body:
        return None
    if not isinstance(response, HtmlResponse):
        return Identity(digest, kind=FILE)
    read = _parsed(response, names_of) if len(response.body) <= most else None
    if read is None or read[0].bag_digest == NO_WORDS:
        return Identity(digest)
    return Identity(digest, *read[0])


def shown_by(
    response: Response, most: int = MAX_BYTES
) -> tuple[Identity | None, list[Block] | None]:
    """Return the identity of a response by its bytes, and of HTML the blocks of the page.

    The identity is ``None``, as from `identity_of`, for what did not arrive whole. The blocks are
    ``None`` for what is no HTML, longer than *most* bytes, or cannot be parsed.
    """
    digest = body_digest(response)
    if digest is None or not response.body:
        return None, None
    if not isinstance(response, HtmlResponse):
        return Identity(digest, kind=FILE), None
    read = _parsed(response, _blocks_and_kind) if len(response.body) <= most else None
    if read is None:
        return Identity(digest), None
    blocks, kind = read[0]
    return Identity(digest, kind=kind), blocks


def _blocks_and_kind(
    root: Any, url: str, canonical: str | None, raw: str | None
) -> tuple[list[Block], str | None]:
    blocks = blocks_of(root, url, canonical, raw)
    return blocks, kind_of(root, sum(1 + b.line.count(" ") for b in blocks if b.is_text))


def body_digest(response: Response) -> str | None:
    """Name the bytes of a body; None for one that was cut off."""
    if not _CUT_OFF.isdisjoint(response.flags):
        return None
    return blake2b(response.body, digest_size=16).hexdigest()


def read_text(response: Response) -> PageText | None:
    """Read the text of a page; None if it is no HTML, too large, or cannot be parsed.

    The response's own selector parses it, so that the spider need not parse it again.
    """
    read = _parsed(response, identify)
    return PageText(*read[0], read[1]) if read else None


def _parsed(
    response: Response, name: Callable[[Any, str, str | None, str | None], _Named]
) -> tuple[_Named, str | None] | None:
    """Return what *name* says of a page, and the URL that the page declares; see `read_text`."""
    if not isinstance(response, HtmlResponse) or len(response.body) > MAX_BYTES:
        return None
    try:
        try:
            root = response.selector.root
            canonical = _canonical(root, get_base_url(response))
        except ValueError:  # Scrapy's own selector fails for a bad host in <base>
            root, canonical = response.text, None
        return name(root, response.url, canonical, response.text), canonical
    except (ValueError, LookupError, etree.LxmlError, RecursionError):
        return None


def _canonical(root: Any, base: str) -> str | None:
    for href in _CANONICAL(root):
        with suppress(ValueError):  # a bad host in the link
            return urljoin(base, str(href).strip())
    return None
