"""The Scrapy side: what stands between a spider and the pages that it asks for."""
