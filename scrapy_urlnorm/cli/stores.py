"""The seen-set of a command line: which store it is, and what fills it."""

from __future__ import annotations

from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

from scrapy_urlnorm.cli.verb import UsageError
from scrapy_urlnorm.fingerprints import STOCK_FINGERPRINTER, get_fingerprint
from scrapy_urlnorm.normalizer import KEY_VERSION
from scrapy_urlnorm.stores import SqliteSeen, open_store

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable

    from scrapy_urlnorm.cli.verb import Project
    from scrapy_urlnorm.normalizer import Normalizer
    from scrapy_urlnorm.stores import Seen


def add_store(parser: argparse.ArgumentParser) -> None:
    """Offer the store to fill."""
    parser.add_argument(
        "--store",
        metavar="SPEC",
        help="the store to fill: sqlite:PATH or redis://... (in a project: its own)",
    )
    parser.add_argument(
        "--spider", metavar="NAME", help="whose store it is: stands in the prefix of one in Redis"
    )


def new_store(args: argparse.Namespace, normalizer: Normalizer) -> Seen:
    """Return the store to fill, not yet opened.

    Raises UsageError if neither the command line nor a project names a lasting one.
    """
    project: Project | None = args.project
    spec = args.store or (project.store if project else "memory")
    if spec == "memory":
        raise UsageError("name the store to fill with --store, such as sqlite:PATH")
    options: dict[str, Any] = dict(project.store_options) if project and not args.store else {}
    return open_store(
        spec,
        digest=normalizer.digest,
        key_version=KEY_VERSION,
        jobdir=project.jobdir if project else None,
        spider=args.spider,
        **options,
    )


def fill(store: Seen, keys: Iterable[bytes], *, is_anew: bool = False) -> int:
    """Add the keys to the store; return how many were new.

    If it *is_anew*, they replace the keys of a database, whatever rules those were made with.
    """
    if is_anew and not isinstance(store, SqliteSeen):
        raise UsageError("--anew is for a store in a database, sqlite:PATH")
    rest = iter(keys)
    first = list(islice(rest, 1))  # an error of the first one must not leave an empty store
    if is_anew and isinstance(store, SqliteSeen):
        store.begin_anew()
    with store:
        return store.add_many(chain(first, rest))


def keys_of(args: argparse.Namespace, normalizer: Normalizer) -> Callable[[str], bytes]:
    """Return a function from a URL to its key, the one that the project's crawls use.

    Raises UsageError if another fingerprinter makes the keys of the project.
    """
    project: Project | None = args.project
    if project is not None and project.fingerprinter != STOCK_FINGERPRINTER:
        raise UsageError(
            f"the fingerprints of this project are made by {project.fingerprinter}; only those of "
            f"{STOCK_FINGERPRINTER} follow from a URL alone"
        )
    return partial(_key_of, normalizer)


def _key_of(normalizer: Normalizer, url: str) -> bytes:
    return get_fingerprint(normalizer.normalize(url))
