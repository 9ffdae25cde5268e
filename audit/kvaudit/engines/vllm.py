"""vLLM's `KVCacheManager` behind the seed's API, driven the way vLLM's own scheduler drives it.

What differs between versions is found by looking at signatures and attributes, never at a version string;
each such question is one small function below, and `load` asks them all once.
"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from kvaudit.engines.adapting import OutOfBlocks, class_of, has_parameter, need, offering, tried, version_of
from kvaudit.engines.lite import Engine, Loaded, Recipe, UnknownVersion, install

__all__ = ["RECIPE", "SCHEDULER_FILES", "Engine", "Manager", "OutOfBlocks", "Unset", "load", "load_scheduler"]

RECIPE = Recipe(
    package="vllm",
    real=(
        "vllm/_version.py",
        "vllm/envs.py",
        "vllm/utils.py",
        "vllm/utils/__init__.py",
        "vllm/utils/hashing.py",
        "vllm/utils/math_utils.py",
        "vllm/utils/mem_constants.py",
        "vllm/distributed/kv_events.py",
        "vllm/v1/core/*.py",
        "vllm/v1/hisparse/block_pool.py",
        "vllm/v1/kv_cache_*.py",
        "vllm/v1/metrics/stats.py",
        "vllm/v1/request.py",
        "vllm/v1/structured_output/request.py",
        "vllm/v1/utils.py",
    ),
    optional=("xxhash",),
)

SCHEDULER_FILES = (
    "vllm/v1/core/sched/*.py",
    "vllm/v1/engine/__init__.py",
    "vllm/v1/outputs.py",
    "vllm/v1/spec_decode/dynamic/utils.py",
    "vllm/v1/structured_output/utils.py",
)
"""What is loaded for real beside them at scheduler level."""

# Larger than any prompt, so that the pool is the only limit.
_NO_LIMIT = 2**31


class Unset:
    """A set of options of which none is given: every public attribute is None."""

    max_tokens = _NO_LIMIT

    def __getattr__(self, name: str) -> None:
        if name.startswith("__"):
            raise AttributeError(name)
        return None


@dataclass(frozen=True, slots=True)
class _Api:
    """One engine version, reduced to the calls that the adapter makes."""

    new_manager: Callable[[int, int, bool], Any]
    new_request: Callable[[str, list[int], int, bool], Any]
    admit: Callable[[Any, Any, Any, int, bool], Any]  # manager, request, hit blocks, hit tokens, others running
    finish: Callable[[Any, Any], None]
    table: Callable[[Any, str], list[int]]
    chain: Callable[[Any, Any], list[str]]
    running: Any  # RequestStatus.RUNNING


class Manager:
    """The seed's API over one real `KVCacheManager`; `load` makes the subclass that is bound to a version.

    The engine reserves block 0 as its null block, which stands for "no block" and is never handed out. It is
    given one block more than asked for, and block ids are reported minus one: the audit sees `num_blocks`
    usable blocks, 0 .. n-1.

    The KV of a token counts as computed as soon as the call that placed it returns: one call is one scheduler
    step. The real scheduler answers a refusal by preempting a running request and trying again; here a
    refusal is the answer.
    """

    _api: ClassVar[_Api]

    def __init__(self, num_blocks: int, block_size: int, enable_prefix_cache: bool = True) -> None:
        self._block_size = block_size
        self._cache_on = enable_prefix_cache
        self._manager = self._api.new_manager(num_blocks + 1, block_size, enable_prefix_cache)
        self._pool = self._manager.block_pool
        self._live: dict[Hashable, _Sequence] = {}
        self._waiting: dict[Hashable, Any] = {}

    def allocate(self, seq_id: Hashable, token_ids: Iterable[int]) -> list[int]:
        """Schedule a new request's whole prompt in one step and give its block table; cost as the engine's.

        Raises `OutOfBlocks` if refused. The refused request then waits, as it would in the scheduler's queue:
        the same prompt under the same id is a new try of it, another prompt under that id means that it was
        aborted before.
        """
        request = self._waiting_request(seq_id, list(token_ids))
        blocks, hit, *rest = self._manager.get_computed_blocks(request)
        if rest:
            request.shared_prefix_boundary = rest[0]
        placed = self._api.admit(self._manager, request, blocks, hit, bool(self._live))
        if placed is None:
            raise OutOfBlocks(f"allocate_slots has no room for {request.num_tokens} tokens, {hit} of them hits")
        del self._waiting[seq_id]
        self._live[seq_id] = _Sequence(request, hit)
        self._computed(request)
        return self.block_table(seq_id)

    def append_slot(self, seq_id: Hashable, token_id: int) -> int:
        """Add a sampled token to the request, schedule it, and give the slot its KV is written to.

        Raises `OutOfBlocks` if refused, `KeyError` for an unknown id. The real scheduler appends the token
        when it was sampled, one step before it asks for the slot; refused, it preempts (frees) requests from
        the end of its list, this one last, and the token stays for the new try. An append that is refused is
        defined to change nothing, so the token is taken back.
        """
        request = self._live[seq_id].request
        position: int = request.num_tokens
        num_hashes = len(getattr(request, "block_hashes", ()))
        placed = None
        try:
            request.append_output_token_ids(token_id)
            placed = self._manager.allocate_slots(request, 1)
        finally:
            if placed is None:
                del request._output_token_ids[position - request.num_prompt_tokens :]
                del request._all_token_ids[position:]
                if num_hashes < len(getattr(request, "block_hashes", ())):
                    del request.block_hashes[num_hashes:]
        if placed is None:
            raise OutOfBlocks("allocate_slots has no room for one more token")
        self._computed(request)
        index, offset = divmod(position, self._block_size)
        return self.block_table(seq_id)[index] * self._block_size + offset

    def free(self, seq_id: Hashable) -> None:
        """Finish the request. Raises `KeyError` for an unknown id: the engine itself has no notion of one."""
        self._api.finish(self._manager, self._live[seq_id].request)
        del self._live[seq_id]

    @property
    def num_free_blocks(self) -> int:
        """Blocks that no request holds, cached or not, by the engine's own counter; O(1)."""
        return int(self._pool.get_num_free_blocks())

    def num_cached_tokens(self, seq_id: Hashable) -> int:
        """Number of prompt tokens that were hit when the request was scheduled."""
        return self._live[seq_id].cached

    def block_table(self, seq_id: Hashable) -> list[int]:
        """Block ids of the request, in order of its tokens; a new list."""
        return [b - 1 for b in self._api.table(self._manager, self._live[seq_id].request.request_id)]

    def observe(self) -> dict[str, Any]:
        """Read the whole state in the seed's words: O(blocks + tokens), and changes nothing.

        The engine has one queue of idle blocks. `free` is those without a hash and `evictable` those with
        one, both in queue order; `idle` gives the queue itself, from whose head new blocks are taken.
        """
        idle = self._idle()
        blocks = self._pool.blocks[1:]
        live = self._live.items()
        return {
            "free": [b.block_id - 1 for b in idle if b.block_hash is None],
            "evictable": [b.block_id - 1 for b in idle if b.block_hash is not None],
            "ref": [b.ref_cnt for b in blocks],
            "block_hash": [None if b.block_hash is None else _text(b.block_hash) for b in blocks],
            "hash_to_block": {_text(k): b - 1 for k, b in _hit_blocks(self._pool.cached_block_hash_to_block)},
            "tables": {i: self.block_table(i) for i, _ in live},
            "tokens": {i: list(s.request.all_token_ids) for i, s in live},
            "hashes": {i: self._api.chain(self._manager, s.request) for i, s in live},
            "cached": {i: s.cached for i, s in live},
        }

    def idle(self) -> list[int]:
        """Ids of the blocks that no request holds, in the order in which they will be taken; O(blocks)."""
        return [b.block_id - 1 for b in self._idle()]

    def _idle(self) -> list[Any]:
        blocks: list[Any] = self._pool.free_block_queue.get_all_free_blocks()
        return blocks

    def _waiting_request(self, seq_id: Hashable, token_ids: list[int]) -> Any:
        waiting = self._waiting.get(seq_id)
        if waiting is not None:
            if list(waiting.all_token_ids) == token_ids:
                return waiting
            self._api.finish(self._manager, waiting)
        name = seq_id if isinstance(seq_id, str) else f"\0{seq_id!r}"  # the engine's ids are strings
        request = self._api.new_request(name, token_ids, self._block_size, self._cache_on)
        self._waiting[seq_id] = request
        return request

    def _computed(self, request: Any) -> None:
        request.status = self._api.running
        request.num_computed_tokens = request.num_tokens


