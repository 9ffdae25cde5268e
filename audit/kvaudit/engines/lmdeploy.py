"""LMDeploy's PyTorch `Scheduler`, its block manager and prefix trie, behind the seed's API.

The clock, by which the trie tells what is old, is a counter.
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
from kvaudit.engines.lite import Engine, Loaded, Recipe, install

_PYTORCH = "lmdeploy/pytorch"

RECIPE = Recipe(
    package="lmdeploy",
    real=(
        "lmdeploy/messages.py",
        "lmdeploy/version.py",
        f"{_PYTORCH}/block.py",
        f"{_PYTORCH}/config.py",
        f"{_PYTORCH}/disagg/config.py",
        f"{_PYTORCH}/envs.py",
        f"{_PYTORCH}/long_context.py",
        f"{_PYTORCH}/messages.py",
        f"{_PYTORCH}/paging/*.py",
        f"{_PYTORCH}/paging/*/*.py",
        f"{_PYTORCH}/prefix_cache_state.py",
        f"{_PYTORCH}/strategies/ar/sequence.py",
        f"{_PYTORCH}/strategies/base/sequence.py",
    ),
    needs=("torch", "numpy"),
)

SCHEDULER_FILES = (
    f"{_PYTORCH}/engine/base.py",
    f"{_PYTORCH}/engine/cache_inputs.py",
    f"{_PYTORCH}/engine/engine.py",
    f"{_PYTORCH}/engine/engine_loop.py",
    f"{_PYTORCH}/engine/inputs_maker.py",
    f"{_PYTORCH}/engine/request.py",
    f"{_PYTORCH}/model_inputs.py",
    f"{_PYTORCH}/strategies/ar/engine.py",
    f"{_PYTORCH}/strategies/base/engine.py",
    f"{_PYTORCH}/utils.py",
)
"""What is loaded for real beside them at scheduler level: the engine around the scheduler, but for the model."""

_MOST_RUNNING = 256
_NO_LIMIT = 2**30


class Manager:
    """The seed's API over one real `Scheduler`; `load` makes the subclass that is bound to a version.

    A sequence is a session of one request. The KV of a token counts as computed when the call that placed it returns.
    A sequence that cannot grow is preempted by the real scheduler; here it is asked beforehand whether it can.
    """

    _api: ClassVar[_Api]

    def __init__(self, num_blocks: int, block_size: int, enable_prefix_cache: bool = True) -> None:
        api = self._api
        self._size, self._num_blocks = block_size, num_blocks
        cache = api.cache_config(
            max_batches=_MOST_RUNNING,
            block_size=block_size,
            num_cpu_blocks=0,
            num_gpu_blocks=num_blocks,
            max_prefill_token_num=_NO_LIMIT,
            enable_prefix_caching=enable_prefix_cache,
        )
        limits = api.scheduler_config(max_batches=_MOST_RUNNING, max_session_len=_NO_LIMIT)
        meta = api.meta(block_size, strategy=api.strategy())
        self._scheduler = api.scheduler(limits, cache, seq_meta=meta)
        self._memory = self._scheduler.block_manager.allocator
        self._sessions = itertools.count()
        self._live: dict[Hashable, _Sequence] = {}

    def allocate(self, seq_id: Hashable, token_ids: Iterable[int]) -> list[int]:
        """Schedule and compute a prompt. Raises `OutOfBlocks`."""
        session = next(self._sessions)
        ids = self._api.numpy.array(list(token_ids), dtype="int64")
        sequence = self._scheduler.add_session(session).add_sequence(ids)
        running = self._scheduler.schedule(is_prefill=True).running
        if not running:
            self._scheduler.end_session(session)
            raise OutOfBlocks("it was not scheduled")
        self._scheduler.activate_seqs(running)
        self._live[seq_id] = _Sequence(session, sequence, int(sequence.cached_tokens))
        return self.block_table(seq_id)

    def append_slot(self, seq_id: Hashable, token_id: int) -> int:
        """Schedule and compute a sampled token. Raises `OutOfBlocks`."""
        sequence = self._live[seq_id].sequence
        position = int(sequence.num_all_ids)
        if self._scheduler.block_manager.num_required_blocks(sequence, 1) > self.num_free_blocks:
            raise OutOfBlocks("no block is available")
        (valid,) = self._scheduler.schedule_running([sequence], num_required_tokens=1, prealloc_size=1)
        if not valid:
            raise RuntimeError("it was preempted though a block was available")
        ids = self._api.numpy.array([token_id], dtype="int64")
        sequence.update_token_ids(ids, mode=self._api.modes.DECODE)
        index, offset = divmod(position, self._size)
        return self.block_table(seq_id)[index] * self._size + offset

    def free(self, seq_id: Hashable) -> None:
        """End the session."""
        self._scheduler.end_session(self._live.pop(seq_id).session)

    @property
    def num_free_blocks(self) -> int:
        """Blocks that no sequence holds: the free ones, and those that only the trie owns."""
        kept = [node.block_id for _, node in nodes_of(self._scheduler.block_trie)]
        alone = sum(int(self._memory.get_ref_count(b)) == 1 for b in kept)
        return int(self._scheduler.block_manager.get_num_free_gpu_blocks()) + alone

    def num_cached_tokens(self, seq_id: Hashable) -> int:
        """Number of prompt tokens that were hit."""
        return self._live[seq_id].cached

    def block_table(self, seq_id: Hashable) -> list[int]:
        """Physical block ids, in order of the tokens: what the model is given."""
        (table,) = self._scheduler.get_block_tables([self._live[seq_id].sequence])
        return [int(b) for b in table]

    def observe(self) -> dict[str, Any]:
        """The state in the seed's words, in physical blocks. The trie's own reference to a block is not counted."""
        memory, hashes, ref = self._memory, [""] * self._num_blocks, [0] * self._num_blocks
        mapping, evictable = dict[str, int](), list[int]()
        for b, count in held_of(memory).items():
            ref[b] = count
        for path, node in nodes_of(self._scheduler.block_trie):
            b = int(memory.get_physical_blocks(node.block_id))
            ref[b] -= 1
            hashes[b], mapping[path] = path, b
            evictable += [b] if not ref[b] else []
        return {
            "free": free_of(memory.get_phy_allocator("gpu")),
            "evictable": evictable,
            "ref": ref,
            "block_hash": [path or None for path in hashes],
            "hash_to_block": mapping,
            "tables": {i: self.block_table(i) for i in self._live},
            "tokens": {i: [int(t) for t in s.sequence.valid_ids] for i, s in self._live.items()},
            "cached": {i: s.cached for i, s in self._live.items()},
        }


def nodes_of(trie: Any) -> Iterator[tuple[str, Any]]:
    """(tokens of the path, node) of every node of a trie."""
    nodes = [("", child) for root in trie._roots.values() for child in root.children.values()]
    for path, node in nodes:
        here = path + str([int(t) for t in node.token_ids])
        yield here, node
        nodes += [(here, child) for child in node.children.values()]


def held_of(memory: Any) -> dict[int, int]:
    """Physical block -> references, of every block that is held; the trie's own are among them."""
    idle = set(free_of(memory))
    held = [logical for logical in range(memory._num_blocks) if logical not in idle]
    return {int(memory.get_physical_blocks(b)): int(memory.get_ref_count(b)) for b in held}


