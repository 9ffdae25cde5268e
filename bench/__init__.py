"""Side by side: kvblocks and the block managers of serving engines, on the same workloads, in one run."""
