"""Contents that are lost when a crawl is killed again and again, some of the time during an audit.

    python benchmarks/kills.py [--kills 200] [--seed N] [--site NAME ...] [--keep FOLDER]

Crawls the sites of ``tests/kill_site.py`` on loopback with the settings that the add-on has by
default and a JOBDIR, kills the crawls with SIGKILL at random moments, and resumes them until they
end. Half of the kills wait for a likely audit: for any, for one whose answer contradicts a rule, or
until its twin is asked for again (more than a third of all come to pass so). A content is lost if
the spider has seen it in none of the runs of a crawl. The first crawl of each site is not killed:
what it loses is not the doing of a kill.

The sites "redirects" and "relearned" are hard for a crawl that is not killed, too.

Prints a line of JSON for each crawl, then a summary. With --keep, the logs and the JOBDIR of
crawls that lost something are moved to FOLDER. The exit status is 1 if anything was lost.
Which kills there are follows from the seed, but not what the crawl is doing at that moment.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import signal
import sys
import tempfile
from collections import Counter
from itertools import chain, cycle
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent.parent / "tests"), str(Path(__file__).parent.parent)]

from kill_site import AGAIN, ANY, AUDIT, DISAGREEING, SITES, killed_crawl

#: The kills of one crawl: the most, and what they are drawn from. Some audits are never sent.
MOST, KINDS = 8, (ANY, ANY, ANY, AUDIT, DISAGREEING, AGAIN)


def main() -> int:
    """Crawl and kill; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kills", type=int, default=200, help="in all crawls together")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--site", nargs="*", choices=SITES, default=["forum", "slow-forum"])
    parser.add_argument("--keep", type=Path, help="folder for what crawls leave that lost contents")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so the crawl is ended, too
    chance = random.Random(options.seed)
    total: Counter[str] = Counter()
    names = chain(
        ((name, False) for name in options.site), ((name, True) for name in cycle(options.site))
    )
    for number, (name, is_killed) in enumerate(names):
        left = options.kills - total["kills"]
        if is_killed and left <= 0:
            break
        kills = chance.choices(KINDS, k=min(left, chance.randint(1, MOST))) if is_killed else []
        with tempfile.TemporaryDirectory() as folder:
            outcome = killed_crawl(SITES[name](), Path(folder), kills, chance)
            if outcome["lost"] and options.keep:
                shutil.copytree(folder, options.keep / f"{options.seed}-{number}")
        line = {"crawl": number, "site": name, "planned": kills, **outcome}
        print(json.dumps(line), flush=True)
        lost = len(outcome["lost"])
        if is_killed:
            total.update({key: outcome[key] for key in ("kills", "audit_kills", "contents")})
            total.update(crawls=1, lost=lost, crawls_with_loss=bool(lost))
        else:
            total["lost_without_kills"] += lost
    print(
        f"{total['kills']} kills in {total['crawls']} crawls, of them {total['audit_kills']} during "
        f"a likely audit: lost {total['lost']} of {total['contents']} contents, in "
        f"{total['crawls_with_loss']} crawls; {total['lost_without_kills']} lost without a kill"
    )
    return 1 if total["lost"] or total["lost_without_kills"] else 0


if __name__ == "__main__":
    sys.exit(main())
