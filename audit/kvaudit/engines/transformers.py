"""The paged cache of Hugging Face transformers behind the seed's API, driven as its scheduler does.

One full-attention layer of 32 half-precision numbers a head, so that a sector of the pool is one block.
"""

from __future__ import annotations

import importlib
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

from kvaudit.engines.adapting import OutOfBlocks, need, tried, version_of
from kvaudit.engines.lite import Engine, Loaded, Recipe, install

_BATCHING = "transformers/generation/continuous_batching"

RECIPE = Recipe(
    package="transformers",
    real=(
        f"{_BATCHING}/cache.py",
        f"{_BATCHING}/cache_allocators/*.py",
        f"{_BATCHING}/requests.py",
        f"{_BATCHING}/utils.py",
    ),
    needs=("torch",),
)

_TRASH = 2
"""Blocks of the engine's pool that take what padding writes and reads."""

_CONFIG = {"num_hidden_layers": 1, "num_attention_heads": 1, "num_key_value_heads": 1, "head_dim": 32}
_SIZES = {"hidden_size": 32, "vocab_size": 32, "layer_types": None, "sliding_window": None}
_BATCH = {
    "max_batch_tokens": 1,
    "max_memory_percent": 1.0,
    "max_blocks_per_request": 0,
    "max_requests_per_batch": 1,
    "return_logprobs": False,
    "use_async_batching": False,
}


