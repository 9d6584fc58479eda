"""The bounded cache answers as its function does, asks it rarely, and never grows beyond bounds."""

from __future__ import annotations

from scrapy_urlnorm.caches import BoundedCache


def test_a_function_is_asked_once_for_a_text() -> None:
    """The second look-up of a text is answered by the dict."""
    asked: list[str] = []

    def length(text: str) -> int:
        asked.append(text)
        return len(text)

    cache = BoundedCache(length, most=3, longest=5)
    assert [cache[text] for text in ("a", "bb", "a", "bb", "")] == [1, 2, 1, 2, 0]
    assert asked == ["a", "bb", ""]


def test_a_cache_is_bounded_in_entries_and_in_length() -> None:
    """However many texts a site makes up, and however long, the cache stays small."""
    cache = BoundedCache(len, most=3, longest=5)
    for i in range(100):
        assert cache[str(i)] == len(str(i))
        assert cache["x" * i] == i
        assert len(cache) <= 3
        assert max(map(len, cache)) <= 5
