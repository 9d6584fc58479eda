"""Keys and mined rules that no change of the code may change unnoticed.

    python tests/frozen.py [DATA]    write what the tests compare with; DATA is a folder with
                                     `crawls` (logs) and `urls` (lists of URLs)

`tests/data/frozen` holds keys of generated URLs and the rules of simulated sites as text, for
people to read in a diff. Of the logs and lists of DATA there are digests only, in
`.ci/data_tests/frozen.json`. A change of one of these files is meant, and CHANGELOG.md says so.
"""

from __future__ import annotations

import gzip
import json
import random
import sys
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

import simulator
from strategies import HOSTS, NAMES, SEGMENTS, VALUES

from scrapy_urlnorm import Normalizer, load_site_rules, save_site_rules
from scrapy_urlnorm.learning import mine
from scrapy_urlnorm.logs import read_log
from scrapy_urlnorm.rules import PROFILES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from scrapy_urlnorm import SiteRule

ROOT = Path(__file__).parent.parent
FROZEN = Path(__file__).parent / "data" / "frozen"
KEYS = FROZEN / "keys.tsv"
DIGESTS = ROOT / ".ci" / "data_tests" / "frozen.json"
BY_HAND = ROOT / "benchmarks" / "site_rules"
_URLS = 600


def urls() -> list[str]:
    """Return generated URLs of every kind that the rules look at, the same in every run."""
    chance = random.Random("frozen")
    made = []
    for _ in range(_URLS):
        path = "/".join(chance.choices(SEGMENTS, k=chance.randint(0, 4)))
        pairs = zip(chance.choices(NAMES, k=4), chance.choices(VALUES, k=4), strict=True)
        query = "&".join([f"{n}={v}" for n, v in pairs][: chance.randint(0, 4)])
        url = f"{chance.choice(('http', 'https', 'HTTP'))}://{chance.choice(HOSTS)}/{path}"
        made.append(url + (f"?{query}" if query else "") + chance.choice(("", "", "#top", "#!/a")))
    return [url for url in made if not set(url) & set("\t\n\r")]


def keys_of(url: str) -> list[str]:
    return [Normalizer(profile).normalize(url) for profile in PROFILES]


def digest(texts: Iterable[str]) -> str:
    """Return a digest of some texts in their order."""
    found = blake2b(digest_size=8)
    for text in texts:
        found.update(text.encode("utf-8", "surrogatepass") + b"\n")
    return found.hexdigest()


def told(rules: Iterable[SiteRule]) -> str:
    """Return a digest of rules with their evidence, as a file holds them."""
    return digest(json.dumps(rule.as_dict(), default=list) for rule in rules)


def keyed(rules: Iterable[SiteRule], urls: Iterable[str]) -> str:
    """Return a digest of the keys that *rules* give *urls*: what the rules do."""
    return digest(map(Normalizer("default", site_rules=rules).normalize, urls))


def simulated(kind: str) -> list[SiteRule]:
    """Return the rules mined from a simulated site."""
    return mine(simulator.observations(simulator.site(kind)))


def of_log(path: Path) -> dict[str, str]:
    """Return the digests of one log: its mined rules, their keys, and those of a person's rules."""
    rows = list(read_log(str(path)))
    seen = [row.url for row in rows]
    rules = mine(rows)
    found = {"rules": told(rules), "keys": keyed(rules, seen)}
    by_hand = BY_HAND / f"{name_of(path)}.toml"
    if by_hand.exists():
        found["by hand"] = keyed(load_site_rules(by_hand), seen)
    return found


def name_of(path: Path) -> str:
    return path.name.removesuffix(".jsonl.gz")


def logs(data: Path) -> list[Path]:
    return sorted((data / "crawls").glob("*.jsonl.gz"))


def lists(data: Path) -> Iterator[str]:
    """Yield the URLs of the development data."""
    for path in sorted((data / "urls").glob("*.txt.gz")):
        with gzip.open(path, "rt", encoding="utf-8", errors="surrogateescape") as lines:
            yield from (line.rstrip("\n") for line in lines)


def of_lists(data: Path) -> dict[str, str]:
    """Return the digest of the keys of all URLs of the development data, by profile."""
    known = list(lists(data))
    return {profile: digest(map(Normalizer(profile).normalize, known)) for profile in PROFILES}


def _write_repository() -> None:
    FROZEN.mkdir(exist_ok=True)
    with KEYS.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines("\t".join((url, *keys_of(url))) + "\n" for url in urls())
    for kind in simulator.SITES:
        path = FROZEN / f"{kind}.toml"
        path.unlink(missing_ok=True)
        save_site_rules(path, simulated(kind))
        path.chmod(0o644)


def _write_digests(data: Path) -> None:
    found = {"keys": of_lists(data), "logs": {}}
    for path in logs(data):
        found["logs"][name_of(path)] = of_log(path)
        print(name_of(path), file=sys.stderr)
    DIGESTS.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    _write_repository()
    if len(sys.argv) > 1:
        _write_digests(Path(sys.argv[1]))
