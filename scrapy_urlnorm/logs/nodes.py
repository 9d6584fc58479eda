"""Nodes of pages as they are compared: links by cluster keys, and without the URLs of the pages."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote, unquote, unquote_plus, urljoin, urlsplit

from scrapy_urlnorm.logs.echoes import Echoes
from scrapy_urlnorm.logs.whole import CHOSEN
from scrapy_urlnorm.url import separator

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from scrapy_urlnorm.logs.whole import Node, Whole

    KeyOf = Callable[[str], str]

OWN = "\x01"  # stands for the URL of the page in a text
#: A path and query that are shorter may stand in a text by chance.
_LEAST_OWN = 6
#: Characters. A page does not say a longer URL, and to look for it takes long.
_LONGEST_OWN = 2_000
#: What comes after an address: no more of it, but for a fragment, or the end of a sentence.
_END = r"(?=[.,:;!?]*(?:[\s\"'<>()\[\]{}|\\^`#]|\Z))"
_LEADS_BACK = re.compile(r"=(?:https?:|https?%3A)?(?:/|%2F)|%3D", re.IGNORECASE).search
#: Words of a text, and the signs between them: a time, a date, a UUID or a token drawn at random is
#: one. In base64 for URLs a hyphen stands for six bits.
_TOKEN = r"(?=[\w-]{0,39}\d)(?=[\w-]{0,39}[A-Z])(?=[\w-]{0,39}[a-z])[\w-]{20,}"
_UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_WORDS = re.compile(rf"(?i:{_UUID})(?!\w)|{_TOKEN}|\d+(?:[.,:/-]\d{{1,4}})*(?!\w)|\w+|\W").findall


class Leads(NamedTuple):
    """Where a link leads: links to one *key* are equal, however their addresses are written."""

    key: str
    fragment: str


_HERE = Leads(OWN, "")


class Compared(NamedTuple):
    """A node as it is compared."""

    place: str
    value: str | Leads

    @property
    def words(self) -> list[str]:
        """The words of a text or a key, and the signs between them."""
        return _WORDS(self.value.key if isinstance(self.value, Leads) else self.value)


class Referring(Compared):
    """A node that says which page its page was asked from; it equals one that says the same."""


def meet(one: Compared, two: Compared) -> bool:
    """Return whether two nodes say the same, or each what its page was asked from, at one place."""
    told = isinstance(one, Referring) and isinstance(two, Referring)
    return one == two or (told and one.place == two.place)


def leads_on(node: Compared) -> bool:
    """Return whether a node is more than a link to its page: the entry of a menu where one is has none."""
    return node.value != _HERE


class _Shows(dict["Node", Compared]):
    """Nodes as they are compared: with cluster keys for addresses, and without the URLs of the pages."""

    def __init__(self, urls: set[str], key_of: KeyOf) -> None:
        self._key_of = key_of
        #: By address. What is said to be one page has one key, and links within a page have it, too.
        self._keys = dict[str, str]()
        self._own_keys = {_key(url.partition("#")[0], key_of) for url in urls}
        #: Two hosts that are to be one serve the same pictures and scripts with their pages.
        hosts = {"/".join([*url.split("/")[:3], ""]) for url in urls}
        self._hosts = hosts if len(hosts) > 1 else set[str]()
        self._said, self._names = _own(urls), set[str]().union(*map(_names, urls))
        self._echoes = Echoes(urls)
        self._found: list[str] = []  # what is found of these, in the page that is read

    def __missing__(self, node: Node) -> Compared:
        place, value, fragment = node
        if fragment is not None:
            if value not in self._keys:
                key = _key(value, self._key_of)
                self._keys[value] = OWN if key in self._own_keys else key
            shown = Compared(place, Leads(self._keys[value], fragment))
        elif place.endswith(CHOSEN) and _names(f"?{value}") <= self._names:
            shown = Compared(place, OWN)
        else:
            for host in self._hosts:
                value = value.removeprefix(host)
            is_own = any(said in value for said in self._found)
            said = self._own.sub(OWN, value) if is_own else value
            shown = Compared(place, self._echoes.without(said))
        self[node] = shown
        return shown

    def of(self, page: Whole) -> list[Compared]:
        text = "\n".join(node.value for node in page.nodes if node.fragment is None)
        found = (said for said in self._said if said in text)
        self._found = sorted(found, key=lambda said: (-len(said), said))
        if self._found:  # what finds them where they end: "/5.pdf" and "?n=5&raw=1" are others
            any_of = "|".join(map(re.escape, self._found))
            self._own = re.compile(f"(?<!\\w)(?:{any_of})(?:(?<=&)|{_END})")
        shown = list(map(self.__getitem__, page.nodes))
        for n in page.referring:
            shown[n] = Referring(*shown[n])
        return shown


def as_compared(pages: Iterable[Whole], urls: set[str], key_of: KeyOf) -> list[list[Compared]]:
    shows = _Shows(urls, key_of)
    return [shows.of(page) for page in pages]


def _key(url: str, key_of: KeyOf) -> str:
    if url.startswith(("http://", "https://")):
        with suppress(ValueError):  # a bad host
            return key_of(url)
    return url


def _ways(url: str) -> tuple[str, str, str]:
    """Return a URL, the same without its scheme, and without its host."""
    parts = urlsplit(url)
    return url, url.partition("://")[2], parts.path + (f"?{parts.query}" if parts.query else "")


def _own(urls: set[str]) -> set[str]:
    """Return all ways in which a page may say its own URL."""
    said = set()
    for url in urls:
        if len(url) > _LONGEST_OWN:
            continue
        _, bare, local = _ways(url)
        said |= {url, bare}
        ways = (local, local[1:] if re.search("[/?]", local[1:]) else "")  # no word of a text
        said |= {each for each in ways if len(each) >= _LEAST_OWN}
    quoted = {quote(each, safe=safe) for each in said for safe in ("", "/", "/?=&")}
    # That is a parameter of an address, which may have more.
    said |= quoted | {f"{each}&" for each in quoted - said}
    return said | {each.replace("/", "\\/") for each in said}


def with_chosen(page: Whole, other: str) -> str:
    """Return the URL of a page with what it has chosen in lists, of the parameters of *other* alone."""
    names = _names(other) - _names(page.url)
    lists = (node.value for node in page.nodes if names and node.place.endswith(CHOSEN))
    chosen = [value for value in lists if _names(f"?{value}") <= names]
    return "&".join([page.url + ("" if "?" in page.url else "?"), *chosen]) if chosen else page.url


def without_own(
    url: str, original: str, key_of: KeyOf, may_change: Callable[[str], bool] = lambda _: True
) -> KeyOf:
    """Return *key_of* for addresses without what *url* has and *original* has not (`carried`).

    A copy puts that into its links. Only addresses change that may.
    """
    without = carried(url, original)
    return lambda address: key_of(without(address) if may_change(address) else address)


def without_carried(
    url: str, original: str, key_of: KeyOf, may_change: Callable[[str], bool]
) -> KeyOf:
    """Return *key_of* without what links of either page carry on of its URL, and the other has not.

    Of the links of the page at *url*, those change that may.
    """
    return without_own(url, original, without_own(original, url, key_of), may_change)


def carried(url: str, original: str) -> Callable[[str], str]:
    """Return what takes out of an address what *url* has and *original* has not.

    These are parameters, and segments of paths of one length: a final slash does not count. And an
    address that is the value of such a parameter, as where a page leads back to; and *url* as a value
    in an address that comes back to it (``/login?to=``). A value that says parameters of its query goes
    as these do.
    """
    (path, own), (other, others) = map(_split, (url, original))
    own -= others
    back = set[str]()
    for value in (unquote_plus(each.partition("=")[2]) for each in own):
        if value.startswith(("/", "http://", "https://")):
            with suppress(ValueError):  # a bad host
                back.add(unquote_plus(urljoin(url, value)))
    all_own, ways = {*map(unquote, _split(url)[1])}, {*_ways(url)}
    is_alike = len(path) == len(other) and path[:3] == other[:3]
    pairs = enumerate(zip(path, other, strict=True)) if is_alike else ()
    places = {number: one for number, (one, two) in pairs if one != two}

    def without(address: str) -> str:
        if back and unquote_plus(address) in back:
            return OWN
        start, _, query = address.partition("?")
        left = query
        if own or _LEADS_BACK(query):
            sign = separator(query)
            pairs = (each for each in query.split(sign) if each not in own)
            left = sign.join(filter(None, (_back(pair, ways, all_own) for pair in pairs)))
        if places:
            segments = enumerate(start.split("/"))
            start = "/".join(_own_segment(each, places.get(n)) for n, each in segments)
        return f"{start}?{left}" if left else start

    return without


def _own_segment(segment: str, own: str | None) -> str:
    """Return a segment without the one of the page's URL, after which a file may be named."""
    is_own = own and f"{segment}.".startswith(f"{own}.")
    return f"{OWN}{segment[len(own) :]}" if own and is_own else segment


def _back(pair: str, ways: set[str], own: set[str]) -> str:
    name, _, value = pair.partition("=")
    value = unquote(value)
    if "=" in value and own.issuperset(value.split(separator(value))):
        return ""
    return f"{name}={OWN}" if value in ways else pair


def _names(url: str) -> set[str]:
    return {pair.partition("=")[0] for pair in _split(url)[1]}


def _split(url: str) -> tuple[list[str], set[str]]:
    path, _, query = url.partition("#")[0].partition("?")
    return path.rstrip("/").split("/"), {*query.split(separator(query))} - {""}
