"""`python -m kvproofs`: prove every theorem, print the table and what is assumed; exit status 1 if one is open.

--json FILE writes the evidence for the assurance matrix.
--stability runs the whole proof for several seeds, and with the Z3 of other interpreters: do verdicts depend on them?
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

import z3

from kvproofs import evidence, stability
from kvproofs.proving import prove_all
from kvproofs.report import table, trusted_base


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m kvproofs", description="Prove every theorem.")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write what `kvaudit matrix` reads there")
    parser.add_argument(
        "--verdicts", action="store_true", help="print the verdicts only, and the version of Z3, as JSON"
    )
    parser.add_argument("--seed", type=int, default=0, help="the seed of the solver")
    parser.add_argument("--stability", action="store_true", help="prove everything once for each seed and interpreter")
    parser.add_argument("--seeds", type=int, default=5, help="with --stability: how many seeds (5)")
    parser.add_argument("--python", action="append", default=[], help="with --stability: another one, with its own Z3")
    chosen = parser.parse_args(arguments)
    if chosen.stability:
        return stability.compare(chosen.seeds, chosen.python)
    started = time.perf_counter()
    found = prove_all(chosen.seed)
    still = sum(not theorem.proved for theorem in found)
    if chosen.json is not None:
        evidence.write(chosen.json, evidence.of_theorems(found))
    if chosen.verdicts:
        verdicts = {f"{theorem.operation} {theorem.name}": theorem.verdict for theorem in found}
        print(json.dumps({"z3": z3.get_version_string(), "verdicts": verdicts}))
        return 1 if still else 0
    print(table(found))
    print(trusted_base())
    goals, seconds = sum(theorem.goals for theorem in found), time.perf_counter() - started
    print(f"{len(found) - still} theorems proved, {still} not; {goals} goals, {seconds:.0f} s")
    return 1 if still else 0


if __name__ == "__main__":
    sys.exit(main())
