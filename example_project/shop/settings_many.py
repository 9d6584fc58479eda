"""Settings for many crawlers of the shop: one queue and one seen-set in Redis."""

import os

from shop.settings import *

SCHEDULER = "scrapy_urlnorm.SharedScheduler"
URLNORM_STORE = os.environ.get("SHOP_REDIS", "redis://localhost:6379/0") + "?prefix=shop:seen"

DOWNLOAD_DELAY = 0.05  # slow enough to see that what one learns reaches the others
