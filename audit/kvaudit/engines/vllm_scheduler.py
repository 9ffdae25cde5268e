"""vLLM's real `Scheduler`, driven the way `EngineCore` drives it, with the tables that its workers would have.

Who schedules ahead (`AsyncScheduler`) is driven as `EngineCore.step_with_batch_queue` does, with two batches in flight.
"""

from __future__ import annotations

import itertools
import sys
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from kvaudit.engines.adapting import OutOfBlocks, class_of, need, version_of
from kvaudit.engines.lite import Engine, Loaded, LoadError, install
from kvaudit.engines.vllm import RECIPE, SCHEDULER_FILES, Unset, environment, hash_function
from kvaudit.engines.vllm_config import BATCHES_AHEAD, VALUES, Config, Settings, config_of
from kvaudit.engines.vllm_worker import Row, Worker


class Scheduler:
    """The API of a scheduler over one real `Scheduler` or `AsyncScheduler`; `load` makes the subclass of a version.

    The engine reserves block 0 as its null block: it is given one block more, and blocks are reported minus one. Like
    vLLM's front end, the adapter gives each request an id of its own, so that an id can be used again at once. The
    longest request that the model takes is one that fills the pool: the engine does not start with fewer blocks
    (`v1/core/kv_cache_planning.py:151-181`).
    """

    SETTINGS: ClassVar[dict[str, tuple[Any, ...]]] = VALUES
    _api: ClassVar[_Api]

    def __init__(self, num_blocks: int, block_size: int, enable_prefix_cache: bool = True, **settings: Any) -> None:
        chosen = Settings(**settings)
        self._block_size = block_size
        self._slots = num_blocks * block_size
        self._caches = enable_prefix_cache
        self._by_priority = chosen.policy == "priority"
        config = config_of(num_blocks + 1, block_size, enable_prefix_cache, self._slots, chosen)
        self._scheduler = self._api.new_scheduler(config, num_blocks + 1, block_size)
        self._manager = self._scheduler.kv_cache_manager
        self._worker = Worker(v2=chosen.use_v2_model_runner)
        self._ahead = chosen.async_scheduling
        self._in_flight: deque[tuple[Any, dict[str, int | None]]] = deque()  # the newest first
        self._numbers = itertools.count()
        self._live: dict[str, str] = {}  # the engine's id of each request
        self._names: dict[str, str] = {}  # and back, of all that were ever there

    # --- what a server does --------------------------------------------------------------------------------

    def submit(self, seq_id: str, token_ids: Sequence[int], max_new_tokens: int) -> None:
        """A request arrives (`EngineCore.add_request`). Raises `OutOfBlocks` if it is longer than the model takes."""
        if len(token_ids) + max_new_tokens > self._slots:
            raise OutOfBlocks(f"{len(token_ids)} + {max_new_tokens} tokens: the model takes {self._slots}")
        number = next(self._numbers)
        name = self._live[seq_id] = f"{seq_id}-{number}"
        self._names[name] = seq_id
        priority = len(token_ids) % 3 if self._by_priority else 0
        request = self._api.new_request(
            name, list(token_ids), max_new_tokens, self._block_size, self._caches, priority, number
        )
        self._scheduler.add_request(request)

    def cancel(self, seq_id: str) -> None:
        """An abort that is handled between two steps (`EngineCore.abort_requests`)."""
        self._abort([seq_id])

    def step(self, token: int, cancel: Sequence[str] = ()) -> dict[str, Any]:
        """One call of `EngineCore.step`, or of `step_with_batch_queue`; the model is a worker that computes nothing."""
        return self._step_ahead(token, cancel) if self._ahead else self._step(token, cancel)

    def _step(self, token: int, cancel: Sequence[str]) -> dict[str, Any]:
        if not self._scheduler.has_requests():
            return _NOTHING
        output, rows = self._schedule()
        self._abort(cancel)  # `_process_aborts_queue`, before the output is processed
        finished = self._update(output, {row.request: token if row.samples else None for row in rows})
        return self._work(output, rows, finished)

    def _step_ahead(self, token: int, cancel: Sequence[str]) -> dict[str, Any]:
        work = _NOTHING
        if self._scheduler.has_requests():
            output, rows = self._schedule()
            self._in_flight.appendleft((output, {row.request: token if row.samples else None for row in rows}))
            work = self._work(output, rows, [])
            if len(self._in_flight) < BATCHES_AHEAD and (rows or self._scheduler.has_requests()):
                self._abort(cancel)  # it comes with the next step's messages
                return work
        if not self._in_flight:
            return work
        self._abort(cancel)
        return {**work, "finished": self._update(*self._in_flight.pop())}

    # --- the parts of a step -------------------------------------------------------------------------------

    def _schedule(self) -> tuple[Any, list[Row]]:
        """A batch, and what a worker makes of it. Raises WorkerTable if that is not the table of the manager."""
        output = self._scheduler.schedule()
        rows = self._worker.execute(output)
        for row in rows:
            table = self._table(row.request)
            if row.blocks != table:
                raise WorkerTable(f"a worker has {row.blocks} for {row.request!r}, and the manager {table}")
        return output, rows

    def _update(self, output: Any, sampled: dict[str, int | None]) -> list[str]:
        """The output of a batch is processed. Who is finished."""
        tokens = [[] if token is None else [token] for token in sampled.values()]
        made = self._api.new_output(list(sampled), {name: i for i, name in enumerate(sampled)}, tokens)
        outputs = self._scheduler.update_from_output(output, made)
        ended = [one.request_id for each in outputs.values() for one in each.outputs if one.finish_reason is not None]
        finished = [self._names[name] for name in ended]
        for seq, name in zip(finished, ended, strict=True):
            if self._live.get(seq) == name:
                del self._live[seq]
        return finished

    def _abort(self, seqs: Sequence[str]) -> None:
        names = [self._live.pop(seq) for seq in seqs if seq in self._live]
        if names:
            self._scheduler.finish_requests(names, self._api.aborted)

    def _work(self, output: Any, rows: list[Row], finished: list[str]) -> dict[str, Any]:
        copies = [
            {"source": copy.src_block_id - 1, "target": copy.dst_block_id - 1, "tokens": self._block_size}
            for copy in output.kv_cache_block_copies or ()
        ]
        items = [
            {
                "seq": self._names[row.request],
                "start": row.start,
                "end": row.end,
                "table": [block - 1 for block in row.blocks],
            }
            for row in rows
        ]
        preempted = [self._names[name] for name in output.preempted_req_ids or ()]
        return {"passes": [copies + items], "finished": finished, "preempted": sorted(preempted)}

    # --- what can be seen ----------------------------------------------------------------------------------

    def _table(self, name: str) -> list[int]:
        return list(self._manager.get_block_ids(name)[0])

    @property
    def num_free_blocks(self) -> int:
        """Blocks that no request holds, by the engine's own counter."""
        return int(self._manager.block_pool.get_num_free_blocks())

    def observe(self) -> dict[str, Any]:
        """The pool: the queue of idle blocks, the references, and the table of each request that has one."""
        pool = self._manager.block_pool
        tables = {self._names[name]: self._table(name) for name in self._scheduler.requests}
        return {
            "free": [block.block_id - 1 for block in pool.free_block_queue.get_all_free_blocks()],
            "ref": [block.ref_cnt for block in pool.blocks[1:]],
            "tables": {seq: [block - 1 for block in table] for seq, table in tables.items() if table},
        }


