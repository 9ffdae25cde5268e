"""`python -m kvproofs`: prove every theorem, print the table and what is assumed; exit status 1 if one is open."""

from __future__ import annotations

import sys
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from kvproofs.proving import PARTS, prove
from kvproofs.report import table, trusted_base


def main() -> int:
    started = time.perf_counter()
    # A process for each: what Z3 finds depends on the terms that it has seen before.
    with ProcessPoolExecutor(max_workers=2, mp_context=get_context("spawn"), max_tasks_per_child=1) as pool:
        found = [theorem for part in pool.map(prove, PARTS) for theorem in part]
    print(table(found))
    print(trusted_base())
    still = sum(not theorem.proved for theorem in found)
    goals, seconds = sum(theorem.goals for theorem in found), time.perf_counter() - started
    print(f"{len(found) - still} theorems proved, {still} not; {goals} goals, {seconds:.0f} s")
    return 1 if still else 0


if __name__ == "__main__":
    sys.exit(main())
