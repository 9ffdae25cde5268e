"""SGLang's prefix trees and allocators behind the seed's API, driven as its scheduler does.

`UnifiedRadixCache`, which the server builds, with the tree core in Python and full attention only; or `RadixCache`.

Allocation goes through SGLang's own `mem_cache/allocation.py`, with what it evicts beforehand. The clock, by which the
tree tells what is old, is a counter.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import itertools
from array import array
from collections.abc import Hashable, Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

from kvaudit.engines.adapting import OutOfBlocks, definitions_of, need, tried, version_of
from kvaudit.engines.lite import Engine, Loaded, LoadError, Recipe, install

_UTILS = "sglang/srt/utils/common.py"
_BATCH = "sglang/srt/managers/schedule_batch.py"
_CACHE = "sglang.srt.mem_cache"

RECIPE = Recipe(
    package="sglang",
    real=(
        "sglang/srt/environ.py",
        "sglang/srt/mem_cache/allocation.py",
        "sglang/srt/mem_cache/allocator/__init__.py",
        "sglang/srt/mem_cache/allocator/base.py",
        "sglang/srt/mem_cache/allocator/page_interleave.py",
        "sglang/srt/mem_cache/allocator/paged.py",
        "sglang/srt/mem_cache/allocator/token.py",
        "sglang/srt/mem_cache/base_prefix_cache.py",
        "sglang/srt/mem_cache/cache_init_params.py",
        "sglang/srt/mem_cache/common.py",
        "sglang/srt/mem_cache/events.py",
        "sglang/srt/mem_cache/evict_policy.py",
        "sglang/srt/mem_cache/radix_cache.py",
        "sglang/srt/mem_cache/utils.py",
        "sglang/srt/mem_cache/unified_cache/*.py",
        "sglang/srt/mem_cache/unified_cache/components/*.py",
        "sglang/srt/mem_cache/unified_radix_cache.py",
        "sglang/srt/session/streaming_session.py",
    ),
    needs=("torch", "numpy"),
    texts=(_UTILS, _BATCH),
    settings={
        "tree": ("unified", "radix"),
        "policy": ("lru", "lfu", "fifo", "mru", "filo", "priority", "slru", "tlru"),
    },
)

_MOST_RUNNING = 256


class Manager:
    """The seed's API over one real `RadixCache`, its allocator and its rows; `load` makes the bound subclass.

    The KV of a token counts as computed when the call that placed it returns. Room is asked for as the scheduler's
    PrefillAdder does, but exactly, without what it reserves.
    """

    _api: ClassVar[_Api]
    _policy: ClassVar[str]

    def __init__(self, num_blocks: int, block_size: int, enable_prefix_cache: bool = True) -> None:
        torch, api = self._api.torch, self._api
        self._size, self._num_blocks = block_size, num_blocks
        slots = num_blocks * block_size
        if block_size == 1:
            self._pool = api.token_allocator(slots, torch.float16, "cpu", None, False)
        else:
            self._pool = api.paged_allocator(slots, block_size, torch.float16, "cpu", None, False)
        self._rows = list(range(_MOST_RUNNING))
        self._pages = torch.full((_MOST_RUNNING, slots + block_size), -1, dtype=torch.int32)
        self._tree = api.tree(
            api.params(
                disable=not enable_prefix_cache,
                req_to_token_pool=_Rows(self._pages),
                token_to_kv_pool_allocator=self._pool,
                page_size=block_size,
                eviction_policy=self._policy,
            )
        )
        self._live: dict[Hashable, _Request] = {}

    def allocate(self, seq_id: Hashable, token_ids: Iterable[int]) -> list[int]:
        """Match, lock, allocate and compute a prompt, then checkpoint it into the tree. Raises `OutOfBlocks`."""
        tokens = array("q", token_ids)
        key = self._api.key(tokens, None, limit=len(tokens) - 1)
        matched = self._tree.match_prefix(self._api.match(key=key))
        hit: int = matched.device_prefix_len
        lock = self._tree.lock(matched.last_device_node)
        if -(-len(tokens) // self._size) * self._size - hit > self._available:
            self._tree.unlock(lock)
            raise OutOfBlocks(f"{len(tokens)} tokens, {hit} of them hits, do not fit into {self._available} slots")
        row = self._rows.pop()
        request = _Request(tokens, hit, row, lock, matched.last_device_node, self._api.record)
        prefix = self._tree.path_device_indices(matched.last_device_node)[:hit]
        self._pages[row, :hit] = prefix
        self._pages[row, hit : len(tokens)] = self._extend(hit, len(tokens), prefix)
        self._live[seq_id] = request
        written = self.block_table(seq_id)
        self._tree.checkpoint(request, up_to=len(tokens))
        return written

    def _extend(self, start: int, end: int, prefix: Any) -> Any:
        torch = self._api.torch
        if self._size == 1:
            return self._api.allocation.alloc_token_slots(self._tree, end - start)
        starts, ends = torch.tensor([start]), torch.tensor([end])
        return self._api.allocation.alloc_paged_token_slots_extend(
            tree_cache=self._tree,
            prefix_lens=starts,
            prefix_lens_cpu=starts,
            seq_lens=ends,
            seq_lens_cpu=ends,
            last_loc=prefix[-1:] if start else torch.tensor([-1]),
            extend_num_tokens=end - start,
        )

    def append_slot(self, seq_id: Hashable, token_id: int) -> int:
        """Allocate and compute a sampled token. Raises `OutOfBlocks`."""
        torch, request = self._api.torch, self._live[seq_id]
        position = len(request.full_untruncated_fill_ids)
        if position % self._size == 0 and self._available < self._size:
            raise OutOfBlocks("no page is available")
        if self._size == 1:
            slot = self._api.allocation.alloc_token_slots(self._tree, 1)
        else:
            ends = torch.tensor([position + 1])
            last = self._pages[request.kv.req_pool_idx, position - 1 : position].to(torch.int64)
            slot = self._api.allocation.alloc_paged_token_slots_decode(self._tree, ends, ends, last)
        self._pages[request.kv.req_pool_idx, position] = slot
        request.full_untruncated_fill_ids.append(token_id)
        return int(slot) - self._size

    def free(self, seq_id: Hashable) -> None:
        """Finish the request: checkpoint what it filled, then give back the rest, as `release_kv_cache` does."""
        request = self._live.pop(seq_id)
        request.has_finished = True
        end = len(request.full_untruncated_fill_ids)
        self._tree.checkpoint(request, up_to=end)
        self._tree.free_kv_row(request.kv, [(request.kv.cache_protected_len, end)])
        self._tree.unlock(request.lock)
        self._rows.append(request.kv.req_pool_idx)

    @property
    def _available(self) -> int:
        return int(self._pool.available_size() + self._tree.evictable_size())

    @property
    def num_free_blocks(self) -> int:
        """Pages that no request holds, as the scheduler counts them."""
        return self._available // self._size

    def num_cached_tokens(self, seq_id: Hashable) -> int:
        """Number of prompt tokens that were hit."""
        return self._live[seq_id].cached

    def block_table(self, seq_id: Hashable) -> list[int]:
        """The pages that the request's row names, in order of the tokens; the engine's page 0 is left out."""
        request = self._live[seq_id]
        row = self._pages[request.kv.req_pool_idx, : len(request.full_untruncated_fill_ids) : self._size]
        return [slot // self._size - 1 for slot in row.tolist()]

    def observe(self) -> dict[str, Any]:
        """The whole state in the seed's words: O(pool). A page of the tree carries the tokens of its whole path."""
        tables = {i: self.block_table(i) for i in self._live}
        ref, content = [0] * self._num_blocks, [""] * self._num_blocks
        mapping, evictable = dict[str, int](), list[int]()
        for table in tables.values():
            for b in table:
                ref[b] += 1
        for key, b, locks in self._nodes():
            ref[b], content[b], mapping[key] = locks, key, b
            evictable += [b] if not locks else []
        return {
            "free": [page - 1 for page in self._pool.get_all_free_pages().tolist()],
            "evictable": evictable,
            "ref": ref,
            "block_hash": [key or None for key in content],
            "hash_to_block": mapping,
            "tables": tables,
            "tokens": {i: list(r.full_untruncated_fill_ids) for i, r in self._live.items()},
            "cached": {i: r.cached for i, r in self._live.items()},
        }

    def _nodes(self) -> Iterator[tuple[str, int, int]]:
        """(tokens of the path, page, locks) of every page of the tree."""
        unified = hasattr(self._tree, "tree_core")
        root = self._tree.tree_core.root_node if unified else self._tree.root_node
        nodes = [(child, "") for child in root.children.values()]
        for node, path in nodes:
            data = node.component_data[0] if unified else node  # 0: full attention
            tokens, slots = list(node.key), data.value.tolist()
            for start in range(0, len(tokens), self._size):
                path += f"{tokens[start : start + self._size]}"
                yield path, slots[start] // self._size - 1, data.lock_ref
            nodes += [(child, path) for child in node.children.values()]


