"""The memory of a pool that is all cached, with nothing live: what Python has allocated for it."""

from __future__ import annotations

import gc
import tracemalloc

from bench.drivers import Driver
from bench.workloads import Workload

POOL = Workload("memory", "a pool that is all cached", 50_000, 0, full=True)


def bytes_per_block(driver: Driver) -> float:
    """Fill a pool, free everything, and see what is there that was not before. Tensors are not seen."""
    driver.pool(8, POOL.block_size, 8 * POOL.block_size)
    gc.collect()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        driver.pool(POOL.num_blocks, POOL.block_size, POOL.num_blocks * POOL.block_size)
        _fill(driver)
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return (after - before) / POOL.num_blocks


def _fill(driver: Driver) -> None:
    for i, tokens in enumerate(POOL.fillers()):
        driver.free(driver.start(f"filler {i}", driver.prepared(tokens)))
