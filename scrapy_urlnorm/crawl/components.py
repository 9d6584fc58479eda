"""What the components of one crawl share, how they find one another, and what they ask of Scrapy.

Scrapy builds every component by itself and hands it the crawler. So the crawler carries a
`Components`. Of Scrapy we use two things beyond its documented interface, the same from 2.14 to
2.19: ``engine._slot`` with ``inprogress`` and ``nextcall``, see `in_progress` and `ask_again`; and
the file `SAVED_QUEUE`, with ``dqs``, ``dqdir`` and ``pqclass`` of Scrapy's scheduler, which our
scheduler extends: nothing else opens its priority queue with the requests that a killed crawl left.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urljoin

from scrapy import signals
from scrapy.utils.defer import deferred_from_coro
from w3lib.url import safe_url_string

from scrapy_urlnorm.crawl.settings import PREFIX, Config
from scrapy_urlnorm.stores import Database

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response
    from scrapy.settings import BaseSettings

T = TypeVar("T")

ERROR_REASON = "urlnorm_store_error"  #: why a crawl ended: its keys or requests cannot be stored
#: In the folder of Scrapy's queues: the priorities that it has queues for.
SAVED_QUEUE = "active.json"
REDIRECTS = frozenset((301, 302, 303, 307, 308))  #: RFC 9110, section 15.4, as Scrapy follows them
PAIR_META = "urlnorm_pair"  #: key of the meta of a second fetch: what the crawl log says of it
#: Key of the meta of a request that was sent although another spelling of its key had been sent.
TWIN_META = "urlnorm_twin"
_ATTRIBUTE = "_scrapy_urlnorm"


class Components:
    """The settings and the components of one crawl.

    A component puts itself here under its class, and others find it there: the dupefilter, the
    fingerprinter (also where one of another package wraps it), the database, the queue, the
    spider middleware.
    """

    def __init__(self) -> None:
        self._by_class: dict[type, Any] = {}
        self._config: Config | None = None
        self._read: dict[str, str] = {}  # values that it was made from
        #: Whether our fingerprinter is being built; another one then is its fallback's fallback.
        self.builds_fingerprinter = False
        self.keeps_database = False  #: whether `database_of` has opened it
        self.is_addon_used = False
        self.has_middleware = False  #: whether our downloader middleware is in its place
        self.has_spider_middleware = False  #: and our spider middleware
        self.has_crawl_log = False  #: whether `CrawlLog` is among the extensions
        self.learner: Any = None  #: the `Learner`, if this crawl learns: its import takes a while
        #: Called when the spider has closed, before any extension hears of it: so those of others,
        #: such as monitors, find our last statistics.
        self.at_close: list[Callable[[], None]] = []

    def config(self, settings: BaseSettings) -> Config:
        """Return the checked *settings* of this crawl. Raises `ConfigError`.

        They are read when first asked for, rule files may be long, and again only if one has
        changed since, as an add-on that runs later may do.
        """
        names = (name for name in map(str, settings) if name == "JOBDIR" or name.startswith(PREFIX))
        now = {name: repr(settings.get(name)) for name in names}
        if self._config is None or now != self._read:
            self._config = Config(settings)
            self._read = now
        return self._config

    def put(self, component: object) -> None:
        """Have others find *component* by its class or a base class, in place of an earlier one."""
        self._by_class |= dict.fromkeys(type(component).__mro__, component)

    def find(self, kind: type[T]) -> T | None:
        """Return the *kind* of this crawl; ``None`` where there is none, or not yet."""
        return self._by_class.get(kind)

    def spider_closed(self) -> None:
        for call in self.at_close:
            call()


def components_of(crawler: Crawler) -> Components:
    # An attribute and no table by crawler: several components hold the crawler, so a table would
    # keep it alive for ever, with weak references as well.
    found: Components | None = getattr(crawler, _ATTRIBUTE, None)
    if found is None:
        found = Components()
        setattr(crawler, _ATTRIBUTE, found)
        # Signals go in the order of connection, and no extension has been made yet: the add-on or
        # the fingerprinter gets here first, and Scrapy makes both before its extensions.
        crawler.signals.connect(found.spider_closed, signals.spider_closed)
    return found


def config_of(crawler: Crawler) -> Config:
    return components_of(crawler).config(crawler.settings)


def unopened_database(crawler: Crawler) -> Database:
    """Return the database of a crawl; whoever opens it closes it."""
    components = components_of(crawler)
    database = components.find(Database)
    if database is None:
        database = Database(config_of(crawler).database)
        components.put(database)
    return database


def database_of(crawler: Crawler) -> Database:
    """Return the database of a crawl, open until the engine has stopped.

    Raises `StoreError` where it cannot be used.
    """
    components, database = components_of(crawler), unopened_database(crawler)
    if not components.keeps_database:
        database.open()
        components.keeps_database = True
        crawler.signals.connect(database.close, signals.engine_stopped)
    return database


def in_progress(crawler: Crawler) -> set[Request]:
    """Return the requests that were given to the engine and have not ended, callback and all.

    Signals and middlewares do not see every end that a request can come to; the engine's own set
    does, and it has no public name.
    """
    assert crawler.engine is not None
    slot = crawler.engine._slot
    return set() if slot is None else slot.inprogress


def ask_again(crawler: Crawler) -> None:
    """Have the engine ask the scheduler for a request again at once.

    By itself the engine asks when a download ends, or after some seconds if none is under way;
    there is no public way to tell it.
    """
    assert crawler.engine is not None
    slot = crawler.engine._slot
    if slot is not None:
        slot.nextcall.schedule()


def stop_crawl(crawler: Crawler) -> None:
    assert crawler.engine is not None
    deferred_from_coro(crawler.engine.close_spider_async(reason=ERROR_REASON))


def count(crawler: Crawler, statistic: str, number: int = 1) -> None:
    if crawler.stats is not None:
        crawler.stats.inc_value(statistic, number)


def target_of(response: Response, url: str) -> str | None:
    """Return the URL that *response*, an answer to *url*, redirects to, as Scrapy would follow it.

    ``None`` if it is no redirect, or names no place that a URL can be made of.
    """
    location = response.headers.get(b"Location")
    if response.status not in REDIRECTS or not location:
        return None
    try:
        return urljoin(url, safe_url_string(location))
    except ValueError:
        return None
