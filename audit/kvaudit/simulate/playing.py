"""Plays a workload on a block manager, one pool at a time.

A request holds the blocks of its prompt and of what it generates from its start to its end. It starts when it arrives,
in turn: one that has no room waits until enough of the live ones have ended, and those behind it wait, too. When a live
request ends is said by a `Lives`.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable
from time import thread_time
from typing import Any, Protocol

from kvaudit.api import ApiTarget
from kvaudit.errors import TargetError
from kvaudit.protocol import Pool, Refused
from kvaudit.simulate.report import PoolResult
from kvaudit.simulate.workload import Request, Workload

Tick = Callable[[int], None]
"""Called now and then with the number of requests that have been played."""

_EVERY = 64


class Lives(Protocol):
    """When live requests end."""

    def due(self, request: Request) -> str | None:
        """A request that ends before this one can start, if there is one more."""

    def next(self) -> str | None:
        """The live request that ends first, if there is one."""

    def start(self, name: str, request: Request) -> None:
        """The request has started."""


class FixedNumber:
    """So many requests are live at once; the one that started first ends first."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._live: deque[str] = deque()

    def due(self, request: Request) -> str | None:
        return self._live.popleft() if len(self._live) >= self._number else None

    def next(self) -> str | None:
        return self._live.popleft() if self._live else None

    def start(self, name: str, request: Request) -> None:
        self._live.append(name)


class ByTheClock:
    """Requests arrive when the trace says, and end when their output is generated at a fixed rate, each by itself."""

    def __init__(self, tokens_per_second: float) -> None:
        self._rate = tokens_per_second
        self._now_s = 0.0
        self._live: list[tuple[float, int, str]] = []  # a heap: end, number, name
        self._started = 0

    def due(self, request: Request) -> str | None:
        self._now_s = max(self._now_s, request.arrival_s)
        return heapq.heappop(self._live)[2] if self._live and self._live[0][0] <= self._now_s else None

    def next(self) -> str | None:
        if not self._live:
            return None
        end_s, _, name = heapq.heappop(self._live)
        self._now_s = max(self._now_s, end_s)
        return name

    def start(self, name: str, request: Request) -> None:
        self._started += 1
        heapq.heappush(self._live, (self._now_s + request.output_length / self._rate, self._started, name))


class Play:
    """One pool: `run` plays the workload on it. Raises TargetError where the target breaks down."""

    def __init__(self, target: ApiTarget, num_blocks: int, workload: Workload, lives: Lives) -> None:
        self._target, self._workload, self._lives, self._num_blocks = target, workload, lives, num_blocks
        failed = target.open(Pool(num_blocks, workload.played_size))
        if failed is not None:
            raise TargetError(
                f"{target.name} made no pool of {num_blocks:,} blocks of {workload.played_size} tokens: "
                f"{failed.error}: {failed.message}"
            )
        self._manager = target.manager
        self._free_is_method = callable(self._manager.num_free_blocks)
        self._never_used = num_blocks  # blocks without content: they are taken before any is evicted
        self._lengths: dict[str, int] = {}
        self._hits = self._evicted = self._waited = self._unserved = self._peak = 0
        self._seconds = 0.0

    def run(self, tick: Tick) -> PoolResult:
        """Play every request, in order."""
        requests = self._workload.requests
        for i, request in enumerate(requests):
            while (ending := self._lives.due(request)) is not None:
                self._end(ending)
            self._serve(f"r{i}", request)
            if i % _EVERY == 0:
                tick(i)
        tick(len(requests))
        prompt_blocks = self._workload.prompt_blocks
        return PoolResult(
            num_blocks=self._num_blocks,
            hit_blocks=self._hits,
            hit_rate=self._hits / prompt_blocks,
            evicted=self._evicted,
            waited=self._waited,
            unserved=self._unserved,
            peak_blocks=self._peak,
            seconds=self._seconds,
            us_per_request=self._seconds / len(requests) * 1e6,
        )

    def _serve(self, name: str, request: Request) -> None:
        """Start the request, if need be after others have ended."""
        waits = False
        while not self._done(self._allocate, name, request):
            waits = True
            if not self._end_one():
                self._unserved += 1
                return
        self._lengths[name] = len(request.prompt)
        for token in request.output:
            while not self._done(self._append, name, token):
                waits = True
                if not self._end_one():
                    self._unserved += 1
                    self._end(name)
                    return
        self._waited += waits
        self._peak = max(self._peak, self._num_blocks - self._free())
        self._lives.start(name, request)

    def _done(self, operation: Callable[..., None], *arguments: Any) -> bool:
        """Whether it was done; it was refused otherwise."""
        try:
            operation(*arguments)
        except Exception as error:
            if not isinstance(self._target.failure(error), Refused):
                raise TargetError(
                    f"{self._target.name} raised {type(error).__name__}: {error}, which is no refusal; "
                    "kvaudit run shows more"
                ) from error
            return False
        return True

    def _allocate(self, name: str, request: Request) -> None:
        size, manager = self._workload.played_size, self._manager
        started = thread_time()
        try:
            manager.allocate(name, request.prompt)
        finally:
            self._seconds += thread_time() - started
        hits = manager.num_cached_tokens(name) // size
        self._hits += hits
        self._take(-(-len(request.prompt) // size) - hits)

    def _append(self, name: str, token: int) -> None:
        started = thread_time()
        try:
            self._manager.append_slot(name, token)
        finally:
            self._seconds += thread_time() - started
        length = self._lengths[name]
        self._lengths[name] = length + 1
        if length % self._workload.played_size == 0:
            self._take(1)

    def _take(self, blocks: int) -> None:
        fresh = min(blocks, self._never_used)
        self._never_used -= fresh
        self._evicted += blocks - fresh

    def _end_one(self) -> bool:
        ending = self._lives.next()
        if ending is not None:
            self._end(ending)
        return ending is not None

    def _end(self, name: str) -> None:
        if not self._done(self._release, name):
            raise TargetError(f"{self._target.name} refused to free a request; kvaudit run shows more")
        if self._lengths.pop(name) % self._workload.played_size:
            self._never_used += 1  # the last block has no identity, and nobody else holds it

    def _release(self, name: str) -> None:
        started = thread_time()
        self._manager.free(name)
        self._seconds += thread_time() - started

    def _free(self) -> int:
        free = self._manager.num_free_blocks
        return int(free() if self._free_is_method else free)
