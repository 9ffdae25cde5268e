"""One part of the proof, as a process of its own runs it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import chain
from multiprocessing import get_context

import z3

from kvproofs import capacity, sizing, sources
from kvproofs.draining import drained
from kvproofs.encoding import SOURCE, encode
from kvproofs.encoding_injective import injective
from kvproofs.executor import Goal
from kvproofs.lemmas import lemmas
from kvproofs.operations import OPERATIONS
from kvproofs.theorems import Theorem, theorems

_OTHERS: dict[str, Callable[[], Iterator[Goal]]] = {
    "unchecked allocate": lambda: capacity.necessity(sources.class_of(capacity.unchecked()), {}),
    "naive allocate": lambda: capacity.naive_check_is_refuted(capacity.naive()),
    "free all": lambda: drained(sources.manager_class(), {}),
    "encode": lambda: chain(encode(SOURCE, {}), injective()),
    "sizing": lambda: chain(sizing.shared(sizing.SOURCE, {}), sizing.sums()),
    "lemmas": lemmas,
}

PARTS = (*OPERATIONS, *_OTHERS)
_LONGEST = "allocate"  # begins first, so that no processor waits for it in the end


def prove(part: str, seed: int = 0) -> list[Theorem]:
    """The theorems of one operation, or those about what is no operation of kvblocks. seed: of the solver."""
    z3.set_param("smt.random_seed", seed)
    z3.set_param("sat.random_seed", seed)
    goals = OPERATIONS[part](sources.manager_class(), {}) if part in OPERATIONS else _OTHERS[part]()
    return theorems(part, goals)


def prove_all(seed: int = 0) -> list[Theorem]:
    """Every theorem. A process for each part: what Z3 finds depends on the terms that it has seen before."""
    with ProcessPoolExecutor(max_workers=2, mp_context=get_context("spawn"), max_tasks_per_child=1) as pool:
        runs = {part: pool.submit(prove, part, seed) for part in sorted(PARTS, key=_LONGEST.__ne__)}
        return [theorem for part in PARTS for theorem in runs[part].result()]
