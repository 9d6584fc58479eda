"""Text of a page that changes by itself: clocks, ages, countdowns, counters, visitors.

One table lists it; the tests have an example of every row. A row is an expression and the words
that its ``WORD`` stands for. A line with none of the words is not searched, and most lines have
none. Each row is as narrow as possible: to remove a word too many merges two pages, to leave in a
word too many only hides a duplicate. Every repetition has a bound, so that a line takes linear
time.

A length of time is content ("5 days of training") unless a word counts it from now ("5 days ago").
Some of these words have other meanings too ("il y a", "noch"): after such a phrase the sentence
must end (see `_END`).
"""

from __future__ import annotations

import re
from bisect import bisect_right
from functools import cache
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["MAX_SEARCHED", "without_volatile"]

_CLOCK = r"\d{1,2}:\d{2}(?::\d{2})?(?: ?[ap]\.?m\b\.?)?(?: ?(?:UTC|GMT)\b)?(?: ?[+-]\d{2}:?\d{2})?"
_NUMBER = r"(?<![\d.,])\d[\d.,]{0,20}"
_MADE = r"(?:\b(?:this )?(?:page|script|document|file)(?: was| is)? )?\bWORD\b"
_TOOK = _MADE + (
    r"(?:[^.\d]{0,40}\bin|:)? "
    r"\d{1,9}(?:[.,]\d{1,9} ?(?:s|secs?|seconds?)| ?(?:ms|milliseconds?))\b"
)
_VISITORS = rf"(?:{_NUMBER}|no|one) (?:registered )?(?:users?|guests?|members?|visitors?)"


def _span(one: str, units: str, join: str) -> str:
    """Return an expression for a length of time: up to four numbers with their units."""
    part = rf"(?:\d{{1,4}}(?:[.,]\d{{1,2}})? ?|(?:{one})[ '])(?:{units})\b"
    return rf"{part}(?:,? (?:{join} )?{part}){{0,3}}"


# A single letter says a time only before "ago": "200 m left" is a way.
_UNITS = "seconds?|secs?|minutes?|mins?|hours?|hrs?|days?|weeks?|months?|years?"
_EN = _span("an?|one|a few|a couple of", _UNITS, "and")
_AGO = _span("an?|one|a few|a couple of", _UNITS + "|[smhdwy]", "and")
_ABOUT = r"(?:(?:about|around|over|almost|less than) )?"
_SOON_EN = r"(?:\d{1,4} ?(?:days?|d),? (?:and )?)?" + _span(
    "an?|one", "minutes?|mins?|hours?|hrs?|h", "and"
)
_UNTIL_EN = rf"(?:{_SOON_EN}(?:,? (?:and )?\d{{1,2}} ?(?:m|seconds?|secs?|s)\b){{0,2}}|\d{{1,3}}(?::\d{{2}}){{1,2}}\b)"
_DE = _span(
    "einer|einem|eine|ein|wenigen",
    "Sekunden?|Sek|Minuten?|Min|Stunden?|Std|Tage?n?|Wochen?|Monate?n?|Jahre?n?",
    "und",
)
_SOON_DE = _span("einer|einem", "Sekunden?|Minuten?|Stunden?", "und")
_FR = _span("une|un|quelques", "secondes?|minutes?|min|heures?|jours?|semaines?|mois|ans?", "et")
_SOON_FR = _span("une", "secondes?|minutes?|heures?", "et")
_ES = _span("una?|unos|unas", "segundos?|minutos?|horas?|días?|semanas?|mes(?:es)?|años?", "y")
_SOON_ES = _span("una?", "segundos?|minutos?|horas?", "y")
_PT = _span("uma?|alguns", "segundos?|minutos?|horas?|dias?|semanas?|mês|meses|anos?", "e")
_IT = _span(
    "un|una|pochi", "second[oi]|minut[oi]|or[ae]|giorn[oi]|settiman[ae]|mes[ei]|ann[oi]", "e"
)
_NL = _span(
    "een", "seconden?|minuten?|min|uur|dag(?:en)?|we(?:ek|ken)|maand(?:en)?|ja(?:ar|ren)", "en"
)
_PL = _span(
    "kilka",
    "sekund[ęy]?|minut[ęy]?|godzin[ęy]?|dzień|dni|tydzień|tygodni[ae]?|miesi[ąę]c[ey]?|rok|lata?",
    "i",
)
_RU = _span(
    "несколько",
    "секунд[уы]?|минут[уы]?|час(?:а|ов)?|день|дн(?:я|ей)|недел[юиь]|месяц(?:а|ев)?|год(?:а)?|лет",
    "и",
)
_SV = _span(
    "en|ett|några",
    "sekund(?:er)?|minut(?:er)?|timm(?:e|ar)|dag(?:ar)?|veck(?:a|or)|månad(?:er)?|år",
    "och",
)

