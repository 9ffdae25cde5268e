"""The loops of allocate that write: share the hits, take blocks for the rest, register the full ones."""

from __future__ import annotations

from typing import Any

import z3

from kvproofs import theory
from kvproofs.allocate_prompt import RUN, idle, key
from kvproofs.formulas import between, one
from kvproofs.loops import Loop
from kvproofs.state import State
from kvproofs.terms import KEY

HITS, TAKE, REGISTER = "BlockManager._hit#1", "BlockManager.allocate#2", "BlockManager.allocate#3"


class Writing:
    """What is said of a state between two writes. `before`: the state before the operation."""

    def __init__(self, before: State, manager: Any, local: dict[str, Any]) -> None:
        self.before, self.m = before, manager
        self.hits: Any = local["blocks"] if "blocks" in local else local["hits"]
        self.table: Any = local.get("table")  # not made yet while hits are shared
        self.b, self.c, self.j = z3.Ints("b c j")
        self.h = z3.Const("h", KEY)

    def hit(self, b: Any, count: Any) -> Any:
        """b is one of the first `count` hits: the depth of its key says which."""
        at = theory.depth(self.before.hash_key[b]) - 1
        return z3.And(self.before.hash_has[b], 0 <= at, at < count, self.hits.array[at] == b)

    def was_evictable(self, b: Any) -> Any:
        """b can be taken from the evictable pool: it was in it, and it is no hit."""
        return z3.And(self.before.evictable_member[b], z3.Not(self.hit(b, RUN)))

    def from_free(self, b: Any) -> Any:
        return z3.And(self.before.free_member[b], z3.Not(self.m._free.member[b]))

    def from_evictable(self, b: Any) -> Any:
        return z3.And(self.was_evictable(b), z3.Not(self.m._evictable.member[b]))

    def taken(self, b: Any) -> Any:
        return z3.Or(self.from_free(b), self.from_evictable(b))

    def stands(self, b: Any, low: Any, high: Any) -> Any:
        """b stands in the new table, at low .. high - 1."""
        at = self.table.where[b]
        return z3.And(low <= at, at < high, self.table.array[at] == b)

    def no_block_is_lost(self) -> Any:
        return self.m._free.count + self.m._evictable.count + self.m._ref.positive == self.before.num_blocks


def hit_loop(before: State, manager: Any, loop: Loop, local: dict[str, Any]) -> dict[str, Any]:
    w = Writing(before, manager, local)
    b, j, ref, pool = w.b, w.j, manager._ref, manager._evictable
    return {
        "each hit is at its depth": between(j, 0, RUN, w.hit(w.hits.array[j], RUN), w.hits.array[j]),
        "counts": z3.ForAll([b], ref.array[b] == before.ref[b] + one(w.hit(b, loop.i)), patterns=[ref.array[b]]),
        "the evictable pool": z3.And(
            z3.ForAll(
                [b], pool.member[b] == z3.And(before.evictable_member[b], z3.Not(w.hit(b, loop.i))),
                patterns=[pool.member[b]],
            ),
            z3.ForAll([b], pool.stamp[b] == before.evictable_stamp[b], patterns=[pool.stamp[b]]),
        ),
        "room": manager._free.count + pool.count == before.num_free_blocks - idle(loop.i),
        "no block is lost": w.no_block_is_lost(),
    }  # fmt: skip


