"""The two paged caches that Hugging Face transformers has had, with the calls that its scheduler makes on them.

One full-attention layer of 32 half-precision numbers a head. Requests are the engine's own `RequestState`.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Protocol

from kvaudit.engines.adapting import offering

_MODEL = {"num_hidden_layers": 1, "num_attention_heads": 1, "num_key_value_heads": 1, "head_dim": 32}
_SIZES = {"hidden_size": 32, "vocab_size": 32, "layer_types": None, "sliding_window": None}
_BATCH = {
    "max_batch_tokens": 1,
    "max_memory_percent": 1.0,
    "max_blocks_per_request": 0,
    "max_requests_per_batch": 1,
    "return_logprobs": False,
    "use_async_batching": False,
}
MODEL = SimpleNamespace(**_MODEL, **_SIZES, _attn_implementation="sdpa")
_ALONE = {"distributed_helper": SimpleNamespace(tp_size=1), "tp_plan": None}
"""One device: what the versions have that divide the heads among several."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What a cache holds, in block ids from 0. free: the next one first, as far as there is an order."""

    free: list[int]
    idle: list[int]
    ref: list[int]
    block_hash: list[str | None]
    hash_to_block: dict[str, int]


class Paged(Protocol):
    """One cache of a pool of blocks, behind the names that both have for the same thing."""

    def match(self, request: Any) -> int:
        """Give a new request what is cached of its prompt; returns the tokens that need not be computed."""
        ...

    def store(self, request: Any, length: int) -> bool:
        """Make room for the next `length` tokens of a request, or say that there is none."""
        ...

    def computed(self, request: Any, length: int) -> None:
        """The forward pass is over: its full blocks are registered."""
        ...

    def fork(self, parent: str, past: int, name: str) -> bool:
        """Make a table of that name from the parent's, of which so many tokens are computed. False: no room.

        Raises RuntimeError where a block that is not shared is no copy of the parent's.
        """
        ...

    def free(self, request: Any) -> None: ...

    def table(self, request: Any) -> list[int]: ...

    @property
    def unheld(self) -> int:
        """Blocks that no request holds."""
        ...

    def look(self) -> Seen: ...


class SectorCache:
    """Version 5.17 and later: `cache_allocators`, one ledger an allocator, and a pool of sectors.

    A sector is one block. The first two take what padding writes and reads, and are left out.
    """

    TRASH = 2

    def __init__(self, made: Any, num_blocks: int, block_size: int, sharing: bool) -> None:
        config = SimpleNamespace(page_size=block_size, num_blocks=num_blocks, allow_block_sharing=sharing, **_BATCH)
        parts = {"config": MODEL, "continuous_batching_config": config, "device": "cpu"} | _ALONE
        self._cache = offering(made, *parts)(**parts)
        ((self._name, self._allocator),) = self._cache.cache_allocators.items()
        self._blocks = range(self.TRASH, num_blocks + self.TRASH)

    def match(self, request: Any) -> int:
        hit: int = self._cache.search_prefix_match(request.request_id, request.initial_tokens)
        return hit

    def store(self, request: Any, length: int) -> bool:
        """The scheduler gives up all that is cached when it runs short; here that happens where it is enough."""
        cache, allocator = self._cache, self._allocator
        cache.pool.try_to_free_sectors()
        needed = allocator.needs_new_blocks(request.request_id, request.position_offset, length)
        if self._unused < needed <= self.unheld:
            cache.evict_cached_blocks()
            cache.pool.try_to_free_sectors()
        return bool(cache.can_store_request_tokens(request, length))

    def computed(self, request: Any, length: int) -> None:
        complete = self._cache.count_new_complete_blocks(request, length)
        request.position_offset += length
        self._cache.mark_complete_blocks(request, complete)

    def fork(self, parent: str, past: int, name: str) -> bool:
        self._cache.pool.try_to_free_sectors()
        copies: dict[str, tuple[list[int], list[int]]] = {self._name: ([], [])}
        state = SimpleNamespace(request_id=parent, current_len=lambda: past)
        if not self._cache.prepare_fork_request(state, [name], copies):
            return False
        _stamp(self._allocator._copy_view, self._allocator.block_table[parent])
        self._cache.perform_cache_copy(copies)
        _compare(self._allocator._copy_view, self._allocator.block_table[name])
        return True

    def free(self, request: Any) -> None:
        self._cache.free_blocks(request.request_id)

    def table(self, request: Any) -> list[int]:
        return [block - self.TRASH for block in self._allocator.block_table[request.request_id]]

    @property
    def _unused(self) -> int:
        return int(self._cache.pool.num_free_sectors + self._cache.pool.count_free_blocks(self._allocator.index))

    @property
    def unheld(self) -> int:
        return self._unused + len(self._allocator.ledger.cached_blocks)

    def look(self) -> Seen:
        """A reference count of 1 is implicit: a block that is in no structure."""
        ledger, pool = self._allocator.ledger, self._cache.pool
        trees = pool._free_blocks[self._allocator.index].trees.values()
        free = [*pool.free_sectors, *(block for tree in trees for block in tree)]
        unheld = {*free, *ledger.cached_blocks}
        return Seen(
            [block - self.TRASH for block in free],
            [block - self.TRASH for block in ledger.cached_blocks],
            [0 if block in unheld else ledger.shared_ref_counts.get(block, 1) for block in self._blocks],
            [_text(ledger.block_to_hash.get(block)) for block in self._blocks],
            {str(key): block - self.TRASH for key, block in ledger.hash_to_block.items()},
        )


