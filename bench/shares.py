"""Where the time of kvblocks goes: calls that differ in one thing, and what that costs. Public methods alone."""

from __future__ import annotations

import statistics
from array import array
from collections import defaultdict
from collections.abc import Callable
from time import thread_time
from typing import Any

from bench.results import Share
from bench.workloads import MAIN, Tokens
from kvblocks import BlockManager

PROMPT = "a prompt block"
APPEND = "an append"
FREE = "a freed block"

_SIZE = 16
_Costs = dict[str, list[float]]


def shares(rounds: int, tell: Callable[[str], None], num_prompts: int = 100) -> list[Share]:
    """Of a prompt block, an append and a freed block, in microseconds of processor time."""
    nothing_shared = next(workload for workload in MAIN if workload.name == "b")
    prompts = list(nothing_shared.prompts())[:num_prompts]
    costs: _Costs = defaultdict(list)
    for number in range(rounds):
        tell(f"shares: round {number + 1}")
        _round(prompts, costs)
    us = {what: statistics.median(of) for what, of in costs.items()}
    return [
        Share(PROMPT, "a list of tokens is looked at, and packed", us["list"] - us["array"]),
        Share(PROMPT, "SHA-256, and not Python's hash", us["array"] - us["builtin"]),
        Share(PROMPT, "keys by Python's hash; they are matched and registered", us["builtin"] - us["no cache"]),
        Share(PROMPT, "blocks are taken; the table and the record", us["no cache"]),
        Share(APPEND, "inside a block", us["inside"]),
        Share(APPEND, "the first token of a block: one is taken", us["first"]),
        Share(APPEND, "the last token of a block: it is hashed and registered", us["last"]),
        Share(FREE, "with a key: it becomes evictable", us["free array"]),
        Share(FREE, "without one: it goes to the free list", us["free no cache"]),
    ]


def _round(prompts: list[Tokens], costs: _Costs) -> None:
    packed = [array("I", tokens) for tokens in prompts]
    ways: list[tuple[str, dict[str, Any], Any]] = [
        ("list", {}, prompts),
        ("array", {}, packed),
        ("builtin", {"hasher": "builtin"}, packed),
        ("no cache", {"enable_prefix_cache": False}, packed),
    ]
    for name, options, given in ways:
        blocks = sum(-(-len(tokens) // _SIZE) for tokens in given)
        manager = BlockManager(2 * blocks, _SIZE, **options)
        began = thread_time()
        for i, tokens in enumerate(given):
            manager.allocate(i, tokens)
        costs[name].append((thread_time() - began) / blocks * 1e6)
        if name == "array":
            _appended(manager, len(given), costs)
            blocks += len(given)
        began = thread_time()
        for i in range(len(given)):
            manager.free(i)
        costs[f"free {name}"].append((thread_time() - began) / blocks * 1e6)


def _appended(manager: BlockManager, live: int, costs: _Costs) -> None:
    """A block more for each sequence, whose last block is full: one token for each in turn."""
    seconds: dict[str, list[float]] = defaultdict(list)
    append = manager.append_slot
    for offset in range(_SIZE):
        began = thread_time()
        for i in range(live):
            append(i, offset)
        where = "first" if offset == 0 else "last" if offset == _SIZE - 1 else "inside"
        seconds[where].append((thread_time() - began) / live * 1e6)
    for where, of in seconds.items():
        costs[where].append(statistics.median(of))