@dataclass(slots=True)
class _Sequence:
    request: Any
    cached: int


def load(root: Path | None) -> Engine:
    """Load vLLM from `root` (a cached engine or a checkout), or the installed one if None.

    Once a process, and only in a child process made for it; takes about 0.1 s when torch is not installed.

    Raises `LoadError` if there is no vLLM there, it does not import, or its API is none that this adapter
    knows; the message names what was missing.
    """
    # The parent hash of first blocks is drawn at random in some versions unless this is set.
    with environment("PYTHONHASHSEED", "0"):
        loaded = install(RECIPE, root)
        api = _probe(loaded)
    manager = type("Manager", (Manager,), {"_api": api, "__module__": __name__, "__doc__": Manager.__doc__})
    tried("vLLM", manager, caches=(True, False))
    notes = ["hash: sha256 over (parent, tokens, extra keys), with a fixed seed"]
    if has_parameter(class_of(loaded, "vllm.v1.core.kv_cache_manager", "KVCacheManager"), "caching_hash_algo"):
        notes.append("this version can also be set to Python's builtin hash, which is not what was audited")
    return Engine("vllm", version_of("vllm", root, loaded), manager, loaded.stubs, _profile(manager), tuple(notes))


def load_scheduler(root: Path | None) -> Engine:
    """Load vLLM's scheduler, as `load` does its block manager. Raises `LoadError`."""
    from kvaudit.engines.vllm_scheduler import load as load_it

    return load_it(root)


