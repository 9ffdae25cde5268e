"""The parts of LMDeploy's engine that `kvaudit.engines.lmdeploy_scheduler` puts together; what is replaced in them."""

from __future__ import annotations

import importlib
import itertools
import logging
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from kvaudit.engines.adapting import need
from kvaudit.engines.lite import Loaded


@dataclass(frozen=True)
class Api:
    numpy: Any
    torch: Any
    envs: Any
    engine: Any
    response: Any
    engine_loop: Any
    loop_config: Any
    inputs_maker: Any
    inputs_config: Any
    engine_strategy: Any
    scheduler: Any
    scheduler_config: Any
    cache_config: Any
    meta: Any
    sampling: Any
    status: Any
    strategy: Any
    clocked: tuple[dict[str, Any], dict[str, Any], dict[str, Any]]

    def new_clocks(self, reads_a_second: int) -> None:
        """Requests arrive one after the other; blocks know in which second they were used (paging/trie: int64)."""
        blocks, prefill, sequence = self.clocked
        arrivals, uses = itertools.count(1), itertools.count(reads_a_second)
        blocks["time"] = SimpleNamespace(perf_counter=lambda: next(uses) // reads_a_second)
        prefill["time"] = sequence["time"] = SimpleNamespace(perf_counter=lambda: next(arrivals))


def probe(loaded: Loaded) -> Api:
    torch = importlib.import_module("torch")
    quiet = logging.getLogger("kvaudit.lmdeploy")
    quiet.setLevel(logging.CRITICAL)
    importlib.import_module("lmdeploy.utils").get_logger = lambda *_: quiet  # type: ignore[attr-defined]
    pytorch = "lmdeploy.pytorch"
    config = loaded.module(f"{pytorch}.config")
    messages = loaded.module(f"{pytorch}.messages")
    engine = loaded.module(f"{pytorch}.engine.engine")
    loop = loaded.module(f"{pytorch}.engine.engine_loop")
    maker = loaded.module(f"{pytorch}.engine.inputs_maker")
    sequence = loaded.module(f"{pytorch}.strategies.ar.sequence")
    prefill = loaded.module(f"{pytorch}.paging.prefill_scheduler")
    lifecycle = loaded.module(f"{pytorch}.paging.block_trie.kv_lifecycle")
    blocks = loaded.module(f"{pytorch}.paging.block_manager.base_block_manager")
    serials = itertools.count()
    # A tie in time is decided by id(): by an address, and so differently in every run. Here the older node goes first.
    vars(lifecycle)["id"] = lambda node: node.__dict__.setdefault("serial", next(serials))
    return Api(
        numpy=importlib.import_module("numpy"),
        torch=torch,
        envs=loaded.module(f"{pytorch}.envs"),
        engine=need(engine, "Engine"),
        response=need(loaded.module(f"{pytorch}.engine.request"), "Response"),
        engine_loop=need(loop, "EngineLoop"),
        loop_config=need(loop, "EngineLoopConfig"),
        inputs_maker=need(maker, "InputsMakerAsync"),
        inputs_config=need(maker, "InputsMakerConfig"),
        engine_strategy=need(loaded.module(f"{pytorch}.strategies.ar.engine"), "AREngineStrategy"),
        scheduler=need(loaded.module(f"{pytorch}.paging.scheduler"), "Scheduler"),
        scheduler_config=need(config, "SchedulerConfig"),
        cache_config=need(config, "CacheConfig"),
        meta=need(messages, "SequenceMeta"),
        sampling=need(messages, "SamplingParam"),
        status=need(messages, "MessageStatus"),
        strategy=need(sequence, "ARSequenceStrategy"),
        clocked=(vars(blocks), vars(prefill), vars(sequence)),
    )
