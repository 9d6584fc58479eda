"""How likely an operation is right before the site has said anything.

Local evidence decides: with one prior for all, nearly the same rules are found on a site of a few
thousand URLs. On a small site a likely operation needs fewer witnesses. Names are listed by what
they do on the web at large (RFC 3986 knows none of them); none makes or forbids a rule.

Needed by app_doku (0.972 with this, 0.961 with 0.4 for everything). With 0.4 for everything other
logs gain, by exchanges of one value for another that seven contents carry in place of nine:
searches for two names of one author (app_gitweb), filters that both find nothing (app_shop), two
dialogs of one page (wordpress_share_guinn, where one page of the whole log refutes it). These are
coincidences of what the site holds today.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING
from urllib.parse import quote_plus

from scrapy_urlnorm.normalizer import Normalizer
from scrapy_urlnorm.rules.data import session_ids
from scrapy_urlnorm.site_rules.form import is_param, is_segment
from scrapy_urlnorm.site_rules.operations import (
    CatalogueRule,
    DropParam,
    EditValue,
    IgnoreValue,
    Operation,
    ParamToPath,
    PrefixAlias,
    Replace,
    StripSegment,
    StripTail,
)

if TYPE_CHECKING:
    from scrapy_urlnorm.site_rules.context import Context


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


#: Say how a page is shown, or what to do with it.
_DRESS = _words(
    """
    sort order sortby sort_by orderby order_by dir direction sd sk st asc desc sortorder c o
    print printable printer format view skin style theme template layout share reply replyto
    replytocom return returnto return_to redirect redirect_to redirect_url back back_url next
    continue referer referrer ref from highlight hl hilit
    """
)
#: Say where to go after a form.
_RETURN = _words(
    """
    return returnto returntoquery return_to returnurl return_url redirect redirect_to
    redirecturl redirect_url redirect_uri back back_url backurl next continue destination dest
    goto came_from referer referrer ref from url target source service ru
    """
)
#: Those of them that are never a date, a station, or a sender.
_RETURN_ALONE = _words("returnto returntoquery return_to returnurl return_url came_from backurl")
#: Say which page it is.
_SELECTING = _words(
    """
    id page p start offset limit q s search query lang language v title tid fid uid pid cid aid
    nid gid cat category cat_id item product oldid rev revision version h hb hash action do idx
    t f f1 name file path mode type year month day date cmd task op module tag topic
    """
)
#: Values that say "the first", "none" or "as usual" in any application.
NEUTRAL = frozenset(("", "0", "1", "-1", "all", "any", "none", "default", "null", "*"))
_FIRST = frozenset(("", "0", "1"))
_INDEX = frozenset(("index", "default", "home", "main", "welcome"))
#: How likely a parameter is noise: one that selects a page by its name, one of which nothing is
#: known, one that the catalogue lists, one that says how a page is shown. These and the numbers
#: below are choices, ordered as the logs are; all of them at 0.4 change little (see above).
_SELECTS, _OTHER, _LISTED, _DRESSED = 0.15, 0.4, 0.95, 0.6
_SEGMENT = 0.08
_OF_EDITS = {"lowercase-first": 0.5, "sort-parts": 0.15}
_PATH_KINDS = (StripSegment, ParamToPath, PrefixAlias)
_OF_OTHERS = 0.3
_OF_SLOTS = {"scheme": 0.8, "host": 0.7, "slash": 0.5, "?": _OTHER, "sep": _OTHER}
#: Of parameters that, by their names or their values, say where to go after a form.
RETURNS = _DRESSED


def exchanges_values(op: Operation) -> bool:
    """Whether one value of a parameter is taken for another, or for none; not "as usual"."""
    if not isinstance(op, Replace) or not any(is_param(name) for name, _ in op.old + op.new):
        return False
    return not (op.is_default and all(value in NEUTRAL for _, value in op.old))


def returns(name: str, *, alone: bool) -> bool:
    """Whether a parameter by its name says where to go afterwards, as log-in links have it.

    *alone*: whatever its values are.
    """
    return name.lower() in (_RETURN_ALONE if alone else _RETURN)


def selects(name: str) -> bool:
    """Whether a parameter by its name says which page it is."""
    return _of_name(name) == _SELECTS


def prior(op: Operation, context: Context = ()) -> float:
    """Return the probability that *op* is right on a site, in this context."""
    return _of_operation(op) / (1 + 0.5 * len(context))


@lru_cache(maxsize=65_536)
def _of_operation(op: Operation) -> float:
    if isinstance(op, DropParam):
        return min(_of_slot(name) for name in op.names)
    if isinstance(op, StripSegment) and op.names:
        return _SEGMENT
    if isinstance(op, IgnoreValue):
        return min(_of_slot(name) for name in op.names) / 2
    if isinstance(op, Replace):
        return _of_exchange(op)
    if isinstance(op, StripTail):
        is_index = len(op.last) == 1 and op.last[0].lower().partition(".")[0] in _INDEX
        return 0.7 if is_index else 0.4
    if isinstance(op, EditValue):
        return _OF_EDITS.get(op.edit, _OF_OTHERS)
    if isinstance(op, CatalogueRule):
        return 0.5 if op.name == "lowercase-path" else 0.4
    return 0.4 if isinstance(op, _PATH_KINDS) else _OF_OTHERS


def _of_exchange(op: Replace) -> float:
    names = {name for name, _ in op.old + op.new}
    if names <= {"scheme", "host"}:
        return 0.8
    if any(is_segment(name) for name, _ in op.old):
        return 0.4
    if op.new:
        return 0.4 if all(_of_slot(name) >= _DRESSED for name in names) else 0.3
    return 0.5 if all(value in _FIRST for _, value in op.old) else 0.4


def _of_slot(name: str) -> float:
    if is_segment(name):
        return _SEGMENT
    return _OF_SLOTS.get(name) or _of_name(name[2:])


@lru_cache(maxsize=65_536)
def _of_name(name: str) -> float:
    if is_listed(name):
        return _LISTED
    lowered = name.lower()
    if lowered in _DRESS:
        return _DRESSED
    return _SELECTS if lowered in _SELECTING else _OTHER


@lru_cache(maxsize=65_536)
def is_listed(name: str) -> bool:
    """Whether the catalogue has the name among its tracking and session parameters."""
    # One letter is a session only by its value: "s" is a search nearly everywhere else.
    if len(name) > 1 and is_session(name):
        return True
    probe = f"http://h.example/?{quote_plus(name, errors='surrogateescape')}=1"
    return _catalogue().normalize(probe) == "http://h.example/"


def is_session(name: str) -> bool:
    """Whether the catalogue may take a parameter for a session, by its name and its value."""
    lowered, (names, stems) = name.lower(), _session_names()
    return lowered in names or lowered.startswith(stems)


@lru_cache(maxsize=1)
def _session_names() -> tuple[frozenset[str], tuple[str, ...]]:
    """Return the names of the list, and what names of sessions begin with."""
    names = [row.name.lower() for row in session_ids() if row.kind == "query"]
    stems = tuple(name[:-1] for name in names if name[-1:] == "*")
    return frozenset(name for name in names if name[-1:] != "*"), stems


@lru_cache(maxsize=1)
def _catalogue() -> Normalizer:
    return Normalizer("default", {"drop-params": "likely"})