class ManagedCache:
    """Version 5.5.0 to 5.16: `cache_manager.py`, one `BlockManager` for all allocators.

    As many blocks are asked for as the tokens need. The scheduler asks for up to one more (`scheduler.py:122`), which
    no manager can see.
    """

    def __init__(self, made: Any, num_blocks: int, block_size: int, sharing: bool) -> None:
        config = SimpleNamespace(block_size=block_size, num_blocks=num_blocks, allow_block_sharing=sharing, **_BATCH)
        parts = {"config": MODEL, "continuous_batching_config": config, "device": "cpu"} | _ALONE
        self._cache = offering(made, *parts)(**parts)
        (self._allocator,) = self._cache.group_cache_managers
        self._manager = self._cache._block_manager
        self._size, self._blocks = block_size, range(num_blocks)

    def match(self, request: Any) -> int:
        """As `Scheduler._infer_request_tokens`: one token is left to compute, where all blocks are hits, too."""
        if not self._cache.use_prefix_sharing:
            return 0
        hit: int = self._cache.search_prefix_match(request.request_id, request.initial_tokens)
        return min(hit, len(request.initial_tokens) - 1)

    def store(self, request: Any, length: int) -> bool:
        held = len(self._allocator.block_table.get(request.request_id, ()))
        needed = -(-(int(request.position_offset) + length) // self._size) - held
        return needed <= 0 or self._cache.allocate_blocks(needed, request.request_id, held) is not None

    def computed(self, request: Any, length: int) -> None:
        complete = (request.position_offset % self._size + length) // self._size
        request.position_offset += length
        if self._cache.allow_block_sharing:
            self._cache.mark_shareable_blocks_as_complete(request, complete)

    def fork(self, parent: str, past: int, name: str) -> bool:
        """Raises ValueError if there is no room, as in the engine, which does not go on after it.

        Which blocks are shared it tells by their records, and not by the tokens that are computed.
        """
        source, copies = self._cache.fork_request(parent, [name])
        if source:
            view = self._cache.key_cache[0].view(-1, self._size * MODEL.head_dim)
            _stamp(view, self._allocator.block_table[parent])
            self._cache.copy_cache(source, copies)
            _compare(view, self._allocator.block_table[name])
        return True

    def free(self, request: Any) -> None:
        if request.request_id in self._allocator.block_table:
            self._cache.free_blocks(request.request_id)

    def table(self, request: Any) -> list[int]:
        return list(self._allocator.block_table[request.request_id])

    @property
    def unheld(self) -> int:
        return int(self._cache.get_num_free_blocks())

    def look(self) -> Seen:
        """Without sharing no block has a record, and those that are not free are held once. A block that was evicted
        keeps its record until it is taken again, when it gets a new one."""
        manager = self._manager
        unused, records = set(manager._uninit_block_ids), manager._id_to_block
        held = {block: records[block] for block in self._blocks if block in records and block not in unused}
        return Seen(
            list(manager._uninit_block_ids),
            list(manager._init_block_ids),
            [held[b].ref_count if b in held else int(b not in unused) for b in self._blocks],
            [_text(held[b].hash) if b in held else None for b in self._blocks],
            {str(key): block for key, block in manager._hash_to_id.items()},
        )


def _text(key: int | None) -> str | None:
    return None if key is None else str(key)


def _stamp(view: Any, table: list[int]) -> None:
    """Write into each block of a table its place in it. view: a row a block."""
    for place, block in enumerate(table):
        view[block] = place % 200


def _compare(view: Any, table: list[int]) -> None:
    """Whether each block holds what was stamped at its place. Raises RuntimeError: the fork copied something else."""
    for place, block in enumerate(table):
        if not bool((view[block] == place % 200).all()):
            raise RuntimeError(f"block {block} of the fork is no copy of the parent's block at place {place}")
