"""Sends shards to workers until each of them has one result, whoever dies meanwhile."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, wait

from kvaudit.errors import TargetError
from kvaudit.volume.shards import Job, Result, Shard, run_shard
from kvaudit.volume.workers import Workers

_MAX_LOSSES = 3
_TICK_S = 0.1
_SETTLE_S = 10.0


def results(workers: Workers, job: Job, shards: Iterator[Shard], on_tick: Callable[[], None]) -> Generator[Result]:
    """The result of each shard, once, in the order of the shards.

    on_tick: called several times a second, and may raise to end it all. Raises TargetError if a shard cannot be done:
    the target does not start, or workers die each time that it is tried.
    """
    done: dict[int, Result] = {}
    due = 0
    for result in _as_they_come(workers, job, shards, on_tick):
        if result.error:
            raise TargetError(result.error)
        done[result.shard] = result
        while due in done:
            yield done.pop(due)
            due += 1


def _as_they_come(workers: Workers, job: Job, shards: Iterator[Shard], on_tick: Callable[[], None]) -> Iterator[Result]:
    sent: dict[Future[Result], Shard] = {}
    waiting: deque[Shard] = deque()  # those that were lost with a worker: they come first
    losses: Counter[int] = Counter()
    while True:
        lost: list[Shard] = []
        while not lost and len(sent) < workers.slots:
            shard = waiting.popleft() if waiting else next(shards, None)
            if shard is None:
                break
            try:
                sent[workers.submit(run_shard, job, shard)] = shard
            except BrokenExecutor:
                lost.append(shard)
        if not sent and not lost:
            return
        if not lost:
            wait(sent, timeout=_TICK_S, return_when=FIRST_COMPLETED)
        on_tick()
        for future in [future for future in sent if future.done()]:
            error = future.exception()
            if isinstance(error, BrokenExecutor):
                lost.append(sent.pop(future))
            elif error is not None:
                raise workers.explained(error)
            else:
                del sent[future]
                yield future.result()
        if lost:
            # The others are lost as well, but for those that were done just before.
            wait(sent, timeout=_SETTLE_S)
            for future, shard in sent.items():
                if future.done() and future.exception() is None:
                    yield future.result()
                else:
                    lost.append(shard)
            sent.clear()
            _count(lost, losses)
            waiting.extend(lost)
            workers.renew()


def _count(lost: list[Shard], losses: Counter[int]) -> None:
    losses.update(shard.id for shard in lost)
    often = [shard for shard in lost if losses[shard.id] >= _MAX_LOSSES]
    if often:
        raise TargetError(
            f"a process of the audit has ended {_MAX_LOSSES} times over the same part of it: does the target end it, "
            "or is there too little memory? With --isolate a Python class runs in a process of its own"
        )
