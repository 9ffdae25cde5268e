"""Replays recorded workloads on a block manager: hit rate, evictions and waiting over the size of the pool."""
