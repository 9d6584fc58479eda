"""A page as a whole: everything in it, in its order, to decide whether two pages are the same.

A name (`blocks`) proposes that two pages are one; `logs.comparison` decides. So it knows no list of
what counts as content: all text, seen or not, all attributes, links, scripts and comments do. Left
out are attributes and elements that lay a page out, stylesheets, whether a part of it is open, and
what the page declares: its own URL, and whether robots may index it. If not, and if it names another
page as the canonical one, it is a copy of that. A form may carry on what is in the URL of the page:
it leads to an address with that. And a page may say which page it was asked from.
"""

from __future__ import annotations

import re
from collections import Counter
from contextlib import suppress
from itertools import chain, islice
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlencode, urljoin

from lxml import etree  # type: ignore[import-untyped]  # ships no types
from scrapy import Request
from scrapy.utils.response import get_base_url

from scrapy_urlnorm.logs.blocks import HIDDEN, without_digits
from scrapy_urlnorm.logs.echoes import Echoes, plain
from scrapy_urlnorm.url import holds_address, params_of, query_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lxml import html
    from scrapy.http import HtmlResponse, Response

#: Attributes that lay a page out, and styles. Pages that are one differ in them: an entry of a menu is
#: active, or open. How wide something is, or which colour it has, may be all that a chart says.
_LAYOUT = frozenset(
    ("aria-current", "aria-expanded", "aria-hidden", "aria-selected", "class", "id", "nonce")
)
_OPEN = re.compile(r"(?:^|;)\s*(?:display|visibility)\s*:[^;]*", re.IGNORECASE)
#: Elements that lay a text out, too; and those that mark it. Of links, it is the one that was followed
#: that is set in bold, and in a text what was sought. Else it may be all that a page says: who won.
_FORMATS = frozenset(("big", "font", "small", "span"))
_MARKS = frozenset(("b", "em", "i", "mark", "strong", "u"))
# fmt: off
_ADDRESSES = frozenset(("src", "poster", "data", "background"))
_PICTURES = frozenset(("audio", "img", "source", "video"))
_LINKS = frozenset(("href", "action", "formaction", "cite", "longdesc"))
# fmt: on
#: Attributes of a hidden field that says no more than a parameter does.
_FIELD = frozenset(("class", "id", "name", "type", "value"))
_NO_LINKS = frozenset(("canonical", "shortlink", "stylesheet"))
_OWN_URLS = frozenset(("og:url", "twitter:url"))
_ROBOTS = frozenset(("robots", "googlebot"))
_ADDRESS = re.compile(r"(?:https?:/)?/[^\s/]\S*")
_IN_STYLE = re.compile(r"url\(\s*[\"']?([^\"')]+)")
#: An address in code or JSON: a whole one, a path, or a query, but no piece of one.
_IN_QUOTES = re.compile(
    r"""(?<=["'])(?:(?:https?:)?/|\?[\w.-]+=[^\s"'<>`{}()\\=])[^\s"'<>`{}()\\]*(?=\\*["'])"""
)
#: What a set of pictures is made of: addresses, and for which width or density each is.
_SET, _SIZE = re.compile(r"[^\s,]\S*[^\s,]"), re.compile(r"\d+(?:\.\d+)?[wxh]")
#: A host whose URLs `urljoin` leaves alone, and paths of it in which it has nothing to do.
_HOST = re.compile(r"https?://[\w.:-]+(?=/)", re.ASCII)
_PLAIN = re.compile(r"/(?:[\w.~%-][\w/.~%-]*)?(?:\?[\w=&.~%+:-]+)?", re.ASCII)
#: In the place of no attribute: what of a list is chosen, as a parameter of an address.
CHOSEN = "what is chosen"
#: Fields of a form whose value nobody sees.
_CHOICES = frozenset(("checkbox", "hidden", "radio"))
_STEPS = 3  # elements of a path, as in `blocks`
_LONGEST_STEP = 60  # characters
#: Characters. To a longer address no field of its form is added: there may be thousands.
_LONGEST_ADDRESS = 2_000
_VERBATIM = frozenset(("pre", "textarea"))
_TOLD_APART = 8  # elements of one kind beside one another, and those in a mark


class Node(NamedTuple):
    """A text, an attribute, a comment, or an element with nothing in it."""

    place: str  #: how deep it stands, the innermost elements around it, and the attribute
    value: str  #: of a link: the absolute URL, without its fragment
    fragment: str | None = None  #: of a link; ``None`` where it is none


