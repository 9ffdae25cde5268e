"""The result of `kvaudit simulate`."""

from __future__ import annotations

import msgspec


class PoolResult(msgspec.Struct, frozen=True):
    """The workload on a pool of one size.

    hit_blocks: blocks of prompts that did not have to be computed. evicted: blocks whose cached content was given up.
    waited: requests that had no room when their turn came, until others had ended. unserved: those that would not fit
    into the pool if they were alone. peak_blocks: the most that live requests held. seconds: of the processor, in
    the manager's calls.
    """

    num_blocks: int
    hit_blocks: int
    hit_rate: float
    evicted: int
    waited: int
    unserved: int
    peak_blocks: int
    seconds: float
    us_per_request: float


class Simulated(msgspec.Struct, frozen=True, tag_field="format", tag="kvaudit-simulation/1"):
    """What `kvaudit simulate --json` writes.

    prompt_blocks and total_blocks: without and with what was generated. Without any manager was counted: seen_blocks,
    those of prompts that had come before; reusable_blocks, those of them that a manager can serve at best. model: how
    long a request lives.
    """

    trace: str
    kind: str
    target: str
    block_size: int
    requests: int
    prompt_blocks: int
    total_blocks: int
    seen_blocks: int
    reusable_blocks: int
    model: str
    pools: list[PoolResult]
    complete: bool
