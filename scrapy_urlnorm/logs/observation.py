"""One row of a crawl log, whatever the log's format."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urljoin

from scrapy_urlnorm.logs.source import url_of

if TYPE_CHECKING:
    from collections.abc import Mapping

_HTML = frozenset({"text/html", "application/xhtml+xml"})
#: Bytes. In logs, equal bodies under different names that are no HTML and smaller than this are
#: empty ones: they say nothing about what was asked for.
LEAST_FILE = 128
#: The keys of a row, and what each says. The page of the documentation is made of it.
COLUMNS = {
    "url": "what was fetched, without its fragment unless that begins with `#!` or `#/`",
    "status": "the HTTP status",
    "mime": "the media type",
    "len": "the length of the body, in bytes",
    "location": "the target of a redirect",
    "canonical": "what the page declares as its `rel=canonical`",
    "shortlink": "what the page declares as its `rel=shortlink`",
    "self_links": "links of the page to its own elements under another URL, such as `?post=9#p9`",
    "digest": "a digest of the bytes",
    "text_digest": "a digest of what the page shows: its visible text, the addresses of its pictures, "
    "data blocks, values of fields",
    "bag_digest": "a digest of the sorted words of that",
    "blocks": "what the page shows, hashed word by word, each line with a hash of the elements that it "
    "stands in; null where there is nothing to show, or too much",
    "pair": "`at once` or `late` in a row for a second fetch, which tells only what changes by itself",
    "kind": "`wall` for a short page that asks for a login, `missing` for one that says that it is not "
    "there; else null",
    "crawl": "which crawl wrote the row: a name made by chance, the same for all runs with one JOBDIR",
}
_DIGESTS = ("bag_digest", "text_digest", "digest")  # the one nearest to the visible text first


class Observation(NamedTuple):
    """The response of a crawl to one URL, as far as the log tells it."""

    url: str  #: as it was requested
    status: int | None = None
    content: str | None = None  #: its name: equal names, same content
    location: str | None = None  #: absolute target of a redirect
    canonical: str | None = None  #: absolute ``rel=canonical`` of the page
    #: In lower case, without parameters; "" when the response had none.
    mime: str | None = None
    #: The URL of a page that was fetched in turns with this one, and found to be another.
    other: str | None = None

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

    Values may be text, as in CDX. A row with content and no status comes from a spider that
    scraped the page, so its status was 200. Raises ValueError with the reason.
    """
    url = row.get("url")
    if not url or not isinstance(url, str):
        raise ValueError(f"a row needs an absolute 'url', not {url!r}")
    content = next((str(row[key]) for key in _DIGESTS if row.get(key)), None)
    status = row.get("status")
    if status is None or status == "":
        status = 200 if content else None
    elif type(status) is not int:
        try:
            status = int(status)
        except (TypeError, ValueError, OverflowError):
            raise ValueError(f"'status' must be a number, not {status!r}") from None
    mime = _mime(row["mime"]) if "mime" in row else None
    size = row.get("len")
    if size not in (None, "") and mime is not None and mime not in _HTML:
        try:
            is_small = float(str(size)) < LEAST_FILE  # a data frame may have made it a fraction
        except ValueError:
            raise ValueError(f"'len' must be a number of bytes, not {size!r}") from None
        content = None if is_small else content
    return Observation(
        url_of(url),
        status,
        content,
        _link(url, row.get("location")),
        _link(url, row.get("canonical")),
        mime,
    )


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


def _link(base: str, reference: object) -> str | None:
    return url_of(absolute(base, reference)) if reference else None


def _mime(value: object) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise ValueError(f"'mime' must be text, not {value!r}")  # noqa: TRY004
    return value.split(";", 1)[0].strip().lower()