class Whole(NamedTuple):
    """All that one fetch of a URL showed."""

    url: str
    nodes: list[Node]
    #: For each node its place with ids, classes, and which of those with these it is, for other pages
    #: alike: a line with a class of its own stands after more paragraphs on a page than on another.
    shapes: list[str]
    #: Numbers of the nodes that say which page it was asked from.
    referring: tuple[int, ...] = ()


def referer_of(response: Response) -> str:
    """Return the URL of the page that *response* was asked from; "" if the server was not told."""
    told = response.request.headers.get("Referer") if response.request else None
    return told.decode("latin-1") if told else ""


def whole_of(response: HtmlResponse, *, with_layout: bool = False) -> Whole:
    """Read a page whole. Raises what Scrapy's selector raises for what it cannot parse."""
    base, left_out = get_base_url(response), frozenset() if with_layout else _LAYOUT
    reader = _Reader(response.url, base, left_out, referer_of(response))
    reader.read(response.selector.root)
    return Whole(response.url, reader.nodes, reader.shapes, tuple(reader.referring))


def copy_of(response: HtmlResponse) -> str | None:
    """Return the absolute URL of which a page declares to be a copy; ``None`` if of none.

    That is the one that it names as canonical, if robots may not index it. Raises as `whole_of` does.
    """
    root = response.selector.root
    said = [e.get("content", "") for e in root.iter("meta") if _name_of(e) in _ROBOTS]
    kinds = ((link, link.get("rel", "").lower().split()) for link in root.iter("link"))
    named = next((link for link, rel in kinds if "canonical" in rel), None)
    if named is None or "noindex" not in " ".join(said).lower():
        return None
    with suppress(ValueError):  # no request can have it
        url = urljoin(get_base_url(response), named.get("href", "").strip()).partition("#")[0]
        return Request(url).url if url.startswith(("http://", "https://")) else None
    return None


def _name_of(meta: Mapping[str, str]) -> str | None:
    return meta.get("property") or meta.get("name")


class _Place:
    """The innermost elements around a node, of which there are few on a page of many nodes."""

    def __init__(
        self, path: tuple[str, ...] = (), shape: tuple[str, ...] = (), depth: int = 0
    ) -> None:
        self._path, self._shape, self._depth = path, shape, depth
        self._inner: dict[tuple[str, str, int, bool], _Place] = {}
        self._names: dict[str, tuple[str, str]] = {}
        self.text = self._in_words(path)

    def inner(self, tag: str, kind: str, at: int, *, is_layout: bool) -> _Place:
        """Return the place in an element here, with so many of its kind before it."""
        found = self._inner.get((tag, kind, at, is_layout))
        if found is None:
            shape = (*self._shape[1 - _STEPS :], f"{tag}{at}{kind}")
            path, depth = self._path, self._depth
            if not is_layout:
                path, depth = (*path[1 - _STEPS :], tag), depth + 1
            found = self._inner[tag, kind, at, is_layout] = _Place(path, shape, depth)
        return found

    def of(self, name: str) -> tuple[str, str]:
        """Return place and shape of an attribute."""
        found = self._names.get(name)
        if found is None:
            path = "/".join(self._path)
            found = self._names[name] = self._in_words((f"{path}@{name}",))
        return found

    @property
    def comment(self) -> tuple[str, str]:
        return self._in_words((*self._path, "!"))

    def _in_words(self, path: tuple[str, ...]) -> tuple[str, str]:
        place = "/".join(path)
        return f"{self._depth} {place}", "/".join((*self._shape, place.rpartition("@")[2]))


