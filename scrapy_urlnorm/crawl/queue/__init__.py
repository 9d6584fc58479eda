"""The queue of waiting requests: a scheduler and disk queues that a killed crawl resumes from."""
