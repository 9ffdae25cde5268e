"""What holds between operations: I1 - I8, O5, O9 and K1 of kvspec, word for word, and what makes them inductive.

The rest, named N1 - N6, is not said in kvspec because there it is so by construction (one record of four fields,
identities in place of keys) or because no report needs it.
"""

from __future__ import annotations

from typing import Any

import z3

from kvproofs import theory
from kvproofs.backend import StateView, Symbolic
from kvproofs.state import State
from kvproofs.terms import SEQ, SIZE, div, lift, mod, times
from kvspec.obligations import OBLIGATIONS


def n1_records_go_together(s: State) -> Any:
    """The fields of the records have the same keys: the live sequences. Each has at least one token."""
    q = z3.Const("q", SEQ)
    live = s.tables_has[q]
    return z3.ForAll(
        [q],
        z3.And(
            s.tokens_has[q] == live, s.hashes_has[q] == live, s.cached_has[q] == live, s.extra_has[q] == live,
            s.next_slot_has[q] == live, s.end_has[q] == live,
            z3.Implies(live, s.tokens_len[q] >= 1),
        ),
        patterns=[
            s.tables_has[q], s.tokens_has[q], s.hashes_has[q], s.cached_has[q], s.extra_has[q],
            s.next_slot_has[q], s.end_has[q],
        ],
    )  # fmt: skip


def n2_lists_hold_blocks(s: State) -> Any:
    """Both pools and all tables hold numbers of blocks."""
    q, b, i = z3.Const("q", SEQ), z3.Int("b"), z3.Int("i")
    in_pool = z3.And(0 <= b, b < s.num_blocks)
    at = s.tables[q][i]
    return z3.And(
        z3.ForAll([b], z3.Implies(s.free_member[b], in_pool), patterns=[s.free_member[b]]),
        z3.ForAll([b], z3.Implies(s.evictable_member[b], in_pool), patterns=[s.evictable_member[b]]),
        z3.ForAll(
            [q, i],
            z3.Implies(z3.And(s.live(q), 0 <= i, i < s.tables_len[q]), z3.And(0 <= at, at < s.num_blocks)),
            patterns=[at],
        ),
    )


def n3_chain_is_the_prefix(s: State) -> Any:
    """A chain has one key for each full block, that of the prefix which ends there; none with the cache off."""
    q, i = z3.Const("q", SEQ), z3.Int("i")
    return z3.And(
        z3.ForAll(
            [q],
            z3.Implies(s.live(q), s.hashes_len[q] == z3.If(s.cache_on, div(s.tokens_len[q]), z3.IntVal(0))),
            patterns=[s.hashes_len[q]],
        ),
        z3.ForAll(
            [q, i],
            z3.Implies(
                z3.And(s.live(q), 0 <= i, i < s.hashes_len[q]),
                s.hashes[q][i] == theory.prefix(s.tokens[q], s.extra[q], i + 1),
            ),
            patterns=[s.hashes[q][i]],
        ),
    )


def n4_no_key_is_no_key(s: State) -> Any:
    """What stands before the first block is neither carried nor mapped."""
    b = z3.Int("b")
    return z3.And(
        z3.Not(s.map_has[theory.NO_KEY]),
        z3.ForAll(
            [b], z3.Implies(s.hash_has[b], s.hash_key[b] != theory.NO_KEY), patterns=[s.hash_key[b], s.hash_has[b]]
        ),
    )


def n5_keyed_blocks_hold_their_content(s: State) -> Any:
    """The memory of a block that carries a key is what the key stands for, idle or not (K1 of future hits)."""
    b, o = z3.Ints("b o")
    cell = s.cell(b, o)
    stored = cell.decl().kind() == z3.Z3_OP_UNINTERPRETED
    return z3.ForAll(
        [b, o],
        z3.Implies(
            z3.And(theory.about(b), 0 <= b, b < s.num_blocks, s.hash_has[b], 0 <= o, o < SIZE),
            cell == theory.content(s.hash_key[b], o),
        ),
        patterns=[cell] if stored else [],
    )


def n6_next_slot_follows(s: State) -> Any:
    """`end` is where the slots of the last block end, `next_slot` the one after that of the last token."""
    q = z3.Const("q", SEQ)
    last = s.tables[q][s.tables_len[q] - 1]
    return z3.ForAll(
        [q],
        z3.Implies(
            s.live(q),
            z3.And(
                s.end[q] == times(last) + SIZE,
                s.next_slot[q] == times(last) + mod(s.tokens_len[q] - 1) + 1,
            ),
        ),
        patterns=[s.next_slot[q], s.end[q]],
    )


STRUCTURAL = {
    "N1": n1_records_go_together,
    "N2": n2_lists_hold_blocks,
    "N3": n3_chain_is_the_prefix,
    "N4": n4_no_key_is_no_key,
    "N5": n5_keyed_blocks_hold_their_content,
    "N6": n6_next_slot_follows,
}


def invariants(view: StateView, *, goals: bool = False) -> dict[str, Any]:
    """Every clause over one state by its name: kvspec's by obligation, then N1 - N6."""
    q = Symbolic(view.state.num_blocks, marks=goals)
    found = {f"{o.id} {clause.__name__}": lift(clause(q, view)) for o in OBLIGATIONS.values() for clause in o.state}
    return found | {f"{name} {rule.__name__}": rule(view.state) for name, rule in STRUCTURAL.items()}
