"""Pages, files and walls: what the content of a row is of.

Files are documents, feeds, pictures: what is no HTML is known by its bytes, a stricter name than the
text of a page. In a table to download, another order is another content; a style sheet may hold the
name of its host. And a parameter that means nothing to a few pictures may mean much to pages. So
pages decide, and files have a voice only together: for a rule and against it. Before that they can
only have it keep away from them (`cover.apart`).

Walls ask for a password. ``/newreply.php?tid=7`` shows a visitor the same login page for every
thread. All of it is one content, and so one vote, and a site that is down for a while shows one
content too. What tells a *door* is that it asks for a password, and that it stands at every URL of
its form. So it is believed in a crawl, where other rules of one content are not; it represents no
URL but those of its rule, and the first audit that finds another page opens it.

There are *doors* without a password, too: a visitor who may not edit gets one page at
``/ANY?action=edit`` and ``/ANY?action=subscribe``. An empty day, or a search that finds nothing,
stands at some URLs of one form, beside others of it that show more. So a door stands at *every* URL
of its form, and at more than one form; or at one that looks like an act or a login, which shows a
visitor nothing else. A site that is down shows one page everywhere: a door stands beside as many
pages that are none.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, NamedTuple

from scrapy_urlnorm.url import split

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

#: What the content of a row begins with, in a crawl, that is no HTML, or asks for a password.
OF_FILE, OF_WALL = "file ", "wall "
#: The notes of a rule that files alone have proved, and of one for a door. They go with the rule to
#: the next crawl.
FILES_ALONE = "files alone agree: it says nothing of pages"
DOOR = "a door: each of these URLs asks for a password"
#: The number of a content that is no HTML is this one or above.
FIRST_FILE = 1 << 32
#: So many of them have to agree (a choice: twice what a parameter needs of which nothing is known).
ENOUGH_FILES = 24
#: URLs of a form that show one page, and forms, that make it a door (choices).
_URLS, _FORMS = 20, 2
#: A text in a URL is one of its form where one in so many URLs has it (a choice).
_ONE_IN = 50
#: What an address that changes something is called: to log out, to vote, to add to a basket.
_ACT = re.compile(
    r"(?:^|[^a-z])(?:log-?_?(?:out|off)|sign-?_?(?:out|off)|exit|delete|remove|destroy|erase|trash"
    r"|vote|rate|like|dislike|follow|unfollow|(?:un)?subscribe|add|buy|order(?!=)|checkout|basket"
    r"|cart|mark|read=|confirm|accept|approve|reject|report|send|submit|post=(?!\d)|edit|update"
    r"|save|create|reset|cancel|ban|lock|move|merge|upload|watch|unwatch|favou?rite|download)(?:[^a-z]|$)",
    re.IGNORECASE,
)
#: What a place is called at which visitors say who they are.
_LOGIN = re.compile(
    r"(?:\b|_|user)(?:log-?_?[io]n|sign-?_?(?:in|up|on)|register|registration)(?:\b|_)",
    re.IGNORECASE,
)
#: A parameter that makes a link good for a while only.
_EXPIRING = re.compile(
    r"[?&;][a-z_.-]*(?:token|nonce|ticket|signature|expires?|once)=[^&;#]{8,}", re.IGNORECASE
)


class OnFiles(NamedTuple):
    agree: int = 0  #: contents that are under several URLs which the rule makes one
    differ: int = 0  #: groups of URLs which it makes one, and which have several contents
    is_alone: bool = False  #: whether without files the rule would not be proved


def is_file(content: int) -> bool:
    return content >= FIRST_FILE


def voices(contents: Collection[int]) -> int:
    """Return how many of *contents* have a voice."""
    files = sum(map(is_file, contents))
    return len(contents) - files if files < ENOUGH_FILES else len(contents)


def support_of(votes: Mapping[int, float]) -> float:
    files = [vote for content, vote in votes.items() if is_file(content)]
    support = sum(votes.values())
    return support - sum(files) if len(files) < ENOUGH_FILES else support


# --- doors without a password ------------------------------------------------------------------


def looks_like_an_act(url: str) -> bool:
    """Return whether to ask for *url* may change something on the site."""
    return _ACT.search(url.partition("//")[2].partition("/")[2]) is not None


def may_expire(url: str) -> bool:
    """Return whether *url* may be good only until the page that links to it is shown again."""
    return _EXPIRING.search(url) is not None and not looks_like_an_act(url)


def doors(pages: Sequence[tuple[str, str]]) -> set[str]:
    """Return the contents that are doors, of URLs and their contents."""
    sizes = Counter(content for _, content in pages)
    if not any(_URLS <= size <= len(pages) / 2 for size in sizes.values()):
        return set()
    told = {url: _texts(url) for url, _ in pages}
    counts = Counter(text for texts in told.values() for text in texts)
    least = max(_URLS, len(told) // _ONE_IN)
    contents: defaultdict[tuple[str, ...], set[str]] = defaultdict(set)
    urls: defaultdict[tuple[str, ...], set[str]] = defaultdict(set)
    for url, content in pages:
        form = tuple(
            text if counts[text] >= least else text.partition("=")[0] for text in told[url]
        )
        contents[form].add(content)
        urls[form].add(url)
    forms: defaultdict[str, list[tuple[str, ...]]] = defaultdict(list)
    for form, found in contents.items():
        if len(found) == 1 and len(urls[form]) >= _URLS:
            forms[next(iter(found))].append(form)
    return {
        content
        for content, of in forms.items()
        if sizes[content] <= len(pages) / 2
        and (
            len(of) >= _FORMS
            or _LOGIN.search(" ".join(of[0][1:]))  # not the host
            or all(map(looks_like_an_act, urls[of[0]]))
        )
    }


def _texts(url: str) -> tuple[str, ...]:
    """Return host, segments and parameters of *url* as NAME=VALUE, without values with digits."""
    parts = split(url)
    texts = [f"{at}={folder}" for at, folder in enumerate(parts.path.split("/"))]
    texts += sorted(re.split("[&;]", parts.query or ""))
    return (parts.host or "", *(re.sub(r"=.*\d.*", "=", text) for text in texts))
