"""Files: what contents say that are no HTML. A document, a feed and a picture are their bytes.

Bytes are a stricter name than the text of a page. In a table to download, another order is another
content; a style sheet may hold the name of its host. And a parameter that means nothing to a few
pictures may mean much to pages. So pages decide, and files have a voice only together: for a rule
and against it. Before that they can only have it keep away from them (`cover.apart`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

#: The number of a content that is no HTML is this one or above.
FIRST_FILE = 1 << 32
#: So many of them have to agree (a choice: twice what a parameter needs of which nothing is known).
ENOUGH_FILES = 24


def is_file(content: int) -> bool:
    """Whether a content is known to be no HTML."""
    return content >= FIRST_FILE


def voices(contents: Collection[int]) -> int:
    """Return how many of *contents* have a voice."""
    files = sum(map(is_file, contents))
    return len(contents) - files if files < ENOUGH_FILES else len(contents)


def support_of(votes: Mapping[int, float]) -> float:
    """Return the sum of the votes of contents, as far as these have a voice."""
    files = [vote for content, vote in votes.items() if is_file(content)]
    support = sum(votes.values())
    return support - sum(files) if len(files) < ENOUGH_FILES else support
