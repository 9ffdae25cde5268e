"""vLLM's `KVCacheManager`, as its scheduler calls it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.workloads import Tokens
from kvaudit.engines import vllm


class VllmDriver:
    """Whichever version: the adapter has found out how it wants to be called."""

    hash = "sha256"

    def __init__(self, root: Path | None) -> None:
        engine = vllm.load(root)
        self.version = engine.version
        self._api: Any = engine.manager._api

    def pool(self, num_blocks: int, block_size: int, longest: int) -> None:
        self._manager = self._api.new_manager(num_blocks + 1, block_size, True)  # one is the null block
        self._size, self._started = block_size, False

    def prepared(self, tokens: Tokens) -> Any:
        return tokens

    def start(self, name: str, prompt: Any) -> Any:
        api, manager = self._api, self._manager
        request = api.new_request(name, prompt, self._size, True)
        blocks, hit, *rest = manager.get_computed_blocks(request)
        if rest:
            request.shared_prefix_boundary = rest[0]
        if api.admit(manager, request, blocks, hit, self._started) is None:
            return None
        self._started = True
        request.status = api.running
        request.num_computed_tokens = request.num_tokens
        return request, hit

    def step(self, live: Sequence[Any], token: int) -> None:
        allocate_slots = self._manager.allocate_slots
        for request, _ in live:
            request.append_output_token_ids(token)
            if allocate_slots(request, 1) is None:
                raise RuntimeError("no room for one more token")
            request.num_computed_tokens += 1

    def free(self, request: Any) -> None:
        self._api.finish(self._manager, request[0])

    def hit_tokens(self, request: Any) -> int:
        return int(request[1])
