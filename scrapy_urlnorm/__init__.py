"""scrapy-urlnorm stops a Scrapy crawler from fetching one page under many URLs."""
