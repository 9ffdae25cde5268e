"""One workload on one driver: how much processor time a prompt block, an appended token and a freed block take."""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from time import thread_time
from typing import Any

from bench.drivers import Driver
from bench.workloads import Workload

PROMPT, APPEND, FREE, REFUSAL = "prompt", "append", "free", "refusal"
"""What is measured, in microseconds: a block of a prompt, a token, a freed block, a block of a refused prompt."""

ENOUGH = 100
"""Units that a cost is to rest on."""


@dataclass
class Played:
    """seconds: of the processor, by what was done. units: how many blocks or tokens."""

    seconds: dict[str, float] = field(default_factory=dict)
    units: dict[str, int] = field(default_factory=dict)
    hit_tokens: int = 0
    prompt_tokens: int = 0

    def add(self, kind: str, seconds: float, units: int) -> None:
        self.seconds[kind] = self.seconds.get(kind, 0.0) + seconds
        self.units[kind] = self.units.get(kind, 0) + units

    def costs(self) -> dict[str, float]:
        """Microseconds a unit. Of a few units nothing is said: it would be of cold memory, and of the clock."""
        return {kind: self.seconds[kind] / units * 1e6 for kind, units in self.units.items() if units >= ENOUGH}


def play(driver: Driver, workload: Workload) -> Played:
    """Play it on a new pool. Raises RuntimeError where the pool is too small for the workload."""
    prompts = [driver.prepared(tokens) for tokens in workload.prompts()]
    longest = max(map(len, prompts)) + max(workload.live, workload.decode)
    fillers = list(workload.fillers()) if workload.full else []
    driver.pool(workload.num_blocks, workload.block_size, max([longest, *map(len, fillers)]))
    for i, tokens in enumerate(fillers):
        driver.free(placed(driver.start(f"filler {i}", driver.prepared(tokens))))
    fillers.clear()
    gc.collect()
    gc.freeze()  # as engines do when they have started: what was made so far is not looked at again
    try:
        return _refused(driver, workload, prompts) if workload.refused else _played(driver, workload, prompts)
    finally:
        gc.unfreeze()


def _played(driver: Driver, workload: Workload, prompts: list[Any]) -> Played:
    played, size = Played(), workload.block_size
    live: deque[tuple[Any, int, int]] = deque()  # request, tokens of its prompt, step at which it started
    handles: list[Any] = []
    for step, prompt in enumerate(prompts):
        if len(live) == workload.live:
            request, length, began = live.popleft()
            del handles[0]
            seconds = _timed(driver.free, request)
            played.add(FREE, seconds, -(-(length + step - began) // size))
        started = thread_time()
        request = driver.start(f"r{step}", prompt)
        played.add(PROMPT, thread_time() - started, -(-len(prompt) // size))
        placed(request)
        played.hit_tokens += driver.hit_tokens(request)
        played.prompt_tokens += len(prompt)
        live.append((request, len(prompt), step))
        handles.append(request)
        if not workload.decode:
            played.add(APPEND, _timed(driver.step, handles, 7), len(handles))
    if workload.decode:
        played.add(APPEND, _timed(_decode, driver, handles, workload.decode), len(handles) * workload.decode)
    return played


def _decode(driver: Driver, live: list[Any], steps: int) -> None:
    """In one measurement: with one live request a step is hardly longer than looking at the clock."""
    for _ in range(steps):
        driver.step(live, 7)


def _refused(driver: Driver, workload: Workload, prompts: list[Any]) -> Played:
    """The pool is made full of live requests; then each prompt is refused."""
    played, size = Played(), workload.block_size
    fits = workload.num_blocks // (-(-workload.prompt_tokens // size))
    for i, prompt in enumerate(prompts[:fits]):
        placed(driver.start(f"live {i}", prompt))
    for i, prompt in enumerate(prompts[fits:]):
        started = thread_time()
        request = driver.start(f"r{i}", prompt)
        played.add(REFUSAL, thread_time() - started, -(-len(prompt) // size))
        if request is not None and driver.version:
            raise RuntimeError("a prompt was not refused")
    return played


def placed(request: Any) -> Any:
    """The request itself. Raises RuntimeError if there was no room for it."""
    if request is None:
        raise RuntimeError("the pool of this workload is too small")
    return request


def _timed(call: Callable[..., Any], *arguments: Any) -> float:
    started = thread_time()
    call(*arguments)
    return thread_time() - started
