"""Verbs on what a crawl has seen: rekey, forget, import-seen."""

from __future__ import annotations

import json
import re
from functools import partial
from hashlib import sha1
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING

from scrapy_urlnorm.cli import inputs
from scrapy_urlnorm.cli import verb as cli
from scrapy_urlnorm.cli.processes import mapped
from scrapy_urlnorm.exceptions import MissingExtraError, naming
from scrapy_urlnorm.stores import MemorySeen, SqliteSeen
from scrapy_urlnorm.text import counted
from scrapy_urlnorm.url import STOCK_FINGERPRINTER

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Iterator

    from scrapy_urlnorm.normalizer import Normalizer
    from scrapy_urlnorm.stores import Database, Seen


def _fill(store: Seen, keys: Iterable[bytes], *, is_anew: bool = False) -> int:
    """Add the keys to the store, or put them in the place of its own; return how many were new."""
    rest = iter(keys)
    first = list(islice(rest, 1))  # an error of the first one must leave the store as it was
    if is_anew and isinstance(store, SqliteSeen):
        store.begin_anew()
    with store:
        return store.add_many(chain(first, rest))


# --- rekey ----------------------------------------------------------------------------------


@cli.verb(
    "Make the keys of every URL of the logs and put them into a new store, or with --anew in the "
    "place of those in a database: the way on when rules have changed and a store is refused. "
    "Where a log masks secrets, pages are fetched once more.",
    "rekey crawl.jsonl.gz --site-rules rules.toml --anew --store sqlite:crawl/urlnorm.sqlite",
    *inputs.LOGS,
    *inputs.STORE,
    cli.option("--anew", "replace the keys in the database, and keep the requests that wait there"),
    cli.PROCESSES,
    *cli.NORMALIZER,
)
def rekey(args: argparse.Namespace) -> int:
    normalizer = inputs.build_normalizer(args)
    store = inputs.named_store(args, normalizer)
    if args.anew and not isinstance(store, SqliteSeen):
        raise cli.UsageError("--anew is for a store in a database, sqlite:PATH")
    logs = inputs.Logs(args, shows_progress=True)
    work = inputs.keys_of(args, normalizer)
    answers = mapped(work, (row.url for row in logs), args.processes)
    keys = chain.from_iterable(keys for _, keys in answers)
    new = _fill(store, keys, is_anew=args.anew)
    cli.say(
        f"{counted(logs.rows, 'row')}, {counted(new, 'new key')}. Requests that still wait are in "
        "no log: with scrapy_urlnorm.Scheduler their keys come to them when the crawl resumes, "
        "with another scheduler their pages may be fetched twice."
    )
    return cli.YES


# --- forget ---------------------------------------------------------------------------------


@cli.verb(
    "Take URLs out of what a crawl has seen, so that its next run fetches them again: their "
    "keys, the pages that arrived under them, and the requests that are held. With --prefix all "
    "URLs that begin so, of those that a crawl that learns wrote down. The crawl has to have ended "
    "or to be paused. The exit code is 1 when none of them was known.",
    "forget 'http://shop.example/list' --job crawls/shop",
    cli.option("urls URL...", "the URL to fetch again"),
    cli.option("--prefix", "take every URL that begins so, of those that the crawl wrote down"),
    inputs.JOB,
    *inputs.STORE,
    *cli.NORMALIZER,
)
def forget(args: argparse.Namespace) -> int:
    normalizer = inputs.build_normalizer(args)
    keys_of = inputs.keys_of(args, normalizer)
    with _store_to_forget(args, normalizer) as store:
        database = _learned(store)
        if args.prefix:
            if database is None:
                raise cli.UsageError(f"{store.name} has keys and no URLs: name each URL")
            begins = tuple(args.urls)
            keys = {url: key for url, key in database.read(_MET) if url.startswith(begins)}
        else:
            keys = dict(zip(args.urls, keys_of(args.urls), strict=True))
        forgotten: dict[bytes, bool] = {}
        for url, key in keys.items():
            if key not in forgotten:
                forgotten[key] = _forgets(store, database, key)
            cli.out(f"{'forgotten' if forgotten[key] else 'not known'}: {url}")
    number = sum(forgotten.values())
    them = "it" if number == 1 else "them"
    cli.say(f"{counted(number, 'key')} forgotten. The next run asks for {them} again.")
    return cli.YES if number else cli.NO


