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

from scrapy_urlnorm.learning import catalogue, robots
from scrapy_urlnorm.learning.doors import with_doors
from scrapy_urlnorm.learning.in_force import joined
from scrapy_urlnorm.learning.mining import survey
from scrapy_urlnorm.learning.on_files import OnFiles, on_files, with_note
from scrapy_urlnorm.learning.redirects import PERMANENT, are_proof, judged, single_steps
from scrapy_urlnorm.learning.shown import Pair, shown
from scrapy_urlnorm.logs.observation import Observation
from scrapy_urlnorm.normalizer import Normalizer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from scrapy_urlnorm.site_rules import SiteRule

_LENGTH_BYTES = 4
#: What the content of a row begins with that is no HTML.
OF_FILE = "file "
_PLAIN = Normalizer("default")


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


class Mined(NamedTuple):
    """The rules of a site after mining, or what went wrong."""

    site: str
    rules: tuple[SiteRule, ...]
    seconds: float  #: of processor time
    error: str | None = None
    on_files: Mapping[str, OnFiles] = {}  #: by identity: what files say about the rules
    shown: Mapping[str, tuple[Pair, ...]] = {}  #: by identity: equal pages of each kind


def mined(job: Job) -> Mined:
    """Learn the rules of one site. Nothing is raised.

    A hundred rows take 10 to 50 ms: a crawl may call it by itself, as soon as a few redirects came.
    """
    start = process_time()
    try:
        rows = [_observation(*row) for row in job.rows if row[3] is None or row[1] in PERMANENT]
        rules = _mine(job, rows)
        files = on_files(rules, rows)
        rules = with_doors((with_note(rule, files.get(rule.identity)) for rule in rules), rows)
        known = {rule.identity for rule in job.accepted}
        pairs = shown(rules, rows, without=known)
    except Exception as error:  # noqa: BLE001 - whatever it is, the crawl has to go on
        return Mined(job.site, (), process_time() - start, repr(error))
    return Mined(job.site, rules, process_time() - start, on_files=files, shown=pairs)


def _observation(url: str, status: int, content: str | None, target: str | None) -> Observation:
    mime = "" if content is not None and content.startswith(OF_FILE) else None
    return Observation(url, status, content, location=target, mime=mime)


def _mine(job: Job, rows: Sequence[Observation]) -> tuple[SiteRule, ...]:
    declared = [rule for rule in job.accepted if rule.source == "robots"]
    others = tuple(rule for rule in job.accepted if rule.source != "robots")
    evidence = rows if job.contents else list(map(_by_its_url, rows))
    rules, against = _found(job, others, evidence)
    if against:
        rules, _ = _found(job, others, [*evidence, *against])
    if not job.contents or not any(row.is_page for row in rows):
        known = {rule.identity for rule in others}
        rules = tuple(
            rule
            for rule in rules
            if rule.identity in known or (rule.source == "redirect" and are_proof(rule))
        )
    return tuple(joined(robots.proven([*declared, *job.candidates], rows), rules, job.banned))


def _by_its_url(row: Observation) -> Observation:
    """Return a row whose content is that of no other page, but of what the catalogue merges."""
    if row.location is not None or row.status is None or not 200 <= row.status < 300:
        return row
    return row._replace(status=200, content=_PLAIN.normalize(row.url), mime=None)


def _found(
    job: Job, accepted: tuple[SiteRule, ...], rows: Sequence[Observation]
) -> tuple[tuple[SiteRule, ...], list[Observation]]:
    noise = 0.001 if job.contents else 0.0
    reports = survey(
        single_steps(rows), accepted=accepted, banned=job.banned, wary=True, noise=noise
    )
    found = (rule for report in reports for rule in report.active)
    # Pages that the catalogue takes for one are fetched once: too late to tell them apart.
    return judged([rule for rule in found if not catalogue.is_exception(rule)], rows)


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
