"""What the tests of the guard share: a careless caller who drives a guarded manager through a program."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable
from typing import Any

from kvaudit import guard
from kvaudit.goals import GOALS
from kvaudit.guarding import ContractViolation
from kvaudit.programs import of_manager
from kvaudit.protocol import Allocate, Append, Free
from kvaudit.scenario import Scenario
from kvaudit.vectors.make import vector_of
from kvaudit.vectors.programs import PROGRAMS
from kvblocks import OutOfBlocks

KNOWN = [
    *(Scenario(p.scenario.pool, tuple(step.operation for step in vector_of(*p).steps)) for p in PROGRAMS),
    *(goal.witness for goal in GOALS),
]
"""The programs that together show every planted bug."""


NEVER = 10**9
"""So many operations between two full checks that there is none."""


def drive(guarded: Any, scenario: Scenario, id_of: Callable[[str], Hashable] = str) -> None:
    """Make the calls that are legal where they stand, read all the time, and overwrite every list.

    id_of: what the caller calls a sequence.
    """
    lengths: dict[Hashable, int] = {}
    for operation in of_manager(scenario.program):
        seq = id_of(operation.seq)
        lists: list[list[int]] = []
        try:
            if isinstance(operation, Allocate) and seq not in lengths:
                lists.append(list(operation.tokens))
                lists.append(guarded.allocate(seq, lists[0], **operation.extra.named()))
                lengths[seq] = len(operation.tokens)
            elif isinstance(operation, Append) and seq in lengths:
                guarded.append_slot(seq, operation.token)
                lengths[seq] += 1
            elif isinstance(operation, Free) and seq in lengths:
                guarded.free(seq)
                del lengths[seq]
        except OutOfBlocks:
            pass
        for live, length in lengths.items():
            lists.append(guarded.block_table(live))
            guarded.num_cached_tokens(live)
            guarded.slot(live, len(lists) % length)
        free = guarded.num_free_blocks
        size = scenario.pool.block_size
        for num_tokens in (0, 1, free * size, free * size + 1, size):
            guarded.can_allocate(num_tokens)
        for items in lists:
            items[:] = [7] * (len(items) + 1)


def takes(cls: Any, scenario: Scenario) -> bool:
    """Whether a class can be told what the sequences depend on beside their tokens."""
    known = inspect.signature(cls.allocate).parameters
    given = {name for op in scenario.program if isinstance(op, Allocate) for name in op.extra.named()}
    return given <= set(known)


def violation(
    cls: Any, scenario: Scenario, *, id_of: Callable[[str], Hashable] = str, **options: Any
) -> ContractViolation | None:
    """The first broken contract of a class that is driven through a program."""
    if not takes(cls, scenario):
        return None
    pool = scenario.pool
    manager = cls(pool.num_blocks, pool.block_size, pool.enable_prefix_cache)
    given = {"num_blocks": pool.num_blocks, "block_size": pool.block_size}
    options = {**given, "enable_prefix_cache": pool.enable_prefix_cache, "folder": None, **options}
    guarded = guard(manager, "strict", **options)
    try:
        drive(guarded, scenario, id_of)
    except ContractViolation as found:
        return found
    return None