_NOTHING: dict[str, Any] = {"passes": [], "finished": [], "preempted": []}


class WorkerTable(Exception):
    """The table that a worker has put together is not that of the manager."""


# --- loading -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Api:
    """One engine version, reduced to the calls that the adapter makes."""

    new_scheduler: Callable[[Config, int, int], Any]
    new_request: Callable[[str, list[int], int, int, bool, int, int], Any]
    new_output: Callable[[list[str], dict[str, int], list[list[int]]], Any]
    aborted: Any


def load(root: Path | None) -> Engine:
    """Load vLLM from `root` (a cached engine or a checkout), or the installed one if None. Raises `LoadError`."""
    with environment("PYTHONHASHSEED", "0"):
        loaded = install(replace(RECIPE, real=RECIPE.real + SCHEDULER_FILES), root)
        api = _probe(loaded)
    scheduler = type("Scheduler", (Scheduler,), {"_api": api, "__module__": __name__, "__doc__": Scheduler.__doc__})
    _try(scheduler)
    notes = (
        "a model takes as many tokens as the pool has slots",
        "priority: that of a request is its length modulo 3",
        "not driven: speculative decoding, several cache groups, connectors, pipeline and context parallelism",
    )
    return Engine("vllm", version_of("vllm", root, loaded), scheduler, loaded.stubs, "vllm-scheduler", notes)


