"""What code and JSON of a page repeat of the query of its URL: the state that a script begins with.

A page that a script goes on with says there what was asked for, as in Next.js, Nuxt or Inertia.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING
from urllib.parse import unquote_plus

from scrapy_urlnorm.url import params_of, query_of

if TYPE_CHECKING:
    from collections.abc import Iterable

#: Characters of a query, and parameters: a page does not repeat more, and to look for them takes long.
_LONGEST, _MOST = 2_000, 20
_QUOTE = r"""\\{0,8}["']"""  # as it is escaped, or not
#: A sign of a URL: ``/``, ``?``, ``&``, ``=``, ``-``, ``%``, ``+``, ``;``.
_ESCAPED = re.compile(r"\\{1,8}(?:/|u00(2[fFdD56bB]|3[fFdDbB]))")


def plain(code: str) -> str:
    """Return code or JSON without the escapes of signs of URLs."""
    return _ESCAPED.sub(_sign, code) if "\\" in code else code


def _sign(escaped: re.Match[str]) -> str:
    return chr(int(escaped[1], 16)) if escaped[1] else "/"


class Echoes:
    """The ways in which a page may repeat the queries of *urls*.

    As queries: ``"?sort=new"``, and behind a name that is no address. As JSON: ``"sort":"new"``,
    however often that is escaped, as in a text within JSON; and what was not asked for as null.
    """

    def __init__(self, urls: Iterable[str]) -> None:
        queries = {query for query in map(query_of, urls) if 0 < len(query) <= _LONGEST}
        params = {param for query in queries for param in params_of(query)}
        self._params = sorted(params) if len(params) <= _MOST else []
        said = {f"?{way}" for query in queries for way in (query, unquote_plus(query))}
        self._said = sorted(said, key=lambda query: (-len(query), query))

    def without(self, code: str) -> str:
        """Return code without them."""
        for query in self._said:
            if query in code:
                code = re.sub(rf"""{re.escape(query)}(?=[\s"'\\<>#]|\Z)""", "", code)
        for name, value in self._params:
            if name in code and value in code:
                said = re.escape(value)
                bare = rf"|{said}(?![\w.])" if value else ""
                code = _without(code, re.escape(name), f"(?:{_QUOTE}{said}{_QUOTE}{bare})")
        if "null" in code or "undefined" in code:
            code = _without(code, *_NOTHING)
        return code.replace("?{}", "")


_NOTHING = r"[\w$-]{1,60}", rf"(?:null|undefined|{_QUOTE}\$undefined{_QUOTE})(?=\s*[,}}])"


def _without(code: str, name: str, value: str) -> str:
    """Return code without a name and its value, and a comma before or after them."""
    behind, first = _pair(name, value)
    return first.sub("{", behind.sub("", code))


@lru_cache(10_000)
def _pair(name: str, value: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    pair = rf"\s*(?:{_QUOTE})?{name}(?:{_QUOTE})?\s*:\s*{value}"
    return re.compile(f",{pair}"), re.compile(rf"\{{{pair}\s*,?")