class Manager:
    """The seed's API over one real `PagedAttentionCache`; `load` makes the subclass that is bound to a version.

    The KV of a token counts as computed when the call that placed it returns: then its full blocks are marked. The real
    scheduler gives up all that is cached when it runs out of room; here that happens where it is enough to go on.
    """

    _api: ClassVar[_Api]

    def __init__(self, num_blocks: int, block_size: int, enable_prefix_cache: bool = True) -> None:
        self._size, self._num_blocks = block_size, num_blocks
        config = SimpleNamespace(
            page_size=block_size, num_blocks=num_blocks, allow_block_sharing=enable_prefix_cache, **_BATCH
        )
        model = SimpleNamespace(**_CONFIG, **_SIZES)
        self._cache = self._api.cache(model, config, device="cpu", distributed_helper=SimpleNamespace(tp_size=1))
        (self._allocator,) = self._cache.cache_allocators.values()
        self._live: dict[Hashable, _Sequence] = {}

    def allocate(self, seq_id: Hashable, token_ids: Iterable[int]) -> list[int]:
        """Match, schedule and compute a prompt, then mark its blocks. Gives the table before that: where it is written.

        Raises `OutOfBlocks`; then what was matched is given back.
        """
        name = repr(seq_id)
        request = self._api.request(request_id=name, initial_tokens=list(token_ids))
        hit = self._cache.search_prefix_match(name, request.initial_tokens)
        request.position_offset = hit
        if not self._store(request, len(request.initial_tokens) - hit):
            self._cache.free_blocks(name)
            raise OutOfBlocks("can_store_request_tokens is false")
        self._live[seq_id] = _Sequence(request, hit)
        written = self.block_table(seq_id)
        self._computed(request, len(request.initial_tokens) - hit)
        return written

    def append_slot(self, seq_id: Hashable, token_id: int) -> int:
        """Schedule and compute a sampled token. Raises `OutOfBlocks`."""
        request = self._live[seq_id].request
        position: int = request.position_offset
        if not self._store(request, 1):
            raise OutOfBlocks("can_store_request_tokens is false")
        request.generated_tokens.append(token_id)
        slot = self.block_table(seq_id)[position // self._size] * self._size + position % self._size
        self._computed(request, 1)
        return slot

    def _store(self, request: Any, length: int) -> bool:
        cache, allocator = self._cache, self._allocator
        cache.pool.try_to_free_sectors()
        needed = allocator.needs_new_blocks(request.request_id, request.position_offset, length)
        if needed > self._unused and needed <= self._unused + len(allocator.ledger.cached_blocks):
            cache.evict_cached_blocks()
            cache.pool.try_to_free_sectors()
        return bool(cache.can_store_request_tokens(request, length))

    def _computed(self, request: Any, length: int) -> None:
        complete = self._cache.count_new_complete_blocks(request, length)
        request.position_offset += length
        self._cache.mark_complete_blocks(request, complete)

    def free(self, seq_id: Hashable) -> None:
        """Finish the request."""
        self._cache.free_blocks(self._live.pop(seq_id).request.request_id)

    @property
    def _unused(self) -> int:
        pool = self._cache.pool
        return int(pool.num_free_sectors + pool.count_free_blocks(self._allocator.index))

    @property
    def num_free_blocks(self) -> int:
        """Blocks that no request holds: those of the pool, and those that are kept for their content."""
        return self._unused + len(self._allocator.ledger.cached_blocks)

    def num_cached_tokens(self, seq_id: Hashable) -> int:
        """Number of prompt tokens that were hit."""
        return self._live[seq_id].cached

    def block_table(self, seq_id: Hashable) -> list[int]:
        """Block ids, in order of the tokens; those of the two trash blocks are left out."""
        table = self._allocator.block_table[self._live[seq_id].request.request_id]
        return [block - _TRASH for block in table]

    def observe(self) -> dict[str, Any]:
        """The whole state in the seed's words. A reference count of 1 is implicit: a block that is in no structure."""
        ledger, pool = self._allocator.ledger, self._cache.pool
        trees = pool._free_blocks[self._allocator.index].trees.values()
        free = [*pool.free_sectors, *(block for tree in trees for block in tree)]
        blocks = range(_TRASH, self._num_blocks + _TRASH)
        unheld = {*free, *ledger.cached_blocks}
        return {
            "free": [block - _TRASH for block in free],
            "evictable": [block - _TRASH for block in ledger.cached_blocks],
            "ref": [0 if block in unheld else ledger.shared_ref_counts.get(block, 1) for block in blocks],
            "block_hash": [str(ledger.block_to_hash[b]) if b in ledger.block_to_hash else None for b in blocks],
            "hash_to_block": {str(h): block - _TRASH for h, block in ledger.hash_to_block.items()},
            "tables": {i: self.block_table(i) for i in self._live},
            "tokens": {i: s.request.initial_tokens + s.request.generated_tokens for i, s in self._live.items()},
            "cached": {i: s.cached for i, s in self._live.items()},
        }


@dataclass(slots=True)
class _Sequence:
    request: Any
    cached: int


@dataclass(frozen=True, slots=True)
class _Api:
    cache: Any
    request: Any


def load(root: Path | None) -> Engine:
    """Load transformers from `root` (a cached engine or a checkout), or the installed one. Raises `LoadError`."""
    loaded = install(RECIPE, root / "src" if root is not None and (root / "src").is_dir() else root)
    manager = type("Manager", (Manager,), {"_api": _probe(loaded), "__module__": __name__, "__doc__": Manager.__doc__})
    tried("transformers", manager, caches=(True, False))
    notes = ("replaced: the look at the memory of the machine, from which the cache takes its size if it is not told",)
    return Engine(
        "transformers", version_of("transformers", root, loaded), manager, loaded.stubs, "transformers", notes
    )


def _probe(loaded: Loaded) -> _Api:
    importlib.import_module("torch")
    module = loaded.module("transformers.generation.continuous_batching.cache")
    cache = need(module, "PagedAttentionCache")
    for name in ("search_prefix_match", "can_store_request_tokens", "mark_complete_blocks", "evict_cached_blocks"):
        need(cache, name)
    vars(module)["get_device_and_memory_breakdown"] = lambda: (None, 2**40, 0, 0)
    requests = loaded.module("transformers.generation.continuous_batching.requests")
    return _Api(cache, need(requests, "RequestState"))
