"""What is played: prompts that share what is asked for, so many live at once, and the pool they live in."""

from __future__ import annotations

import random
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from kvaudit.simulate.traces import read_workload

Tokens = list[int]


@dataclass(frozen=True)
class Workload:
    """Requests come one after the other. With each, every live one gets one token; of `live` ones the oldest ends.
    With `decode`, nobody gets a token until all requests have started; then all get so many.

    shared: of each prompt, the tokens that all of its group begin with; groups take turns. full: the pool is filled
    with cached content beforehand. trace: a file of hash ids, whose
    first `requests` are played, each block as two tokens.
    """

    name: str
    about: str
    num_blocks: int
    requests: int
    prompt_tokens: int = 1024
    shared: int = 0
    groups: int = 20
    live: int = 64
    block_size: int = 16
    full: bool = False
    refused: bool = False
    decode: int = 0
    trace: str = ""
    seed: int = 7

    def prompts(self) -> Iterator[Tokens]:
        """The prompts, the same at each call."""
        if self.trace:
            for request in read_workload(Path(self.trace), None).requests[: self.requests]:
                yield request.prompt
            return
        rng = random.Random(self.seed)
        beginnings = [_tokens(rng, self.shared) for _ in range(self.groups)]
        for i in range(self.requests):
            yield beginnings[i % self.groups] + _tokens(rng, self.prompt_tokens - self.shared)

    def fillers(self) -> Iterator[Tokens]:
        """Prompts like no other, with so many blocks that the pool is full of them."""
        rng = random.Random(8)
        size = min(self.num_blocks // 2, 8192) * self.block_size
        for _ in range(-(-self.num_blocks * self.block_size // size)):
            yield _tokens(rng, size)


def _tokens(rng: random.Random, number: int) -> Tokens:
    return array("H", rng.randbytes(2 * number)).tolist()


MAIN = (
    Workload("a", "75 % of each prompt shared, in 20 groups", 8192, 2000, shared=768),
    Workload("b", "nothing shared", 8192, 1000),
    Workload("c", "everything shared", 8192, 1000, shared=1024),
    Workload("d", "a full pool: what is taken evicts something", 8192, 1000, full=True),
    Workload("e", "prompts of 128k tokens, 75 % shared, a million blocks", 10**6, 8, 131_072, 98_304, 2, 4),
    Workload("refusals", "a pool without room: every prompt is refused", 64 * 64, 400, refused=True),
)

POOLS = tuple(
    Workload(f"pool of {size}", "nothing shared, a full pool", size, 300, full=True) for size in (10**4, 10**5, 10**6)
)
LENGTHS = tuple(
    Workload(f"{length} tokens", "nothing shared", 70_000, max(4, 131_072 // length), length, live=2)
    for length in (256, 1024, 4096, 16_384, 65_536, 131_072)
)
LIVE = tuple(
    Workload(f"{live} live", "decoding", 300 * live + 300, live, 256, live=live, decode=steps)
    for live, steps in ((1, 4096), (8, 4096), (64, 1024), (512, 128), (2048, 32))
)


GROWTH = Workload(
    "growth", "half of each prompt shared, a pool that is full", 8192, 31_264, 64, shared=32, live=30, full=True
)
"""A million operations: of each request an allocate, 30 appended tokens and a free."""


def traces(folder: Path) -> list[Workload]:
    """The workloads of the traces in a folder, as far as they are there."""
    found = [
        ("Mooncake, conversations", "mooncake_conversation_trace.jsonl", 16_000, 2000),
        ("Mooncake, synthetic", "mooncake_synthetic_trace.jsonl", 16_000, 2000),
        ("coding agents", "agentic", 16_000, 200),
    ]
    return [
        Workload(
            name, "hash ids, two tokens a block", blocks, requests, live=16, block_size=2, trace=str(folder / file)
        )
        for name, file, blocks, requests in found
        if (folder / file).exists()
    ]
