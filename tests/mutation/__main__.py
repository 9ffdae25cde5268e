"""The mutation campaign: `PYTHONPATH=tests python -m mutation --help`."""

from __future__ import annotations

import argparse
import sys

from mutation import by_proof
from mutation.campaign import ROOT, Cache, Pair, run
from mutation.generator import UNCHANGED, generated
from mutation.killers import KILLERS
from mutation.planted import planted
from mutation.verdict import Mutant, Verdict


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m mutation", description=__doc__)
    parser.add_argument("-j", type=int, default=1, metavar="N", help="processes")
    parser.add_argument("--only", action="append", metavar="ID", help="mutants whose id begins so")
    parser.add_argument("--killer", choices=KILLERS, action="append")
    options = parser.parse_args()
    cache = Cache(ROOT / ".kvaudit" / "mutation.jsonl")
    every: list[Mutant] = [*generated(), *planted(), UNCHANGED]
    mutants = [m for m in every if not options.only or m.id.startswith(tuple(options.only))]
    pairs = [Pair(killer, m) for killer in options.killer or KILLERS for m in mutants]
    todo = [pair for pair in pairs if cache.get(pair) is None]
    todo.sort(key=lambda pair: (pair.killer == "proof", _late(cache, pair)))
    left = len(todo)

    def on_verdict(pair: Pair, verdict: Verdict) -> None:
        nonlocal left
        left -= 1
        cache.put(pair, verdict)
        print(left, pair.killer, pair.mutant.id, verdict.outcome, f"{verdict.seconds:.1f}", verdict.how, flush=True)

    if any(pair.killer == "proof" for pair in todo):
        by_proof.warm()
    run(todo, options.j, on_verdict)
    return 0


def _late(cache: Cache, pair: Pair) -> bool:
    """What the others did not kill needs the whole proof."""
    others = [cache.get(Pair(killer, pair.mutant)) for killer in KILLERS if killer != pair.killer]
    return not any(verdict is not None and verdict.outcome == "killed" for verdict in others)


if __name__ == "__main__":
    sys.exit(main())
