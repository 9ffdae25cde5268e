"""vllm-mlx's `BlockAwarePrefixCache` over its `PagedCacheManager`, behind the seed's API, driven as its scheduler does.

It is no manager of the blocks that a running request uses: KV is copied out of it when a request is admitted, and into
it when the request ends. So allocate is a whole request, which generates nothing.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from kvaudit.engines.adapting import OutOfBlocks, need, tried, version_of
from kvaudit.engines.lite import Engine, Loaded, Recipe, install

RECIPE = Recipe(
    package="vllm_mlx",
    real=("vllm_mlx/paged_cache.py", "vllm_mlx/prefix_cache.py"),
    optional=("mlx", "mlx_lm"),
)


class Manager:
    """The seed's API over one real cache; `load` makes the subclass that is bound to a version.

    The engine's block 0 is its null block, and is left out.
    """

    _api: ClassVar[_Api]

    def __init__(self, num_blocks: int, block_size: int, enable_prefix_cache: bool = True) -> None:
        if not enable_prefix_cache:
            raise ValueError("vllm-mlx has no switch for its paged prefix cache, other than not to use it")
        self._size = block_size
        self._pool = self._api.pool(block_size=block_size, max_blocks=num_blocks + 1)
        self._cache = self._api.cache(object(), self._pool)
        self._live: dict[Hashable, _Sequence] = {}

    def allocate(self, seq_id: Hashable, token_ids: Iterable[int]) -> list[int]:
        """Admit a request, and store it at once. Raises `OutOfBlocks` where not all of it could be stored."""
        tokens, name = list(token_ids), repr(seq_id)
        fetched, _ = self._cache.fetch_cache(name, tokens)
        hit = fetched.num_tokens if fetched is not None else 0
        self._cache.store_cache(name, tokens, [object()])
        stored = self._pool.get_block_table(name)
        if stored.num_tokens < len(tokens):
            self._cache.release_cache(name)
            raise OutOfBlocks(f"{stored.num_tokens} of {len(tokens)} tokens could be stored")
        self._live[seq_id] = _Sequence(name, tokens, hit)
        return self.block_table(seq_id)

    def append_slot(self, seq_id: Hashable, token_id: int) -> int:
        """A request that has ended takes no token."""
        raise NotImplementedError("what a request generates is private to it until it ends")

    def free(self, seq_id: Hashable) -> None:
        """Forget the request."""
        self._cache.release_cache(self._live.pop(seq_id).name)

    @property
    def num_free_blocks(self) -> int:
        """Blocks that no request holds."""
        return int(self._pool.free_blocks)

    def num_cached_tokens(self, seq_id: Hashable) -> int:
        """Number of tokens that were hit."""
        return self._live[seq_id].cached

    def block_table(self, seq_id: Hashable) -> list[int]:
        """Block ids, in order of the tokens."""
        return [block - 1 for block in self._pool.get_block_table(self._live[seq_id].name).block_ids]

    def observe(self) -> dict[str, Any]:
        """The state in the seed's words. A block can be hit by its own tokens, while a request holds it."""
        pool = self._pool
        hashes = [block.hash_value if block.block_id in pool.allocated_blocks else None for block in pool.blocks[1:]]
        found = {key: block - 1 for key, block in pool.hash_to_block.items() if block in pool.allocated_blocks}
        return {
            "free": [block.block_id - 1 for block in pool.free_block_queue.get_all_free_blocks()],
            "evictable": [],
            "ref": [block.ref_count for block in pool.blocks[1:]],
            "block_hash": hashes,
            "hash_to_block": found,
            "tables": {i: self.block_table(i) for i in self._live},
            "tokens": {i: list(s.tokens) for i, s in self._live.items()},
            "cached": {i: s.cached for i, s in self._live.items()},
        }


@dataclass(slots=True)
class _Sequence:
    name: str
    tokens: list[int]
    cached: int


@dataclass(frozen=True, slots=True)
class _Api:
    pool: Any
    cache: Any


def load(root: Path | None) -> Engine:
    """Load vllm-mlx from `root` (a cached engine or a checkout), or the installed one if None. Raises `LoadError`."""
    loaded = install(RECIPE, root)
    manager = type("Manager", (Manager,), {"_api": _probe(loaded), "__module__": __name__, "__doc__": Manager.__doc__})
    tried("vllm-mlx", manager, appends=False)
    return Engine("vllm-mlx", version_of("vllm-mlx", root, loaded), manager, loaded.stubs, "vllm-mlx")


def _probe(loaded: Loaded) -> _Api:
    pool = need(loaded.module("vllm_mlx.paged_cache"), "PagedCacheManager")
    cache = need(loaded.module("vllm_mlx.prefix_cache"), "BlockAwarePrefixCache")
    for name in ("fetch_cache", "store_cache", "release_cache"):
        need(cache, name)
    return _Api(pool, cache)