def _store_to_forget(args: argparse.Namespace, normalizer: Normalizer) -> Seen:
    if args.job and args.store:
        raise cli.UsageError("name the crawl with --job or its store with --store, not with both")
    if not args.job and inputs.store_spec(args) == "memory":
        raise cli.UsageError(
            "name what is to forget: --job JOBDIR, or --store sqlite:PATH or redis://...; a store "
            "in memory ends with its crawl"
        )
    store: Seen
    if args.job:
        store = inputs.store_of_job(Path(args.job), normalizer)
    else:
        store = inputs.named_store(args, normalizer)
    if isinstance(store, SqliteSeen) and (path := store.database.path) and not path.exists():
        raise cli.UsageError(f"{path} is not there: no crawl has its keys in this place")
    return store


_MET = (
    "SELECT url, fingerprint FROM page WHERE url > '' UNION ALL SELECT url, fingerprint FROM held"
)
#: The page that represents a held request goes too: the next request would be held behind it.
_FORGET_PAGES = """
DELETE FROM page WHERE fingerprint = ?1 OR cluster IN (
  SELECT cluster FROM page WHERE fingerprint = ?1 UNION
  SELECT cluster FROM held WHERE fingerprint = ?1)
"""  # a cluster that is NULL is in no set


def _learned(store: Seen) -> Database | None:
    """Return the database of a crawl that learns: it says which URLs that met, with their keys."""
    if not isinstance(store, SqliteSeen):
        return None
    tables = {name for (name,) in store.database.read("SELECT name FROM sqlite_master")}
    return store.database if tables >= {"page", "held"} else None


def _forgets(store: Seen, database: Database | None, key: bytes) -> bool:
    """Take out a key, its page, and what holds a request with it; return whether there was any."""
    is_known = store.forget(key)
    if database is not None:
        database.write(_FORGET_PAGES, key)
        is_known |= database.write("DELETE FROM held WHERE fingerprint = ?", key) > 0
    return is_known


# --- import-seen ----------------------------------------------------------------------------
# Stock Scrapy and scrapy-redis keep hashes of URLs. With a list of URLs, the verb finds out which
# of them were seen and makes their keys, under any rules. Without a list, it takes Scrapy's hashes
# themselves for keys, which holds for URLs that the rules do not change.

NEEDED = ("sort-query", "remove-fragment", "form-encode-query", "decode-path-reserved")
"""Without these rules two URLs that Scrapy merges may have two keys."""

_HEX_LINES = re.compile(rb"(?:[0-9a-f]+\r?\n)*[0-9a-f]*")
_SIZE_BYTES = 2  # in front of each fingerprint
_SHA1_BYTES = 20


@cli.verb(
    "Take a requests.seen file or scrapy-redis's set over into a store. They hold hashes: give "
    "the URLs of the crawl with --urls, and those that were seen are, under any rules. Without, "
    "Scrapy's hashes hold only where the rules change nothing, and those of scrapy-redis never.",
    "import-seen redis://localhost/0 --key shop:dupefilter --urls crawl.jsonl.gz "
    "--store redis://localhost/0 --spider shop",
    cli.option("seen SEEN", "requests.seen of a JOBDIR, or redis://... of scrapy-redis"),
    cli.option("--key NAME", "the key of scrapy-redis's set, such as SPIDER:dupefilter"),
    cli.option("--urls LOG...", "a crawl log or a list: its URLs that are in the set", dest="logs"),
    *inputs.LOG_OPTIONS,
    *inputs.STORE,
    *cli.NORMALIZER,
)
def import_seen(args: argparse.Namespace) -> int:
    normalizer = inputs.build_normalizer(args)
    store = inputs.named_store(args, normalizer)
    is_redis = args.seen.startswith(("redis://", "rediss://", "unix://"))
    read = partial(_of_redis, args.seen, args.key) if is_redis else partial(_of_jobdir, args.seen)
    if args.logs:
        return _match(args, normalizer, read(), store)
    if is_redis:
        raise cli.UsageError(
            "name the URLs that were crawled with --urls: scrapy-redis's own dupefilter makes "
            "other fingerprints than Scrapy, with which every page would be fetched again"
        )
    if missing := [rule for rule in NEEDED if rule not in normalizer.rules]:
        raise cli.UsageError(
            f"Scrapy merged URLs that these rules keep apart ({', '.join(missing)} off): pages "
            "would be taken for seen that are not. Name the URLs that were crawled with --urls, or "
            "build the store from a crawl log with rekey"
        )
    fingerprints = set(read())
    new = _fill(store, fingerprints)
    cli.say(
        f"{counted(len(fingerprints), 'fingerprint')}, {new:,} of them new. They hold for URLs "
        "whose normalized form is the one that Scrapy makes; pages behind other URLs (tracking "
        "parameters, session ids, site rules) are fetched once more, unless --urls names them."
    )
    return cli.YES


