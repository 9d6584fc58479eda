"""What a crawl and the process that mines for it tell each other. `mined.main` is its program.

Jobs come in on stdin, answers go out on stdout, as pickles. The process ends at the end of its
input, so it never outlives the crawl that started it. It is started as a program, not with
`multiprocessing`: that would run the user's script a second time.
The crawl imports this module, and `mined` only where it mines a small site by itself.
"""

from __future__ import annotations

import pickle
from typing import IO, TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from scrapy_urlnorm.learning.media import OnFiles
    from scrapy_urlnorm.learning.strata import Pair
    from scrapy_urlnorm.site_rules import SiteRule


#: Statuses of redirects that are kept.
PERMANENT = frozenset((301, 308))


class Job(NamedTuple):
    """The rows of one site, its rules in force, and what robots.txt proposes.

    A row is a URL, its status, content and target. Served pages without a content are compared with
    none. If not *contents*, only redirects teach, and contents the *candidates* of robots.txt.
    """

    site: str
    rows: Sequence[tuple[str, int, str | None, str | None]]
    accepted: tuple[SiteRule, ...]
    banned: dict[str, int]  #: by the identity of a refuted rule: the witnesses it needs now
    candidates: Sequence[SiteRule] = ()
    contents: bool = True
    others: Mapping[str, str] = {}  #: by the URL of a page that of another, as verdicts found


class Mined(NamedTuple):
    """The rules of a site after mining, or what went wrong."""

    site: str
    rules: tuple[SiteRule, ...]
    error: str | None = None
    on_files: Mapping[str, OnFiles] = {}  #: by identity: what files say about the rules
    shown: Mapping[str, tuple[Pair, ...]] = {}  #: by identity: equal pages of each kind
    in_doubt: Sequence[tuple[str, str]] = ()  #: pairs of URLs whose difference keeps rules out


def send(pipe: IO[bytes], message: object) -> None:
    pipe.write(pickle.dumps(message, protocol=4))
    pipe.flush()


def receive(pipe: IO[bytes]) -> Any:
    """Read one message. Raises `EOFError` at the end of the pipe."""
    try:
        return pickle.load(pipe)
    except pickle.UnpicklingError:  # in the middle of a message
        raise EOFError("the other end has closed the pipe") from None
