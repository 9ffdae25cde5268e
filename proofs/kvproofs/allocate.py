"""allocate: the checks, the chain of keys, the match, and three loops that write."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import z3

from kvblocks import errors
from kvproofs import theory
from kvproofs.backend import StateView, Step
from kvproofs.containers import List
from kvproofs.executor import Goal, executing
from kvproofs.loops import Items, Loop
from kvproofs.operation import SEQ_ID, Run, completed, ghosts_after, prove_operation, unchanged
from kvproofs.state import State, StrategyError, capture
from kvproofs.terms import BOOL, INT, KEY, SEQ, SIZE, Argument, SeqTerm, div, lift, mod, times
from kvspec import postconditions as post
from kvspec.obligations import OBLIGATIONS

PROMPT = z3.Array("prompt", INT, INT)
LENGTH = z3.Int("prompt_len")
RUN = z3.Int("run_of_hits")
idle = z3.Function("idle_hits_below", INT, INT)

_IS_INT, _IS_BOOL = z3.Array("prompt_is_int", INT, BOOL), z3.Array("prompt_is_bool", INT, BOOL)


class IterationError(Exception):
    """What iterating the caller's tokens may raise."""


class Prompt(Items):
    """Any iterable of anything, which may raise at any step."""

    count = LENGTH

    def __init__(self) -> None:
        super().__init__(PROMPT)

    def at(self, i: Any) -> Any:
        if executing().fork(executing().fresh(BOOL, "iterating_raises")):
            raise IterationError
        return argument(i)


def argument(i: Any) -> Argument:
    return Argument(PROMPT[i], _IS_INT[i], _IS_BOOL[i])


def _all(variable: Any, low: Any, high: Any, claim: Any, *patterns: Any) -> Any:
    """The claim holds of low .. high - 1; Z3 looks it up where one of the patterns occurs."""
    body = z3.Implies(z3.And(low <= variable, variable < high), claim)
    return z3.ForAll([variable], body, patterns=list(patterns))


def _tokens_below(count: Any) -> Any:
    """What the caller gave below `count` are token ids."""
    j = z3.Int("j")
    return _all(j, 0, count, argument(j).is_token(), PROMPT[j], _IS_INT[j], _IS_BOOL[j])


def _one(claim: Any) -> Any:
    return z3.If(claim, z3.IntVal(1), z3.IntVal(0))


def key(i: Any) -> Any:
    """The key of block i of the prompt."""
    return theory.prefix(PROMPT, i + 1)


def definitions(s: State) -> list[Any]:
    """RUN is the longest run of hits (O4); `idle(k)` counts those of the first k that no table holds."""
    j, k = z3.Ints("j k")
    limit = div(LENGTH - 1)
    return [
        LENGTH >= 0,
        theory.prefix(PROMPT, 0) == theory.NO_KEY,
        z3.Implies(
            LENGTH >= 1,
            z3.And(
                0 <= RUN,
                RUN <= limit,
                z3.Implies(z3.Not(s.cache_on), RUN == 0),
                z3.Or(RUN == limit, z3.Not(s.cache_on), z3.Not(s.map_has[key(RUN)])),
            ),
        ),
        _all(j, 0, RUN, z3.And(s.cache_on, s.map_has[key(j)]), key(j)),
        idle(0) == 0,
        z3.ForAll(
            [j, k],
            z3.Implies(z3.And(0 <= j, k == j + 1), idle(k) == idle(j) + _one(s.ref[s.map_block[key(j)]] == 0)),
            patterns=[z3.MultiPattern(idle(j), idle(k))],
        ),
        z3.ForAll([k], z3.Implies(k >= 0, z3.And(0 <= idle(k), idle(k) <= k)), patterns=[idle(k)]),
    ]


# --- the loops that read -----------------------------------------------------------------------------------


def check_loop(before: State, manager: Any, loop: Loop, local: dict[str, Any]) -> dict[str, Any]:
    made, j = local["_made1"], z3.Int("j")
    array = made.array if made.array is not None else z3.K(INT, z3.IntVal(0))
    return {
        "copied so far": z3.And(made.length == loop.i, made.start == 0),
        "the caller's tokens": _all(j, 0, loop.i, array[j] == PROMPT[j], array[j]),
        "each of them valid": _tokens_below(loop.i),
    }


