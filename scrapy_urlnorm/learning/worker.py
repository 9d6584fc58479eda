"""A process of its own that mines sites for a running crawl: `main` is its program.

Jobs come in on stdin, answers go out on stdout: four bytes with a length, then a pickle. The
process ends at the end of its input, so it never outlives the crawl that started it. It is
started as a program, not with `multiprocessing`: that would run the user's script a second time.
"""

from __future__ import annotations

import os
import pickle
import sys
from time import process_time
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from scrapy_urlnorm.learning import catalogue
from scrapy_urlnorm.learning.directions import as_redirected
from scrapy_urlnorm.learning.mining import survey
from scrapy_urlnorm.learning.on_files import OnFiles, on_files, with_note
from scrapy_urlnorm.learning.shown import Pair, shown
from scrapy_urlnorm.logs.observation import Observation

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from scrapy_urlnorm.site_rules import SiteRule

_LENGTH_BYTES = 4
#: What the content of a row begins with that is no HTML.
OF_FILE = "file "


class Job(NamedTuple):
    """The rows of one site (URL, status, content, target), and its rules in force."""

    site: str
    rows: Sequence[tuple[str, int, str | None, str | None]]
    accepted: tuple[SiteRule, ...]
    banned: dict[str, int]


class Mined(NamedTuple):
    """The rules of a site after mining, or what went wrong."""

    site: str
    rules: tuple[SiteRule, ...]
    seconds: float  #: of processor time
    error: str | None = None
    on_files: Mapping[str, OnFiles] = {}  #: by identity: what files say about the rules
    shown: Mapping[str, tuple[Pair, ...]] = {}  #: by identity: equal pages of each kind


def mined(job: Job) -> Mined:
    """Learn the rules of one site. Nothing is raised."""
    start = process_time()
    try:
        rows = [_observation(*row) for row in job.rows]
        rules = _mine(job, rows)
        files = on_files(rules, rows)
        rules = tuple(with_note(rule, files.get(rule.identity)) for rule in rules)
        known = {rule.identity for rule in job.accepted}
        pairs = shown(rules, rows, without=known)
    except Exception as error:  # noqa: BLE001 - whatever it is, the crawl has to go on
        return Mined(job.site, (), process_time() - start, repr(error))
    return Mined(job.site, rules, process_time() - start, on_files=files, shown=pairs)


def _observation(url: str, status: int, content: str | None, target: str | None) -> Observation:
    mime = "" if content is not None and content.startswith(OF_FILE) else None
    return Observation(url, status, content, location=target, mime=mime)


def _mine(job: Job, rows: Sequence[Observation]) -> tuple[SiteRule, ...]:
    reports = survey(rows, accepted=job.accepted, banned=job.banned, wary=True)
    found = (rule for report in reports for rule in report.active)
    # Pages that the catalogue takes for one are fetched once: too late to tell them apart.
    rules = [rule for rule in found if not catalogue.is_exception(rule)]
    return as_redirected(rules, rows)


def send(pipe: IO[bytes], message: object) -> None:
    """Write one message."""
    data = pickle.dumps(message, protocol=4)
    pipe.write(len(data).to_bytes(_LENGTH_BYTES, "big") + data)
    pipe.flush()


def receive(pipe: IO[bytes]) -> Any:
    """Read one message. Raises `EOFError` at the end of the pipe."""
    length = int.from_bytes(_exactly(pipe, _LENGTH_BYTES), "big")
    return pickle.loads(_exactly(pipe, length))


def _exactly(pipe: IO[bytes], size: int) -> bytes:
    data = pipe.read(size)
    if len(data) < size:
        raise EOFError("the other end has closed the pipe")
    return data


def main() -> None:
    """Answer jobs until there are no more."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what anything prints is no answer
    while True:
        try:
            job = receive(sys.stdin.buffer)
        except EOFError:
            return
        try:
            send(answers, mined(job))
        except BrokenPipeError:
            return
