"""Fifty kills: what a store on disk holds after kill -9 at any moment."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from itertools import compress

import pytest
from store_contract import DIGEST, fingerprint

from scrapy_urlnorm.exceptions import StoreError
from scrapy_urlnorm.stores import open_store

KILLS = 25  #: of each of the two stores
BATCH = 400  #: keys that the LMDB store writes together, here

WRITER = f"""
import sys
from hashlib import sha1
from scrapy_urlnorm.stores import open_store
spec, number = sys.argv[1], int(sys.argv[2])
if spec.startswith("lmdb"):
    from scrapy_urlnorm.stores import lmdb as disk
    disk.BATCH_KEYS = {BATCH}
with open_store(spec, digest={DIGEST!r}) as seen:
    while True:
        for _ in range(10):
            seen.add(sha1(b"%d" % number, usedforsecurity=False).digest())
            number += 1
        sys.stdout.write(f"{{number}}\\n")
        sys.stdout.flush()
"""


@pytest.mark.parametrize(("kind", "lost"), [("file", 0), ("lmdb", BATCH)])
def test_a_killed_writer_loses_no_more_than_promised(tmp_path, kind, lost):
    """Killed 25 times at random, the store opens each time and has all but the last batch.

    The file has every key that `add` has returned for; LMDB has all before its last batch.
    """
    if kind == "lmdb":
        pytest.importorskip("lmdb")
    chance = random.Random(f"{kind} 4")
    spec = f"{kind}:{tmp_path / 'seen'}"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    known = []  # what was there after one of the kills
    begin = 0
    for _ in range(KILLS):
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, spec, str(begin)],
            stdout=subprocess.PIPE,
            env=environment,
        )
        for _ in range(chance.randrange(1, 400)):
            end = int(writer.stdout.readline())
        writer.send_signal(signal.SIGKILL)
        end = max(map(int, writer.stdout), default=end)  # what it said before it died
        assert writer.wait() == -signal.SIGKILL
        writer.stdout.close()
        with open_store(spec, digest=DIGEST) as seen:
            there = [fingerprint(number) in seen for number in range(begin, end)]
            assert all(there[: max(0, end - begin - lost)])
            assert all(fingerprint(number) in seen for number in known)
            known += compress(range(begin, end), there)
            assert len(known) <= len(seen) <= len(known) + lost + 10 * KILLS
        begin = end + 1000
    assert len(known) > 1000


@pytest.mark.parametrize("kind", ["file", "lmdb"])
def test_a_killed_process_lets_go_of_its_file(tmp_path, kind):
    """While it runs nobody else can open the store; killed, it locks nobody out."""
    if kind == "lmdb":
        pytest.importorskip("lmdb")
    spec = f"{kind}:{tmp_path / 'seen'}"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, spec, "0"], stdout=subprocess.PIPE, env=environment
    )
    writer.stdout.readline()
    with pytest.raises(StoreError, match="in use by another process"):
        open_store(spec, digest=DIGEST).open()
    writer.send_signal(signal.SIGKILL)
    writer.communicate()
    with open_store(spec, digest=DIGEST) as seen:
        assert seen.add(b"key") is True