def chain_loop(before: State, manager: Any, loop: Loop, local: dict[str, Any]) -> dict[str, Any]:
    hashes, j = local["hashes"], z3.Int("j")
    return {
        "one key a block": z3.And(hashes.length == loop.i, hashes.start == 0),
        "the keys of the prompt": _all(j, 0, loop.i, hashes.array[j] == key(j), hashes.array[j]),
    }


def match_loop(before: State, manager: Any, loop: Loop, local: dict[str, Any]) -> dict[str, Any]:
    hits, j = local["hits"], z3.Int("j")
    found = z3.And(before.map_has[key(j)], hits.array[j] == before.map_block[key(j)])
    return {
        "one block a key": z3.And(hits.length == loop.i, hits.start == 0),
        "the mapped blocks": z3.And(_all(j, 0, loop.i, found, hits.array[j]), _all(j, 0, loop.i, found, key(j))),
    }


def idle_loop(before: State, manager: Any, loop: Loop, local: dict[str, Any]) -> dict[str, Any]:
    return {
        "the hits are the longest run": loop.count == RUN,
        "what is left": lift(local["available"]) == before.num_free_blocks - idle(loop.i),
    }


# --- the loops that write ----------------------------------------------------------------------------------


class Writing:
    """What is said of a state between two writes. `before`: the state before the operation."""

    def __init__(self, before: State, manager: Any, local: dict[str, Any]) -> None:
        self.before, self.m = before, manager
        self.hits, self.table = local["hits"], local["table"]
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
        "the table": z3.And(
            w.table.length == loop.i, w.table.start == 0,
            _all(j, 0, loop.i, w.table.array[j] == w.hits.array[j], w.table.array[j]),
        ),
        "each hit is at its depth": _all(j, 0, RUN, w.hit(w.hits.array[j], RUN), w.hits.array[j]),
        "counts": z3.ForAll([b], ref.array[b] == before.ref[b] + _one(w.hit(b, loop.i)), patterns=[ref.array[b]]),
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
            _all(j, 0, RUN, first == w.hits.array[j], first),
            _all(j, RUN, RUN + i, z3.And(w.taken(first), table.where[first] == j), first),
        ),
        "what is taken stands in it": z3.ForAll(
            [b], z3.Implies(w.taken(b), w.stands(b, RUN, RUN + i)), patterns=[table.where[b]]
        ),
        "counts": z3.ForAll(
            [b],
            ref.array[b] == z3.If(w.taken(b), z3.IntVal(1), before.ref[b] + _one(w.hit(b, RUN))),
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


def _hints(run: Run, after: State) -> None:
    """Goals on the way: the new table holds the hits, then what was taken, and nothing else."""
    w, before, count = run.executor.notes["writing"], run.before.state, after.tables_len[SEQ_ID]
    table, b, j = after.tables[SEQ_ID], z3.Int("b"), z3.Int("j")
    hit, taken, full = w.hit(b, RUN), w.taken(b), div(LENGTH)
    h, r, i, o = z3.Const("h", KEY), z3.Const("r", SEQ), z3.Int("i"), z3.Int("o")
    shared = before.tables[r][j]
    place = theory.depth(key(j)) - 1
    carries = z3.And(after.hash_has[table[j]], after.hash_key[table[j]] == key(j))
    row, here = after.tokens[SEQ_ID], times(j) + o
    at = theory.depth(h) - 1

    def stays_at(a_key: Any) -> Any:
        return z3.And(before.map_has[a_key], z3.Not(w.taken(before.map_block[a_key])))

    stays = stays_at(h)
    made = z3.And(before.cache_on, RUN <= at, at < full, h == key(at))

    def each(claim: Any) -> Any:
        return z3.ForAll([b], z3.Implies(theory.about(b), claim), patterns=[theory.about(b)])

    for label, claim in {
        "it covers the prompt": count == div(LENGTH + SIZE - 1),
        "the table begins with the hits": _all(j, 0, RUN, table[j] == w.hits.array[j], w.hits.array[j]),
        "each at its depth": _all(j, 0, RUN, w.hit(table[j], RUN), table[j]),
        "then comes what was taken": _all(j, RUN, count, w.taken(table[j]), table[j]),
        "hits are in the table": each(z3.Implies(hit, after.contains(SEQ_ID, b))),
        "what was taken stands where it was appended": each(z3.Implies(taken, w.stands(b, RUN, count))),
        "and is in the table": each(z3.Implies(taken, after.contains(SEQ_ID, b))),
        "nothing else is": each(after.contains(SEQ_ID, b) == z3.Or(hit, taken)),
        "all of it are blocks": _all(j, 0, count, z3.And(0 <= table[j], table[j] < before.num_blocks), table[j]),
        "the hits carried the keys of the prompt": _all(
            j, 0, RUN, z3.And(before.hash_has[table[j]], before.hash_key[table[j]] == key(j)), table[j]
        ),
        "the hits carry the keys of the prompt": _all(j, 0, RUN, carries, table[j]),
        "new full blocks carry the keys of the prompt": z3.Implies(
            before.cache_on, _all(j, RUN, full, carries, table[j])
        ),
        "its full blocks carry the keys of the prompt": z3.Implies(
            before.cache_on, _all(j, 0, full, carries, table[j])
        ),
        "a last one that is not full carries none": z3.And(
            _all(j, full, count, z3.Not(after.hash_has[table[j]]), table[j]),
            z3.Implies(z3.Not(before.cache_on), _all(j, 0, count, z3.Not(after.hash_has[table[j]]), table[j])),
        ),
        "other blocks keep theirs": each(
            z3.Implies(
                z3.Not(after.contains(SEQ_ID, b)),
                z3.And(
                    after.hash_has[b] == before.hash_has[b],
                    z3.Implies(before.hash_has[b], after.hash_key[b] == before.hash_key[b]),
                ),
            )
        ),
        "what is mapped was mapped, or is a key of the prompt": z3.ForAll(
            [h],
            z3.Implies(
                theory.about_key(h),
                z3.And(
                    after.map_has[h] == z3.Or(stays, made),
                    z3.Implies(stays, after.map_block[h] == before.map_block[h]),
                    z3.Implies(z3.And(made, z3.Not(stays)), after.map_block[h] == table[at]),
                ),
            ),
            patterns=[theory.about_key(h)],
        ),
        "what is mapped carries its key": z3.ForAll(
            [h],
            z3.Implies(
                z3.And(theory.about_key(h), h != theory.NO_KEY, after.map_has[h]),
                z3.And(
                    0 <= after.map_block[h],
                    after.map_block[h] < before.num_blocks,
                    after.hash_has[after.map_block[h]],
                    after.hash_key[after.map_block[h]] == h,
                ),
            ),
            patterns=[theory.about_key(h)],
        ),
        "each key is as deep as its place": _all(j, 0, full, z3.And(place == j, table[place] == table[j]), key(j)),
        "each key of the prompt is mapped": _all(
            j,
            RUN,
            full,
            z3.Implies(
                z3.And(before.cache_on, theory.about_key(key(j))),
                z3.And(
                    after.map_has[key(j)],
                    z3.Implies(z3.Not(stays_at(key(j))), after.map_block[key(j)] == table[j]),
                    z3.Implies(stays_at(key(j)), after.map_block[key(j)] == before.map_block[key(j)]),
                ),
            ),
            key(j),
        ),
        "no table held what was taken": z3.ForAll(
            [r, j],
            z3.Implies(z3.And(before.live(r), 0 <= j, j < before.tables_len[r]), z3.Not(w.taken(shared))),
            patterns=[before.tables[r][j]],
        ),
        "a shared block stands at one place": z3.ForAll(
            [r, j],
            z3.Implies(
                z3.And(
                    before.live(r),
                    0 <= j,
                    j < before.tables_len[r],
                    theory.about(shared),
                    after.contains(SEQ_ID, shared),
                ),
                z3.And(
                    w.hit(shared, RUN), theory.depth(before.hash_key[shared]) == j + 1, after.place(SEQ_ID, shared) == j
                ),
            ),
            patterns=[shared],
        ),
        "hits hold the content of their keys": z3.ForAll(
            [j, o],
            z3.Implies(
                z3.And(0 <= j, j < RUN, 0 <= o, o < SIZE),
                z3.And(
                    after.cell(table[j], o) == before.cell(table[j], o),
                    before.cell(table[j], o) == theory.content(key(j), o),
                ),
            ),
            patterns=[before.cell(table[j], o)],
        ),
        "which is the prefix of the prompt": _all(
            i,
            0,
            times(RUN),
            z3.And(
                div(i) < RUN,
                theory.reading(row, i) == theory.reading(PROMPT, i),
                after.cell(table[div(i)], mod(i)) == theory.content(key(div(i)), mod(i)),
                after.cell(table[div(i)], mod(i)) == theory.reading(row, i),
            ),
            theory.reading(row, i),
        ),
        "the rest is written": _all(
            i, times(RUN), LENGTH, after.cell(table[div(i)], mod(i)) == theory.reading(row, i), theory.reading(row, i)
        ),
        "a new full block holds its tokens": z3.ForAll(
            [j, o],
            z3.Implies(
                z3.And(RUN <= j, j < full, 0 <= o, o < SIZE),
                z3.And(
                    div(here) == j,
                    mod(here) == o,
                    after.cell(table[j], o) == theory.reading(row, here),
                    theory.reading(row, here) == theory.reading(PROMPT, here),
                    theory.reading(PROMPT, here) == theory.content(key(j), o),
                ),
            ),
            patterns=[before.cell(table[j], o)],
        ),
        "other blocks hold what they held": z3.ForAll(
            [b, o],
            z3.Implies(z3.And(theory.about(b), z3.Not(taken)), after.cell(b, o) == before.cell(b, o)),
            patterns=[before.cell(b, o)],
        ),
    }.items():
        run.executor.require(claim, f"table: {label}", _USING.get(label, ()))


_TAKE, _REGISTER = "BlockManager.allocate#3", "BlockManager.allocate#4"
_USING = {
    "hits are in the table": ("place", "table: the table", "table: it covers"),
    "what was taken stands where it was appended": (_TAKE,),
    "and is in the table": ("place", "table: what was taken"),
    "nothing else is": ("place", "table:"),
    "the hits carry the keys of the prompt": (
        "I1", "I2", "place", "table: it covers", "table: each", "table: the hits carried", f"{_TAKE}: keys", _REGISTER,
    ),
    "new full blocks carry the keys of the prompt": ("table: it covers", f"{_TAKE}: the table", _REGISTER),
    "each key is as deep as its place": ("identity: the depth",),
    "its full blocks carry the keys of the prompt": ("table: the hits carry", "table: new full"),
    "a last one that is not full carries none": ("I1", "I2", "place", "table:", _TAKE, _REGISTER),
    "other blocks keep theirs": ("table:", _TAKE, _REGISTER),
    "what is mapped was mapped, or is a key of the prompt": (
        "I1", "I2", "I3", "N4", "identity", "place", "table:", _TAKE, _REGISTER,
    ),
    "what is mapped carries its key": (
        "I3", "identity", "place", "table: all", "table: nothing", "table: the hits", "table: its full",
        "table: other blocks keep", "table: what is mapped",
    ),
    "each key of the prompt is mapped": ("table: each key", "table: what is mapped was"),
    "no table held what was taken": ("I1", "I2", "I4", "N2", "ghost"),
    "a shared block stands at one place": ("I6", "I7", "O5", "N2", "N3", "ghost", "identity", "place", "table:"),
    "hits hold the content of their keys": (
        "N2", "N5", "place", "table: it covers", "table: all", "table: the hits carried",
    ),
    "which is the prefix of the prompt": ("identity", "the tokens", "table: hits hold"),
    "the rest is written": ("place", "table: it covers"),
    "a new full block holds its tokens": ("identity: a key determines what", "place", "table: it covers"),
    "other blocks hold what they held": ("place", "table: nothing", "table: then", "table: it covers"),
}  # fmt: skip
"""What each of these goals follows from. See `Executor.prove`."""

_CLAUSES_USING = {
    "I3": ("table:",),
    "I7": ("I6", "I7", "N1", "N3", "O5", "BlockManager._hash_chain", "ghost", "identity", "no ", "place", "table:"),
    "K1": (
        "K1",
        "N1",
        "N2",
        "O5",
        "no ",
        "place",
        "table: it",
        "table: no",
        "table: the rest",
        "table: which",
        "table: other",
    ),
    "N5": ("N2", "N5", "place", "table:"),
    "O8": ("N1", "BlockManager._hash_chain", "cached", "identity", "no ", "place", "table:"),
}  # fmt: skip

LOOPS = {
    "check_tokens#1": check_loop,
    "BlockManager._hash_chain#1": chain_loop,
    "BlockManager._match#1": match_loop,
    "BlockManager.allocate#1": idle_loop,
    "BlockManager.allocate#2": hit_loop,
    "BlockManager.allocate#3": take_loop,
    "BlockManager.allocate#4": register_loop,
}


def allocate(cls: Any, options: dict[str, Any]) -> Iterator[Goal]:
    """allocate, with any sequence id and any iterable for a prompt."""

    def program(manager: Any) -> Any:
        for claim in definitions(capture(manager)):
            executing().assume(claim)
        return manager.allocate(SeqTerm(SEQ_ID), Prompt())

    def at_end(run: Run) -> None:
        before, error = run.before.state, run.outcome.error
        j = z3.Int("j")
        legal = z3.And(z3.Not(before.live(SEQ_ID)), LENGTH >= 1, _tokens_below(LENGTH))
        if isinstance(error, IterationError):
            unchanged(run, "O1")
            return
        if isinstance(error, errors.SequenceExists | errors.InvalidArgument):
            run.prove("O10", "a legal call is no misuse", z3.Not(legal))
            unchanged(run, "O10")
            return
        run.prove("O10", "misuse is named", legal)
        if isinstance(error, StrategyError):
            unchanged(run, "O1")
            return
        if error is not None and not isinstance(error, errors.OutOfBlocks):
            run.prove("O2", f"a legal call does not raise {type(error).__name__}", z3.BoolVal(False))
            return
        after = capture(run.manager)

        def step(state: State, **answer: Any) -> Any:
            view = StateView(state)
            return Step(run.before, view, SeqTerm(SEQ_ID), (PROMPT, LENGTH), run=RUN, idle=idle(RUN), **answer)

        if error is not None:
            for name in ("O1", "O2"):
                for clause in OBLIGATIONS[name].steps["allocate"]:
                    claim = clause(run.logic, step(after, refused=True))
                    run.prove(name, f"{clause.__name__} (refused)", claim)
            run.prove("O3", "refused: can_allocate says False", div(LENGTH + SIZE - 1) > before.num_free_blocks)
            return
        result = run.outcome.value
        run.prove("O11", "the answer is a list of its own", z3.BoolVal(isinstance(result, List) and result.is_private))
        array, start, length = result.snapshot()
        run.prove("O5", "the answer begins at its begin", start == 0)
        answer = {"result": (array, length)}
        run.executor.require(lift(post.others_unchanged(run.logic, step(after, **answer))), "no other table changes")
        row = after.tokens[SEQ_ID]
        run.executor.require(_all(j, 0, LENGTH, row[j] == PROMPT[j]), "the tokens are the prompt")
        for fact in theory.agreement(row, PROMPT, LENGTH):
            run.executor.assume(fact)
        run.executor.require(div(times(RUN)) == RUN, "cached counts the hits")
        place = z3.Function("place_after", INT, INT)

        def memory(b: Any, o: Any) -> Any:
            at = place(b)
            written = z3.And(
                RUN <= at, at < after.tables_len[SEQ_ID], after.tables[SEQ_ID][at] == b, times(at) + o < LENGTH
            )
            return z3.If(written, theory.reading(row, times(at) + o), before.cell(b, o))

        ghost = ghosts_after(run, after, SEQ_ID, memory)
        _hints(run, ghost)
        completed(run, "allocate", step(ghost, **answer), _CLAUSES_USING)

    return prove_operation(cls, program, at_end, options, LOOPS)
