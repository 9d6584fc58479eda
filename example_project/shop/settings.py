"""Settings of the example. The line that matters is the first one."""

from pathlib import Path

ADDONS = {"scrapy_urlnorm.Addon": 900}

# What this shop does and no general rule can know, in a file for people to read.
URLNORM_SITE_RULES = [str(Path(__file__).parent.parent / "rules.toml")]

# The rest is the example itself: quiet, polite to nobody, and the same every time.
BOT_NAME = "shop"
SPIDER_MODULES = ["shop.spiders"]
DOWNLOADER_MIDDLEWARES = {"shop.site.ThroughSite": 740}
EXTENSIONS = {"shop.compare.Compare": 500}
LOG_LEVEL = "WARNING"
CONCURRENT_REQUESTS = 1
DOWNLOAD_DELAY = 0
ROBOTSTXT_OBEY = False
TELNETCONSOLE_ENABLED = False
REMOTE_CONTROL_ENABLED = False
