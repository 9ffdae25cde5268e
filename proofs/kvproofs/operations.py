"""The operations and reads by name: how each is proved."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from kvproofs import batches, prompt, reads
from kvproofs.allocate import allocate
from kvproofs.append import append
from kvproofs.executor import Goal
from kvproofs.free import free
from kvproofs.init import init

OPERATIONS: dict[str, Callable[[Any, dict[str, Any]], Iterator[Goal]]] = {
    "init": init,
    "check_tokens": prompt.check_tokens,
    "allocate": allocate,
    "append": append,
    "append_slots": batches.append_slots,
    "extend": batches.extend,
    "free": free,
    "slot": reads.slot,
    "can_allocate": reads.can_allocate,
    "num_cached_tokens": reads.num_cached_tokens,
    "block_table": reads.block_table,
}
