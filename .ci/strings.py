"""Check that every profile is idempotent and total on many seeded random strings."""

from __future__ import annotations

import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from strategies import ESCAPES, HOSTS, NAMES, SEGMENTS, VALUES

from scrapy_urlnorm import Normalizer
from scrapy_urlnorm.rules import PROFILES

CHARACTERS = [chr(c) for c in (*range(0x100), 0x3002, 0x130, 0x1F4A9, 0xDC80, 0xFF0F, 0x200D)]


def random_url(rng: random.Random) -> str:
    """Return something that is a URL, was one, or looks like one."""
    choice = rng.choice
    text = f"{choice(['http', 'https', 'HTTP', 'ftp', 's3'])}://"
    text += choice(["", "", "", "u@", ":@"]) + choice(HOSTS) + choice(["", "", ":80", ":08080"])
    if rng.random() < 0.9:
        parts = rng.choices(SEGMENTS, k=rng.randrange(5))
        text += "/" + "/".join(p + choice(["", choice(ESCAPES)]) for p in parts)
    if rng.random() < 0.6:
        pairs = [
            f"{choice(NAMES)}{choice(['=', ''])}{choice(VALUES)}" for _ in range(rng.randrange(4))
        ]
        text += "?" + choice(["&", "&", ";", "&amp;"]).join(pairs)
    if rng.random() < 0.2:
        text += "#" + choice(VALUES)
    if rng.random() < 0.3:  # a slip of the pen
        place = rng.randrange(len(text) + 1)
        text = text[:place] + choice(CHARACTERS) + text[place + rng.randrange(3) :]
    return text


def main(count: int) -> int:
    """Check *count* strings; return the number of failures."""
    rng = random.Random(20261121)
    normalizers = [Normalizer(profile) for profile in PROFILES]
    failures = 0
    for i in range(count):
        url = random_url(rng)
        for normalizer in normalizers:
            key = normalizer.normalize(url)
            if normalizer.normalize(key) != key:
                failures += 1
                print(f"{normalizer.profile}: {url!r} -> {key!r} is not its own key")
        if i % 100_000 == 0:
            print(f"{i} strings", file=sys.stderr)
    print(f"{count} strings, {len(normalizers)} profiles, {failures} failures")
    return failures


if __name__ == "__main__":
    sys.exit(1 if main(int(sys.argv[1])) else 0)