def _profile(manager: type[Manager]) -> str:
    """Whether a freed block without content goes to the front of the queue, before all cached ones.

    It is tried out: the queue of some versions has a method for it that only sliding windows use.
    """
    m = manager(3, 2, True)
    m.allocate("cached", [1, 2])
    (partial,) = m.allocate("partial", [3])
    m.free("cached")
    m.free("partial")
    return "vllm" if m.idle()[0] == partial else "vllm-one-queue"


def _probe(loaded: Loaded) -> _Api:
    """Find out how this version wants to be called."""
    core = "vllm.v1.core"
    manager = class_of(loaded, f"{core}.kv_cache_manager", "KVCacheManager")
    request = class_of(loaded, "vllm.v1.request", "Request")
    status = class_of(loaded, "vllm.v1.request", "RequestStatus")
    for name in ("get_computed_blocks", "allocate_slots", "free"):
        need(manager, name)
    sha256 = hash_function(loaded)
    return _Api(
        new_manager=_manager_maker(loaded, manager),
        new_request=_request_maker(loaded, request, sha256),
        admit=_admission(manager),
        finish=_finisher(manager),
        table=_table_reader(manager),
        chain=_chain_reader(loaded),
        running=need(status, "RUNNING"),
    )


def hash_function(loaded: Loaded) -> Callable[[Any], Any]:
    module = loaded.module("vllm.utils.hashing" if loaded.has("vllm.utils.hashing") else "vllm.utils")
    found: Callable[[Any], Any] = need(module, "sha256")
    init = getattr(loaded.module("vllm.v1.core.kv_cache_utils"), "init_none_hash", None)
    if init is not None:
        init(found)
    return found


def _manager_maker(loaded: Loaded, manager: type[Any]) -> Callable[[int, int, bool], Any]:
    interface = "vllm.v1.kv_cache_interface"
    spec = class_of(loaded, interface, "FullAttentionSpec")
    group = class_of(loaded, interface, "KVCacheGroupSpec")
    config = class_of(loaded, interface, "KVCacheConfig")
    spec_of = offering(spec, "block_size", "num_kv_heads", "head_size", "dtype", "use_mla")
    group_of = offering(group, "layer_names", "kv_cache_spec")
    config_of = offering(config, "num_blocks", "tensors", "kv_cache_tensors", "kv_cache_groups")
    manager_of = offering(
        manager,
        *("kv_cache_config", "max_model_len", "enable_caching", "caching_hash_algo"),
        *("scheduler_block_size", "hash_block_size"),
    )
    dtype = sys.modules["torch"].float16  # kept in the spec and never looked at

    def new_manager(num_blocks: int, block_size: int, enable_caching: bool) -> Any:
        layer = spec_of(block_size=block_size, num_kv_heads=1, head_size=1, dtype=dtype, use_mla=False)
        groups = [group_of(layer_names=["layer"], kv_cache_spec=layer)]
        no_tensors: dict[str, Any] = {"tensors": {}, "kv_cache_tensors": []}
        return manager_of(
            kv_cache_config=config_of(num_blocks=num_blocks, kv_cache_groups=groups, **no_tensors),
            max_model_len=_NO_LIMIT,
            enable_caching=enable_caching,
            caching_hash_algo="sha256",
            scheduler_block_size=block_size,
            hash_block_size=block_size,
        )

    return new_manager


