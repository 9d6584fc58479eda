"""The key by which the secrets in a crawl log are masked."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from scrapy_urlnorm.exceptions import LogFormatError
from scrapy_urlnorm.masking import KEY_BYTES

KEY_FILE = "urlnorm-log.key"


def mask_key(log: str | Path) -> bytes:
    """Return the key of the folder of *log*; make it for the first log there.

    All logs of a folder have one key, so that a secret has one mask in a log that is continued,
    and in logs that are mined together. The key is random, only its owner may read it, and no log
    contains it. A pipe or a device is never continued: its key is not kept.

    Raises OSError; LogFormatError if the key file holds no key.
    """
    path = Path(log)
    if path.exists() and not path.is_file():
        return secrets.token_bytes(KEY_BYTES)
    path.parent.mkdir(parents=True, exist_ok=True)
    file = path.parent / KEY_FILE
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        pass
    else:
        with os.fdopen(descriptor, "wb") as new:
            new.write(secrets.token_bytes(KEY_BYTES))
    key = file.read_bytes()
    if len(key) != KEY_BYTES:
        raise LogFormatError(
            f"{file} has {len(key)} bytes where the key of the logs in its folder has {KEY_BYTES}: "
            "put the right one there, or remove it if no log there is to go on"
        )
    return key
