"""A small scheduler: continuous batching, chunked prefill, preemption by recomputation, over a block manager.

It is audited as it stands: `kvaudit run examples/python/small_scheduler.py:Scheduler`. See docs/scheduling.md.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from kvblocks import BlockManager, OutOfBlocks


@dataclass
class Request:
    """A request. computed: the KV of so many of its tokens is there. key: what the block manager calls it."""

    seq: str
    tokens: list[int]
    length: int  # at which it is finished
    key: int = field(default_factory=count().__next__)
    computed: int = 0


class Scheduler:
    """Schedules one batch a step: first whoever is running, oldest first, then whoever waits.

    The manager registers a block as soon as it is given the tokens of it. So it is given no token before the step that
    computes it.
    """

    SETTINGS = {"max_num_batched_tokens": (3, 2, 5, 16), "max_num_seqs": (1, 2, 3)}

    def __init__(
        self,
        num_blocks: int,
        block_size: int,
        enable_prefix_cache: bool = True,
        *,
        max_num_batched_tokens: int = 64,
        max_num_seqs: int = 16,
    ) -> None:
        self.manager = BlockManager(num_blocks, block_size, enable_prefix_cache)
        self.max_num_batched_tokens = max_num_batched_tokens
        self.max_num_seqs = max_num_seqs
        self.waiting: deque[Request] = deque()
        self.running: list[Request] = []

    # --- what a server calls -------------------------------------------------------------------------------

    def submit(self, seq_id: str, token_ids: Sequence[int], max_new_tokens: int) -> None:
        """A request arrives, and waits."""
        length = len(token_ids) + max_new_tokens
        if self._blocks(length) > self.manager.num_blocks:
            raise OutOfBlocks(f"{length} tokens never fit")
        self.waiting.append(Request(seq_id, list(token_ids), length))

    def step(self, token: int, cancel: Sequence[str] = ()) -> dict[str, Any]:
        """Schedule a batch, compute it, take what was cancelled meanwhile, and give `token` to those who sample."""
        preempted: list[str] = []
        batch = self._schedule(preempted)
        work = [
            {"seq": request.seq, "start": start, "end": request.computed, "table": self.table(request)}
            for request, start in batch
        ]
        for seq in cancel:
            self.cancel(seq)
        finished = [request for request, _ in batch if self._samples(request, token)]
        for request in finished:
            self._release(request)
        return {"passes": [work], "finished": [request.seq for request in finished], "preempted": preempted}

    def cancel(self, seq_id: str) -> None:
        """A request is given up."""
        for request in [request for request in self.waiting if request.seq == seq_id]:
            self.waiting.remove(request)
        for request in [request for request in self.running if request.seq == seq_id]:
            self._release(request)

    # --- scheduling ----------------------------------------------------------------------------------------

    def _schedule(self, preempted: list[str]) -> list[tuple[Request, int]]:
        """The requests of the next batch, each with the position at which its work starts."""
        batch: list[tuple[Request, int]] = []
        budget = self.max_num_batched_tokens
        for request in list(self.running):
            if budget and request in self.running:  # it may have been preempted for an older one
                start = request.computed
                if self._grow(request, min(budget, len(request.tokens) - start), preempted):
                    batch.append((request, start))
                    budget -= request.computed - start
        while self.waiting and budget and not preempted and len(self.running) < self.max_num_seqs:
            begin = self._admit(self.waiting[0], budget)
            if begin is None:
                break
            request = self.waiting.popleft()
            self.running.append(request)
            batch.append((request, begin))
            budget -= request.computed - begin
        return batch

    def _grow(self, request: Request, num_tokens: int, preempted: list[str]) -> bool:
        """Slots for the next tokens; the newest requests are preempted for them. False if that is this one."""
        end = request.computed + num_tokens
        while self._blocks(end) - len(self.table(request)) > self.manager.num_free_blocks:
            newest = self.running[-1]
            self._preempt(newest)
            preempted.append(newest.seq)
            if newest is request:
                return False
        for token in request.tokens[request.computed : end]:
            self.manager.append_slot(request.key, token)
        request.computed = end
        return True

    def _admit(self, request: Request, budget: int) -> int | None:
        """The first chunk of a waiting request. Where its work starts, or None if there is no room."""
        chunk = request.tokens[:budget]
        try:
            self.manager.allocate(request.key, chunk)
        except OutOfBlocks:
            return None
        request.computed = len(chunk)
        return self.manager.num_cached_tokens(request.key)

    def _preempt(self, request: Request) -> None:
        """Give its blocks back; it is computed again, from what is still cached."""
        self._release(request)
        request.computed = 0
        self.waiting.appendleft(request)

    def _samples(self, request: Request, token: int) -> bool:
        """Give a token to a request that is still there and computed to its end; whether it is finished."""
        if request in self.running and request.computed == len(request.tokens):
            request.tokens.append(token)
            return len(request.tokens) == request.length
        return False

    def _release(self, request: Request) -> None:
        self.running.remove(request)
        self.manager.free(request.key)

    def _blocks(self, num_tokens: int) -> int:
        return -(-num_tokens // self.manager.block_size)

    # --- what can be seen ----------------------------------------------------------------------------------

    def table(self, request: Request) -> list[int]:
        """The block table of a running request."""
        return self.manager.block_table(request.key)

    @property
    def num_free_blocks(self) -> int:
        """Blocks that can be taken."""
        return self.manager.num_free_blocks

    def observe(self) -> dict[str, Any]:
        """The pool: who holds what, and what can be taken."""
        state = self.manager.observe()
        names = {key: f"nobody ({key})" for key in state.tables} | {one.key: one.seq for one in self.running}
        return {
            "free": [*state.free, *state.evictable],
            "ref": state.ref,
            "tables": {names[key]: table for key, table in state.tables.items()},
        }
