"""The rule that removes session ids, and the guards that keep it from removing content."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import unquote

from scrapy_urlnorm.caches import BoundedCache
from scrapy_urlnorm.rules import data
from scrapy_urlnorm.rules.escapes import decode_token
from scrapy_urlnorm.rules.query import LONGEST_NAME, MOST_NAMES, rejoined

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from scrapy_urlnorm.url import Url

_GROUP = re.compile(r"([A-Za-z])\(([^()/]*)\)")
_GROUPS = re.compile(r"\((?:[A-Za-z]\([^()/]*\))+\)")


def remove_session_ids(url: Url, sessions: SessionMatcher) -> Url:
    """Remove session ids from path and query.

    http://example.com/a;jsessionid=0A1B2C3D4E5F60718293A4B5C6D7E8F9?id=1 -> \
http://example.com/a?id=1

    A name is not enough: each has a guard on the length and the characters of its value, so that
    ``sid=7`` and ``session=morning`` stay.

    Option: ``"sure"`` takes names that mean nothing but a session; ``"likely"`` also names that
    may mean content, such as ``sid``, ``s`` and ``session_id``, with a value like a session's.

    Semantics: changing; the value may select content all the same.
    Source: the article "URI normalization", "Removing unused query variables"; Lee, Kim and
    Hong, "On URL normalization" (2005); each row of the list names its vendor
    """
    path, query = url.path, url.query
    if ";" in path or "(" in path:
        path = sessions.clean_path(path)
    if query:
        query = sessions.clean_query(query)
    if path == url.path and query == url.query:
        return url
    return url._replace(path=path, query=query)


class SessionMatcher:
    """The curated session ids that are as sure as *strength*, one of ``data.STRENGTHS``."""

    __slots__ = ("_groups", "_in_path", "_in_query", "_segments")

    def __init__(self, strength: str = data.STRENGTHS[0]) -> None:
        accepted = data.STRENGTHS[: data.STRENGTHS.index(strength) + 1]
        rows = [row for row in data.session_ids() if row.strength in accepted]
        self._in_query = _by_name((row for row in rows if row.kind == "query"), decode_token)
        self._in_path = _by_name((row for row in rows if row.kind == "parameter"), unquote)
        self._groups = _by_name((row for row in rows if row.kind == "group"), unquote)
        self._segments = [row for row in rows if row.kind == "segment"]

    def value_tests(self, name: str) -> Sequence[Callable[[str], bool]]:
        """Return the tests for values that decide, with all names of the query, about *name*.

        There are none for most names. Name and values are as they are written.
        """
        return [
            lambda value, row=row: row.accepts(decode_token(value))  # type: ignore[misc]
            for row in self._in_query[name]
        ]

    def clean_query(self, query: str) -> str | None:
        """Return *query* without session ids, ``None`` if nothing else was in it."""
        pieces = query.split("&")
        rows_of = self._in_query
        found = [rows_of[piece.partition("=")[0]] for piece in pieces]
        if not any(found):
            return query
        # A row may need another parameter of the same query (CFID and CFTOKEN): collect all names
        # before any is removed.
        pairs = [piece.partition("=") for piece in pieces]
        present = {decode_token(name).lower() for name in {pair[0] for pair in pairs}}
        kept = [
            piece
            for piece, (_, _, value), rows in zip(pieces, pairs, found, strict=True)
            if not any(
                row.stands_among(present) and row.accepts(decode_token(value)) for row in rows
            )
        ]
        if len(kept) == len(pieces):
            return query
        return rejoined(kept)

    def clean_path(self, path: str) -> str:
        """Return *path* without session ids; a segment that was one goes with its slash."""
        segments = path.split("/")
        kept = segments[:1]
        for segment in segments[1:]:
            if segment.startswith("(") and self._is_session(segment):
                continue
            if ";" in segment and "=" in segment:  # every guard needs a value
                head, *params = segment.split(";")
                segment = ";".join([head, *(p for p in params if not self._is_param(p))])
            kept.append(segment)
        if len(kept) == 1 and len(segments) > 1:
            kept.append("")  # "/(S(...))" is the root
        return "/".join(kept)

    def _is_session(self, segment: str) -> bool:
        if _GROUPS.fullmatch(segment):
            return all(
                any(row.accepts(unquote(value)) for row in self._groups[name])
                for name, value in _GROUP.findall(segment)
            )
        value = unquote(segment[1:-1])
        return segment.endswith(")") and any(row.accepts(value) for row in self._segments)

    def _is_param(self, param: str) -> bool:
        name, _, value = param.partition("=")
        return any(row.accepts(unquote(value)) for row in self._in_path[name])


def _by_name(
    rows: Iterable[data.SessionId], decode: Callable[[str], str]
) -> BoundedCache[tuple[data.SessionId, ...]]:
    """Return the rows by the name, as it is written, that they are for."""
    whole: dict[str, list[data.SessionId]] = {}
    families: list[data.SessionId] = []
    for row in rows:
        (families if row.name[-1:] == "*" else whole.setdefault(row.name.lower(), [])).append(row)

    def rows_of(text: str) -> tuple[data.SessionId, ...]:
        name = decode(text)
        found = (*whole.get(name.lower(), ()), *families)
        return tuple(row for row in found if row.is_named(name))

    return BoundedCache(rows_of, most=MOST_NAMES, longest=LONGEST_NAME)
