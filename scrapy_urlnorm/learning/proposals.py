"""What a log without contents can give: proposals, for people or for a probing crawl."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..logs import Observation
    from .mining import SiteReport


def without_contents(
    site: str, rows: Sequence[Observation], key: Callable[[str], str]
) -> SiteReport:
    """Propose rules from the URLs alone; none of them is active."""
    from .mining import SiteReport  # noqa: PLC0415

    return SiteReport(
        site,
        len({row.url for row in rows}),
        0,
        0,
        0,
        (),
        ("the log names no contents and no redirects",),
    )
