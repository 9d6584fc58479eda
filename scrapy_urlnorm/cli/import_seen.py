"""The verb import-seen: takes over the seen-set of stock Scrapy or of scrapy-redis.

Both keep hashes of URLs. With a list of URLs, the verb finds out which of them were seen and makes
their keys, under any rules. Without a list, it takes the hashes themselves for keys, which holds
for URLs that the rules do not change.
"""

from __future__ import annotations

import json
import re
from hashlib import sha1
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from scrapy_urlnorm.cli.crawl_logs import Logs, add_log_options
from scrapy_urlnorm.cli.stores import add_store, fill, keys_of, new_store
from scrapy_urlnorm.cli.verb import (
    YES,
    Progress,
    UsageError,
    Verb,
    add_normalizer,
    build_normalizer,
    say,
)
from scrapy_urlnorm.exceptions import MissingExtraError, naming
from scrapy_urlnorm.fingerprints import STOCK_FINGERPRINTER
from scrapy_urlnorm.logs.source import url_of
from scrapy_urlnorm.stores import MemorySeen
from scrapy_urlnorm.text import counted

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator, Sequence

    from scrapy_urlnorm.normalizer import Normalizer
    from scrapy_urlnorm.stores import Seen

NEEDED = ("sort-query", "remove-fragment", "form-encode-query", "decode-path-reserved")
"""Without these rules two URLs that Scrapy merges may have two keys."""

_HEX_LINES = re.compile(rb"(?:[0-9a-f]+\r?\n)*[0-9a-f]*")
_SIZE_BYTES = 2  # in front of each fingerprint
_SHA1_BYTES = 20
_BATCH = 1000  # URLs asked for at once


class OldSeen(Protocol):
    """A seen-set that another dupefilter wrote."""

    name: str

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[bytes]: ...

    def which(self, fingerprints: Sequence[bytes]) -> list[bool]:
        """Return for each fingerprint whether the set has it."""


class JobdirSeen:
    """The file of RFPDupeFilter: hexadecimal lines; since Scrapy 2.19 sizes and bytes.

    A record at the end that a killed crawl wrote half is passed over, as Scrapy does.
    """

    def __init__(self, path: str) -> None:
        self.name = path
        self._found = dict.fromkeys(_of_jobdir(path))

    def __len__(self) -> int:
        return len(self._found)

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._found)

    def which(self, fingerprints: Sequence[bytes]) -> list[bool]:
        return [fingerprint in self._found for fingerprint in fingerprints]


class RedisSet:
    """The set of scrapy-redis: hexadecimal fingerprints.

    Every method raises `UsageError` when Redis fails.
    """

    def __init__(self, url: str, key: str | None) -> None:
        if not key:
            raise UsageError("name the set of scrapy-redis with --key, such as SPIDER:dupefilter")
        try:
            import redis
        except ImportError:
            raise MissingExtraError("redis", "redis", "reading scrapy-redis's set") from None
        self.name = key
        self._error = redis.RedisError
        try:
            self._redis: Any = redis.Redis.from_url(url)
        except ValueError as error:
            raise UsageError(f"{url}: {error}") from error

    def _do(self, work: Callable[[], Any]) -> Any:
        try:
            return work()
        except self._error as error:
            raise UsageError(f"{self.name}: {error}") from error

    def __len__(self) -> int:
        size: int = self._do(lambda: self._redis.scard(self.name))
        return size

    def __iter__(self) -> Iterator[bytes]:
        members = self._redis.sscan_iter(self.name, count=1000)
        while (member := self._do(lambda: next(members, None))) is not None:
            if not _HEX_LINES.fullmatch(member) or len(member) % 2:
                raise UsageError(f"{self.name} holds other things than scrapy-redis's fingerprints")
            yield bytes.fromhex(member.decode())

    def which(self, fingerprints: Sequence[bytes]) -> list[bool]:
        pipeline = self._redis.pipeline(transaction=False)
        for fingerprint in fingerprints:
            pipeline.sismember(self.name, fingerprint.hex())
        return [bool(answer) for answer in self._do(pipeline.execute)]


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "seen", metavar="SEEN", help="requests.seen of a JOBDIR, or redis://... of scrapy-redis"
    )
    parser.add_argument(
        "--key", metavar="NAME", help="the key of scrapy-redis's set, such as SPIDER:dupefilter"
    )
    how = parser.add_mutually_exclusive_group()
    how.add_argument(
        "--urls",
        dest="logs",
        action="append",
        default=[],
        metavar="LOG",
        help="a crawl log or a list of URLs: those that are in the set are taken over, under any "
        "rules; - for standard input; repeatable",
    )
    how.add_argument(
        "--check",
        metavar="URL",
        help="a URL that was crawled, by GET: refuse unless its fingerprint is among them "
        "(needed for scrapy-redis without --urls)",
    )
    add_log_options(parser)
    add_store(parser)
    add_normalizer(parser)


def _import_seen(args: argparse.Namespace) -> int:
    normalizer = build_normalizer(args)
    if not args.logs:
        _require_rules(normalizer)
    store = new_store(args, normalizer)
    is_redis = args.seen.startswith(("redis://", "rediss://", "unix://"))
    if is_redis and args.key and not args.logs and not args.check:
        raise UsageError(
            "name the URLs that were crawled with --urls, or one of them with --check: "
            "scrapy-redis's own dupefilter makes other fingerprints than Scrapy, with which every "
            "page would be fetched again"
        )
    old: OldSeen = RedisSet(args.seen, args.key) if is_redis else JobdirSeen(args.seen)
    return (
        _match(args, keys_of(args, normalizer), old, store)
        if args.logs
        else _copy(args.check, old, store)
    )


