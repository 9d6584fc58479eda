"""One row of a crawl log, whatever the log's format."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urljoin

from scrapy_urlnorm.logs.self_links import MAX_NAMES
from scrapy_urlnorm.logs.source import url_of

if TYPE_CHECKING:
    from collections.abc import Mapping

_HTML = frozenset({"text/html", "application/xhtml+xml"})
#: Bytes. In logs, equal bodies under different names that are no HTML and smaller than this are
#: empty ones: they say nothing about what was asked for (`benchmarks/learning.py files`).
LEAST_FILE = 128
_DIGESTS = ("bag_digest", "text_digest", "digest")  # the one nearest to the visible text first


class Observation(NamedTuple):
    """The response of a crawl to one URL.

    Attributes
    ----------
    url: as it was requested.
    status: of the HTTP response; None where the log does not say.
    content: names the content; equal names, same content. None: unknown.
    sketch: 64 bit simhash of the text, or None.
    location: absolute target of a redirect, or None.
    canonical: absolute ``rel=canonical`` of the page, or None.
    mime: media type in lower case, without parameters; "" when the response had none;
        None where the log does not say.
    self_links: links of the page to its own elements under another URL, each with ``#`` and the
        name of the element.
    shortlink: absolute ``rel=shortlink`` of the page, or None.
    """

    url: str
    status: int | None = None
    content: str | None = None
    sketch: int | None = None
    location: str | None = None
    canonical: str | None = None
    mime: str | None = None
    self_links: tuple[str, ...] = ()
    shortlink: str | None = None

    @property
    def is_page(self) -> bool:
        """Whether the row is something to compare: status 200, and its content is named."""
        return self.status == 200 and self.content is not None

    @property
    def is_file(self) -> bool:
        """Whether the row is known to be no HTML: a document, a feed, a picture."""
        return self.mime is not None and self.mime not in _HTML


def from_row(row: Mapping[str, Any]) -> Observation:
    """Read a row with the keys that docs/reference/log-format.md lists; other keys are ignored.

    Values may be text, as in CSV. A row with content and no status comes from a spider that
    scraped the page, so its status was 200. Raises ValueError with the reason.
    """
    url = row.get("url")
    if not url or not isinstance(url, str):
        raise ValueError(f"a row needs an absolute 'url', not {url!r}")
    content = None
    for key in _DIGESTS:
        content = row.get(key)
        if content:
            content = content if isinstance(content, str) else str(content)
            break
    status: int | None
    given = row.get("status")
    if type(given) is int:
        status = given
    elif given is None or given == "":
        status = 200 if content else None
    else:
        try:
            status = int(given)
        except (TypeError, ValueError, OverflowError):
            raise ValueError(f"'status' must be a number, not {given!r}") from None
    sketch = row.get("simhash")
    if sketch is not None:
        sketch = _sketch(sketch)
    mime = None
    if "mime" in row:
        mime = _mime(row["mime"])
    size = row.get("len")
    if size not in (None, "") and mime is not None and mime not in _HTML:
        content = content if _bytes(size) >= LEAST_FILE else None
    location, canonical = row.get("location"), row.get("canonical")
    shortlink = row.get("shortlink")
    return Observation(
        url_of(url),
        status,
        content or None,
        sketch,
        url_of(absolute(url, location)) if location else None,
        url_of(absolute(url, canonical)) if canonical else None,
        mime,
        _links(url, row.get("self_links")),
        url_of(absolute(url, shortlink)) if shortlink else None,
    )


def _links(url: str, value: object) -> tuple[str, ...]:
    if not value:
        return ()
    if not isinstance(value, list):
        raise ValueError(f"'self_links' must be a list, not {value!r}")  # noqa: TRY004
    return tuple(url_of(absolute(url, link)) for link in value[:MAX_NAMES])


def absolute(base: str, reference: object) -> str:
    """Resolve a reference found at ``base`` (RFC 3986 section 5).

    A reference that cannot be resolved comes back as it is. Raises ValueError if it is no text.
    """
    if not isinstance(reference, str):
        raise ValueError(f"a link must be text, not {reference!r}")  # noqa: TRY004
    if reference.startswith(("http://", "https://")):
        return reference
    try:
        return urljoin(base, reference)
    except ValueError:  # a bad IPv6 host in either
        return reference


def _bytes(value: object) -> float:
    try:
        return float(str(value))  # a data frame with missing values has no whole numbers
    except ValueError:
        raise ValueError(f"'len' must be a number of bytes, not {value!r}") from None


def _sketch(value: object) -> int | None:
    if isinstance(value, int):
        return value
    if value == "":
        return None
    try:
        return int(str(value), 16)
    except ValueError:
        raise ValueError(f"'simhash' must be 16 hexadecimal digits, not {value!r}") from None


def _mime(value: object) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise ValueError(f"'mime' must be text, not {value!r}")  # noqa: TRY004
    return value.split(";", 1)[0].strip().lower()
