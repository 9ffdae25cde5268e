"""The text of kvspec, evaluated on Z3 terms: the logic, the view of a symbolic state, the symbolic transition.

Like the views of kvspec these are total: of a block out of range, of a block without a key, of a sequence that
is not live they say what kvspec's own views say.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import z3

from kvproofs import theory
from kvproofs.formulas import one
from kvproofs.state import State
from kvproofs.terms import (
    INT,
    KEY,
    NOTHING,
    SEQ,
    SIZE,
    Bool,
    ExtraTerm,
    Int,
    KeyTerm,
    SeqTerm,
    _Comparable,
    div,
    lift,
    number,
)
from kvspec.variants import SEED_VARIANTS

Claim = Any


class ContentTerm(_Comparable):
    """What a slot of the KV memory holds."""


class Symbolic:
    """The connectives and quantifiers of kvspec as Z3 formulas.

    marks: the formula is a goal, and shall say which blocks and keys it speaks of. See `theory.about`, which is
    true of all.
    """

    def __init__(self, num_blocks: Any, *, marks: bool = False) -> None:
        self._num_blocks, self._marks = num_blocks, marks

    def all(self, *claims: Claim) -> Bool:
        terms = [lift(claim) for claim in claims]
        return Bool(z3.BoolVal(False) if any(map(z3.is_false, terms)) else z3.And(*terms))

    def any(self, *claims: Claim) -> Bool:
        terms = [term for term in map(lift, claims) if not z3.is_false(term)]
        return Bool(z3.BoolVal(True) if any(map(z3.is_true, terms)) else z3.Or(*terms))

    def no(self, claim: Claim) -> Bool:
        return Bool(z3.Not(lift(claim)))

    def implies(self, premise: Claim, conclusion: Claim) -> Bool:
        return Bool(z3.Implies(lift(premise), lift(conclusion)))

    def iff(self, left: Claim, right: Claim) -> Bool:
        return Bool(lift(left) == lift(right))

    def every_block(self, claim: Callable[[Any], Claim]) -> Bool:
        def marked(b: Int) -> Claim:
            return self.implies(theory.about(b.term), claim(b)) if self._marks else claim(b)

        return self.every_below(Int(self._num_blocks), marked)

    def every_sequence(self, claim: Callable[[Any], Claim]) -> Bool:
        q = z3.FreshConst(SEQ, "q")
        return Bool(z3.ForAll([q], lift(claim(SeqTerm(q)))))

    def every_identity(self, claim: Callable[[Any], Claim]) -> Bool:
        h = z3.FreshConst(KEY, "h")
        premise = z3.And(h != theory.NO_KEY, theory.about_key(h)) if self._marks else h != theory.NO_KEY
        return Bool(z3.ForAll([h], z3.Implies(premise, lift(claim(KeyTerm(h))))))

    def every_below(self, count: Any, claim: Callable[[Any], Claim]) -> Bool:
        i = z3.FreshConst(INT, "i")
        return Bool(z3.ForAll([i], z3.Implies(z3.And(0 <= i, i < number(count)), lift(claim(Int(i))))))


class StateView:
    """What kvspec can say of a symbolic state."""

    def __init__(self, state: State) -> None:
        s = self.state = state
        self.num_blocks = Int(s.num_blocks)
        self.block_size = Int(SIZE)
        self.cache_on = Bool(s.cache_on)
        self.num_free_blocks = Int(s.num_free_blocks)
        self.num_listed_free = Int(s.free_count)
        self.num_listed_evictable = Int(s.evictable_count)
        self.num_held = Int(s.ref_positive)

    def _in_pool(self, b: Any) -> Any:
        return z3.And(0 <= number(b), number(b) < self.state.num_blocks)

    def times_free(self, b: Any) -> Int:
        return Int(one(self.state.free_member[number(b)]))

    def times_evictable(self, b: Any) -> Int:
        return Int(one(self.state.evictable_member[number(b)]))

    def ahead_in_free(self, b: Any, c: Any) -> Bool:
        return _ahead(self.state.free_member, self.state.free_stamp, number(b), number(c))

    def older(self, b: Any, c: Any) -> Bool:
        return _ahead(self.state.evictable_member, self.state.evictable_stamp, number(b), number(c))

    def ref(self, b: Any) -> Int:
        return Int(z3.If(self._in_pool(b), self.state.ref[number(b)], z3.IntVal(0)))

    def holders(self, b: Any) -> Int:
        return Int(self.state.holders(number(b)))

    def has_hash(self, b: Any) -> Bool:
        return Bool(z3.And(self._in_pool(b), self.state.hash_has[number(b)]))

    def hash_of(self, b: Any) -> KeyTerm:
        return KeyTerm(z3.If(self.has_hash(b).term, self.state.hash_key[number(b)], theory.NO_KEY))

    def mapped(self, h: Any) -> Bool:
        return Bool(self.state.map_has[lift(h)])

    def block_of(self, h: Any) -> Int:
        return Int(z3.If(self.state.map_has[lift(h)], self.state.map_block[lift(h)], z3.IntVal(-1)))

    def live(self, q: Any) -> Bool:
        return Bool(self.state.live(lift(q)))

    def _of(self, q: Any, term: Any, missing: Any) -> Any:
        return z3.If(self.state.live(lift(q)), term, missing)

    def _item(self, i: Any, count: Any, term: Any, missing: Any) -> Any:
        return z3.If(z3.And(0 <= number(i), number(i) < number(count)), term, missing)

    def num_tokens(self, q: Any) -> Int:
        return Int(self._of(q, self.state.tokens_len[lift(q)], z3.IntVal(0)))

    def token(self, q: Any, p: Any) -> Int:
        return Int(self._item(p, self.num_tokens(q), self.state.tokens[lift(q)][number(p)], z3.IntVal(-1)))

    def table_len(self, q: Any) -> Int:
        return Int(self._of(q, self.state.tables_len[lift(q)], z3.IntVal(0)))

    def table(self, q: Any, i: Any) -> Int:
        return Int(self._item(i, self.table_len(q), self.state.tables[lift(q)][number(i)], z3.IntVal(-1)))

    def chain_len(self, q: Any) -> Int:
        return Int(self._of(q, self.state.hashes_len[lift(q)], z3.IntVal(0)))

    def chain(self, q: Any, i: Any) -> KeyTerm:
        return KeyTerm(self._item(i, self.chain_len(q), self.state.hashes[lift(q)][number(i)], theory.NO_KEY))

    def prefix(self, q: Any, i: Any) -> KeyTerm:
        full = Int(div(self.num_tokens(q).term))
        return KeyTerm(self._item(i, full, self._prefix(lift(q), number(i) + 1), theory.NO_KEY))

    def _prefix(self, q: Any, count: Any) -> Any:
        return theory.prefix(self.state.tokens[q], self.state.extra[q], count)

    def cached(self, q: Any) -> Int:
        return Int(self._of(q, self.state.cached[lift(q)], z3.IntVal(0)))

    def extra(self, q: Any) -> ExtraTerm:
        return ExtraTerm(self._of(q, self.state.extra[lift(q)], NOTHING))

    def cell(self, b: Any, offset: Any) -> ContentTerm:
        return ContentTerm(self.state.cell(number(b), number(offset)))

    def prefix_of_token(self, q: Any, p: Any) -> ContentTerm:
        term = lift(q)
        return ContentTerm(theory.reading(self.state.tokens[term], self.state.extra[term], number(p)))


def _ahead(member: Any, stamp: Any, b: Any, c: Any) -> Bool:
    return Bool(z3.And(member[b], member[c], stamp[b] < stamp[c]))


class Step:
    """What `kvspec.logic.Transition` is, for symbolic states.

    prompt: the array of the tokens given and their number. extra: what else was given. run and idle: see `operations`.
    """

    variants = SEED_VARIANTS

    def __init__(
        self,
        before: StateView,
        after: StateView,
        seq_id: Any,
        prompt: tuple[Any, Any],
        *,
        extra: Any = NOTHING,
        refused: bool = False,
        slot: Any = None,
        result: tuple[Any, Any] | None = None,
        run: Any = None,
        idle: Any = None,
    ) -> None:
        self.before, self.after, self.seq_id, self.refused = before, after, seq_id, refused
        self._tokens, length = prompt
        self.num_tokens = Int(length)
        self.extra = ExtraTerm(extra)
        self.slot = Int(z3.IntVal(-1)) if slot is None else slot
        self._result: Any = result[0] if result else None
        result_len = result[1] if result else z3.IntVal(0)
        self.result_len = Int(result_len)
        if run is not None:
            self.run_of_hits, self.idle_in_run = Int(run), Int(idle)

    def token(self, p: Any) -> Int:
        inside = z3.And(0 <= number(p), number(p) < self.num_tokens.term)
        return Int(z3.If(inside, self._tokens[number(p)], z3.IntVal(-1)))

    def identity(self, i: Any) -> KeyTerm:
        inside = z3.And(0 <= number(i), number(i) < div(self.num_tokens.term))
        return KeyTerm(z3.If(inside, theory.prefix(self._tokens, self.extra.term, number(i) + 1), theory.NO_KEY))

    def result(self, i: Any) -> Int:
        if self._result is None:
            return Int(z3.IntVal(-1))
        inside = z3.And(0 <= number(i), number(i) < self.result_len.term)
        return Int(z3.If(inside, self._result[number(i)], z3.IntVal(-1)))
