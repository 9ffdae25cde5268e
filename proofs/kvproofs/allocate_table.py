"""Goals on the way to the clauses: what the new table holds, which keys its blocks carry, what the memory says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import z3

from kvproofs import theory
from kvproofs.allocate_prompt import EXTRA_GIVEN, LENGTH, PROMPT, RUN, key
from kvproofs.allocate_writing import HITS, REGISTER, TAKE
from kvproofs.formulas import between
from kvproofs.operation import SEQ_ID, Run
from kvproofs.state import State
from kvproofs.terms import KEY, SEQ, SIZE, div, mod, times


def prove_table(run: Run, after: State) -> None:
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
        "the table begins with the hits": between(j, 0, RUN, table[j] == w.hits.array[j], w.hits.array[j]),
        "each at its depth": between(j, 0, RUN, w.hit(table[j], RUN), table[j]),
        "then comes what was taken": between(j, RUN, count, w.taken(table[j]), table[j]),
        "hits are in the table": each(z3.Implies(hit, after.contains(SEQ_ID, b))),
        "what was taken stands where it was appended": each(z3.Implies(taken, w.stands(b, RUN, count))),
        "and is in the table": each(z3.Implies(taken, after.contains(SEQ_ID, b))),
        "nothing else is": each(after.contains(SEQ_ID, b) == z3.Or(hit, taken)),
        "all of it are blocks": between(j, 0, count, z3.And(0 <= table[j], table[j] < before.num_blocks), table[j]),
        "the hits carried the keys of the prompt": between(
            j, 0, RUN, z3.And(before.hash_has[table[j]], before.hash_key[table[j]] == key(j)), table[j]
        ),
        "the hits carry the keys of the prompt": between(j, 0, RUN, carries, table[j]),
        "new full blocks carry the keys of the prompt": z3.Implies(
            before.cache_on, between(j, RUN, full, carries, table[j])
        ),
        "its full blocks carry the keys of the prompt": z3.Implies(
            before.cache_on, between(j, 0, full, carries, table[j])
        ),
        "a last one that is not full carries none": z3.And(
            between(j, full, count, z3.Not(after.hash_has[table[j]]), table[j]),
            z3.Implies(z3.Not(before.cache_on), between(j, 0, count, z3.Not(after.hash_has[table[j]]), table[j])),
        ),
        "each of the new ones has one holder": between(j, RUN, count, after.ref[table[j]] == 1, table[j]),
        "without a key the others have the holders they had": each(
            z3.Implies(z3.Not(z3.Or(taken, before.hash_has[b])), after.ref[b] == before.ref[b])
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
        "each key is as deep as its place": between(j, 0, full, z3.And(place == j, table[place] == table[j]), key(j)),
        "each key of the prompt is mapped": between(
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
        "which is the prefix of the prompt": between(
            i,
            0,
            times(RUN),
            z3.And(
                div(i) < RUN,
                theory.reading(row, EXTRA_GIVEN, i) == theory.reading(PROMPT, EXTRA_GIVEN, i),
                after.cell(table[div(i)], mod(i)) == theory.content(key(div(i)), mod(i)),
                after.cell(table[div(i)], mod(i)) == theory.reading(row, EXTRA_GIVEN, i),
            ),
            theory.reading(row, EXTRA_GIVEN, i),
        ),
        "the rest is written": between(
            i,
            times(RUN),
            LENGTH,
            after.cell(table[div(i)], mod(i)) == theory.reading(row, EXTRA_GIVEN, i),
            theory.reading(row, EXTRA_GIVEN, i),
        ),
        "a new full block holds its tokens": z3.ForAll(
            [j, o],
            z3.Implies(
                z3.And(RUN <= j, j < full, 0 <= o, o < SIZE),
                z3.And(
                    div(here) == j,
                    mod(here) == o,
                    after.cell(table[j], o) == theory.reading(row, EXTRA_GIVEN, here),
                    theory.reading(row, EXTRA_GIVEN, here) == theory.reading(PROMPT, EXTRA_GIVEN, here),
                    theory.reading(PROMPT, EXTRA_GIVEN, here) == theory.content(key(j), o),
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
        run.executor.require(claim, f"table: {label}", focus(USING, label))


ALWAYS = (
    "index",
    "BlockManager._hash_chain#1: one key",
    "BlockManager._match#1: one block",
    "BlockManager.allocate#1: the hits",
    "cached counts",
    "table: it covers",
)
"""How long the prompt, its chain and its run of hits are, and which indices are in range: cheap, seldom of no use."""


def focus(using: Mapping[str, tuple[str, ...]], name: str) -> tuple[str, ...]:
    """The facts to try first for a goal of that name; none if nothing is said of it."""
    return (*ALWAYS, *using[name]) if name in using else ()


USING = {
    "hits are in the table": ("place", "table: the table"),
    "what was taken stands where it was appended": (TAKE,),
    "and is in the table": ("place", "table: what was taken"),
    "nothing else is": ("place", "table:"),
    "the hits carry the keys of the prompt": (
        "I1", "I2", "N2", "identity: the depth", "place", "table: all", "table: each", "table: the hits carried",
        "table: the table begins", "table: then", HITS, f"{TAKE}: keys", f"{TAKE}: the table", REGISTER,
    ),
    "new full blocks carry the keys of the prompt": (f"{TAKE}: the table", REGISTER),
    "each key is as deep as its place": ("identity: the depth",),
    "its full blocks carry the keys of the prompt": ("table: the hits carry", "table: new full"),
    "a last one that is not full carries none": ("I1", "I2", "place", "table:", TAKE, REGISTER),
    "each of the new ones has one holder": ("I1", "I2", "N2", f"{TAKE}: counts", f"{TAKE}: the table", "table: then"),
    "without a key the others have the holders they had": (f"{TAKE}: counts",),
    "other blocks keep theirs": ("table:", TAKE, REGISTER),
    "what is mapped was mapped, or is a key of the prompt": (
        "I1", "I2", "I3", "N2", "N4", "identity: the depth", "BlockManager._",
        "BlockManager.allocate#1", f"{TAKE}: mappings", f"{TAKE}: the table", f"{TAKE}: what is taken", REGISTER,
        "table: new full",
    ),
    "what is mapped carries its key": (
        "I3", "identity", "place", "table: all", "table: nothing", "table: the hits", "table: the table begins",
        "table: new full", "table: its full", "table: other blocks keep", "table: what is mapped",
        HITS, f"{TAKE}: mappings", f"{REGISTER}: mappings",
    ),
    "each key of the prompt is mapped": (
        "table: each key", "table: its full", "table: new full", "table: what is mapped was",
    ),
    "no table held what was taken": ("I1", "I2", "I4", "N2", "ghost"),
    "a shared block stands at one place": ("I6", "I7", "O5", "N2", "N3", "ghost", "identity", "place", "table:"),
    "hits hold the content of their keys": (
        "N2", "N5", "place", f"{TAKE}: the table", "table: all", "table: the hits carried",
    ),
    "which is the prefix of the prompt": (
        "identity", "the tokens", "place", "table: hits hold", "table: the hits carried", "table: the table begins",
        "table: each", HITS, f"{TAKE}: the table",
    ),
    "the rest is written": ("place",),
    "a new full block holds its tokens": ("identity: a key determines what", "place", "table: each key"),
    "other blocks hold what they held": ("place", "table: nothing", "table: then"),
}  # fmt: skip
"""What each of these goals follows from. See `Executor.prove`."""
