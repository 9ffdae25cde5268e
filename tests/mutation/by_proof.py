"""Kills a mutant by the proof alone: a theorem that is proved of kvblocks is not proved of the mutant."""

from __future__ import annotations

import ast
import functools
import time
from collections.abc import Iterable

from kvproofs.errors import Unsupported
from kvproofs.executor import Goal
from kvproofs.operations import OPERATIONS
from kvproofs.theorems import theorems
from mutation.generator import ARITHMETIC, MANAGER, functions
from mutation.verdict import KILLED, SURVIVED, UNSUPPORTED, Mutant, Verdict
from proofs.controls import changes_of_kvblocks, to_the_first_open

_ORDER = (
    "check_tokens",
    "slot",
    "can_allocate",
    "num_cached_tokens",
    "block_table",
    "init",
    "free",
    "append",
    "allocate",
)
"""The operations as the proof knows them, the quickest first."""

_ENTRY = {"append": "append_slot", "init": "__init__"}
"""What an operation of the proof is called in kvblocks, where it is another name."""


def by_proof(mutant: Mutant) -> Verdict:
    """Prove every operation that can reach what is changed; the first goal that stays open kills.

    Survived means: every theorem of these operations is proved of the mutant too.
    """
    began = time.process_time()
    reached = operations_that_reach(mutant.functions)
    unsupported = ""
    for operation in reached:
        try:
            goals = to_the_first_open(operation, mutant.symbolic())
        except Unsupported as reason:  # the answer, or what is left behind, has no symbolic form
            unsupported = unsupported or f"{operation}: {reason}"
            continue
        if goals and _is_unsupported(goals[-1]):
            unsupported = unsupported or f"{operation}: {goals[-1].reason}"
            goals = _all_but_unsupported(operation, mutant)
        how = _open(operation, goals, is_complete=not unsupported)
        if how:
            return Verdict(KILLED, how, time.process_time() - began)
    seconds = time.process_time() - began
    if unsupported:
        return Verdict(UNSUPPORTED, unsupported, seconds)
    if not reached:
        return Verdict(SURVIVED, "no operation that is proved reaches it", seconds)
    return Verdict(SURVIVED, f"proved: {', '.join(reached)}", seconds)


def warm() -> None:
    """Do once, for all processes that are forked from this one, what each would do for itself."""
    for operation in OPERATIONS:
        changes_of_kvblocks(operation)


def _all_but_unsupported(operation: str, mutant: Mutant) -> list[Goal]:
    """The goals of the paths that the executor can run, to the first that stays open."""
    goals = []
    for goal in OPERATIONS[operation](mutant.symbolic(), {}):
        if not _is_unsupported(goal):
            goals.append(goal)
            if not goal.proved:
                break
    return goals


def _is_unsupported(goal: Goal) -> bool:
    return not goal.proved and goal.label == "the program is one that the executor can run"


def _open(operation: str, goals: list[Goal], *, is_complete: bool) -> str:
    """The goal that is open, or the theorem that nothing was said of; empty if there is neither."""
    for goal in goals:
        if not goal.proved:
            return f"{operation}: {goal.theorem or 'execution'}: {goal.label} ({goal.reason or 'false'})"
    missing = [t.name for t in theorems(operation, goals) if not t.proved] if is_complete else []
    return f"{operation}: no path on which {', '.join(missing)} could be shown" if missing else ""


def cost(mutant: Mutant) -> int:
    """A rank: how long it may take until a kill, by the first operation that may show it."""
    reached = operations_that_reach(mutant.functions)
    return _ORDER.index(reached[0]) if reached and reached[0] in _ORDER else len(_ORDER)


def operations_that_reach(changed: Iterable[str]) -> list[str]:
    """The operations of the proof whose code can come to one of these functions, the quickest first."""
    names = set(changed)
    return [
        operation
        for operation in sorted(OPERATIONS, key=lambda name: _ORDER.index(name) if name in _ORDER else len(_ORDER))
        if names & _reached(_ENTRY.get(operation, operation))
    ]


@functools.cache
def _reached(entry: str) -> frozenset[str]:
    """The functions that an operation can come to. The proof of each looks at num_free_blocks before and after."""
    names_in = {
        name: {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
        | {n.attr for n in ast.walk(node) if isinstance(n, ast.Attribute)}
        for module in (MANAGER, ARITHMETIC)
        for name, node in functions(module).items()
    }
    found, waiting = set(), [entry, "num_free_blocks"]
    while waiting:
        name = waiting.pop()
        if name in names_in and name not in found:
            found.add(name)
            waiting += names_in[name]
    return frozenset(found)