class _Request:
    """What the tree and the allocation read and write of a request, under their names."""

    rid = "request"
    extra_key = cache_salt = session = session_id = kv_rotation_base = None
    priority = 0

    def __init__(self, tokens: array[int], hit: int, row: int, lock: Any, node: Any, record: Any) -> None:
        self.full_untruncated_fill_ids = tokens
        self.origin_input_ids = tokens[:]
        self.cached = hit
        self.lock = lock
        self.last_node = node
        self.kv = record(req_pool_idx=row, cache_protected_len=hit)
        self.has_finished = False

    def finished(self) -> bool:
        return self.has_finished


class _Rows:
    """The rows of the requests: `ReqToTokenPool`, as far as the tree uses it."""

    def __init__(self, pages: Any) -> None:
        self.req_to_token = pages

    def write(self, indices: Any, values: Any) -> None:
        self.req_to_token[indices] = values.to(self.req_to_token.dtype)


@dataclasses.dataclass(frozen=True, slots=True)
class _Api:
    torch: Any
    record: Any
    allocation: Any
    tree: Any
    params: Any
    key: Any
    match: Any
    token_allocator: Any
    paged_allocator: Any


def load(root: Path | None, tree: str, policy: str) -> Engine:
    """Load SGLang from `root` (a cached engine or a checkout), or the installed one if None. Raises `LoadError`.

    A checkout holds the package under python/.
    """
    loaded = install(RECIPE, root / "python" if root is not None and (root / "python").is_dir() else root)
    namespace = {
        "_api": _probe(loaded, tree, policy),
        "_policy": policy,
        "__module__": __name__,
        "__doc__": Manager.__doc__,
    }
    manager = type("Manager", (Manager,), namespace)
    tried("SGLang", manager, caches=(True, False))
    tried("SGLang", manager, block_size=1, caches=(True, False))
    notes = ("replaced: the clock (by a counter), and the rows of the requests (by a tensor of their own)",)
    return Engine("sglang", version_of("sglang", root, loaded), manager, loaded.stubs, "sglang", notes)


