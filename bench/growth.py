"""Memory over a long run: a full pool with the prefix cache on, and whether the process takes more and more of it."""

from __future__ import annotations

import gc
import sys
from collections import deque
from dataclasses import replace
from typing import Any

import psutil

from bench.drivers import Driver
from bench.playing import placed
from bench.results import Reading
from bench.workloads import Workload

READINGS = 10


def reading(driver: Driver, number: int, workload: Workload) -> Reading:
    """Play the workload once more on the same pool, with other prompts, and read the memory; number 0 makes the pool.

    It is read with nothing live and every block cached, so that two readings differ by what stays behind alone.
    """
    if number == 0:
        driver.pool(workload.num_blocks, workload.block_size, workload.prompt_tokens + workload.live)
    operations = _play(driver, replace(workload, seed=number))
    gc.collect()
    return Reading((number + 1) * operations, psutil.Process().memory_info().rss, sys.getallocatedblocks())


def _play(driver: Driver, workload: Workload) -> int:
    """How many operations it took: an allocate, an appended token and a free are one each."""
    live: deque[Any] = deque()
    operations = 0
    for i, tokens in enumerate(workload.prompts()):
        if len(live) == workload.live:
            driver.free(live.popleft())
        live.append(placed(driver.start(f"{workload.seed}.{i}", driver.prepared(tokens))))
        driver.step(live, 7)
        operations += 2 + len(live)
    while live:
        driver.free(live.popleft())
    return operations
