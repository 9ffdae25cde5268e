"""append_slots and extend: appends in turn, of which none is refused or misused. So they complete, or nothing changed.

That their state and their answers are those of the appends in turn is what the text says: it calls `append_slot`. Here
it is one by what `append` proves of it, with whatever else it may change made unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import z3

from kvblocks import errors
from kvproofs.allocate_prompt import LENGTH, PROMPT, IterationError, argument, tokens_below
from kvproofs.append import effects, fits
from kvproofs.containers import List, Modelled, Records
from kvproofs.executor import Goal, executing
from kvproofs.formulas import between, one
from kvproofs.loops import Loop
from kvproofs.operation import SEQ_ID, LoopRule, Run, prove_operation, unchanged
from kvproofs.state import State, StrategyError, capture
from kvproofs.terms import BOOL, INT, SEQ, SIZE, Argument, Int, SeqTerm, Symbol, div, lift, mod, number, require

IDS = z3.Array("ids", INT, SEQ)
NUM_IDS = z3.Int("num_ids")
_full = z3.Function("full_below", INT, INT)  # how many of the first k sequences have no room in their last block


class Tokens(Symbol):
    """Anything for tokens. A list of them is no different."""

    def __init__(self) -> None:
        super().__init__(PROMPT)

    def listed(self) -> Tokens:
        _iterated()
        return self

    def size(self) -> Any:
        return LENGTH

    def __getitem__(self, index: Any) -> Argument:
        require(z3.And(0 <= number(index), number(index) < LENGTH), "index in range")
        return argument(number(index))


class Ids(Symbol):
    """Any sequence ids."""

    def __init__(self) -> None:
        super().__init__(IDS)

    def listed(self) -> List:
        _iterated()
        return List(IDS, NUM_IDS)


def _iterated() -> None:
    if executing().fork(executing().fresh(BOOL, "iterating_raises")):
        raise IterationError


def append_by_contract(manager: Any, seq_id: SeqTerm, token: Argument) -> Int:
    """`append_slot` as it is proved: of a live sequence, with a token id, where it fits."""
    run, q, before = executing(), lift(seq_id), capture(manager)
    run.prove("O10", "each append is legal", z3.And(before.live(q), token.is_token()))
    run.prove("O2", "each append fits", fits(before, q))
    if run.fork(run.fresh(BOOL, "strategy_raises")):
        raise StrategyError
    for container in _containers(manager):
        container.replace({name: run.fresh(term.sort(), name) for name, term in container.parts().items()})
    for claim in effects(before, capture(manager), q).values():
        run.assume(claim)
    return Int(run.fresh(INT, "slot"))


def _containers(manager: Any) -> Iterator[Modelled]:
    for value in vars(manager).values():
        if isinstance(value, Records):
            yield from value.columns.values()
        elif isinstance(value, Modelled):
            yield value


def _batch(
    call: Callable[[Any], Any],
    legal: Callable[[State], Any],
    needed: Callable[[State], Any],
    loops: dict[str, LoopRule],
) -> Callable[[Any, dict[str, Any]], Iterator[Goal]]:
    """legal: what a caller guarantees. needed: how many blocks it takes."""

    def at_end(run: Run) -> None:
        before, error = run.before.state, run.outcome.error
        if isinstance(error, StrategyError):
            return
        if error is not None:
            unchanged(run, "O1")
        if isinstance(error, IterationError):
            return
        if isinstance(error, errors.UnknownSequence | errors.InvalidArgument):
            run.prove("O10", "a legal call is no misuse", z3.Not(legal(before)))
            return
        run.prove("O10", "misuse is named", legal(before))
        if isinstance(error, errors.OutOfBlocks):
            run.prove("O2", "refused: it does not fit", needed(before) > before.num_free_blocks)
        else:
            run.prove("O2", "a legal call raises nothing else", z3.BoolVal(error is None))

    def proved(cls: Any, options: dict[str, Any]) -> Iterator[Goal]:
        known_by_contract = type(cls.__name__, (cls,), {"append_slot": append_by_contract})
        return prove_operation(known_by_contract, call, at_end, options, loops)

    return proved


def _as_they_were(before: State, manager: Any) -> dict[str, Any]:
    """No append ends a sequence, or begins one."""
    return {"the same sequences are live": capture(manager).tables_has == before.tables_has}


# --- append_slots: one token for each of several sequences ---------------------------------------------------


def _distinct() -> Any:
    i, j = z3.Ints("i j")
    inside = z3.And(0 <= i, i < j, j < NUM_IDS)
    return z3.ForAll([i, j], z3.Implies(inside, IDS[i] != IDS[j]), patterns=[z3.MultiPattern(IDS[i], IDS[j])])


def _live_below(s: State, count: Any) -> Any:
    j = z3.Int("j")
    return between(j, 0, count, s.live(IDS[j]), IDS[j])


def _append_slots(manager: Any) -> Any:
    """The call, after saying how many of the first k sequences need a block."""
    s, (j, k) = capture(manager), z3.Ints("j k")
    for claim in (
        NUM_IDS >= 0,
        LENGTH >= 0,
        _full(0) == 0,
        z3.ForAll(
            [j, k],
            z3.Implies(z3.And(0 <= j, k == j + 1), _full(k) == _full(j) + one(mod(s.tokens_len[IDS[j]]) == 0)),
            patterns=[z3.MultiPattern(_full(j), _full(k))],
        ),
        z3.ForAll(
            [j, k],
            z3.Implies(z3.And(0 <= j, j <= k), _full(j) <= _full(k)),
            patterns=[z3.MultiPattern(_full(j), _full(k))],
        ),
    ):
        executing().assume(claim)
    return manager.append_slots(Ids(), Tokens())


def _counting(before: State, manager: Any, loop: Loop, local: dict[str, Any]) -> dict[str, Any]:
    return {
        "as many are needed": number(local["needed"]) == _full(loop.i),
        "the sequences are live": _live_below(before, loop.i),
        "the tokens are token ids": tokens_below(loop.i),
    }


def _each_in_turn(before: State, manager: Any, loop: Loop, local: dict[str, Any]) -> dict[str, Any]:
    now, j = capture(manager), z3.Int("j")
    return _as_they_were(before, manager) | {
        "those to come are as they were": between(
            j, loop.i, NUM_IDS, now.tokens_len[IDS[j]] == before.tokens_len[IDS[j]], IDS[j]
        ),
        "there is room for the rest": now.num_free_blocks == before.num_free_blocks - _full(loop.i),
        "the next one is one of them": z3.Implies(loop.i < NUM_IDS, _full(loop.i + 1) <= _full(NUM_IDS)),
    }


append_slots = _batch(
    _append_slots,
    lambda s: z3.And(NUM_IDS == LENGTH, _distinct(), _live_below(s, NUM_IDS), tokens_below(LENGTH)),
    lambda s: _full(NUM_IDS),
    {"BlockManager.append_slots#1": _counting, "BlockManager.append_slots#2": _each_in_turn},
)


# --- extend: several tokens of one sequence ------------------------------------------------------------------


def _blocks(length: Any) -> Any:
    """How many blocks hold so many tokens."""
    return div(length + SIZE - 1)


def _extend(manager: Any) -> Any:
    executing().assume(LENGTH >= 0)
    return manager.extend(SeqTerm(SEQ_ID), Tokens())


def _checking(before: State, manager: Any, loop: Loop, local: dict[str, Any]) -> dict[str, Any]:
    return {"the tokens are token ids": tokens_below(loop.i)}


def _token_by_token(before: State, manager: Any, loop: Loop, local: dict[str, Any]) -> dict[str, Any]:
    now, length = capture(manager), before.tokens_len[SEQ_ID]
    return _as_they_were(before, manager) | {
        "it is as much longer": now.tokens_len[SEQ_ID] == length + loop.i,
        "there is room for the rest": now.num_free_blocks
        == before.num_free_blocks - _blocks(length + loop.i) + _blocks(length),
    }


extend = _batch(
    _extend,
    lambda s: z3.And(s.live(SEQ_ID), tokens_below(LENGTH)),
    lambda s: _blocks(s.tokens_len[SEQ_ID] + LENGTH) - s.tables_len[SEQ_ID],
    {"BlockManager.extend#1": _checking, "BlockManager.extend#2": _token_by_token},
)
