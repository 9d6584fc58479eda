"""``Clean-param``: what a site says in robots.txt of parameters that do not change its pages.

The syntax is that of Yandex (https://yandex.com/support/webmaster/robot-workings/clean-param)::

    Clean-param: sid&ref /catalogue/

The parameters are joined by ``&``. The prefix of a path may follow, in which ``*`` is any text and
``$`` the end. The line holds for the whole file, in whatever group of a User-agent it stands. A
site may be mistaken, so each parameter is only a candidate for a rule: a few contents must agree
(`proven`). A rule that a person, or a log, proposes needs that as well.
"""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING
from urllib.parse import unquote

from scrapy_urlnorm.exceptions import SiteRuleError
from scrapy_urlnorm.learning.corpus import plain_key, slots_of
from scrapy_urlnorm.learning.priors import prior
from scrapy_urlnorm.learning.risk import support_needed
from scrapy_urlnorm.learning.rules import reaches, settle
from scrapy_urlnorm.site_rules import SiteRule

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from scrapy_urlnorm.logs.observation import Observation
    from scrapy_urlnorm.site_rules.form import Slots

#: Contents that must agree with a candidate of robots.txt (a choice: the site says that it is right).
NEEDED = 3
_RISK = 0.02  #: with which another candidate is accepted, as the miner accepts its own rules
#: What is read of a file, in bytes; Yandex takes files of 500 KB.
MAX_BYTES = 512_000
#: Characters of one line; Yandex reads as many. A longer line is left out.
MAX_LINE = 500
#: Candidates of one file; further ones are left out.
MAX_CANDIDATES = 100
_EXAMPLES = 3
_LINE = re.compile(r"[ \t]*clean-param[ \t]*:([^#]*)", re.IGNORECASE)
_LINE_END = re.compile(r"[\r\n]+")
#: The wildcards that a segment of a rule's path may hold.
_ANY_SEGMENT = re.compile(r"\*(\.[^*#]+)?")


def clean_params(robots_txt: bytes, host: str) -> list[SiteRule]:
    """Return a proposed ``drop-param`` rule for each parameter and prefix that the file names.

    *host* is the host that served it. What cannot be read, or cannot be said in a rule, is left
    out. Never raises.
    """
    found: dict[str, SiteRule] = {}
    for name, path in _params(robots_txt):
        if len(found) >= MAX_CANDIDATES:
            break
        try:
            rule = SiteRule(
                site=host,
                kind="drop-param",
                param=unquote(name),
                path=path or None,
                status="proposed",
                source="robots",
            )
        except SiteRuleError:
            continue
        found[rule.identity] = rule
    return list(found.values())


def _params(robots_txt: bytes) -> Iterator[tuple[str, str]]:
    text = robots_txt[:MAX_BYTES].decode("utf-8", "replace").removeprefix("\ufeff")
    for line in _LINE_END.split(text):
        match = _LINE.match(line) if len(line) <= MAX_LINE else None
        words = match[1].split() if match else []
        path = path_of(words[1] if len(words) == 2 else "")
        if len(words) in (1, 2) and path is not None:
            # A name with a value or a wildcard is nothing that the syntax knows.
            names = (name for name in words[0].split("&") if name and not set(name) & set("=*?"))
            yield from ((name, path) for name in names)


def path_of(prefix: str) -> str | None:
    """Return the path of a rule for all that begins with *prefix*; "" if that is everything.

    It holds for fewer paths where a rule cannot say the same: ``/a`` becomes ``/a/**``, which
    leaves out ``/ab``. Only ``/a/`` takes in one path more, ``/a``. ``None`` for a prefix with a
    wildcard in the middle of a segment, with a query, or that is no prefix.
    """
    is_whole = prefix.endswith("$")
    prefix = prefix[:-1] if is_whole else prefix.rstrip("*")
    if "?" in prefix or "$" in prefix or len(prefix) > MAX_LINE:
        return None
    if prefix in ("", "/") and not is_whole:
        return ""
    is_anywhere = prefix.startswith("*")
    if is_anywhere:
        prefix = prefix.lstrip("*")
        prefix = f"/*{prefix}" if prefix.startswith(".") else prefix
    if not prefix.startswith("/"):
        return None
    segments = prefix[1:].split("/")
    ends_in_slash = segments[-1] == ""
    if ends_in_slash:
        del segments[-1]
    if any("*" in each and not _ANY_SEGMENT.fullmatch(each) for each in segments):
        return None
    if is_anywhere:  # a rule can leave out the beginning or the end
        segments.insert(0, "**")
    elif not is_whole:
        segments.append("**")
        ends_in_slash = False
    return "/" + "/".join(segments) + ("/" if ends_in_slash and segments else "")


#: The URL of a page as slots, the name of its content, the URL.
_Page = tuple["Slots", str, str]


def proven(rules: Iterable[SiteRule], rows: Iterable[Observation]) -> list[SiteRule]:
    """Return those of *rules* that are active, or that the contents of pages in *rows* prove.

    A rule that any two pages refute is left out. A page is compared with the first one that all rules
    together make the same URL.
    """
    found = {rule.identity: rule for rule in rules}
    if not found:
        return []
    pages: list[_Page] = [
        (slots, row.content, row.url)
        for row in rows
        if row.is_page and row.content is not None and not row.is_file
        if (slots := slots_of(plain_key(row.url))) is not None
    ]
    while True:
        agree, wrong = _compared(found.values(), pages)
        if not wrong:
            break
        found = {identity: rule for identity, rule in found.items() if identity not in wrong}
    for identity, rule in found.items():
        pairs, source, needed = tuple(agree[identity].values()), "robots", NEEDED
        if rule.source != "robots":  # somebody names its file in the settings
            source, needed = "user", support_needed(prior(rule.operation, rule.context), _RISK)
        if not rule.active and len(pairs) >= needed:
            evidence = {"support": len(pairs), "conflicts": 0, "examples": pairs[:_EXAMPLES]}
            found[identity] = rule.replace(status="active", source=source, **evidence)
    return [rule for rule in found.values() if rule.active]


def _compared(
    rules: Iterable[SiteRule], pages: Iterable[_Page]
) -> tuple[defaultdict[str, dict[str, tuple[str, str]]], set[str]]:
    """Return by rule a pair of URLs for each content that agrees, and the rules that are wrong."""
    names = {name for rule in rules for name in rule.operation.slots}
    by_host: dict[str, list[SiteRule]] = {}
    agree: defaultdict[str, dict[str, tuple[str, str]]] = defaultdict(dict)
    wrong: set[str] = set()
    first: dict[frozenset[tuple[str, str]], _Page] = {}
    for page in pages:
        slots, content, url = page
        host = slots["host"]
        if host not in by_host:
            by_host[host] = [rule for rule in rules if reaches(rule.site, host)]
        known = by_host[host]
        form = slots if names.isdisjoint(slots) else settle(slots, known)
        other, same, twin = first.setdefault(frozenset(form.items()), page)
        differing = {name for name in names if other.get(name) != slots.get(name)}
        for rule in known if differing else ():
            acts = rule.image(slots) is not None or rule.image(other) is not None
            if acts and not differing.isdisjoint(rule.operation.slots):
                if content == same:
                    agree[rule.identity].setdefault(content, (url, twin))
                else:
                    wrong.add(rule.identity)  # any of those concerned may be wrong
    return agree, wrong
