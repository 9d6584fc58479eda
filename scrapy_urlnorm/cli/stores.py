"""Verbs on seen-sets: rekey builds one from crawl logs, import-seen takes over Scrapy's own."""

from __future__ import annotations

import re
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING

from ..exceptions import MissingExtraError
from ..normalizer import KEY_VERSION, Normalizer
from ..stores import open_store
from .learn import Logs, add_logs
from .verb import YES, Progress, UsageError, Verb, add_normalizer, build_normalizer, say

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Iterator

    from .verb import Project

STOCK_FINGERPRINTER = "scrapy.utils.request.RequestFingerprinter"

NEEDED = ("sort-query", "remove-fragment", "form-encode-query", "decode-path-reserved")
"""Rules without which two URLs that Scrapy merges may be two for us."""

_HEX_LINES = re.compile(rb"(?:[0-9a-f]+\r?\n)*[0-9a-f]*")
_SIZE_BYTES = 2  # in front of each fingerprint
_SHA1_BYTES = 20


def _add_store(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--store",
        metavar="SPEC",
        help="the store to fill: file:PATH, lmdb:PATH or redis://... (in a project: its own)",
    )
    parser.add_argument(
        "--spider", metavar="NAME", help="whose store it is: stands in the prefix of one in Redis"
    )


def _fill(args: argparse.Namespace, normalizer: Normalizer, keys: Iterable[bytes]) -> int:
    """Add the keys to the store that was asked for; return how many were new."""
    project: Project | None = args.project
    spec = args.store or (project.store if project else "memory")
    if spec == "memory":
        raise UsageError("name the store to fill with --store, such as file:PATH")
    store = open_store(
        spec,
        digest=normalizer.digest,
        key_version=KEY_VERSION,
        jobdir=project.jobdir if project else None,
        spider=args.spider,
        **(project.store_options if project and not args.store else {}),
    )
    rest = iter(keys)
    first = list(islice(rest, 1))  # what cannot be read shall not leave an empty store
    store.open()
    try:
        return sum(store.add(key) for key in chain(first, rest))
    finally:
        store.close()


def _add_rekey_arguments(parser: argparse.ArgumentParser) -> None:
    add_logs(parser)
    _add_store(parser)
    add_normalizer(parser)


def _rekey(args: argparse.Namespace) -> int:
    from ..fingerprinter import UrlNormRequestFingerprinter  # it needs Scrapy, the others do not

    project: Project | None = args.project
    if project is not None and project.fingerprinter != STOCK_FINGERPRINTER:
        raise UsageError(
            f"the fingerprints of this project are made by {project.fingerprinter}; only those of "
            f"{STOCK_FINGERPRINTER} follow from a URL alone"
        )
    normalizer = build_normalizer(args)
    fingerprint = UrlNormRequestFingerprinter(normalizer).fingerprint_of
    logs = Logs(args)
    new = _fill(args, normalizer, (fingerprint(row.url) for row in logs))
    say(
        f"{logs.rows:,} rows, {new:,} new keys. Requests that still wait in a queue are in no log: "
        "their pages may be fetched twice."
    )
    return YES


def _add_import_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "seen", metavar="SEEN", help="requests.seen of a JOBDIR, or redis://... of scrapy-redis"
    )
    parser.add_argument(
        "--key", metavar="NAME", help="the key of scrapy-redis's set, such as SPIDER:dupefilter"
    )
    parser.add_argument(
        "--check",
        metavar="URL",
        help="a URL that was crawled, by GET: refuse unless its fingerprint is among them "
        "(needed for scrapy-redis)",
    )
    _add_store(parser)
    add_normalizer(parser)


def _import_seen(args: argparse.Namespace) -> int:
    normalizer = build_normalizer(args)
    missing = [rule for rule in NEEDED if rule not in normalizer.rules]
    if missing:
        raise UsageError(
            f"Scrapy merged URLs that these rules keep apart ({', '.join(missing)} off): pages "
            "would be taken for seen that are not. Build the store from a crawl log with rekey"
        )
    if args.seen.startswith(("redis://", "rediss://", "unix://")):
        keys = _of_scrapy_redis(args.seen, args.key, args.check)
    else:
        keys = _of_jobdir(args.seen)
        if args.check:
            fingerprints = list(keys)
            _require(_stock_fingerprint(args.check) in fingerprints, args.check)
            keys = iter(fingerprints)
    progress = Progress("fingerprints")
    new = _fill(args, normalizer, progress.over(keys))
    say(
        f"{progress.count:,} fingerprints, {new:,} of them new. They hold for URLs whose "
        "normalized form is the one that Scrapy makes; pages behind other URLs (tracking "
        "parameters, session ids, site rules) are fetched once more."
    )
    return YES


