"""A small shop on the loopback, crawled by stock Scrapy and with scrapy-urlnorm."""
