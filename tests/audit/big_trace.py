"""Writes the trace of a busy server, to measure `kvaudit check` with.

    python tests/audit/big_trace.py FILE [OPERATIONS] [BLOCKS]

Requests of some tenants, each with a system prompt, in conversations of several turns; a turn is a prompt that goes on
from the one before, and an answer of up to 300 tokens. The manager is kvblocks, whose answers are written down as they
come. When it refuses, the oldest request is preempted: freed, and sent again later.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from pathlib import Path

from kvaudit.protocol import Allocate, Append, Free, Mutation, Pool
from kvaudit.trace import FORMAT, Answer, TraceHeader, TraceLine, write_trace
from kvblocks import BlockManager, OutOfBlocks

VOCABULARY = 128_000
AT_ONCE = 200


class Server:
    """Conversations on one manager; `answers` yields what happens."""

    def __init__(self, pool: Pool, rng: random.Random) -> None:
        self._rng = rng
        self._manager = BlockManager(pool.num_blocks, pool.block_size, pool.enable_prefix_cache)
        self._systems = [self._text(rng.randint(100, 1200)) for _ in range(12)]
        self._turns: list[list[int]] = []  # conversations that wait for their next turn
        self._running: dict[str, tuple[list[int], int]] = {}  # request -> its tokens, and how many are to come
        self._number = 0

    def operations(self) -> Iterator[tuple[Mutation, Answer]]:
        """Without end."""
        while True:
            if len(self._running) < AT_ONCE:
                yield from self._admit()
            for seq in list(self._running):
                if seq in self._running:
                    yield from self._decode(seq)

    def _admit(self) -> Iterator[tuple[Mutation, Answer]]:
        rng = self._rng
        if self._turns and rng.random() < 0.7:
            tokens = self._turns.pop(rng.randrange(len(self._turns)))
        else:
            tokens = list(rng.choice(self._systems))
        tokens = tokens + self._text(rng.randint(5, 200))
        self._number += 1
        seq = f"request-{self._number}"
        answer = self._ask(Allocate(seq, tuple(tokens)))
        yield Allocate(seq, tuple(tokens)), answer
        if answer.outcome == "completed":
            self._running[seq] = (tokens, rng.randint(1, 300))
        else:
            self._turns.append(tokens)

    def _decode(self, seq: str) -> Iterator[tuple[Mutation, Answer]]:
        tokens, left = self._running[seq]
        token = self._rng.randrange(VOCABULARY)
        answer = self._ask(Append(seq, token))
        yield Append(seq, token), answer
        if answer.outcome == "completed":
            tokens.append(token)
            self._running[seq] = (tokens, left - 1)
        if left <= 1 or answer.outcome != "completed":
            del self._running[seq]
            self._turns = [*self._turns[-400:], tokens] if len(tokens) < 6_000 else self._turns[-400:]
            yield Free(seq), self._ask(Free(seq))

    def _ask(self, operation: Mutation) -> Answer:
        manager = self._manager
        try:
            if isinstance(operation, Allocate):
                table = tuple(manager.allocate(operation.seq, operation.tokens))
                cached = manager.num_cached_tokens(operation.seq)
                return Answer("completed", table, None, cached, manager.num_free_blocks)
            if isinstance(operation, Append):
                slot = manager.append_slot(operation.seq, operation.token)
                return Answer("completed", slot=slot, num_free_blocks=manager.num_free_blocks)
            manager.free(operation.seq)
            return Answer("completed", num_free_blocks=manager.num_free_blocks)
        except OutOfBlocks as refusal:
            return Answer("refused", num_free_blocks=manager.num_free_blocks, error=type(refusal).__name__)

    def _text(self, length: int) -> list[int]:
        return [self._rng.randrange(VOCABULARY) for _ in range(length)]


def lines(pool: Pool, count: int, seed: int = 0) -> Iterator[TraceLine]:
    """So many operations of a server."""
    answers = Server(pool, random.Random(seed)).operations()
    for number, (operation, answer) in zip(range(1, count + 1), answers, strict=False):
        yield TraceLine(number, operation, came=answer)


def main() -> None:
    """Write the file."""
    path = Path(sys.argv[1])
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 1_000_000
    pool = Pool(int(sys.argv[3]) if len(sys.argv) > 3 else 8_192, 16)
    write_trace(path, TraceHeader(FORMAT, pool, "kvblocks", "strict", steps=count), lines(pool, count))


if __name__ == "__main__":
    main()
