"""A disk that is really full, for the stores on disk: nothing corrupt, nothing silent."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from store_contract import DIGEST, fingerprint

from scrapy_urlnorm.stores import open_store

resource = pytest.importorskip("resource", reason="no limits on the size of a file here")

FILL = """
import json, resource, signal, sys
from hashlib import sha1
from scrapy_urlnorm.exceptions import StoreError
from scrapy_urlnorm.stores import open_store

spec, digest, limit = sys.argv[1:]
store = open_store(spec, digest=digest)
store.open()
disk = sys.modules.get("scrapy_urlnorm.stores.lmdb")
if disk:
    disk.BATCH_KEYS = 500
# To a process, the largest file it may write looks as a full disk does.
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit), resource.RLIM_INFINITY))
keys = [sha1(b"%d" % number).digest() for number in range(100_000)]
for added, key in enumerate(keys):
    try:
        assert store.add(key) is True
    except StoreError as error:
        message = str(error)
        break
again = 0
for key in keys[added:added + 3]:
    try:
        store.add(key)
    except StoreError:
        again += 1
known = sum(key in store for key in keys[:added])
before = sum(key in store for key in keys[added:added + 3])
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
went_on = store.add(keys[added])
store.close()
print(json.dumps([added, message, again, known, before, went_on]))
"""


@pytest.mark.parametrize("kind", ["file", "lmdb"])
@pytest.mark.parametrize("limit", [100_000, 150_001, 222_222])
def test_a_full_disk(tmp_path, kind, limit):
    """An error that says so, as often as one tries; with room again the store goes on."""
    if kind == "lmdb":
        pytest.importorskip("lmdb", reason="the extra 'disk' is not installed")
    path = tmp_path / "seen"
    command = [sys.executable, "-c", FILL, f"{kind}:{path}", DIGEST, str(limit)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    added, message, again, known, before, went_on = json.loads(done.stdout)
    assert added > 100
    assert str(path) in message
    assert "File too large" in message or "the disk may be full" in message
    assert again == 3
    assert known == added
    assert before == 0
    assert went_on is True
    with open_store(f"{kind}:{path}", digest=DIGEST) as store:
        assert len(store) == added + 1
        assert all(fingerprint(number) in store for number in range(added + 1))
