"""Planted bugs in the small scheduler, each in one of its decisions.

`MUTANTS` lists them, each with the obligations of which it can truthfully be said that it breaks them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from kvblocks import OutOfBlocks
from mutants.pool import KeepsMappingOnEviction
from small_scheduler import Request, Scheduler


class RegistersChunksBeforeTheyAreComputed(Scheduler):
    """The manager is given the whole prompt with its first chunk: a later step hits what nobody has computed."""

    def _admit(self, request: Request, budget: int) -> int | None:
        try:
            self.manager.allocate(request.key, request.tokens)
        except OutOfBlocks:
            return None
        cached = self.manager.num_cached_tokens(request.key)
        request.computed = min(len(request.tokens), cached + budget)
        return cached

    def _grow(self, request: Request, num_tokens: int, preempted: list[str]) -> bool:
        if request.computed + num_tokens > len(self.manager.observe().tokens[request.key]):
            return super()._grow(request, num_tokens, preempted)
        request.computed += num_tokens
        return True


class KeepsTheBlocksOfThePreempted(Scheduler):
    """Who is preempted gives nothing back, and comes again as somebody else."""

    def _preempt(self, request: Request) -> None:
        self.running.remove(request)
        self.waiting.appendleft(Request(request.seq, request.tokens, request.length))


class CancelDuringComputeFreesTwice(Scheduler):
    """The blocks of a request that is cancelled during compute are put on the free list once more."""

    def step(self, token: int, cancel: Sequence[str] = ()) -> dict[str, Any]:
        answer = super().step(token, cancel)
        for item in (item for items in answer["passes"] for item in items if item["seq"] in cancel):
            self.manager._free.extend(item["table"])
        return answer


class ResumesAtTheOldPosition(Scheduler):
    """Who was preempted goes on where it was, as if its blocks were still there."""

    def _preempt(self, request: Request) -> None:
        computed = request.computed
        super()._preempt(request)
        request.computed = computed

    def _admit(self, request: Request, budget: int) -> int | None:
        before = request.computed
        start = super()._admit(request, budget)
        return start if start is None or not before else max(start, min(before, request.computed - 1))


class HitCountsTheLastToken(Scheduler):
    """A prompt that is cached to its end leaves nothing to compute."""

    def _admit(self, request: Request, budget: int) -> int | None:
        full, size = len(request.tokens) // self.manager.block_size, self.manager.block_size
        start = super()._admit(request, budget)
        state = self.manager.observe()
        if start is None or full * size != len(request.tokens) or request.computed != len(request.tokens):
            return start
        last = state.hashes[request.key][-1]
        return len(request.tokens) if state.hash_to_block.get(last) not in state.tables[request.key] else start


class WritesIntoASharedPartialBlock(Scheduler):
    """A prompt that another request begins with shares its last block, which is only half full."""

    def table(self, request: Request) -> list[int]:
        table = super().table(request)
        for other in self.running:
            theirs = super().table(other) if other is not request else []
            begins_so = other.tokens[: len(request.tokens)] == request.tokens and len(theirs) >= len(table)
            if begins_so and len(request.tokens) % self.manager.block_size:
                table[-1] = theirs[len(table) - 1]
                break
        return table


class ForgetsToForget(Scheduler):
    """Its manager keeps the mapping of a block that it gives to somebody else."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        old = self.manager
        self.manager = KeepsMappingOnEviction(old.num_blocks, old.block_size, old.enable_prefix_cache)


class CachesWithTheCacheOff(Scheduler):
    """The switch of the prefix cache does not reach the manager."""

    def __init__(self, num_blocks: int, block_size: int, enable_prefix_cache: bool = True, **settings: Any) -> None:
        super().__init__(num_blocks, block_size, True, **settings)


class Starves(Scheduler):
    """Whoever was preempted is never scheduled again."""

    def _preempt(self, request: Request) -> None:
        self._release(request)


