"""Form: a URL as the slots that site rules act on.

Slots are the scheme, the host, the path segments, the final slash and the parameters. Each
segment and parameter is kept both raw and decoded: rules compare decoded tokens, and whatever a
rule does not touch goes back into the URL byte for byte. Tokens that a rule makes are encoded
as the default profile encodes them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote, quote_plus, unquote

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from scrapy_urlnorm.url import Url

# RFC 3986, section 3.3: a segment holds unreserved characters, sub-delims, ":" and "@".
_SEGMENT_SAFE = "!$&'()*+,;=:@-._~"
_SEMICOLON = re.compile(r"[&;]|%3B", re.IGNORECASE)
_EQUALS = re.compile(r"=|%3D", re.IGNORECASE)
#: What would be resolved away or vanish as a path segment; no rule ever makes one of them.
DOT_SEGMENTS = ("", ".", "..")


class Param(NamedTuple):
    """One parameter: name and value decoded, and the piece of the query they came from."""

    name: str
    value: str
    raw: str


def decode(token: str) -> str:
    """Decode a path segment; bytes that are not UTF-8 become lone surrogates (PEP 383)."""
    return unquote(token, errors="surrogateescape") if "%" in token else token


def encode_segment(token: str) -> str:
    """Write *token* as a path segment (RFC 3986, section 3.3)."""
    return quote(token, safe=_SEGMENT_SAFE, errors="surrogateescape")


def _decode_query(token: str) -> str:
    if "+" in token:
        token = token.replace("+", " ")
    return unquote(token, errors="surrogateescape") if "%" in token else token


def new_param(name: str, value: str) -> Param:
    """Make a parameter, form-encoded as :func:`w3lib.url.canonicalize_url` does."""
    raw = f"{_encode_query(name)}={_encode_query(value)}"
    return Param(name, value, raw)


def _encode_query(token: str) -> str:
    return quote_plus(token, errors="surrogateescape")


class Form:
    """The slots of one URL, to be edited in place; `to_url` puts them together again.

    ``segments`` and ``params`` are read freely and changed through the methods only.
    ``semicolons`` says that the query separates its parameters by ``;``.
    """

    __slots__ = (
        "_path_changed",
        "_query_changed",
        "_raw",
        "_url",
        "host",
        "params",
        "scheme",
        "segments",
        "semicolons",
        "slash",
    )

    def __init__(self, url: Url) -> None:
        self._url = url
        self.scheme = url.scheme or ""
        self.host = url.host or ""
        raw = url.path.split("/")[1:]
        self.slash = bool(raw) and not raw[-1]
        if self.slash:
            del raw[-1]
        self._raw = raw
        self.segments: Sequence[str] = raw if "%" not in url.path else list(map(decode, raw))
        self.params: list[Param] = []
        self.semicolons = False
        query = url.query
        if query:
            if ";" in query or "%3B" in query or "%3b" in query:
                self.semicolons = self._split_at_semicolons(query)
            if not self.semicolons:
                for piece in query.split("&"):
                    name, _, value = piece.partition("=")
                    self.params.append(Param(_decode_query(name), _decode_query(value), piece))
        self._path_changed = self._query_changed = False

    def _split_at_semicolons(self, query: str) -> bool:
        """Read ``a=1;b=2``, which form encoding may have made ``a=1%3Bb%3D2``.

        Only where every piece is one ``name=value``: ``q=tl;dr`` is one parameter.
        """
        params = []
        for piece in _SEMICOLON.split(query):
            halves = _EQUALS.split(piece)
            if len(halves) != 2:
                return False
            name, value = halves
            params.append(Param(_decode_query(name), _decode_query(value), f"{name}={value}"))
        self.params = params
        return True

    # --- reading --------------------------------------------------------------------------

    def values(self, name: str) -> list[str]:
        """All values of the parameter *name*, in order."""
        return [param.value for param in self.params if param.name == name]

    def slots(self) -> Iterator[tuple[str, str]]:
        """Every slot with its value; a repeated parameter comes once for each value."""
        yield "scheme", self.scheme
        yield "host", self.host
        yield from ((f"s{i}", segment) for i, segment in enumerate(self.segments))
        if self.slash:
            yield "slash", "1"
        yield from ((f"q:{param.name}", param.value) for param in self.params)

    # --- editing --------------------------------------------------------------------------

    def replace_segments(self, start: int, stop: int, tokens: Sequence[str]) -> bool:
        """Put decoded *tokens* in place of some segments; ``False`` if one would vanish."""
        if any(token in DOT_SEGMENTS for token in tokens):
            return False
        segments = list(self.segments)
        raw = list(self._raw)
        segments[start:stop] = tokens
        raw[start:stop] = map(encode_segment, tokens)
        self.segments, self._raw = segments, raw
        if not segments:
            self.slash = True  # the root is "/", whatever was taken away
        self._path_changed = True
        return True

    def replace_each(self, replacements: Mapping[int, Sequence[str]]) -> bool:
        """Put decoded tokens in place of single segments, by their index, all in one go.

        A segment of which a token would vanish stays. Return whether one was replaced.
        """
        segments: list[str] = []
        raw: list[str] = []
        changed = False
        for i, segment in enumerate(self.segments):
            tokens = replacements.get(i)
            if tokens is None or any(token in DOT_SEGMENTS for token in tokens):
                segments.append(segment)
                raw.append(self._raw[i])
            else:
                segments += tokens
                raw += map(encode_segment, tokens)
                changed = True
        if changed:
            self.segments, self._raw = segments, raw
            self._path_changed = True
        return changed

    def set_slash(self, slash: bool) -> bool:
        """Add or remove the final slash; that of the root stays."""
        slash = slash or not self.segments
        if slash == self.slash:
            return False
        self.slash = slash
        self._path_changed = True
        return True

    def set_params(self, params: list[Param]) -> None:
        """Replace the parameters; a ``;`` needs two of them to stand between."""
        self.params = params
        self._query_changed = True
        if len(params) < 2:
            self.semicolons = False

    def set_value(self, index: int, value: str) -> None:
        """Give the parameter at *index* another value."""
        self.params[index] = new_param(self.params[index].name, value)
        self._query_changed = True

    def rename(self, index: int, name: str) -> None:
        """Give the parameter at *index*, which has no value, another name."""
        equals = "=" if "=" in self.params[index].raw else ""
        self.params[index] = Param(name, "", _encode_query(name) + equals)
        self._query_changed = True

    def join_by_ampersand(self) -> None:
        """Separate the parameters by ``&``."""
        self.semicolons = False
        self._query_changed = True

    def to_url(self) -> Url:
        """Return the URL of these slots, with the text of every slot that did not change."""
        url = self._url
        if self._path_changed:
            path = "".join(["/" + raw for raw in self._raw]) + ("/" if self.slash else "")
            url = url._replace(path=path)
        if self._query_changed:
            separator = ";" if self.semicolons else "&"
            query = separator.join([param.raw for param in self.params])
            url = url._replace(query=query if self.params else None)
        if self.host != (url.host or "") or self.scheme != (url.scheme or ""):
            url = url._replace(host=self.host, scheme=self.scheme)
        return url
