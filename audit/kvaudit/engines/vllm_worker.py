"""The bookkeeping of a vLLM worker: the block table of each request, put together from what the scheduler sends.

Both model runners are followed: `_update_states` of the first (`v1/worker/gpu_model_runner.py:1176`), and
`finish_requests`, `add_requests` and `update_requests` of the second (`v1/worker/gpu/model_runner.py:1188`, `:1215`,
`:1270`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple


class Row(NamedTuple):
    """The work of a request in one batch: positions start .. end-1, through these blocks. samples: it gets a token."""

    request: str
    start: int
    end: int
    blocks: list[int]
    samples: bool


@dataclass
class _State:
    """blocks: the row of its block table. length: the tokens that the worker has, those that it sampled included."""

    blocks: list[int]
    length: int


class Worker:
    """A worker that computes nothing. v2: which of the two model runners."""

    def __init__(self, *, v2: bool) -> None:
        self._v2 = v2
        self._states: dict[str, _State] = {}

    def execute(self, output: Any) -> list[Row]:
        """Take over what the scheduler sends, and say what would be computed."""
        gone = set(output.finished_req_ids)
        if self._v2:  # a request that was preempted comes again as a new one
            gone |= set(output.preempted_req_ids or ())
        for name in gone:
            self._states.pop(name, None)
        starts: dict[str, int] = {}
        for new in output.scheduled_new_reqs:
            tokens = new.prefill_token_ids if self._v2 else new.prompt_token_ids
            self._states[new.req_id] = _State(list(new.block_ids[0]), len(tokens))
            starts[new.req_id] = new.num_computed_tokens
        starts |= self._update(output.scheduled_cached_reqs)
        return [self._row(name, starts[name], count) for name, count in output.num_scheduled_tokens.items()]

    def _update(self, cached: Any) -> dict[str, int]:
        """Those that the worker knows: blocks are appended, or replaced after a preemption. Where their work starts."""
        starts: dict[str, int] = {}
        for i, name in enumerate(cached.req_ids):
            state, blocks = self._states[name], cached.new_block_ids[i]
            if name in cached.resumed_req_ids:
                state.blocks = list(blocks[0])
                state.length = len(cached.all_token_ids[name])
            elif blocks is not None:
                state.blocks = state.blocks + list(blocks[0])
            starts[name] = cached.num_computed_tokens[i]
        return starts

    def _row(self, name: str, start: int, count: int) -> Row:
        state, end = self._states[name], start + count
        samples = end == state.length
        state.length += samples
        return Row(name, start, end, state.blocks, samples)
