"""What kvblocks is to reach, each as a ratio within one run."""

from __future__ import annotations

from collections.abc import Callable

from bench.contestants import ARRAY, BARE, BARE_BUILTIN, BATCHED, BUILTIN, COMPILED, KVBLOCKS, NANO, VLLM
from bench.goals import Row, Target
from bench.playing import APPEND, FREE, PROMPT
from bench.results import Measured, Results


def _cost(measured: Measured | None, kind: str, name: str) -> float | None:
    cost = measured.costs.get(kind, {}).get(name) if measured is not None else None
    return cost.us.median if cost is not None else None


def _times(kind: str, slow: str, fast: str) -> Callable[[Results], float | None]:
    """How many times as long as the one the other takes, on workload (a)."""

    def value(results: Results) -> float | None:
        costs = [_cost(results.named("a"), kind, name) for name in (slow, fast)]
        return costs[0] / costs[1] if costs[0] and costs[1] else None

    return value


def _above_bare(name: str, bare: str) -> Callable[[Results], float | None]:
    def value(results: Results) -> float | None:
        costs = [_cost(results.named("a"), PROMPT, one) for one in (name, bare)]
        return costs[0] - costs[1] if costs[0] and costs[1] else None

    return value


def _growth(results: Results) -> float | None:
    costs = [_cost(measured, PROMPT, KVBLOCKS) for measured in results.pools]
    known = [cost for cost in costs if cost is not None]
    return max(known) / min(known) if len(known) > 1 else None


def _more_memory(results: Results) -> float | None:
    """Percent by which the last reading is above the first: of bytes or of objects, whichever grew more."""
    if len(results.growth) < 2:
        return None
    first, last = results.growth[0], results.growth[-1]
    return 100 * (max(last.rss / first.rss, last.objects / first.objects) - 1)


TARGETS: tuple[Target[Results], ...] = (
    Target("a prompt block, from a list: times as fast as vLLM 0.33.0", _times(PROMPT, VLLM, KVBLOCKS), 4),
    Target("a prompt block, from an array: times as fast as vLLM 0.33.0", _times(PROMPT, VLLM, ARRAY), 6),
    Target("a prompt block, builtin hash: times as fast as vLLM 0.33.0", _times(PROMPT, VLLM, BUILTIN), 6),
    Target("a prompt block, from a list: times the bare hashing", _times(PROMPT, KVBLOCKS, BARE), 1.5, at_least=False),
    Target("a prompt block, builtin hash: us above the bare", _above_bare(BUILTIN, BARE_BUILTIN), 0.6, at_least=False),
    Target("an append: times as fast as vLLM 0.33.0", _times(APPEND, VLLM, KVBLOCKS), 20),
    Target("an append: times as fast as nano-vllm", _times(APPEND, NANO, KVBLOCKS), 3),
    Target("an append through append_slots: times as fast as vLLM 0.33.0", _times(APPEND, VLLM, BATCHED), 60),
    Target("a freed block: times as fast as vLLM 0.33.0", _times(FREE, VLLM, KVBLOCKS), 3),
    Target("an append, compiled: times as fast as not", _times(APPEND, KVBLOCKS, COMPILED), 2),
    Target("a freed block, compiled: times as fast as not", _times(FREE, KVBLOCKS, COMPILED), 2),
    Target("a prompt block on the largest pool: times the smallest", _growth, 1.5, at_least=False),
    Target("bytes a block, all cached", lambda results: results.bytes_per_block.get(KVBLOCKS), 250, at_least=False),
    Target("memory after ten times as many operations: % more", _more_memory, 1, at_least=False),
)


def verdicts(results: Results) -> list[Row]:
    """A row for each target."""
    return [target.row(results) for target in TARGETS]
