"""The goals of a changed manager up to the first that stays open: what a negative control needs, sooner.

Two things are not done again that kvblocks itself shows: what its loops change, and which branches are impossible. The
limit of a goal is that of the proof: what is open here is open there.
"""

from __future__ import annotations

import functools
from typing import Any

from kvproofs import sources
from kvproofs.errors import Restart
from kvproofs.executor import Goal
from kvproofs.operations import OPERATIONS

FEASIBILITY_RLIMIT = 30_000
"""Less than in the proof itself, which takes no other paths for it: a branch that is not shown impossible is taken."""

QUICK: dict[str, Any] = {"stop_at_open": True, "feasibility_rlimit": FEASIBILITY_RLIMIT}


def to_the_first_open(operation: str, cls: Any) -> list[Goal]:
    """The goals of an operation, the last of them open; or all, if it is proved.

    Loops forget what they change in kvblocks; the class is explored only if one of its loops changes more.
    """
    changed = {site: dict(containers) for site, containers in changes_of_kvblocks(operation).items()}
    try:
        return list(OPERATIONS[operation](cls, {**QUICK, "changed": changed, "explored": True}))
    except Restart:
        return list(OPERATIONS[operation](cls, QUICK))


@functools.cache
def changes_of_kvblocks(operation: str) -> dict[str, dict[int, dict[str, Any]]]:
    """What the loops of an operation change, for `Executor.changed`."""
    changed: dict[str, dict[int, dict[str, Any]]] = {}
    options = {"changed": changed, "feasibility_rlimit": FEASIBILITY_RLIMIT}
    next(iter(OPERATIONS[operation](sources.manager_class(), options)))  # exploring precedes the first goal
    return changed
