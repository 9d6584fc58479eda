"""``python -m simulation``: run many seeds, or one plan again."""

from __future__ import annotations

import argparse
import gc
import json
import sys
import time

from simulation.crawl import Crawl, trouble_of
from simulation.plan import Plan, plan_of, smaller


def shrunk(plan: Plan, *, repeats: bool) -> Plan:
    """Return the smallest plan that is still in trouble."""
    for other in smaller(plan):
        if trouble_of(other, repeats=repeats):
            return shrunk(other, repeats=repeats)
    return plan


def main() -> int:
    parser = argparse.ArgumentParser(prog="simulation")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=1e9, help="begin no seed later than that")
    parser.add_argument("--once", action="store_true", help="do not run each seed three times")
    parser.add_argument("--plan", type=json.loads, help="one plan, as it was printed")
    args = parser.parse_args()
    gc.set_threshold(50_000, 20, 20)  # an eighth of the time went there
    if args.plan:
        plan = Plan(**{**args.plan, "kills": tuple(args.plan.get("kills", ()))})
        crawl = Crawl(plan).crawl()
        print(len(crawl.sent), "requests;", trouble_of(plan) or "no trouble")
        return bool(crawl.trouble)
    begun, bad = time.perf_counter(), 0
    for seed in range(args.first, args.first + args.seeds):
        if time.perf_counter() - begun > args.seconds:
            args.seeds = seed - args.first
            break
        plan = plan_of(seed)
        if trouble := trouble_of(plan, repeats=not args.once):
            bad += 1
            small = shrunk(plan, repeats=not args.once)
            default = Plan(seed)._asdict()
            said = {k: v for k, v in small._asdict().items() if k == "seed" or v != default[k]}
            print(f"seed {seed}: {trouble}\n  python -m simulation --plan '{json.dumps(said)}'")
    seconds = time.perf_counter() - begun
    print(f"{args.seeds:,} seeds, {bad} in trouble, {seconds:.0f} s")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
