"""A page as a whole: everything in it, in its order, to decide whether two pages are the same.

A name (`blocks`) proposes that two pages are one; `logs.comparison` decides. So it knows no list of
what counts as content: all text, seen or not, all attributes, links, scripts and comments do. Left
out are the attributes that lay a page out, and what the page declares as its own URL.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urljoin

from scrapy.utils.response import get_base_url

from scrapy_urlnorm.logs.blocks import without_digits

if TYPE_CHECKING:
    from lxml import html  # type: ignore[import-untyped]  # ships no types
    from scrapy.http import HtmlResponse

#: Attributes that lay a page out. Pages that are one differ in them: an entry of a menu is active.
_LAYOUT = frozenset(("class", "id", "style", "nonce"))
# fmt: off
_ADDRESSES = frozenset((
    "href", "src", "action", "formaction", "poster", "cite", "data", "background", "longdesc",
))
# fmt: on
_OWN_LINKS, _OWN_URLS = frozenset(("canonical", "shortlink")), frozenset(("og:url", "twitter:url"))
_ADDRESS = re.compile(r"(?:https?:/)?/[^\s/]\S*")
_IN_STYLE = re.compile(r"url\(\s*[\"']?([^\"')]+)")
_SET = re.compile(r"[^\s,]\S*[^\s,]")
_STEPS = 3  # elements of a path, as in `blocks`
_LONGEST_STEP = 60  # characters


class Node(NamedTuple):
    """A text, an attribute, or a comment."""

    place: str  #: the innermost elements around it, and the attribute
    value: str  #: of an address: the absolute URL, without its fragment
    fragment: str | None = None  #: of an address; ``None`` where it is none


class Whole(NamedTuple):
    """All that one fetch of a URL showed."""

    url: str
    nodes: list[Node]
    shapes: list[str]  #: for each node: its place with ids and classes, for other pages alike


def whole_of(response: HtmlResponse, *, with_layout: bool = False) -> Whole:
    """Read a page whole. Raises what Scrapy's selector raises for what it cannot parse."""
    reader = _Reader(get_base_url(response), frozenset() if with_layout else _LAYOUT)
    reader.read(response.selector.root)
    return Whole(response.url, reader.nodes, reader.shapes)


class _Reader:
    """Walks over a tree."""

    def __init__(self, base: str, left_out: frozenset[str]) -> None:
        self._base, self._left_out = base, left_out
        self._absolute: dict[str, tuple[str, str]] = {}
        self._steps: dict[tuple[str, str, str], str] = {}
        self.nodes: list[Node] = []
        self.shapes: list[str] = []

    def read(self, root: html.HtmlElement) -> None:
        todo: list[tuple[html.HtmlElement, tuple[str, ...], tuple[str, ...], bool]]
        todo = [(root, (), (), False)]
        while todo:
            element, above, shape, is_tail = todo.pop()
            if is_tail:
                self._text("/".join(above), shape, element.tail)
                continue
            if not isinstance(element.tag, str):
                self._text("/".join((*above, "!")), shape, element.text)
                continue
            here = (*above[1 - _STEPS :], element.tag)
            shape = (*shape[1 - _STEPS :], self._step(element))
            path = "/".join(here)
            if element.attrib and not _says_its_url(element):
                for name, value in sorted(element.attrib.items()):
                    self._attribute(f"{path}@{name}", shape, name, value)
            self._text(path, shape, element.text)
            for child in reversed(element):
                todo += (child, here, shape, True), (child, here, shape, False)

    def _step(self, element: html.HtmlElement) -> str:
        key = element.tag, element.get("id") or "", element.get("class") or ""
        if key not in self._steps:
            tag, *said = key
            self._steps[key] = f"{tag}{without_digits(' '.join(said))}"[:_LONGEST_STEP]
        return self._steps[key]

    def _text(self, place: str, shape: tuple[str, ...], text: str | None) -> None:
        if text and (said := " ".join(text.split())):
            self._add(Node(place, said), shape)

    def _attribute(self, place: str, shape: tuple[str, ...], name: str, value: str) -> None:
        if name == "style":
            for url in _IN_STYLE.findall(value):
                self._address(place, shape, url)
        if name in self._left_out:
            pass
        elif name in _ADDRESSES or _ADDRESS.fullmatch(value):
            self._address(place, shape, value)
        elif name.endswith("srcset"):
            for url in _SET.findall(value):
                self._address(place, shape, url)
        else:
            self._text(place, shape, value or name)

    def _address(self, place: str, shape: tuple[str, ...], url: str) -> None:
        if url not in self._absolute:
            try:
                there, _, fragment = urljoin(self._base, url.strip()).partition("#")
            except ValueError:  # a bad host
                there, fragment = url, ""
            self._absolute[url] = there, fragment
        self._add(Node(place, *self._absolute[url]), shape)

    def _add(self, node: Node, shape: tuple[str, ...]) -> None:
        self.nodes.append(node)
        self.shapes.append("/".join((*shape, node.place.rpartition("@")[2])))


def _says_its_url(element: html.HtmlElement) -> bool:
    if element.tag == "link":
        return not _OWN_LINKS.isdisjoint((element.get("rel") or "").lower().split())
    name = element.tag == "meta" and (element.get("property") or element.get("name"))
    return name in _OWN_URLS
