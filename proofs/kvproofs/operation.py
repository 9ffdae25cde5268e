"""What all operations have in common: the run on a symbolic manager, and what is proved at the end of a path."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import z3

from kvblocks import errors
from kvproofs import theory
from kvproofs.backend import StateView, Symbolic
from kvproofs.errors import FirstOpen
from kvproofs.executor import Executor, Goal, Outcome
from kvproofs.formulas import recounted
from kvproofs.invariants import invariants
from kvproofs.loops import Loop
from kvproofs.state import State, StrategyError, capture, ghost_definitions, symbolic_manager
from kvproofs.terms import INT, KEY, SEQ, apart, lift
from kvspec import postconditions as post
from kvspec.obligations import OBLIGATIONS

SEQ_ID = z3.Const("seq_id", SEQ)
NEW_PLACE = z3.Function("place_after", INT, INT)  # where each block stands in the table of SEQ_ID, afterwards

Claims = Iterable[tuple[str, Any]]
LoopRule = Callable[[State, Any, Loop, dict[str, Any]], dict[str, Any]]
"""The invariant of a loop: of the state before the operation, the manager, the loop and the local names."""


@dataclass
class Run:
    """One path of an operation, at its end."""

    executor: Executor
    logic: Symbolic
    before: StateView
    manager: Any
    outcome: Outcome

    def prove(self, theorem: str, label: str, claim: Any, using: tuple[str, ...] = ()) -> None:
        self.executor.prove(theorem, label, lift(claim), using)

    def known(self, claim: Any) -> None:
        self.executor.assume(lift(claim))


def hypotheses(state: State) -> Iterator[tuple[str, Any]]:
    """The state before: it keeps every invariant, and its ghosts are what they are defined to be."""
    for claim in [*theory.ARITHMETIC.values(), *marks(state)]:
        yield "", claim
    for name, claim in theory.IDENTITY.items():
        yield f"identity: {name}", claim
    for claim in ghost_definitions(state):
        yield "ghost", claim
    for name, claim in invariants(StateView(state)).items():
        yield name, claim


def marks(state: State) -> list[Any]:
    """The marks say nothing: they are true of every block and key."""
    b, h = z3.Int("b"), z3.Const("h", KEY)
    about, about_key = theory.about, theory.about_key
    return [
        z3.ForAll([b], about(b), patterns=[about(b)]),
        z3.ForAll([h], z3.And(about_key(h), about(state.map_block[h])), patterns=[about_key(h)]),
    ]


def ghosts_after(run: Run, after: State, q: Any, memory: Callable[[Any, Any], Any]) -> State:
    """The ghosts of a state in which only the table of q is new.

    Known by now must be that no other table changed, and that this one does not repeat a block.
    """
    before = run.before.state
    after = after.with_ghosts(
        place=lambda r, b: z3.If(r == q, NEW_PLACE(b), before.place(r, b)),
        memory=memory,
    )
    i, j = z3.Ints("i j")
    at, other = after.tables[q][i], after.tables[q][j]
    inside = z3.And(after.live(q), 0 <= i, i < after.tables_len[q])
    run.executor.require(
        z3.ForAll([i, j], z3.Implies(z3.And(inside, 0 <= j, j < i), at != other)), "no table repeats a block"
    )
    run.executor.assume(z3.ForAll([i], z3.Implies(inside, NEW_PLACE(at) == i), patterns=[at]), "place")

    def held(b: Any) -> Any:
        return recounted(before.held(b), before.contains(q, b), after.contains(q, b))

    return after.with_ghosts(held=held)


def answered(run: Run, legal: Any, misuse: tuple[type[Exception], ...], *, may_refuse: bool = True) -> bool:
    """Whether the path ends with an answer or a refusal. What must hold of every other end is proved here.

    legal: the claim that a caller may make this call. misuse: what a call that is not legal raises.
    """
    error = run.outcome.error
    if isinstance(error, misuse):
        run.prove("O10", "a legal call is no misuse", z3.Not(legal))
        unchanged(run, "O10")
        return False
    run.prove("O10", "misuse is named", legal)
    if isinstance(error, StrategyError):
        unchanged(run, "O1")
        return False
    if error is None or (may_refuse and isinstance(error, errors.OutOfBlocks)):
        return True
    run.prove("O2", f"a legal call does not raise {type(error).__name__}", z3.BoolVal(False))
    return False


def refused(run: Run, operation: str, step: Any) -> None:
    """The clauses of kvspec for an operation that was refused."""
    for name in ("O1", "O2"):
        for clause in OBLIGATIONS[name].steps[operation]:
            run.prove(name, f"{clause.__name__} (refused)", clause(run.logic, step))
    _derived_stays(run, "O1", step.after.state)


def completed(run: Run, operation: str, step: Any, using: Mapping[str, tuple[str, ...]] = MappingProxyType({})) -> None:
    """The clauses of kvspec for an operation that was not refused, and every invariant.

    using: for some obligations, the facts to try first. See `Executor.prove`.
    """
    for obligation in OBLIGATIONS.values():
        for clause in obligation.steps[operation]:
            run.prove(obligation.id, clause.__name__, clause(run.logic, step), using.get(obligation.id, ()))
    for name, claim in invariants(step.after, goals=True).items():
        theorem = name.split()[0]
        run.prove(theorem, name, claim, using.get(theorem, ()))


def unchanged(run: Run, theorem: str) -> None:
    after = capture(run.manager)
    run.prove(theorem, "nothing changed", post.nothing_changed(run.logic, run.before, StateView(after)))
    _derived_stays(run, theorem, after)


def _derived_stays(run: Run, theorem: str, after: State) -> None:
    """What the records derive is not seen by the clauses of kvspec."""
    before = run.before.state
    run.prove(theorem, "nor did what is derived", after.next_slot == before.next_slot)
    run.prove(theorem, "nor did what is derived", after.end == before.end)


def prove_operation(
    cls: Any,
    program: Callable[[Any], Any],
    at_end: Callable[[Run], None],
    options: dict[str, Any],
    loops: Mapping[str, LoopRule] = MappingProxyType({}),
) -> Iterator[Goal]:
    """Every goal of every path of an operation. `loops`: the invariant of each loop on the way."""
    box: dict[str, Any] = {}

    def rule_of(site: str) -> Callable[[Loop, dict[str, Any]], Claims]:
        return lambda loop, local: loops[site](box["before"].state, box["manager"], loop, local).items()

    kind = options.get("executor", Executor)  # tests follow paths with executors of their own
    settings = {name: value for name, value in options.items() if name != "executor"}
    executor = kind(hypotheses=[], invariants={site: rule_of(site) for site in loops}, **settings)

    def start() -> Any:
        box["manager"] = symbolic_manager(cls)
        box["attributes"] = dict(vars(box["manager"]))
        state = capture(box["manager"])
        box["before"] = StateView(state)
        with apart():
            for name, claim in hypotheses(state):
                executor.assume(claim, name)
        return program(box["manager"])

    def finished(outcome: Outcome) -> None:
        bound, was_bound = vars(box["manager"]), box["attributes"]
        is_declared = bound.keys() == was_bound.keys() and all(bound[name] is was_bound[name] for name in bound)
        executor.prove("", "no attribute is bound: the state is in the containers", z3.BoolVal(is_declared))
        logic = Symbolic(box["before"].state.num_blocks, marks=True)
        at_end(Run(executor, logic, box["before"], box["manager"], outcome))

    return goals_of(executor, start, finished)


def goals_of(executor: Executor, program: Callable[[], Any], at_end: Callable[[Outcome], None]) -> Iterator[Goal]:
    """The goals of every path of a program, those that `at_end` puts at the end of each among them."""
    seen = 0
    try:
        for outcome in executor.paths(program):
            if not outcome.ended:
                at_end(outcome)
            yield from executor.goals[seen:]
            seen = len(executor.goals)
    except FirstOpen:
        yield from executor.goals[seen:]