class _Reader:
    def __init__(self, url: str, base: str, left_out: frozenset[str], referer: str) -> None:
        self._base, self._left_out, self._referer = base, left_out, referer
        self.referring: list[int] = []
        self._path = _path(url.partition("#")[0])
        #: Names and values in the query of the page.
        self._own = {*params_of(query_of(url))}
        self._echoes = Echoes([url])
        #: Words that may be what was sought. "1 result" is set in bold on ``?page=1`` as elsewhere.
        self._sought = {value.lower() for _, value in self._own if not value.isdecimal()}
        self._action = 0  # the last node with the address of a form
        #: That of the form that is open, if it gets a page; -1 where it leads to the page itself.
        self._form: int | None = None
        host = _HOST.match(base)
        self._origin = host[0] if host else ""
        self._absolute: dict[str, tuple[str, str]] = {}
        self._links = set[str]()
        self._may_be_links: dict[int, tuple[str, str]] = {}  # addresses in attributes, by node
        #: The list of choices that is open: its node, its name, and what of it is chosen.
        self._list: tuple[int, str, list[str]] | None = None
        #: Whether the element is one of them, or a picture.
        self._may_be_chosen = self._is_picture = False
        self.nodes: list[Node] = []
        self.shapes: list[str] = []

    def read(self, root: html.HtmlElement) -> None:
        nodes, shapes, place = self.nodes, self.shapes, _Place()
        links = (self._join(href) for a in root.iter("a") if "#" in (href := a.get("href", "")))
        self._targets = {at for url, at in links if at and _path(url) != self._path}
        around: list[_Place] = []
        # Elements by tag and kind, in each that is open.
        beside: list[Counter[tuple[str, str]]] = [Counter()]
        verbatim = 0  # elements that are open in which white space counts
        for event, element in etree.iterwalk(root, events=("start", "end", "comment", "pi")):
            if event == "start":
                attributes, tag = element.items(), element.tag
                counts, before = True, len(nodes)
                around.append(place)
                verbatim += tag in _VERBATIM
                known = dict(attributes)
                kind = f"{known.get('id', '')} {known.get('class', '')}" if known else " "
                kind = without_digits(kind)[:_LONGEST_STEP]
                at = min(beside[-1][tag, kind], _TOLD_APART)
                place = place.inner(tag, kind, at, is_layout=self._is_layout(element))
                beside[-1][tag, kind] += 1
                beside.append(Counter())
                if known:
                    counts = not (_declares(tag, known) or self._carries_on(tag, known))
                    if counts:
                        if tag == "select" and "name" in known:
                            self._list = len(nodes), known["name"], []
                            self._text(place.of(CHOSEN), CHOSEN)
                        elif tag == "option" and self._list and "selected" in known:
                            self._list[2].append(known.get("value", element.text or ""))
                            attributes = [pair for pair in attributes if pair[0] != "selected"]
                        elif _opens(known):
                            attributes = [pair for pair in attributes if pair[0] != "checked"]
                        self._is_picture = tag in _PICTURES
                        self._may_be_chosen = (
                            tag == "option" or known.get("type", "").lower() in _CHOICES
                        )
                        for name, value in sorted(attributes):
                            self._attribute(place, name, value)
                if tag == "form":
                    self._form = self._leads_to(dict(attributes))
                text = element.text
                if text and tag == "script":
                    text = self._without_quoted(place, text)
                if counts and len(nodes) == before and not text and not len(element):
                    nodes.append(Node(place.text[0], ""))
                    shapes.append(place.text[1])
            else:
                if event == "end":
                    place = around.pop()
                    beside.pop()
                    verbatim -= element.tag in _VERBATIM
                    if element.tag == "form":
                        self._form = None
                    elif element.tag == "select" and self._list:
                        at, name, chosen = self._list
                        said = urlencode([(name, value) for value in chosen or [""]])
                        nodes[at], self._list = nodes[at]._replace(value=said), None
                else:
                    self._text(place.comment, element.text)
                text = element.tail if around else None  # what stands behind the page is none of it
            if text and (said := " ".join(text.split())):
                nodes.append(Node(place.text[0], text if verbatim else said))
                shapes.append(place.text[1])
        for at, address in self._may_be_links.items():
            if address[0] in self._links:
                nodes[at] = Node(nodes[at].place, *address)

    def _is_layout(self, element: html.HtmlElement) -> bool:
        """Whether an element says nothing: not so a mark, but for one of a link, or what was sought.

        Nor does one to which links from elsewhere jump: it marks the entry that one asked for.
        """
        if element.tag not in _MARKS:
            return element.tag in _FORMATS
        if element.get("id") in self._targets:
            return True
        near = chain(islice(element.iterdescendants(), _TOLD_APART), element.iterancestors())
        said = "".join(islice(element.itertext(), _TOLD_APART)).strip().lower()
        return any(each.tag == "a" for each in near) or said in self._sought

    def _leads_to(self, form: dict[str, str]) -> int | None:
        if form.get("method", "get").lower() != "get":
            return None
        return self._action if form.get("action", "").strip() else -1

    def _carries_on(self, tag: str, attributes: dict[str, str]) -> bool:
        """Whether a hidden field says no more than a parameter: the address of its form has it then.

        Of a form that leads to the page itself, a parameter of the page. Of one that posts, an address
        alone: where one comes back to, as after a login.
        """
        if tag != "input" or not attributes.keys() <= _FIELD:
            return False
        field = attributes.get("name", ""), attributes.get("value", "")
        if attributes.get("type", "").lower() != "hidden" or not field[0]:
            return False
        if self._form is None:
            return field in self._own and holds_address(field[1])
        if self._form < 0:
            return field in self._own
        place, url, fragment = self.nodes[self._form]
        if len(url) > _LONGEST_ADDRESS:
            return False
        url += f"{'&' if '?' in url else '?'}{urlencode([field])}"
        self.nodes[self._form] = Node(place, url, fragment)
        return True

    def _text(self, where: tuple[str, str], text: str | None) -> None:
        if text and (said := " ".join(text.split())):
            self.nodes.append(Node(where[0], said))
            self.shapes.append(where[1])

    def _without_quoted(self, place: _Place, code: str) -> str:
        """Return what else code or JSON says than addresses in quotes: these are links."""
        code = self._echoes.without(plain(code))
        for address in _IN_QUOTES.findall(code):
            self._address(place.of("says"), address, is_link=True)
        return _IN_QUOTES.sub("", code)

    def _attribute(self, place: _Place, name: str, value: str) -> None:
        if name == "style":
            for url in _IN_STYLE.findall(value):
                self._address(place.of(name), url)
            value = _IN_STYLE.sub("", _OPEN.sub("", value) if self._left_out else value)
        if name in self._left_out or (name == "style" and not value.strip(" ;")):
            pass
        elif name in _LINKS:
            if name == "action":
                self._action = len(self.nodes)
            self._links.add(self._address(place.of(name), value, is_link=True)[0])
        elif name in _ADDRESSES or (value[:1] in "/h" and _ADDRESS.fullmatch(value)):
            known = self._address(place.of(name), value)
            # Such an address is a link where the page links to it, or it chooses of the list itself.
            if name not in _ADDRESSES and not self._is_picture:
                self._may_be_links[len(self.nodes) - 1] = known
            if name == "value" and self._may_be_chosen and _path(known[0]) == self._path:
                self._links.add(known[0])
        elif name.endswith("srcset"):
            for word in _SET.findall(value):
                if _SIZE.fullmatch(word):
                    self._text(place.of(name), word)
                else:
                    self._address(place.of(name), word)
        else:
            is_code = '"' in value or "'" in value
            said = self._without_quoted(place, value) if is_code else value
            self._text(place.of(name), said or name)

    def _address(
        self, where: tuple[str, str], url: str, *, is_link: bool = False
    ) -> tuple[str, str]:
        known = self._absolute.get(url)
        if known is None:
            known = self._absolute[url] = self._join(url)
        if known[0] == self._referer:
            self.referring.append(len(self.nodes))
        self.nodes.append(Node(where[0], *known) if is_link else Node(where[0], "#".join(known)))
        self.shapes.append(where[1])
        return known

    def _join(self, url: str) -> tuple[str, str]:
        if _PLAIN.fullmatch(url) and "/." not in url and self._origin:
            return self._origin + url, ""  # as below, in a tenth of the time
        try:
            there, _, fragment = urljoin(self._base, url.strip()).partition("#")
        except ValueError:  # a bad host
            return url, ""
        return there, fragment


def _path(url: str) -> str:
    return url.partition("?")[0].rstrip("/")


def _opens(attributes: dict[str, str]) -> bool:
    """Whether an element is a choice that nobody sees or sends: it opens a part of the page, or not."""
    if "checked" not in attributes or attributes.get("name"):
        return False
    return "hidden" in attributes or bool(HIDDEN.search(attributes.get("style", "")))


def _declares(tag: str, attributes: dict[str, str]) -> bool:
    """Whether the page says here what it is, how it is laid out, and to robots whether to index it."""
    if tag == "link":
        return not _NO_LINKS.isdisjoint(attributes.get("rel", "").lower().split())
    return tag == "meta" and _name_of(attributes) in _OWN_URLS | _ROBOTS