def _probe(loaded: Loaded, kind: str, policy: str) -> _Api:
    if kind == "radix" and policy == "tlru":
        raise LoadError("the policy tlru is for the tree unified (mem_cache/registry.py:261-271)")
    torch = importlib.import_module("torch")
    names = ("ceil_align", "get_num_new_pages", "next_power_of_2", "get_bool_env_var")
    functions = definitions_of(loaded.root / _UTILS, names, {"torch": torch, "os": importlib.import_module("os")})
    for module in ("sglang.srt.utils", "sglang.srt.utils.common"):
        vars(importlib.import_module(module)).update(functions)
    record = {"dataclasses": dataclasses, "ceil_align": functions["ceil_align"]}
    radix = loaded.module(f"{_CACHE}.radix_cache")
    params = loaded.module(f"{_CACHE}.cache_init_params").CacheInitParams
    clock = itertools.count(1)
    vars(radix)["time"] = SimpleNamespace(monotonic=lambda: next(clock), perf_counter=lambda: 0.0)
    if kind == "unified":
        tree = loaded.module(f"{_CACHE}.unified_radix_cache").UnifiedRadixCache
        full = loaded.module(f"{_CACHE}.unified_cache.component_type").ComponentType.FULL
        params = functools.partial(params, tree_components=(full,), tree_core_backend="python")
    else:
        tree = radix.RadixCache
    for name in ("match_prefix", "checkpoint", "lock", "unlock", "free_kv_row", "path_device_indices"):
        need(tree, name)
    return _Api(
        torch=torch,
        record=definitions_of(loaded.root / _BATCH, ("ReqKvInfo",), record)["ReqKvInfo"],
        allocation=loaded.module(f"{_CACHE}.allocation"),
        tree=tree,
        params=params,
        key=radix.RadixKey,
        match=need(loaded.module(f"{_CACHE}.base_prefix_cache"), "MatchPrefixParams"),
        token_allocator=loaded.module(f"{_CACHE}.allocator.token").TokenToKVPoolAllocator,
        paged_allocator=loaded.module(f"{_CACHE}.allocator.paged").PagedTokenToKVPoolAllocator,
    )
