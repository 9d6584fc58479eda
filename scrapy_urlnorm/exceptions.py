"""The errors that this package raises, below one root."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


class UrlNormError(Exception):
    """Root of every error of this package."""


class ConfigError(UrlNormError, ValueError):
    """A bad setting, rule, profile or option.

    The message names the value, where it came from and what would be accepted.
    """


class SiteRuleError(ConfigError):
    """A bad entry of a site-rule file; the message names file and entry."""


class LogFormatError(UrlNormError, ValueError):
    """A row of a crawl log that cannot be read; the message names file and line."""


class StoreError(UrlNormError):
    """A seen-set could not do its work (disk full, read-only, damaged)."""


class StoreMismatchError(StoreError):
    """A seen-set was written with another rule set, key version or file format."""


class StoreUnavailableError(StoreError, ConnectionError):
    """A seen-set on another process or machine does not answer."""


class MissingExtraError(UrlNormError, ImportError):
    """An optional dependency is missing; the message gives the install command."""

    def __init__(self, package: str, extra: str, needed_for: str) -> None:
        super().__init__(
            f"{needed_for} needs the package {package!r}, which is not installed: "
            f"pip install {package!r} (the extra {extra!r} of scrapy-urlnorm brings it too)"
        )
        self.package = package
        self.extra = extra


@contextmanager
def naming(file: str) -> Iterator[None]:
    """Put *file*, as the user named it, into an OSError: those of read and write name no file."""
    try:
        yield
    except OSError as error:
        if error.errno is not None:  # one without a number would lose its text
            error.filename = file
        raise