def _match(
    args: argparse.Namespace, normalizer: Normalizer, fingerprints: Iterable[bytes], store: Seen
) -> int:
    keys_of = inputs.keys_of(args, normalizer)
    logs = inputs.Logs(args, shows_progress=True)
    old, explained = MemorySeen(), MemorySeen()
    old.add_many(cli.Progress("fingerprints").over(fingerprints))
    matched = 0

    def keys() -> Iterator[bytes]:
        nonlocal matched
        for row in logs:
            if found := [each for each in fingerprints_of(row.url) if each in old]:
                explained.add_many(found)
                matched += 1
                yield from keys_of([row.url])
        if not matched:
            raise cli.UsageError(
                f"of {counted(logs.rows, 'URL')} none is in {args.key or args.seen}: they are of "
                "another crawl, or its fingerprints are of another kind"
            )

    new = _fill(store, keys())
    unknown = len(old) - len(explained)
    cli.say(
        f"{counted(logs.rows, 'URL')}, {matched:,} of them in the old set, "
        f"{counted(new, 'new key')}. {unknown:,} of its {counted(len(old), 'fingerprint')} "
        f"{'is' if unknown == 1 else 'are'} of no URL of the list: what they stand for is fetched "
        "again."
    )
    return cli.YES


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
    """Return what RFPDupeFilter wrote: hexadecimal lines; since Scrapy 2.19 sizes and bytes.

    A record at the end that a killed crawl wrote half is passed over, as Scrapy does.
    """
    with naming(path):
        data = Path(path).read_bytes()
    if data.startswith(b"SQLite format 3"):
        raise cli.UsageError(f"{path} is a store of this package already")
    if _HEX_LINES.fullmatch(data):
        found = [bytes.fromhex(line.decode()) for line in data.split() if len(line) % 2 == 0]
    else:
        found = list(_sized(data))
    if found and len(found[-1]) < _SHA1_BYTES:
        found.pop()
    if not found or any(len(fingerprint) != _SHA1_BYTES for fingerprint in found):
        raise cli.UsageError(
            f"{path} does not hold the fingerprints that {STOCK_FINGERPRINTER} makes"
        )
    return found


def _sized(data: bytes) -> Iterator[bytes]:
    at = 0
    while at + _SIZE_BYTES <= len(data):
        end = at + _SIZE_BYTES + int.from_bytes(data[at : at + _SIZE_BYTES], "big")
        yield data[at + _SIZE_BYTES : end]
        at = end


def _of_redis(url: str, key: str | None) -> Iterator[bytes]:
    if not key:
        raise cli.UsageError("name the set of scrapy-redis with --key, such as SPIDER:dupefilter")
    try:
        import redis
    except ImportError:
        raise MissingExtraError("redis", "redis", "reading scrapy-redis's set") from None
    try:
        for member in redis.Redis.from_url(url).sscan_iter(key, count=1000):
            if not _HEX_LINES.fullmatch(member) or len(member) % 2:
                raise cli.UsageError(f"{key} holds other things than scrapy-redis's fingerprints")
            yield bytes.fromhex(member.decode())
    except redis.RedisError as error:
        raise cli.UsageError(f"{key}: {error}") from error
    except ValueError as error:
        raise cli.UsageError(f"{url}: {error}") from error