def _stock_fingerprint(url: str) -> bytes:
    from scrapy import Request
    from scrapy.utils.request import fingerprint

    return fingerprint(Request(url))


def _require(is_there: bool, url: str) -> None:
    if not is_there:
        raise UsageError(
            f"the fingerprint that {STOCK_FINGERPRINTER} makes of {url!r} is not there: that URL "
            "was not crawled, or the fingerprints are others and mean nothing here. Those of "
            "scrapy-redis's own dupefilter and of REQUEST_FINGERPRINTER_IMPLEMENTATION = '2.6' "
            "are others. Build the store from a crawl log with rekey"
        )


def _of_jobdir(path: str) -> Iterator[bytes]:
    """Read what RFPDupeFilter wrote: hexadecimal lines, since Scrapy 2.19 size and bytes.

    What a killed crawl left half written at the end is passed over, as Scrapy does.
    """
    data = Path(path).read_bytes()
    if b"urlnorm" in data[:64]:  # the header of ours
        raise UsageError(f"{path} is a store of this package already")
    if _HEX_LINES.fullmatch(data):
        found = [bytes.fromhex(line.decode()) for line in data.split() if len(line) % 2 == 0]
    else:
        found = list(_sized(data))
    if found and len(found[-1]) < _SHA1_BYTES:
        found.pop()
    if not found or any(len(fingerprint) != _SHA1_BYTES for fingerprint in found):
        raise UsageError(f"{path} does not hold the fingerprints that {STOCK_FINGERPRINTER} makes")
    yield from found


def _sized(data: bytes) -> Iterator[bytes]:
    at = 0
    while at + _SIZE_BYTES <= len(data):
        end = at + _SIZE_BYTES + int.from_bytes(data[at : at + _SIZE_BYTES], "big")
        yield data[at + _SIZE_BYTES : end]
        at = end


def _of_scrapy_redis(url: str, key: str | None, known: str | None) -> Iterator[bytes]:
    """Read the members of a set in Redis.

    scrapy-redis's own dupefilter hashes other data than Scrapy (no headers), and a hash cannot be
    turned into another: its set is of use only where a subclass asks Scrapy's fingerprinter.
    *known* tells the two apart.
    """
    if not key:
        raise UsageError("name the set of scrapy-redis with --key, such as SPIDER:dupefilter")
    if not known:
        raise UsageError(
            "name a URL that was crawled with --check: scrapy-redis's own dupefilter makes other "
            "fingerprints than Scrapy, with which every page would be fetched again"
        )
    try:
        import redis
    except ImportError:
        raise MissingExtraError("redis", "redis", "reading scrapy-redis's set") from None
    try:
        server = redis.Redis.from_url(url)
        _require(bool(server.sismember(key, _stock_fingerprint(known).hex())), known)
        for member in server.sscan_iter(key, count=1000):
            yield bytes.fromhex(member.decode("ascii"))
    except ValueError:
        raise UsageError(f"{key} holds other things than scrapy-redis's fingerprints") from None
    except redis.RedisError as error:
        raise UsageError(f"{url}: {error}") from error


VERBS = (
    Verb(
        "rekey",
        "build a seen-set from crawl logs, for other rules",
        "Make the keys of every URL of the logs under the rules given and put them into a new "
        "store: the way on when rules have changed and a store is refused. The old store must "
        "be out of the way.",
        "rekey crawl.jsonl.gz --site-rules rules.toml --store file:crawl/urlnorm.seen",
        _add_rekey_arguments,
        _rekey,
    ),
    Verb(
        "import-seen",
        "take over the seen-set of stock Scrapy or scrapy-redis",
        "Put the fingerprints of a requests.seen file or of scrapy-redis's set into a store. They "
        "are hashes, so they hold only where the rules change nothing, and only if Scrapy's "
        "fingerprinter made them: scrapy-redis's own dupefilter makes others. From a crawl log, "
        "rekey does better.",
        "import-seen crawl/requests.seen --store file:crawl/urlnorm.seen",
        _add_import_arguments,
        _import_seen,
    ),
)
