"""Whether what a scheduler shows of its pool adds up: the free blocks, the references, and the tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from kvaudit import words
from kvaudit.breach import Breach
from kvaudit.protocol import Observed, Pool, State

Tables = Mapping[str, Sequence[int]]


def pool_breaches(pool: Pool, seen: Observed, live: Collection[str]) -> Iterator[Breach]:
    """What is wrong with the pool between two operations. live: the requests that may hold blocks."""
    free, num_blocks = seen.num_free_blocks, pool.num_blocks
    if free is not None and type(free) is not int:
        yield Breach("I1", f"num_free_blocks is {words.short(free)}, a number is due")
    elif free is not None and not live and free != num_blocks:
        yield Breach("I4", f"no request is left, and {free} of {words.count(num_blocks, 'block')} are free")
    state = seen.state
    if state is not None:
        strange = _strange(state, num_blocks)
        if strange:
            yield Breach("O5", strange)
            return
        yield from _state_breaches(pool, state, free, live)


def _strange(state: State, num_blocks: int) -> str:
    """What in an observation speaks of no block of the pool; empty if nothing does."""
    if state.ref is not None and len(state.ref) != num_blocks:
        return f"observe() gives {len(state.ref)} references, one for each of {num_blocks} blocks is due"
    for what, blocks in (("free", state.free or ()), *(state.tables or {}).items()):
        for block in blocks:
            if type(block) is not int or not 0 <= block < num_blocks:
                return f"observe() names {words.short(block)} in {what!r}, which is no block of the pool"
    return ""


def _state_breaches(pool: Pool, state: State, free: Any, live: Collection[str]) -> Iterator[Breach]:
    if state.tables is not None:
        yield from _holders(pool, state, state.tables, live)
    if state.free is None:
        return
    if type(free) is int and free != len(state.free):
        yield Breach("I1", f"num_free_blocks is {free}, and {words.count(len(state.free), 'block')} can be taken")
    times = Counter(state.free)
    held = _held(state)
    for block in range(pool.num_blocks):
        if times[block] > 1:
            yield Breach("I8", f"block {block} can be taken {times[block]} times", (block,))
        elif held is not None and times[block] and block in held:
            yield Breach("I8", f"block {block} can be taken, and is held by {held[block]}", (block,))
        elif held is not None and not times[block] and block not in held:
            yield Breach("I8", f"block {block} can neither be taken nor is it held: it is lost", (block,))


def _holders(pool: Pool, state: State, tables: Tables, live: Collection[str]) -> Iterator[Breach]:
    for seq, table in tables.items():
        if seq not in live and table:
            yield Breach("I4", f"{seq!r} has ended, and still holds blocks", tuple(table))
        if len(set(table)) != len(table):
            yield Breach("I7", f"the table of {seq!r} names a block twice: {list(table)}", tuple(table))
    holders = Counter(block for table in tables.values() for block in table)
    if not pool.enable_prefix_cache:
        for block in (block for block, times in holders.items() if times > 1):
            yield Breach("O9", f"block {block} is in {holders[block]} tables, and the cache is off", (block,))
    for block, ref in enumerate(state.ref or ()):
        if ref != holders[block]:
            what = f"ref of block {block} is {words.short(ref)}, it is in {words.count(holders[block], 'table')}"
            yield Breach("I4", what, (block,))


def _held(state: State) -> dict[int, str] | None:
    """Who holds each block that is held; None if that is not shown."""
    if state.tables is not None:
        return {block: repr(seq) for seq, table in state.tables.items() for block in table}
    if state.ref is not None:
        return {block: words.count(ref, "reference") for block, ref in enumerate(state.ref) if ref}
    return None