def take_loop(before: State, manager: Any, loop: Loop, local: dict[str, Any]) -> dict[str, Any]:
    w = loop.notes["writing"] = Writing(before, manager, local)
    b, c, j, h, i = w.b, w.c, w.j, w.h, loop.i
    k = z3.Int("k")
    ref, free, pool, table = manager._ref, manager._free, manager._evictable, w.table
    keys, mapping = manager._block_hash, manager._hash_to_block
    first, second = table.array[j], table.array[k]
    new = z3.And(RUN <= j, j < k, k < RUN + i)
    return {
        "the table": z3.And(
            table.length == RUN + i, table.start == 0,
            between(j, 0, RUN, first == w.hits.array[j], first),
            between(j, RUN, RUN + i, z3.And(w.taken(first), table.where[first] == j), first),
        ),
        "what is taken stands in it": z3.ForAll(
            [b], z3.Implies(w.taken(b), w.stands(b, RUN, RUN + i)), patterns=[table.where[b]]
        ),
        "counts": z3.ForAll(
            [b],
            ref.array[b] == z3.If(w.taken(b), z3.IntVal(1), before.ref[b] + one(w.hit(b, RUN))),
            patterns=[ref.array[b]],
        ),
        "keys": z3.ForAll(
            [b],
            z3.And(
                keys.has[b] == z3.And(before.hash_has[b], z3.Not(w.taken(b))),
                z3.Implies(keys.has[b], keys.values[b] == before.hash_key[b]),
            ),
            patterns=[keys.has[b]],
        ),
        "mappings": z3.ForAll(
            [h],
            z3.And(
                mapping.has[h] == z3.And(before.map_has[h], z3.Not(w.taken(before.map_block[h]))),
                z3.Implies(mapping.has[h], mapping.values[h] == before.map_block[h]),
            ),
            patterns=[mapping.has[h]],
        ),
        "the free list": z3.And(
            z3.ForAll([b], z3.Implies(free.member[b], before.free_member[b]), patterns=[free.member[b]]),
            z3.ForAll([b], free.stamp[b] == before.free_stamp[b], patterns=[free.stamp[b]]),
            z3.ForAll(
                [b, c],
                z3.Implies(z3.And(w.from_free(b), free.member[c]), before.free_stamp[b] < before.free_stamp[c]),
                patterns=[z3.MultiPattern(free.member[b], free.member[c])],
            ),
        ),
        "the evictable pool": z3.And(
            z3.ForAll([b], z3.Implies(pool.member[b], w.was_evictable(b)), patterns=[pool.member[b]]),
            z3.ForAll([b], pool.stamp[b] == before.evictable_stamp[b], patterns=[pool.stamp[b]]),
            z3.ForAll(
                [b, c],
                z3.Implies(
                    z3.And(w.from_evictable(b), pool.member[c]), before.evictable_stamp[b] < before.evictable_stamp[c]
                ),
                patterns=[z3.MultiPattern(pool.member[b], pool.member[c])],
            ),
            z3.ForAll([b], z3.Implies(w.from_evictable(b), free.count == 0), patterns=[pool.member[b]]),
        ),
        "the order of taking": z3.ForAll(
            [j, k],
            z3.Implies(
                new,
                z3.Or(
                    z3.And(before.free_member[first], before.evictable_member[second]),
                    z3.And(
                        before.free_member[first], before.free_member[second],
                        before.free_stamp[first] < before.free_stamp[second],
                    ),
                    z3.And(
                        before.evictable_member[first], before.evictable_member[second],
                        before.evictable_stamp[first] < before.evictable_stamp[second],
                    ),
                ),
            ),
            patterns=[z3.MultiPattern(first, second)],
        ),
        "room": free.count + pool.count == before.num_free_blocks - idle(RUN) - i,
        "no block is lost": w.no_block_is_lost(),
    }  # fmt: skip


def register_loop(before: State, manager: Any, loop: Loop, local: dict[str, Any]) -> dict[str, Any]:
    w = Writing(before, manager, local)
    b, h, end = w.b, w.h, RUN + loop.i
    keys, mapping = manager._block_hash, manager._hash_to_block
    had, has_mapping = loop.memo.setdefault("entry", (keys.has, mapping.has))
    registered = w.stands(b, RUN, end)
    at = theory.depth(h) - 1
    new_key = z3.And(RUN <= at, at < end, h == key(at))
    return {
        "keys": z3.ForAll(
            [b],
            z3.And(
                keys.has[b] == z3.Or(had[b], registered),
                z3.Implies(registered, keys.values[b] == key(w.table.where[b])),
                z3.Implies(z3.And(had[b], z3.Not(registered)), keys.values[b] == before.hash_key[b]),
            ),
            patterns=[keys.has[b], keys.values[b]],
        ),
        "mappings": z3.ForAll(
            [h],
            z3.And(
                mapping.has[h] == z3.Or(has_mapping[h], new_key),
                z3.Implies(has_mapping[h], mapping.values[h] == before.map_block[h]),
                z3.Implies(z3.And(new_key, z3.Not(has_mapping[h])), mapping.values[h] == w.table.array[at]),
            ),
            patterns=[mapping.has[h], mapping.values[h]],
        ),
    }


LOOPS = {
    HITS: hit_loop,
    TAKE: take_loop,
    REGISTER: register_loop,
}