def _try(scheduler: Callable[..., Any]) -> None:
    """Use each call once, to tell "the adapter does not fit" from "the engine is wrong". Raises `LoadError`."""
    try:
        for ahead, v2 in itertools.product((False, True), repeat=2):
            s = scheduler(3, 2, True, async_scheduling=ahead, use_v2_model_runner=v2)
            s.submit("a", [1, 2, 3], 2)
            done = [seq for _ in range(4) for seq in s.step(1)["finished"]]
            s.submit("b", [4], 1)
            s.cancel("b")
            s.observe()
            if done != ["a"]:
                raise LoadError("a request is not finished")
    except LoadError:
        raise
    except Exception as error:
        raise LoadError(f"the scheduler of this vLLM is not as expected: {type(error).__name__}: {error}") from error


def _probe(loaded: Loaded) -> _Api:
    """Find out how this version wants to be called."""
    core, interface = "vllm.v1.core", "vllm.v1.kv_cache_interface"
    plain = class_of(loaded, f"{core}.sched.scheduler", "Scheduler")
    ahead = class_of(loaded, f"{core}.sched.async_scheduler", "AsyncScheduler")
    spec = class_of(loaded, interface, "FullAttentionSpec")
    group = class_of(loaded, interface, "KVCacheGroupSpec")
    cache = class_of(loaded, interface, "KVCacheConfig")
    request = class_of(loaded, "vllm.v1.request", "Request")
    output = class_of(loaded, "vllm.v1.outputs", "ModelRunnerOutput")
    hashing = hash_function(loaded)
    hasher_of = need(loaded.module(f"{core}.kv_cache_utils"), "get_request_block_hasher")
    dtype = sys.modules["torch"].float16  # kept in the spec and never looked at

    def new_scheduler(config: Config, num_blocks: int, block_size: int) -> Any:
        layer = spec(block_size=block_size, num_kv_heads=1, head_size=1, dtype=dtype)
        groups = [group(layer_names=["layer"], kv_cache_spec=layer)]
        made = cache(num_blocks=num_blocks, kv_cache_tensors=[], kv_cache_groups=groups)
        kind = ahead if config.max_concurrent_batches == BATCHES_AHEAD else plain
        return kind(
            vllm_config=config,
            kv_cache_config=made,
            structured_output_manager=_NoStructure(),
            block_size=block_size,
            log_stats=False,
        )

    def new_request(
        name: str, tokens: list[int], max_tokens: int, block_size: int, caching: bool, priority: int, number: int
    ) -> Any:
        return request(
            request_id=name,
            prompt_token_ids=tokens,
            sampling_params=Config(max_tokens=max_tokens, min_tokens=0),
            pooling_params=None,
            arrival_time=float(number),
            priority=priority,
            block_hasher=hasher_of(block_size, hashing) if caching else None,
        )

    def new_output(names: list[str], index: dict[str, int], tokens: list[list[int]]) -> Any:
        return output(req_ids=names, req_id_to_index=index, sampled_token_ids=tokens)

    status = class_of(loaded, "vllm.v1.request", "RequestStatus")
    return _Api(new_scheduler, new_request, new_output, need(status, "FINISHED_ABORTED"))


class _NoStructure:
    """The manager of grammars, where no request has one."""

    def accept_tokens(self, request: Any, tokens: Any) -> bool:
        return True

    def __getattr__(self, name: str) -> Any:
        return Unset()
