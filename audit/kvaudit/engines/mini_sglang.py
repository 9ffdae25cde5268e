"""mini-sglang's `CacheManager` and radix tree behind the seed's API, driven as its scheduler does; from a checkout.

Two things are replaced, as there is no GPU: the kernel that compares keys, and pinned memory, which is ordinary memory
here. The clock, by which the tree tells what is old, is a counter.
"""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

from kvaudit.engines.adapting import OutOfBlocks, need, tried, version_of
from kvaudit.engines.lite import Engine, Loaded, LoadError, Recipe, install

RECIPE = Recipe(
    package="minisgl",
    real=(
        "minisgl/core.py",
        "minisgl/kvcache/*.py",
        "minisgl/scheduler/cache.py",
        "minisgl/utils/misc.py",
        "minisgl/utils/registry.py",
    ),
    needs=("torch",),
)

_NO_LIMIT = 2**30
_MOST_RUNNING = 256


@dataclass(frozen=True, slots=True)
class _Api:
    torch: Any
    core: Any
    cache: Any


class Manager:
    """The seed's API over one real `CacheManager` and its page table; `load` makes the subclass bound to a revision.

    The KV of a token counts as computed when the call that placed it returns. Room is asked for as the scheduler's
    PrefillAdder does, without what it reserves for tokens to come, and in whole pages.
    """

    _api: ClassVar[_Api]

    def __init__(self, num_blocks: int, block_size: int, enable_prefix_cache: bool = True) -> None:
        torch, core = self._api.torch, self._api.core
        core._GLOBAL_CTX = None
        core.set_global_ctx(core.Context(page_size=block_size))
        self._size = block_size
        self._num_blocks = num_blocks
        self._rows = list(range(_MOST_RUNNING))
        self._pages = torch.full((_MOST_RUNNING, (num_blocks + 1) * block_size), -1, dtype=torch.int32)
        kind = "radix" if enable_prefix_cache else "naive"
        self._manager = self._api.cache.CacheManager(num_blocks, block_size, self._pages, kind)
        self._live: dict[Hashable, _Sequence] = {}

    def allocate(self, seq_id: Hashable, token_ids: Iterable[int]) -> list[int]:
        """Match, lock, allocate and compute a prompt, and enter it into the tree. Raises `OutOfBlocks`."""
        tokens = list(token_ids)
        m, ids = self._manager, self._api.torch.tensor(tokens, dtype=self._api.torch.int32)
        handle = m.match_req(SimpleNamespace(input_ids=ids, input_len=len(tokens))).cuda_handle
        hit: int = handle.cached_len
        wanted = -(-len(tokens) // self._size) * self._size - hit
        if wanted > m.available_size:
            raise OutOfBlocks(f"{wanted} slots are wanted and {m.available_size} available")
        m.lock(handle)
        if wanted > m.available_size:
            m.unlock(handle)
            raise OutOfBlocks(f"{wanted} slots are wanted and {m.available_size} available")
        row = self._rows.pop()
        if hit:
            self._pages[row, :hit].copy_(handle.get_matched_indices())
        request = self._api.core.Req(
            input_ids=ids,
            table_idx=row,
            cached_len=hit,
            output_len=_NO_LIMIT,
            uid=row,
            sampling_params=None,
            cache_handle=handle,
        )
        m.allocate_paged([request])
        self._live[seq_id] = _Sequence(request, tokens, hit)
        written = self.block_table(seq_id)
        request.complete_one()
        with m.lazy_free_region():
            m.cache_req(request, finished=False)
        return written

    def append_slot(self, seq_id: Hashable, token_id: int) -> int:
        """Allocate and compute a sampled token. Raises `OutOfBlocks`."""
        sequence, m = self._live[seq_id], self._manager
        request, position = sequence.request, len(sequence.tokens)
        if position % self._size == 0 and m.available_size < self._size:
            raise OutOfBlocks("no page is available")
        request.append_host(self._api.torch.tensor([token_id], dtype=self._api.torch.int32))
        sequence.tokens.append(token_id)
        m.allocate_paged([request])
        request.complete_one()
        return int(self._pages[request.table_idx, position])

    def free(self, seq_id: Hashable) -> None:
        """Finish the request: what it filled enters the tree."""
        request = self._live.pop(seq_id).request
        self._rows.append(request.table_idx)
        with self._manager.lazy_free_region():
            self._manager.cache_req(request, finished=True)

    @property
    def num_free_blocks(self) -> int:
        """Pages that no request holds, as the scheduler counts them."""
        return int(self._manager.available_size // self._size)

    def num_cached_tokens(self, seq_id: Hashable) -> int:
        """Number of prompt tokens that were hit."""
        return self._live[seq_id].cached

    def block_table(self, seq_id: Hashable) -> list[int]:
        """The pages that the request's row names, in order of the tokens."""
        sequence = self._live[seq_id]
        row = self._pages[sequence.request.table_idx, : len(sequence.tokens) : self._size]
        return [slot // self._size for slot in row.tolist()]

    def observe(self) -> dict[str, Any]:
        """The whole state in the seed's words: O(pool). A page of the tree carries the tokens of its whole path."""
        tables = {i: self.block_table(i) for i in self._live}
        ref, hashes, mapping, evictable = [0] * self._num_blocks, [None] * self._num_blocks, {}, []
        for table in tables.values():
            for b in table:
                ref[b] += 1
        content: list[str | None] = list(hashes)
        for key, b, locks in self._tree():
            ref[b], content[b], mapping[key] = locks, key, b
            evictable += [b] if not locks else []
        return {
            "free": [slot // self._size for slot in self._manager.free_slots.tolist()],
            "evictable": evictable,
            "ref": ref,
            "block_hash": content,
            "hash_to_block": mapping,
            "tables": tables,
            "tokens": {i: list(s.tokens) for i, s in self._live.items()},
            "cached": {i: s.cached for i, s in self._live.items()},
        }

    def _tree(self) -> Iterator[tuple[str, int, int]]:
        """(tokens of the path, page, locks) of every page of the tree."""
        root = getattr(self._manager.prefix_cache, "root_node", None)
        nodes = [(child, "") for child in root.children.values()] if root is not None else []
        for node, path in nodes:
            tokens, slots = node._key.tolist(), node.value.tolist()
            for start in range(0, len(tokens), self._size):
                path += f"{tokens[start : start + self._size]}"
                yield path, slots[start] // self._size, node.ref_count
            nodes += [(child, path) for child in node.children.values()]


@dataclass(slots=True)
class _Sequence:
    request: Any
    tokens: list[int]
    cached: int


def load(root: Path | None) -> Engine:
    """Load mini-sglang from a checkout. Raises `LoadError`."""
    if root is None:
        raise LoadError("it is on no package index: --source DIR names a checkout (the folder that holds python/)")
    loaded = install(RECIPE, root / "python" if (root / "python").is_dir() else root)
    manager = type("Manager", (Manager,), {"_api": _probe(loaded), "__module__": __name__, "__doc__": Manager.__doc__})
    tried("mini-sglang", manager, caches=(True, False))
    notes = (
        "replaced: the kernel that compares keys (kernel/radix.py), pinned memory (by ordinary memory), "
        "and the clock (by a counter)",
    )
    return Engine("mini-sglang", version_of("minisgl", root, loaded), manager, loaded.stubs, "mini-sglang", notes)


def _probe(loaded: Loaded) -> _Api:
    torch, utils = _module("torch"), _module("minisgl.utils")
    for name in ("misc", "registry"):
        real = loaded.module(f"minisgl.utils.{name}")
        vars(utils).update({key: value for key, value in vars(real).items() if not key.startswith("_")})
    _module("minisgl.kernel").fast_compare_key = _common_prefix
    api = _Api(torch, loaded.module("minisgl.core"), loaded.module("minisgl.scheduler.cache"))
    for name in ("match_req", "lock", "unlock", "allocate_paged", "cache_req", "lazy_free_region"):
        need(need(api.cache, "CacheManager"), name)
    api.cache.torch = _Unpinned(torch)
    clock = itertools.count(1)
    vars(loaded.module("minisgl.kvcache.radix_cache"))["time"] = SimpleNamespace(monotonic_ns=lambda: next(clock))
    return api


def _module(name: str) -> Any:
    return importlib.import_module(name)


class _Unpinned:
    """torch, of which no memory is pinned."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch

    def __getattr__(self, name: str) -> Any:
        return getattr(self._torch, name)

    def empty(self, *args: Any, pin_memory: bool = False, **kwargs: Any) -> Any:
        return self._torch.empty(*args, **kwargs)


def _common_prefix(x: Any, y: Any) -> int:
    """How many tokens two keys share from the start."""
    pairs = zip(x.tolist(), y.tolist(), strict=False)
    return next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(x), len(y)))