def _request_maker(
    loaded: Loaded, request: type[Any], sha256: Callable[[Any], Any]
) -> Callable[[str, list[int], int, bool], Any]:
    fixed = {
        "sampling_params": Unset(),
        "pooling_params": None,
        "eos_token_id": None,
        "arrival_time": 0.0,
        "multi_modal_inputs": None,
        "multi_modal_kwargs": None,
        "multi_modal_hashes": None,
        "multi_modal_placeholders": None,
    }
    request_of = offering(request, "request_id", "prompt_token_ids", "block_hasher", *fixed)
    hasher_of = getattr(loaded.module("vllm.v1.core.kv_cache_utils"), "get_request_block_hasher", None)
    hashers: dict[int, Any] = {}

    def new_request(name: str, token_ids: list[int], block_size: int, caching: bool) -> Any:
        hasher = None
        if caching and hasher_of is not None:  # the engine core makes no hasher when the cache is off
            hasher = hashers.get(block_size)
            if hasher is None:
                hasher = hashers[block_size] = hasher_of(block_size, sha256)
        return request_of(request_id=name, prompt_token_ids=token_ids, block_hasher=hasher, **fixed)

    return new_request


def _admission(manager: type[Any]) -> Callable[[Any, Any, Any, int, bool], Any]:
    """How a waiting request asks for its slots."""
    parameters = inspect.signature(manager.allocate_slots).parameters
    if "new_computed_blocks" not in parameters:
        raise UnknownVersion("allocate_slots has no new_computed_blocks: not a version that this adapter knows")
    counted = "num_new_computed_tokens" in parameters
    # The scheduler's default; a prompt is placed in one step here, so it cannot matter.
    whole = {"full_sequence_must_fit": True} if "full_sequence_must_fit" in parameters else {}
    gated = "has_scheduled_reqs" in parameters

    def admit(m: Any, request: Any, blocks: Any, hit: int, others_running: bool) -> Any:
        options: dict[str, Any] = dict(whole)
        if counted:
            options["num_new_computed_tokens"] = hit
        if gated:
            options["has_scheduled_reqs"] = others_running
        return m.allocate_slots(request, request.num_tokens - hit, new_computed_blocks=blocks, **options)

    return admit


def _finisher(manager: type[Any]) -> Callable[[Any, Any], None]:
    """What the scheduler does with a request that is finished or aborted."""
    if not hasattr(manager, "free_block_hashes"):
        return lambda m, request: m.free(request)

    def finish(m: Any, request: Any) -> None:
        m.free(request)
        m.free_block_hashes(request)

    return finish


def _table_reader(manager: type[Any]) -> Callable[[Any, str], list[int]]:
    if hasattr(manager, "get_block_ids"):
        return _table_by_method
    return lambda m, name: [b.block_id for b in m.req_to_blocks.get(name, ())]  # `[name]` would make an entry


def _table_by_method(m: Any, name: str) -> list[int]:
    table: list[Any] = m.get_block_ids(name)  # one list a cache group, or flat
    return list(table[0]) if table and not isinstance(table[0], int) else table


def _chain_reader(loaded: Loaded) -> Callable[[Any, Any], list[str]]:
    """How to read the keys of a request's full blocks, in the form in which a block carries them."""
    with_group = getattr(loaded.module("vllm.v1.core.kv_cache_utils"), "make_block_hash_with_group_id", None)
    if with_group is not None:
        return lambda m, request: [_text(with_group(h, 0)) for h in request.block_hashes]
    grouped = getattr(loaded.module("vllm.v1.core.kv_cache_utils"), "BlockHashWithGroupId", None)

    def chain(m: Any, request: Any) -> list[str]:
        hashes = getattr(request, "block_hashes", None)
        if hashes is None:
            hashes = m.req_to_block_hashes.get(request.request_id, ())
        return [_text(h if grouped is None else grouped(h, 0)) for h in hashes]

    return chain


def _hit_blocks(mapping: Any) -> Iterator[tuple[Any, int]]:
    """Give (key, id of the block that a look-up returns): of duplicates, a dict by id, the first one."""
    for key, found in getattr(mapping, "_cache", mapping).items():
        if not isinstance(found, dict):
            yield key, found.block_id
        elif found:
            yield key, next(iter(found.values())).block_id


def _text(key: Any) -> str:
    """Write one of the engine's keys (bytes; nested named tuples in older versions) as text, one to one."""
    if isinstance(key, bytes):
        return key.hex()
    if isinstance(key, tuple):
        return "(" + ",".join(map(_text, key)) + ")"
    return f"{key:x}" if isinstance(key, int) and key > 0xFFFF_FFFF else repr(key)


@contextmanager
def environment(name: str, value: str) -> Iterator[None]:
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before
