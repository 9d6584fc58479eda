"""Settings for many crawlers of the shop: one queue and one seen-set in Redis."""

import logging
import os

from shop.settings import *

REDIS_URL = os.environ.get("SHOP_REDIS", "redis://localhost:6379/0")
SCHEDULER = "scrapy_redis.scheduler.Scheduler"
SCHEDULER_QUEUE_CLASS = "scrapy_urlnorm.crawl.queue.redis_queue.PriorityQueue"
SCHEDULER_PERSIST = True  # the first crawler that is done leaves the queue to the others
URLNORM_STORE = REDIS_URL
URLNORM_STORE_OPTIONS = {"prefix": "shop:seen"}

# The rest is the example: slow enough to see that what one learns reaches the others, and
# without the warnings that scrapy-redis brings forth in Scrapy.
DOWNLOAD_DELAY = 0.05
logging.getLogger("py.warnings").setLevel("ERROR")