class PreemptsForEver(Scheduler):
    """Whoever was preempted comes back, and is preempted again each time before it gets a token."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.unlucky: set[int] = set()

    def _preempt(self, request: Request) -> None:
        super()._preempt(request)
        self.unlucky.add(request.key)

    def _admit(self, request: Request, budget: int) -> int | None:
        return super()._admit(request, min(budget, len(request.tokens) - (request.key in self.unlucky)))

    def _grow(self, request: Request, num_tokens: int, preempted: list[str]) -> bool:
        if request.key not in self.unlucky:
            return super()._grow(request, num_tokens, preempted)
        self._preempt(request)
        preempted.append(request.seq)
        return False


class RegistersWhatWasOnlySampled(Scheduler):
    """The last token, which is never computed, is given to the manager before the blocks are."""

    def _samples(self, request: Request, token: int) -> bool:
        finished = super()._samples(request, token)
        if finished and self.manager.num_free_blocks:
            self.manager.append_slot(request.key, token)
        return finished


class ReportsAnOldTable(Scheduler):
    """The worker is not told of a block that was taken for decoding."""

    def table(self, request: Request) -> list[int]:
        return super().table(request)[: self._blocks(len(request.tokens) - 1) or 1]


class KeepsTheCancelledInTheQueue(Scheduler):
    """A request that is cancelled while it waits is scheduled all the same."""

    def cancel(self, seq_id: str) -> None:
        if any(request.seq == seq_id for request in self.running):
            super().cancel(seq_id)


class FinishesATokenEarly(Scheduler):
    """The last token is not generated."""

    def submit(self, seq_id: str, token_ids: Sequence[int], max_new_tokens: int) -> None:
        super().submit(seq_id, token_ids, max(1, max_new_tokens - 1))


class RefusesAFullPool(Scheduler):
    """A request that needs every block is turned away."""

    def submit(self, seq_id: str, token_ids: Sequence[int], max_new_tokens: int) -> None:
        if self._blocks(len(token_ids) + max_new_tokens) == self.manager.num_blocks:
            raise OutOfBlocks("as good as full")
        super().submit(seq_id, token_ids, max_new_tokens)


class LeaksWhatIsCancelledDuringCompute(Scheduler):
    """A request that is cancelled while the step computes it is forgotten, and its blocks are not given back."""

    def step(self, token: int, cancel: Sequence[str] = ()) -> dict[str, Any]:
        running = [request for request in self.running if request.seq in cancel]
        for request in running:
            self.running.remove(request)
        return super().step(token, cancel)


class Mutant(NamedTuple):
    """One planted bug, and what it breaks."""

    cls: type[Scheduler]
    names: tuple[str, ...]


MUTANTS = (
    Mutant(RegistersChunksBeforeTheyAreComputed, ("K1",)),
    Mutant(KeepsTheBlocksOfThePreempted, ("I4", "O2")),
    Mutant(CancelDuringComputeFreesTwice, ("I8", "K2", "I4", "I1")),
    Mutant(ResumesAtTheOldPosition, ("K1",)),
    Mutant(HitCountsTheLastToken, ("I5",)),
    Mutant(WritesIntoASharedPartialBlock, ("K1", "K2")),
    Mutant(ForgetsToForget, ("K1",)),
    Mutant(CachesWithTheCacheOff, ("O9",)),
    Mutant(Starves, ("O2",)),
    Mutant(PreemptsForEver, ("O2",)),
    Mutant(RegistersWhatWasOnlySampled, ("K1",)),
    Mutant(ReportsAnOldTable, ("O5",)),
    Mutant(KeepsTheCancelledInTheQueue, ("O2",)),
    Mutant(FinishesATokenEarly, ("O2",)),
    Mutant(RefusesAFullPool, ("O2",)),
    Mutant(LeaksWhatIsCancelledDuringCompute, ("I4", "O2")),
)
