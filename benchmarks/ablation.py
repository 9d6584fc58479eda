"""What each mechanism of the learner earns: the same measure with one of them switched off.

    python benchmarks/ablation.py DIRECTORY [--salts ab] [--only WORD...] [NAME...]

DIRECTORY, NAMEs, halves, shares and false merges are those of `benchmarks/learning.py`.
Half of each log is learned from, the other half measured; ``--salts a`` takes one cut in place of
two. ``--only`` takes the mechanisms with these words. A row says how many rules were learned in
all halves, the mean share found on applications and on public logs, false merges of all merges,
contents lost; then the logs that differ from the first row, each with the shares, and the false
merges where these differ.

A mechanism that changes nothing here stays only if a test fails without it: its docstring names
the test.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from learning import SALTS, WORTH, Log, logs_in, share, total

from scrapy_urlnorm import Normalizer
from scrapy_urlnorm.learning import Evaluation, evaluate, survey
from scrapy_urlnorm.site_rules.operations import EditValue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

LEARNING = "scrapy_urlnorm.learning"
MINER = f"{LEARNING}.miner.Miner"


def answer(value: Any) -> Callable[..., Any]:
    """Return a function that always answers *value*."""
    return lambda *_, **__: value


def without_numbers_and_texts(twins: Any, between: Any = EditValue.between) -> Iterator[EditValue]:
    """Leave out the edits that keep a number or put one text for another."""
    left_out = ("number-before", "number-after", "replace-text")
    return (made for made in between(twins) if made.edit not in left_out)


def everything_kept(_: Any, rules: Any, urls: Any, key: Any, *__: Any) -> tuple[list[Any], int]:
    """Keep all rules that compile, in place of the audit."""
    from scrapy_urlnorm.learning.audit import compiled

    _, kept = compiled((), rules)
    return kept, len({key(url) for url in urls})


#: By mechanism: what is put in place of which functions.
MECHANISMS: dict[str, dict[str, Any]] = {
    "priors (all at 0.4)": {f"{LEARNING}.priors._of_operation": answer(0.4)},
    "test among siblings": {f"{LEARNING}.miner.stands": answer(True)},
    "contexts": {f"{LEARNING}.cover._search": answer(None)},
    "structure": {f"{LEARNING}.candidates._structural": answer(())},
    "sections": {f"{LEARNING}.coverage.sections": answer(None)},
    "guard": {f"{LEARNING}.miner.guarded": answer(())},
    "forms (called from anywhere)": {f"{LEARNING}.forms._called_from_anywhere": answer(())},
    "forms": {f"{LEARNING}.forms.candidates": answer(())},
    "tables": {f"{MINER}._try_tables": answer(False)},
    "closed world": {f"{LEARNING}.coverage.covered": lambda op, context, *_, **__: context},
    "enough values of an edit": {f"{LEARNING}.coverage.enough_values": answer(True)},
    "number and text edits": {
        "scrapy_urlnorm.site_rules.operations.values.EditValue.between": staticmethod(
            without_numbers_and_texts
        )
    },
    "apart": {f"{MINER}._apart": lambda self, op, context: context},
    "exceptions to the catalogue": {f"{LEARNING}.proposals.exceptions": answer([])},
    "audit": {f"{LEARNING}.mining.audited": everything_kept},
}


#: What one log shows: rules learned, and the measure of each half that was not learned.
Result = tuple[int, list[Evaluation]]


def measure(log: Log, salts: str) -> Result:
    """Learn from a half and measure the other one."""
    rules, halves = 0, []
    for salt in salts:
        known, unseen = log.halves(salt)
        learned = [rule for report in survey(known) for rule in report.active]
        rules += len(learned)
        halves.append(evaluate(Normalizer("default", site_rules=learned), log.fair(unseen)))
    return rules, halves


def told(
    what: str, logs: Sequence[Log], results: dict[str, Result], base: dict[str, Result]
) -> str:
    """Return the row of a mechanism."""
    shares: defaultdict[bool, list[float]] = defaultdict(list)
    for log in logs:
        _, halves = results[log.name]
        if total(halves, "redundant") >= WORTH * len(halves):
            shares[log.is_app].append(share(halves))
    halves = [half for _, of in results.values() if total(of, "redundant") for half in of]
    false, merges, lost = (total(halves, of) for of in ("false_merges", "merges", "lost"))
    apps, public = (sum(shares[is_app]) / max(1, len(shares[is_app])) for is_app in (True, False))
    row = f"{what:30}{sum(rules for rules, _ in results.values()):>6}{apps:>8.3f}{public:>8.3f}"
    row += f"{false:>7} of {merges:<6}{lost:>5}  "
    changes = []
    for name, (_, halves) in results.items():
        _, before = base[name]
        wrong, known = total(halves, "false_merges"), total(before, "false_merges")
        if abs(share(halves) - share(before)) > 0.0005 or wrong != known:
            change = f"{name} {share(before):.3f}>{share(halves):.3f}"
            changes.append(change + (f" false {known}>{wrong}" if wrong != known else ""))
    return row + "; ".join(changes)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("directory", type=Path)
    parser.add_argument("names", nargs="*", help="logs to take; all")
    parser.add_argument("--salts", default=SALTS)
    parser.add_argument("--only", nargs="*", default=[""])
    arguments = parser.parse_args()
    logs = [Log(path) for path in logs_in(arguments.directory, arguments.names)]
    print(f"{'without':30}{'rules':>6}{'apps':>8}{'public':>8}{'false':>17}{'lost':>5}  changes")
    base = {log.name: measure(log, arguments.salts) for log in logs}
    print(told("(nothing)", logs, base, base), flush=True)
    for what, patches in MECHANISMS.items():
        if any(word in what for word in arguments.only):
            with ExitStack() as stack:
                for name, new in patches.items():
                    stack.enter_context(patch(name, new))
                results = {log.name: measure(log, arguments.salts) for log in logs}
            print(told(what, logs, results, base), flush=True)


if __name__ == "__main__":
    main()
