"""LMDeploy's PyTorch engine at scheduler level: its own main loop, with the auditor where the model would be.

The real `EngineLoop.main_loop` runs, and with it the real `InputsMakerAsync`, `Scheduler` and the request callbacks of
`Engine`. Replaced are the executor, the clocks, and the two places where the loop sleeps. The loop sends a forward
before it has the output of the one before; it is stopped after each send, and that is where requests arrive.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Generator, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar, Literal

from kvaudit.engines.adapting import OutOfBlocks, tried_scheduler, version_of
from kvaudit.engines.lite import Engine, install
from kvaudit.engines.lmdeploy import RECIPE, SCHEDULER_FILES, free_of, held_of, nodes_of
from kvaudit.engines.lmdeploy_api import Api, probe

_RESERVED = 1
"""Blocks at the start that the engine keeps for dummy inputs (engine/config_builder.py:92)."""


class Scheduler:
    """One engine loop; `load` makes the subclass that is bound to a version.

    A sequence is a session of one request, which ends when the request has (engine_instance.py:288-290). What a
    sequence samples is known here when its forward is sent, and to the engine when it reads the output. Of a sequence
    that is preempted in between the engine drops the output; when it samples again, it gets the same token.
    """

    SETTINGS: ClassVar[dict[str, tuple[Any, ...]]] = {
        "max_batch_size": (1, 2, 8),
        "max_prefill_token_num": (3, 8, 64),
        "prefill_interval": (1, "block size"),
        "ttft_policy": ("size", "fifo"),
        "ttft_short_turns": (1, 3),
        "reads_a_second": (1, 8, 1000),
    }
    _api: ClassVar[Api]

    def __init__(
        self,
        num_blocks: int,
        block_size: int,
        enable_prefix_cache: bool = True,
        *,
        max_batch_size: int = 256,
        max_prefill_token_num: int = 8192,
        prefill_interval: int | Literal["block size"] = "block size",
        ttft_policy: str = "size",
        ttft_short_turns: int = 3,
        reads_a_second: int = 1,
    ) -> None:
        """prefill_interval: also how many tokens are preallocated: 16 of the engine's own, a quarter of a block. More
        than a block breaks O2 at once (docs/trophies.md), so that no run draws it.

        reads_a_second: how often the clock is read before it moves on; blocks used in the same second tie.
        """
        api = self._api
        api.new_clocks(reads_a_second)
        vars(api.envs).update(opt_ttft_policy=ttft_policy, opt_ttft_short_turns=ttft_short_turns)
        limits = api.scheduler_config(
            max_batches=max_batch_size,
            max_session_len=None,
            prefill_interval=prefill_interval if prefill_interval != "block size" else block_size,
        )
        cache = api.cache_config(
            max_batches=max_batch_size,
            block_size=block_size,
            num_cpu_blocks=0,
            num_gpu_blocks=num_blocks + _RESERVED,
            num_reserved_gpu_blocks=_RESERVED,
            max_prefill_token_num=max_prefill_token_num,
            enable_prefix_caching=enable_prefix_cache,
        )
        self._num_blocks = num_blocks
        self._batch: list[int] = []  # next position of each row, which the worker keeps by itself (agent.py:830-847)
        self._sent: deque[list[_Request]] = deque()
        self._passes: list[list[dict[str, Any]]] = []
        self._preempted: list[Hashable] = []
        self._live: dict[Hashable, _Request] = {}
        self._sessions = itertools.count()
        self._token = 0

        self._scheduler = api.scheduler(limits, cache, seq_meta=api.meta(block_size, strategy=api.strategy()))
        self._memory = self._scheduler.block_manager.allocator
        self._preempt, self._scheduler.preempt_seqs = self._scheduler.preempt_seqs, self._note_preempted
        self._engine = api.engine.__new__(api.engine)  # its constructor loads the model
        self._engine.scheduler, self._engine.scheduler_config = self._scheduler, limits
        self._engine.cache_config, self._engine.input_processor = cache, None
        self._engine.engine_config = SimpleNamespace(role=cache.role, language_model_only=False)
        self._engine.max_session_len = self._engine._get_max_session_len()
        self._loop = self._engine_loop(cache, limits)
        self._main = self._loop.main_loop()
        self._main.send(None)  # it waits for work

    def _engine_loop(self, cache: Any, limits: Any) -> Any:
        api = self._api
        config = api.inputs_config(
            max_batches=cache.max_batches,
            max_prefill_token_num=cache.max_prefill_token_num,
            role=cache.role,
            block_size=cache.block_size,
            kernel_block_size=cache.kernel_block_size,
            window_size=cache.window_size,
            enable_prefix_caching=cache.enable_prefix_caching,
            prefix_cache_decode_state_interval=0,
            prefill_interval=limits.prefill_interval,
        )
        maker = api.inputs_maker(
            executor=self,
            scheduler=self._scheduler,
            state_checkpoints=self._scheduler.state_checkpoints,
            adapter_manager=SimpleNamespace(num_adapters=lambda: 0),
            engine_strategy=api.engine_strategy(limits, cache),
            sampling_strategy=SimpleNamespace(make_sampling_inputs=tuple),  # so that forward_async sees who runs
            model_agent_strategy=SimpleNamespace(
                make_extra_inputs=lambda *_: None, make_stopping_criteria=lambda *_: None
            ),
            config=config,
        )
        loop = api.engine_loop(
            req_manager=None,
            scheduler=self._scheduler,
            state_checkpoints=self._scheduler.state_checkpoints,
            executor=self,
            seq_strategy=api.strategy(),
            inputs_maker=maker,
            config=api.loop_config(role=cache.role),
        )
        loop.has_runable_event.wait = self._wait_for_work
        loop._wait_for_schedulable_prefill = _pause
        return loop

    # What the auditor calls.

    def submit(self, seq_id: Hashable, token_ids: Iterable[int], max_new_tokens: int) -> None:
        """Send a request in a session of its own. Raises `OutOfBlocks` if it is longer than a session may be."""
        tokens = [int(t) for t in token_ids]
        most = self._engine.max_session_len
        if len(tokens) + max_new_tokens > most:  # engine_instance.py:190 refuses it, or engine.py:481 cuts it short
            raise OutOfBlocks(f"{len(tokens)} + {max_new_tokens} tokens are more than the {most} of a session")
        session = next(self._sessions)
        message = {
            "session_id": session,
            "response": False,
            "token_ids": self._api.numpy.array(tokens, dtype="int64"),
            "sampling_param": self._api.sampling(max_new_tokens=max_new_tokens),
            "adapter_name": None,
        }
        response = self._api.response(type=None, sender_id=0, event=None)
        request = SimpleNamespace(data=message, resp=response)
        self._engine._on_add_session([request])
        self._engine._on_add_message([request])
        (sequence,) = self._scheduler.get_session(session).sequences.values()
        sequence.request = _Request(seq_id, session, sequence, tokens, len(tokens) + max_new_tokens)
        self._live[seq_id] = sequence.request
        self._loop.has_runable_event.set()

    def step(self, token: int, cancel: Sequence[Hashable] = ()) -> dict[str, Any]:
        """Run the main loop until it has sent the next forward, or has nothing to send."""
        self._token, self._passes, self._preempted = token, [], []
        self._main.send(None)
        for seq_id in cancel:
            self.cancel(seq_id)
        stopped = self._api.status.STOPPED
        finished = [seq_id for seq_id, request in self._live.items() if request.sequence.status == stopped]
        for seq_id in finished:
            self.cancel(seq_id)
        return {"passes": self._passes, "finished": finished, "preempted": self._preempted}

    def cancel(self, seq_id: Hashable) -> None:
        """End its session, which is what a client does after the last token, too (engine_instance.py:288-290)."""
        request = self._live.pop(seq_id)
        self._engine._on_end_session([SimpleNamespace(data={"session_id": request.session, "response": False})])
        self._loop.has_runable_event.set()

    @property
    def num_free_blocks(self) -> int:
        """Blocks that no sequence holds."""
        return len(self.observe()["free"])

    def observe(self) -> dict[str, Any]:
        """The state in physical blocks. The trie's own reference to a block is not counted."""
        ref = [0] * self._num_blocks
        for b, count in held_of(self._memory).items():
            ref[b - _RESERVED] = count
        kept = set()
        for _, node in nodes_of(self._scheduler.block_trie):
            b = int(self._memory.get_physical_blocks(node.block_id)) - _RESERVED
            ref[b] -= 1
            kept.add(b)
        free = {b - _RESERVED for b in free_of(self._memory.get_phy_allocator("gpu"))}
        return {
            "free": sorted(free | {b for b in kept if ref[b] == 0}),
            "ref": ref,
            "tables": {i: self._table(r.sequence) for i, r in self._live.items() if r.sequence.num_blocks},
        }

    # What the engine calls: the auditor is its executor.

    device_type = "cpu"

    async def forward_async(self, inputs: dict[str, Any]) -> None:
        """Report the forward, and stop the loop here."""
        running = [sequence.request for sequence in inputs["sampling_inputs"]]
        model_inputs, delta = inputs["inputs"], inputs["delta"]
        if delta is not None:
            self._batch = [self._batch[i] for i in delta.indice_cpu]
        if model_inputs is None:
            assert delta is not None  # it decodes on
            spans = [(start, start + 1) for start in self._batch]
            offsets = delta.block_offsets
            self._batch = [end for _, end in spans]
        else:
            starts, lengths = model_inputs.history_lengths.tolist(), model_inputs.seq_length.tolist()
            spans = [(start, start + length) for start, length in zip(starts, lengths, strict=True)]
            offsets = model_inputs.block_offsets
            if model_inputs.is_last_chunk or not model_inputs.is_chunk:
                self._batch += [end for _, end in spans]
        items = []
        for request, (start, end), row in zip(running, spans, offsets.tolist(), strict=True):
            table = [b - _RESERVED for b in row[: request.sequence.num_blocks]]
            items.append({"seq": request.name, "start": start, "end": end, "table": table})
            if end == len(request.tokens) < request.most:
                request.tokens.append(self._token)
        self._passes.append(items)
        self._sent.append(running)
        await _pause()

    async def get_output_async(self) -> Any:
        """The output of the oldest forward."""
        tensor = self._api.torch.tensor
        tokens, stopped = [], []
        for request in self._sent.popleft():
            position = int(request.sequence.num_all_ids)
            tokens.append(request.tokens[position] if position < len(request.tokens) else 0)
            stopped.append(position + 1 == request.most)
        return SimpleNamespace(
            next_token_ids=tensor(tokens),
            stopped=tensor(stopped),
            **dict.fromkeys(_NOT_ASKED_FOR),
            new_token_timestamp=0,
        )

    async def _wait_for_work(self) -> None:
        while not self._loop.has_runable_event.has_unfinished():
            await _pause()

    def _note_preempted(self, sequences: Iterable[Any]) -> None:
        sequences = list(sequences)
        running = self._api.status.RUNNING
        self._preempted += [s.request.name for s in sequences if s.status == running]
        self._preempt(sequences)

    def _table(self, sequence: Any) -> list[int]:
        (table,) = self._scheduler.get_block_tables([sequence])
        return [int(b) - _RESERVED for b in table]


class _Pause:
    def __await__(self) -> Generator[None, None, None]:
        yield


async def _pause() -> None:
    """Stop the main loop: the step ends here, and the next one goes on."""
    await _Pause()


_NOT_ASKED_FOR = (
    *("logits", "logprobs", "all_routed_experts", "ce_loss", "model_metas", "stop_pos", "kv_connector_output"),
)


@dataclass(slots=True, eq=False)
class _Request:
    """tokens: as the auditor knows them. most: how many there will be."""

    name: Hashable
    session: int
    sequence: Any
    tokens: list[int]
    most: int


def load(root: Path | None) -> Engine:
    """Load LMDeploy's engine loop from `root`, or the installed one if None. Raises `LoadError`."""
    loaded = install(replace(RECIPE, real=RECIPE.real + SCHEDULER_FILES), root)
    manager = type("Scheduler", (Scheduler,), {"_api": probe(loaded), "__module__": __name__})
    tried_scheduler("LMDeploy", manager)
    notes = ("replaced: the executor (by the auditor), the clocks (by counters), the sleeps of the main loop",)
    return Engine("lmdeploy", version_of("lmdeploy", root, loaded), manager, loaded.stubs, "lmdeploy-engine", notes)
