"""``python -m scrapy_urlnorm``: the same as the command ``scrapy-urlnorm``."""

import sys

from scrapy_urlnorm.cli import main

if __name__ == "__main__":
    sys.exit(main(prog="python -m scrapy_urlnorm"))