def _match(
    args: argparse.Namespace, key_of: Callable[[str], bytes], old: OldSeen, store: Seen
) -> int:
    """Fill the store with the keys of those URLs that the old set has."""
    logs = Logs(args)
    explained = MemorySeen()  # fingerprints of the old set
    matched = 0

    def keys() -> Iterator[bytes]:
        nonlocal matched
        urls = (row.url for row in logs)
        while batch := list(islice(urls, _BATCH)):
            pairs = [(url, each) for url in batch for each in fingerprints_of(url)]
            found = {}
            for (url, fingerprint), is_there in zip(
                pairs, old.which([each for _, each in pairs]), strict=True
            ):
                if is_there:
                    explained.add(fingerprint)
                    found[url] = True
            matched += sum(url in found for url in batch)
            yield from map(key_of, found)
        if not matched:
            raise UsageError(
                f"of {counted(logs.rows, 'URL')} none is in {old.name}: they are of another crawl, "
                "or its fingerprints are of another kind"
            )

    new = fill(store, keys())
    unknown = len(old) - len(explained)
    say(
        f"{counted(logs.rows, 'URL')}, {matched:,} of them in the old set, "
        f"{counted(new, 'new key')}. {unknown:,} of its {counted(len(old), 'fingerprint')} "
        f"{'is' if unknown == 1 else 'are'} of no URL of the list: what they stand for is fetched "
        "again."
    )
    return YES


def _copy(known: str | None, old: OldSeen, store: Seen) -> int:
    """Fill the store with the fingerprints of the old set, which serve as keys."""
    if known and not any(old.which(fingerprints_of(url_of(known))[:1])):
        raise UsageError(
            f"the fingerprint that {STOCK_FINGERPRINTER} makes of {known!r} is not there: "
            "that URL was not crawled, or the fingerprints are others and mean nothing here. Those "
            "of scrapy-redis's own dupefilter and of REQUEST_FINGERPRINTER_IMPLEMENTATION = '2.6' "
            "are others. Name the URLs that were crawled with --urls, or build the store from a "
            "crawl log with rekey"
        )
    progress = Progress("fingerprints")
    new = fill(store, progress.over(old))
    say(
        f"{counted(progress.count, 'fingerprint')}, {new:,} of them new. They hold for URLs whose "
        "normalized form is the one that Scrapy makes; pages behind other URLs (tracking "
        "parameters, session ids, site rules) are fetched once more, unless --urls names them."
    )
    return YES


def _require_rules(normalizer: Normalizer) -> None:
    missing = [rule for rule in NEEDED if rule not in normalizer.rules]
    if missing:
        raise UsageError(
            f"Scrapy merged URLs that these rules keep apart ({', '.join(missing)} off): pages "
            "would be taken for seen that are not. Name the URLs that were crawled with --urls, or "
            "build the store from a crawl log with rekey"
        )


def fingerprints_of(url: str) -> list[bytes]:
    """Return the fingerprints of a GET of *url* by Scrapy and by scrapy-redis's own dupefilter.

    The list is empty for a URL that no request can have.
    """
    from scrapy import Request
    from scrapy.utils.request import fingerprint
    from w3lib.url import canonicalize_url

    try:
        request = Request(url)
        data = {"body": "", "method": "GET", "url": canonicalize_url(request.url)}
    except ValueError:
        return []
    theirs = sha1(json.dumps(data).encode("ascii"), usedforsecurity=False).digest()
    return [fingerprint(request), theirs]


def _of_jobdir(path: str) -> list[bytes]:
    with naming(path):
        data = Path(path).read_bytes()
    if data.startswith(b"SQLite format 3"):
        raise UsageError(f"{path} is a store of this package already")
    if _HEX_LINES.fullmatch(data):
        found = [bytes.fromhex(line.decode()) for line in data.split() if len(line) % 2 == 0]
    else:
        found = list(_sized(data))
    if found and len(found[-1]) < _SHA1_BYTES:
        found.pop()
    if not found or any(len(fingerprint) != _SHA1_BYTES for fingerprint in found):
        raise UsageError(f"{path} does not hold the fingerprints that {STOCK_FINGERPRINTER} makes")
    return found


def _sized(data: bytes) -> Iterator[bytes]:
    at = 0
    while at + _SIZE_BYTES <= len(data):
        end = at + _SIZE_BYTES + int.from_bytes(data[at : at + _SIZE_BYTES], "big")
        yield data[at + _SIZE_BYTES : end]
        at = end


VERBS = (
    Verb(
        "import-seen",
        "Take a requests.seen file or scrapy-redis's set over into a store. They hold hashes: give "
        "the URLs of the crawl with --urls, and those that were seen are, under any rules. "
        "Without, the hashes hold only where the rules change nothing, and only if Scrapy's "
        "fingerprinter made them: scrapy-redis's own dupefilter makes others. URLs whose secrets a "
        "log masks are not found in the set: their pages are fetched once more.",
        "import-seen redis://localhost/0 --key shop:dupefilter --urls crawl.jsonl.gz "
        "--store redis://localhost/0 --spider shop",
        _add_arguments,
        _import_seen,
    ),
)
