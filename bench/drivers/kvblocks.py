"""kvblocks: from a list or an array of tokens, with one hash or another, tokens one by one or all at once."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any

import kvblocks
from bench.workloads import Tokens
from kvblocks import BlockManager, OutOfBlocks


class KvblocksDriver:
    """form: `list` or `array`. batched: one call for the tokens of a step."""

    def __init__(self, hasher: str, form: str, *, batched: bool) -> None:
        self.hash, self._form, self._batched = hasher, form, batched
        self.version = str(getattr(kvblocks, "__version__", ""))

    def pool(self, num_blocks: int, block_size: int, longest: int) -> None:
        self._manager: Any = BlockManager(num_blocks, block_size, hasher=self.hash)

    def prepared(self, tokens: Tokens) -> Any:
        return array("I", tokens) if self._form == "array" else tokens

    def start(self, name: str, prompt: Any) -> Any:
        try:
            self._manager.allocate(name, prompt)
        except OutOfBlocks:
            return None
        return name

    def step(self, live: Sequence[Any], token: int) -> None:
        if self._batched:
            self._manager.append_slots(live, [token] * len(live))
            return
        append = self._manager.append_slot
        for name in live:
            append(name, token)

    def hit_tokens(self, request: Any) -> int:
        return int(self._manager.num_cached_tokens(request))

    def free(self, request: Any) -> None:
        self._manager.free(request)
