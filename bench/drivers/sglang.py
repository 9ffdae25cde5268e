"""SGLang's prefix tree and allocator, as its scheduler calls them: one call for the tokens of a whole step."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.workloads import Tokens
from kvaudit.engines import sglang

_MOST_RUNNING = 2304


class SglangDriver:
    """tree: `unified` or `radix`. It compares tokens and hashes nothing."""

    hash = "none: a tree of tokens"

    def __init__(self, root: Path | None, tree: str) -> None:
        engine = sglang.load(root, tree, "lru")
        self.version = engine.version
        self._api: Any = engine.manager._api
        self._api.torch.set_num_threads(1)

    def pool(self, num_blocks: int, block_size: int, longest: int) -> None:
        api = self._api
        slots, kind = num_blocks * block_size, api.torch.float16
        self._size = block_size
        self._pool = api.paged_allocator(slots, block_size, kind, "cpu", None, False)
        running = min(_MOST_RUNNING, max(64, 2**27 // longest))
        self._rows = list(range(running))
        self._pages = api.torch.full((running, longest + block_size), -1, dtype=api.torch.int32)
        self._tree = api.tree(
            api.params(
                disable=False,
                req_to_token_pool=sglang._Rows(self._pages),
                token_to_kv_pool_allocator=self._pool,
                page_size=block_size,
                eviction_policy="lru",
            )
        )

    def prepared(self, tokens: Tokens) -> Any:
        return array("q", tokens)  # as the engine's own requests have it

    def start(self, name: str, prompt: Any) -> Any:
        api, tree, size = self._api, self._tree, self._size
        tokens = prompt[:]  # it grows
        matched = tree.match_prefix(api.match(key=api.key(tokens, None, limit=len(tokens) - 1)))
        node, hit = matched.last_device_node, matched.device_prefix_len
        lock = tree.lock(node)
        if -(-len(tokens) // size) * size - hit > self._pool.available_size() + tree.evictable_size():
            tree.unlock(lock)
            return None
        row = self._rows.pop()
        request = sglang._Request(tokens, hit, row, lock, node, api.record)
        prefix = tree.path_device_indices(node)[:hit]
        starts, ends = api.torch.tensor([hit]), api.torch.tensor([len(tokens)])
        self._pages[row, :hit] = prefix
        self._pages[row, hit : len(tokens)] = api.allocation.alloc_paged_token_slots_extend(
            tree_cache=tree,
            prefix_lens=starts,
            prefix_lens_cpu=starts,
            seq_lens=ends,
            seq_lens_cpu=ends,
            last_loc=prefix[-1:] if hit else api.torch.tensor([-1]),
            extend_num_tokens=len(tokens) - hit,
        )
        tree.checkpoint(request, up_to=len(tokens))
        return request

    def step(self, live: Sequence[Any], token: int) -> None:
        torch, pages = self._api.torch, self._pages
        rows = torch.tensor([request.kv.req_pool_idx for request in live])
        ends = torch.tensor([len(request.full_untruncated_fill_ids) + 1 for request in live])
        last = pages[rows, ends - 2].to(torch.int64)
        slots = self._api.allocation.alloc_paged_token_slots_decode(self._tree, ends, ends, last)
        pages[rows, ends - 1] = slots.to(torch.int32)
        for request in live:
            request.full_untruncated_fill_ids.append(token)

    def free(self, request: Any) -> None:
        request.has_finished = True
        end = len(request.full_untruncated_fill_ids)
        self._tree.checkpoint(request, up_to=end)
        self._tree.free_kv_row(request.kv, [(request.kv.cache_protected_len, end)])
        self._tree.unlock(request.lock)
        self._rows.append(request.kv.req_pool_idx)

    def hit_tokens(self, request: Any) -> int:
        return int(request.cached)
