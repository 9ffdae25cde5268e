"""What a guard costs: the CPU time that it adds to an append, a prompt block and a free, and that of a full check.

    python tests/audit/guard_cost.py [NUM_BLOCKS] [ROUNDS]

The same calls go to a guarded and to a bare kvblocks manager, in turn, on a warm pool of blocks of 16 tokens; the
medians over the rounds are printed. an append at the edge takes a block or makes one full: 1 in 8 does.
The full check is one of everything, with the log of no operation.
"""

from __future__ import annotations

import random
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import kvaudit
from kvaudit.guarding import check_now
from kvblocks import BlockManager

BLOCK_SIZE = 16
PROMPT_BLOCKS = 100
SEQUENCES = 24
APPENDS = 160


def cpu(call: Callable[..., Any], calls: list[tuple[Any, ...]]) -> float:
    """Microseconds of CPU time of these calls."""
    began = time.process_time()
    for arguments in calls:
        call(*arguments)
    return (time.process_time() - began) * 1e6


def round_of(manager: Any, seed: int) -> dict[str, float]:
    """Microseconds an append, a block of a prompt that is new or hit, and a block of a table that is freed."""
    draw = random.Random(seed)
    shared = [draw.randrange(50_000) for _ in range(PROMPT_BLOCKS * BLOCK_SIZE // 2)]
    prompts = []
    for i in range(SEQUENCES):
        own = [draw.randrange(50_000) for _ in range(PROMPT_BLOCKS * BLOCK_SIZE // 2)]
        prompts.append((f"s{i}", shared + own if i % 2 else own + shared))
    names = [name for name, _ in prompts]
    inside = [[(name, position) for name in names] for position in range(APPENDS)]
    cost = {"prompt block": cpu(manager.allocate, prompts) / (SEQUENCES * PROMPT_BLOCKS)}
    spent = {"inside": 0.0, "edge": 0.0}
    for position, calls in enumerate(inside):
        at_edge = position % BLOCK_SIZE in (0, BLOCK_SIZE - 1)
        spent["edge" if at_edge else "inside"] += cpu(manager.append_slot, calls)
    edges = SEQUENCES * APPENDS * 2 // BLOCK_SIZE
    cost["append"] = sum(spent.values()) / (SEQUENCES * APPENDS)
    cost["append, inside a block"] = spent["inside"] / (SEQUENCES * APPENDS - edges)
    cost["append, at the edge"] = spent["edge"] / edges
    cost["free, a block"] = cpu(manager.free, [(name,) for name in names]) / (SEQUENCES * PROMPT_BLOCKS)
    return cost


def main() -> None:
    """Print the medians of the bare calls, the guarded ones, and the differences."""
    num_blocks = int(sys.argv[1]) if len(sys.argv) > 1 else 8_192
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 15
    bare = BlockManager(num_blocks, BLOCK_SIZE)
    guarded = kvaudit.guard(BlockManager(num_blocks, BLOCK_SIZE), "strict", every=10**9, folder=None)
    pairs = []
    for number in range(rounds + 3):  # the first ones fill the pool
        pairs.append((round_of(bare, number), round_of(guarded, number)))
        check_now(guarded)  # also empties its log, as every so many operations it would
    print(f"{num_blocks:,} blocks of {BLOCK_SIZE} tokens, {rounds} rounds, microseconds of CPU time")
    print(f"{'':24}{'bare':>9}{'guarded':>9}{'added':>9}")
    for name in pairs[0][0]:
        one, two = (statistics.median(pair[i][name] for pair in pairs[3:]) for i in (0, 1))
        added = statistics.median(pair[1][name] - pair[0][name] for pair in pairs[3:])
        print(f"{name:24}{one:9.2f}{two:9.2f}{added:9.2f}")
    for i in range(SEQUENCES):
        guarded.allocate(i, [i] * (PROMPT_BLOCKS * BLOCK_SIZE))
    whole = statistics.median(cpu(check_now, [(guarded,)]) for _ in range(5))
    print(f"{'a full check':24}{'':18}{whole:9.0f}")


if __name__ == "__main__":
    main()