_END = r"(?=$| ?[^\w\s]| (?:by|par|por|von|da|door)\b)"
"""The end of a phrase: no noun follows that the time could belong to, as in "il y a 5 jours de
formation"."""

# fmt: off
_TABLE = (
    # When it was made, and what the time is.
    (_MADE + r"\D{0,80}\d.{1,60}?" + _CLOCK, ("generated", "rendered", "printed", "downloaded")),
    (r"\bWORD\b.{0,40}?" + _CLOCK,
     ("it is currently", "time now is", "time is now", "current time", "server time")),
    # How long that took; with the time of day in front (Discuz), with the queries behind (phpBB).
    (_TOOK, ("generated", "rendered", "created", "executed", "loaded", "served", "built")),
    (r"(?:\bGMT[+-]?\d{0,2}, ?[\d-]{1,10} " + _CLOCK + r" ?, ?)?" + _TOOK, ("processed",)),
    (r"\btime ?: ?\d{1,9}[.,]\d{1,9} ?s\b[^:]{0,200}\bWORD\b.*", ("queries",)),
    (_TOOK, ("generation time", "execution time", "load time", "render time", "query time")),
    # How long ago something was.
    (rf"\b{_ABOUT}{_AGO}WORD\b", (" ago",)),
    (r"\bWORD\b", ("just now", "moments ago", "a moment ago")),
    (rf"\bWORD{_DE}{_END}", ("vor ",)),
    (rf"\bWORD{_FR}{_END}", ("il y a ",)),
    (rf"\bWORD{_ES}{_END}", ("hace ",)),
    (rf"\bWORD{_PT}(?: atrás\b|{_END})", ("há ",)),
    (rf"\b{_PT}WORD\b", (" atrás",)),
    (rf"\b{_IT}WORD\b", (" fa",)),
    (rf"\b{_NL}WORD\b", (" geleden",)),
    (rf"\b{_PL}WORD\b", (" temu",)),
    (rf"\b{_RU}WORD\b", (" назад",)),
    (rf"\bför {_SV}WORD\b", (" sedan",)),
    (r"^\d{1,4} ?(?:秒|秒钟|分|分钟|分鐘|時間|小时|小時|日|天)WORD$", ("前",)),
    # How long it is still there, and when it comes. A number of days alone may be an offer
    # ("expires in 30 days"), so such a time has minutes or hours.
    (rf"\bWORD:? {_UNTIL_EN}", ("time left", "time remaining")),
    (rf"\b{_EN}WORD\b(?! (?:at|of|on|over|turn)\b)", (" left", " remaining")),
    (rf"\bWORD (?:{_UNTIL_EN}|\d{{1,4}} ?(?:seconds?|secs?)\b)",
     ("expires in", "expire in", "expiring in", "logged out in", "time out in", "times out in")),
    (rf"\bWORD {_UNTIL_EN}",
     ("ends in", "ending in", "closes in", "closing in", "starts in", "begins in", "resets in")),
    (rf"\bWORD{_DE}(?: übrig\b| verbleibend\b|{_END})", ("noch ",)),
    (rf"\bWORD {_SOON_DE}(?: ab\b)?", ("läuft in", "endet in", "beginnt in", "startet in")),
    (rf"\b(?:il )?WORD{_FR}{_END}", ("reste ",)),
    (rf"\bWORD {_SOON_FR}", ("expire dans", "se termine dans", "commence dans")),
    (rf"\bWORD{_ES}{_END}", ("quedan ", "queda ")),
    (rf"\bWORD {_SOON_ES}", ("expira en", "caduca en", "termina en", "empieza en")),
    # How often it was seen, and who is looking.
    (r"\bWORD: ?" + _NUMBER, ("views", "hits", "reads", "visits")),
    (f"^{_NUMBER} WORD$", ("views", "hits", "reads")),
    (rf"^(?:.{{0,40}}\b(?:has been|was) )?WORD {_NUMBER} times?\b", ("viewed", "accessed")),
    (rf"\b{_VISITORS}(?: and {_VISITORS})?(?: are| is)?(?: currently)? WORD\b(?: ?::.*)?",
     ("online", "browsing", "viewing")),
    (r"\bWORD .*", ("last visit was:", "you last visited:")),
    (r"^WORD \w+: .*", ("users browsing this",)),
    # Which request it was.
    (r"\bWORD\b[:#]? ?[0-9A-Za-z-]{8,}", ("request id", "trace id", "ray id", "session id")),
)
# fmt: on


