"""forget: takes URLs out of what a crawl has seen."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from scrapy_urlnorm.cli import inputs
from scrapy_urlnorm.cli import verb as cli
from scrapy_urlnorm.stores import SqliteSeen
from scrapy_urlnorm.text import counted

if TYPE_CHECKING:
    import argparse

    from scrapy_urlnorm.normalizer import Normalizer
    from scrapy_urlnorm.stores import Database, Seen


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
    keys = dict(zip(args.urls, inputs.keys_of(args, normalizer, args.urls), strict=True))
    with _store_to_forget(args, normalizer) as store:
        database = _learned(store)
        if args.prefix:
            if database is None:
                raise cli.UsageError(f"{store.name} has keys and no URLs: name each URL")
            begins = tuple(args.urls)
            keys = {url: key for url, key in database.read(_MET) if url.startswith(begins)}
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