def free_of(allocator: Any) -> list[int]:
    """The blocks that an allocator can give, the next one first."""
    return [int(b) for b in allocator._free_blocks[allocator._num_blocks - allocator._free_count :]]


@dataclass(slots=True)
class _Sequence:
    session: int
    sequence: Any
    cached: int


@dataclass(frozen=True, slots=True)
class _Api:
    numpy: Any
    scheduler: Any
    scheduler_config: Any
    cache_config: Any
    meta: Any
    modes: Any
    strategy: Any


def load(root: Path | None) -> Engine:
    """Load LMDeploy from `root` (a cached engine or a checkout), or the installed one if None. Raises `LoadError`."""
    loaded = install(RECIPE, root)
    manager = type("Manager", (Manager,), {"_api": _probe(loaded), "__module__": __name__, "__doc__": Manager.__doc__})
    tried("LMDeploy", manager, caches=(True, False))
    notes = ("replaced: the clock (by a counter)",)
    return Engine("lmdeploy", version_of("lmdeploy", root, loaded), manager, loaded.stubs, "lmdeploy", notes)


def load_scheduler(root: Path | None) -> Engine:
    """Load LMDeploy's engine loop, as `load` does its block manager. Raises `LoadError`."""
    from kvaudit.engines.lmdeploy_scheduler import load as load_it

    return load_it(root)


def _probe(loaded: Loaded) -> _Api:
    importlib.import_module("torch")
    config = loaded.module("lmdeploy.pytorch.config")
    messages = loaded.module("lmdeploy.pytorch.messages")
    clock = itertools.count(1)
    base = loaded.module("lmdeploy.pytorch.paging.block_manager.base_block_manager")
    vars(base)["time"] = SimpleNamespace(perf_counter=lambda: next(clock))
    return _Api(
        numpy=importlib.import_module("numpy"),
        scheduler=need(loaded.module("lmdeploy.pytorch.paging.scheduler"), "Scheduler"),
        scheduler_config=need(config, "SchedulerConfig"),
        cache_config=need(config, "CacheConfig"),
        meta=need(messages, "SequenceMeta"),
        modes=need(messages, "UpdateTokenMode"),
        strategy=need(loaded.module("lmdeploy.pytorch.strategies.ar.sequence"), "ARSequenceStrategy"),
    )