class _Row(NamedTuple):
    """One word of the table, in small letters, and what the text around it must have at least."""

    word: str
    longest: str  #: part of it that has no blank
    pattern: str
    begins: bool  #: no letter or digit stands in front of it
    ends: bool  #: nor behind it
    has_figure: bool  #: a digit is in the line

    def may_be_at(self, text: str, at: int) -> bool:
        """Whether what stands around the word at this place of a text may match."""
        before, after = text[at - 1 : at], text[at + len(self.word) :][:1]
        return not (self.begins and _is_letter(before)) and not (self.ends and _is_letter(after))


def _is_letter(character: str) -> bool:
    r"""Whether ``\w`` matches."""
    return character.isalnum() or character == "_"


_ROWS = [
    _Row(
        word,
        max(word.split(), key=len),
        pattern.replace("WORD", word),
        begins=r"\bWORD" in pattern,
        ends=r"WORD\b" in pattern,
        has_figure=_CLOCK in pattern or _TOOK in pattern,
    )
    for pattern, words in _TABLE
    for word in words
]
_FIGURE = re.compile(r"\d")

MAX_SEARCHED = 200_000
"""Characters of one page that are searched, a line once for each word; later lines stay as they
are. No honest page has so many; a page made to be slow takes half a second."""


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    """Compile a row when the first page needs it: to compile all takes a fifth of a second."""
    return re.compile(pattern, re.IGNORECASE)


def rows() -> Iterator[tuple[str, re.Pattern[str]]]:
    """Yield every word of the table, in small letters, with its expression."""
    for row in _ROWS:
        yield row.word, _compiled(row.pattern)


def without_volatile(lines: list[str], words: Iterable[str]) -> list[str]:
    """Return the lines of a page with a blank in place of all text that changes by itself.

    *words* are the words of the lines, each at least once. The same list comes back if no line
    has a word of the table.
    """
    vocabulary = " ".join(words).lower()  # shorter than the text, in which words come again
    rows = [row for row in _ROWS if row.longest in vocabulary]
    if not rows:
        return lines
    found = _lines_with(rows, "\n".join(lines).lower())
    if not found:
        return lines
    left = MAX_SEARCHED
    result = list(lines)
    for at, number, may_match in sorted(found):
        row, line = rows[number], result[at]
        if len(line) > left:
            continue
        left -= len(line)
        # What an earlier row took from the line may have made room for a match.
        if line is not lines[at] or (may_match and (not row.has_figure or _FIGURE.search(line))):
            result[at] = _compiled(row.pattern).sub(" ", line)
    return result


def _lines_with(rows: list[_Row], text: str) -> list[tuple[int, int, bool]]:
    """Return each line with the word of a row: its number, that of the row, if it may match.

    A second place of the word in a line is not looked at: a page may be nothing but such words.
    """
    starts = list(accumulate((len(line) + 1 for line in text.split("\n")), initial=0))
    found = []
    for number, row in enumerate(rows):
        at = text.find(row.word)
        while at >= 0:
            line = bisect_right(starts, at)
            end = starts[line] - 1
            may_match = row.may_be_at(text, at) or text.find(row.word, at + 1, end) >= 0
            found.append((line - 1, number, may_match))
            at = text.find(row.word, end)
    return found
