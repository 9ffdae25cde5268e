"""`BlockManager(...)`: a new manager is the empty pool, keeps every invariant, has the state of the other proofs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import z3

from kvblocks import errors
from kvproofs import theory
from kvproofs.backend import StateView, Symbolic
from kvproofs.containers import Counters, Optionals
from kvproofs.executor import Executor, Goal, Outcome
from kvproofs.invariants import invariants
from kvproofs.operation import goals_of, marks
from kvproofs.sources import UNUSABLE
from kvproofs.state import capture, ghost_definitions, symbolic_manager
from kvproofs.terms import BOOL, SIZE, Argument, Bool, lift
from kvspec.logic import Claim, Logic, View

NUM_BLOCKS = Argument(z3.Int("num_blocks"), z3.Const("num_blocks_is_int", BOOL), z3.Const("num_blocks_is_bool", BOOL))
BLOCK_SIZE = Argument(SIZE, z3.Const("block_size_is_int", BOOL), z3.Const("block_size_is_bool", BOOL))
CACHE_ON = z3.Bool("enable_prefix_cache")
HASHER = object()


def is_empty_pool(q: Logic, s: View) -> Claim:
    """kvspec's `empty_ledger`: every block is free, in the order of the numbers; nothing is known of any content."""
    return q.all(
        s.num_free_blocks == s.num_blocks,
        s.num_listed_free == s.num_blocks,
        s.num_listed_evictable == 0,
        s.num_held == 0,
        q.every_block(
            lambda b: q.all(
                s.times_free(b) == 1, s.times_evictable(b) == 0, s.ref(b) == 0, s.holders(b) == 0, q.no(s.has_hash(b))
            )
        ),
        q.every_block(lambda b: q.every_below(b, lambda a: s.ahead_in_free(a, b))),
        q.every_identity(lambda h: q.no(s.mapped(h))),
        q.every_sequence(lambda p: q.no(s.live(p))),
    )


def init(cls: Any, options: dict[str, Any]) -> Iterator[Goal]:
    """The constructor, with anything for the sizes, any truth of the switch, any hasher."""
    executor = Executor(hypotheses=[], **options)
    legal = z3.And(_is_size(NUM_BLOCKS), _is_size(BLOCK_SIZE), z3.Not(UNUSABLE))

    def program() -> Any:
        return cls(NUM_BLOCKS, BLOCK_SIZE, Bool(CACHE_ON), hasher=HASHER)

    def at_end(outcome: Outcome) -> None:
        if isinstance(outcome.error, errors.InvalidArgument):
            executor.prove("O10", "legal sizes are no misuse", z3.Not(legal))
            return
        executor.prove("O10", "misuse is named", legal)
        if outcome.error is not None:
            executor.prove("O2", f"legal sizes do not raise {type(outcome.error).__name__}", z3.BoolVal(False))
            return
        _made(executor, cls, outcome.value)

    return goals_of(executor, program, at_end)


def _is_size(argument: Argument) -> Any:
    return z3.And(argument.is_int, z3.Not(argument.is_bool), argument.term >= 1)


def _made(executor: Executor, cls: Any, manager: Any) -> None:
    modelled = _is_modelled(cls, manager)
    executor.prove("state", "it has the state of the other proofs", z3.BoolVal(modelled))
    if not modelled:
        return  # no term below would speak of the right thing
    for argument, value in ((NUM_BLOCKS, manager.num_blocks), (BLOCK_SIZE, manager.block_size)):
        executor.prove("state", "the sizes are the given ones", lift(value) == argument.term)
    executor.prove("state", "the switch is the given one", lift(manager.enable_prefix_cache) == CACHE_ON)
    for items in vars(manager).values():
        if isinstance(items, Counters | Optionals):
            executor.prove("state", "one item a block", items.length == NUM_BLOCKS.term)
    new = capture(manager)
    b = z3.Int("b")
    for claim in [*theory.ARITHMETIC.values(), *theory.IDENTITY.values(), *marks(new)]:
        executor.assume(claim)  # only now: that the block size is positive is what the checks are for
    executor.assume(z3.ForAll([b], new.held(b) == 0, patterns=[new.held(b)]), "no table, no holder")
    for definition in ghost_definitions(new):
        executor.prove("I4", "the ghosts are what they are defined to be", definition)
    view = StateView(new)
    executor.prove("empty", is_empty_pool.__name__, lift(is_empty_pool(Symbolic(new.num_blocks), view)))
    for name, claim in invariants(view, goals=True).items():
        executor.prove(name.split()[0], name, claim)


def _is_modelled(cls: Any, manager: Any) -> bool:
    """It has the attributes of a symbolic manager and no others; STATE names the containers, no two of them one."""
    (start,) = Executor(hypotheses=[]).paths(lambda: symbolic_manager(cls))
    made, model = vars(manager), vars(start.value)
    state = {place.partition(".")[0] for place in cls.STATE.values()}
    return (
        made.keys() == model.keys()
        and all(type(made[name]) is type(model[name]) for name in state)
        and made["_hasher"] is model["_hasher"]
        and len({id(made[name]) for name in state}) == len(state) == 6
    )
