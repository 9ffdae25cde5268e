"""nano-vllm's `BlockManager`, as its scheduler calls it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.workloads import Tokens
from kvaudit.engines import nano_vllm
from kvaudit.engines.adapting import OutOfBlocks


class NanoVllmDriver:
    """Whichever revision: the adapter has found out how it wants to be called."""

    hash = "xxh64"

    def __init__(self, root: Path | None) -> None:
        engine = nano_vllm.load(root)
        self.version = engine.version or (root.name if root is not None else "")
        self._api: Any = engine.manager._api

    def pool(self, num_blocks: int, block_size: int, longest: int) -> None:
        self._api.sequence.block_size = block_size
        self._manager = self._api.manager(num_blocks, block_size)

    def prepared(self, tokens: Tokens) -> Any:
        return tokens

    def start(self, name: str, prompt: Any) -> Any:
        api, manager = self._api, self._manager
        sequence = api.sequence(prompt)
        try:
            api.claims(manager, sequence)
        except OutOfBlocks:
            return None
        hit = sequence.num_cached_tokens
        sequence.num_scheduled_tokens = sequence.num_tokens - hit
        api.registers(manager, sequence)
        return sequence, hit

    def step(self, live: Sequence[Any], token: int) -> None:
        manager, registers = self._manager, self._api.registers
        for sequence, _ in live:
            sequence.append_token(token)
            if not manager.can_append(sequence):
                raise RuntimeError("no room for one more token")
            manager.may_append(sequence)
            sequence.num_scheduled_tokens = 1
            registers(manager, sequence)

    def free(self, request: Any) -> None:
        self._manager.deallocate(request[0])

    def hit_tokens(self, request: Any) -> int:
        return int(request[1])
