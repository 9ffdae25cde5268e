"""A path-forking executor: a program runs once for every way in which its conditions can come out.

On each path the solver holds the hypotheses, the outcome of every condition so far, and every goal met so far
(a goal is proved first and used from then on). Unknown counts as not proved, and a branch is left out only if
it is proved to be impossible.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import z3

from kvproofs import terms
from kvproofs.clauses import Clause, clauses, instantiable
from kvproofs.errors import EndOfPath, FirstOpen, Restart, Unsupported

RLIMIT = 12_000_000
"""Z3's own unit of work, for each goal: a verdict does not depend on the machine."""

FEASIBILITY_RLIMIT = 300_000


class Container(Protocol):
    """A symbolic container: named Z3 terms that hold all that it is."""

    def parts(self) -> dict[str, Any]: ...

    def replace(self, parts: dict[str, Any]) -> None: ...


@dataclass
class Goal:
    """One question put to Z3. `theorem` is empty for those that the execution itself raises."""

    theorem: str
    label: str
    proved: bool
    reason: str = ""
    seconds: float = 0.0


@dataclass
class Outcome:
    """How a path ended: with `value`, or with `error`; `ended` for a path that only shows a loop invariant."""

    value: Any = None
    error: Exception | None = None
    ended: bool = False


@dataclass
class Executor:
    """Runs programs on symbolic values.

    changed: for each loop, the containers that its body changes, by their place in the heap, with their sorts.
    explored: that is known already; a loop that changes more raises Restart out of `paths`.
    """

    hypotheses: list[Any]
    invariants: dict[str, Callable[..., Any]] = field(default_factory=dict)
    rlimit: int = RLIMIT
    feasibility_rlimit: int = FEASIBILITY_RLIMIT
    explored: bool = False
    stop_at_open: bool = False  # for controls: one goal that does not close is enough
    mbqi: bool = False  # search for instances by models: complete for small states, hopeless for these proofs
    goals: list[Goal] = field(default_factory=list)
    changed: dict[str, dict[int, dict[str, Any]]] = field(default_factory=dict)

    @property
    def decisions(self) -> tuple[bool, ...]:
        """The outcome of each condition on this path: what tells it from all others."""
        return tuple(self._taken)

    def paths(self, program: Callable[[], Any]) -> Iterator[Outcome]:
        """Each path in turn; while one is being looked at, `prove` speaks of its end."""
        self._known: dict[Any, bool] = {}
        self._exploring = not self.explored  # first, without proving anything: what do the loops change?
        while self._exploring:
            try:
                for _ in self._paths(program):
                    pass
                self._exploring = False
            except Restart:
                pass
        del self.goals[:]
        yield from self._paths(program)

    def _paths(self, program: Callable[[], Any]) -> Iterator[Outcome]:
        todo: list[list[bool]] = [[]]
        while todo:
            self._begin(todo.pop(), todo)
            terms._running.append(self)
            try:
                outcome = self._run(program)
            finally:
                terms._running.pop()
            yield outcome

    def _begin(self, forced: list[bool], todo: list[list[bool]]) -> None:
        self._forced, self._todo = forced, todo
        self._taken: list[bool] = []
        self._names: dict[str, int] = {}
        self._decided: dict[int, tuple[Any, bool]] = {}
        self.heap: list[Container] = []
        self.objects: list[Any] = []  # whose attributes no loop may rebind
        self.path: list[tuple[str, Any]] = []  # everything known, with its label
        self.entered: list[tuple[str, tuple[int, ...]]] = []  # each loop reached, and what it made unknown
        self.notes: dict[str, Any] = {}  # what loop invariants keep for the goals at the end
        self._solver = self._new_solver()

    def _new_solver(self) -> Any:
        solver = z3.Solver()
        solver.set("auto_config", False)
        solver.set("mbqi", self.mbqi)
        solver.add(*self.hypotheses)
        return solver

    def _run(self, program: Callable[[], Any]) -> Outcome:
        try:
            return Outcome(value=program())
        except EndOfPath:
            return Outcome(ended=True)
        except Unsupported as reason:
            self._record("", "the program is one that the executor can run", False, str(reason))
            return Outcome(ended=True)
        except Exception as error:
            return Outcome(error=error)

    # --- what a running program needs ---------------------------------------------------------------------

    def fork(self, condition: Any) -> bool:
        """The outcome of a condition on this path; the other one, if it is possible, becomes another path."""
        condition = z3.simplify(condition)
        if z3.is_true(condition) or z3.is_false(condition):
            return bool(z3.is_true(condition))
        known = self._decided.get(condition.get_id())
        if known is not None:
            return known[1]
        if len(self._taken) < len(self._forced):
            choice = self._forced[len(self._taken)]
        else:
            choice = self._possible(condition)
            if choice and self._possible(z3.Not(condition)):
                self._todo.append([*self._taken, False])
        self._taken.append(choice)
        self.assume(condition if choice else z3.Not(condition))
        self._decided[condition.get_id()] = (condition, choice)  # keeps the term, and with it its id, alive
        return choice

    def assume(self, claim: Any, label: str = "") -> None:
        """A fact about values just introduced: true by their definition, or the rule of a loop."""
        parts = instantiable(claim)
        self.path.extend((label, part) for part in parts)
        self._solver.add(*parts)

    def assume_axioms(self, kind: str, axioms: Mapping[str, Any]) -> None:
        """Assume what holds by definition, wherever it is met. The names are for those who leave one out."""
        for claim in axioms.values():
            self.assume(claim)

    def require(self, claim: Any, label: str, using: tuple[str, ...] = ()) -> None:
        """A goal that the execution raises; it holds from here on."""
        self.prove("", label, claim, using)
        self.assume(claim, label)

    def prove(self, theorem: str, label: str, claim: Any, using: tuple[str, ...] = ()) -> bool:
        """Put one goal to Z3 under everything known on this path.

        using: try first with fewer facts, of those that have a label only the ones whose label begins so; then with
        all; then with fewer in another order. What follows from some of what is known follows from all of it.
        """
        if self._exploring or len(self._taken) < len(self._forced):
            return True  # the path that this one branched off has met it
        if z3.is_true(claim):
            return self._record(theorem, label, True)
        attempts: list[Callable[[], Any]] = [lambda: self._solver]
        if using:
            focused = self._focused(using)
            attempts = [lambda: focused, *attempts, lambda: self._focused(using, again=True)]
        verdicts = [self._prove_clause(attempts, theorem, label, clause) for clause in clauses(claim)]
        return all(verdicts)

    def _focused(self, using: tuple[str, ...], *, again: bool = False) -> Any:
        """A solver that knows less. again: with another seed, so that a verdict hangs on no single one."""
        solver = self._new_solver()
        if again:
            solver.set("random_seed", 1 + int(z3.get_param("smt.random_seed")))
        solver.add(*(part for name, part in self.path if not name or name.startswith(using)))
        return solver

    def _prove_clause(self, attempts: list[Callable[[], Any]], theorem: str, label: str, clause: Clause) -> bool:
        started = time.perf_counter()
        verdict, reason = z3.unknown, ""
        for attempt in attempts:
            solver = attempt()
            solver.push()
            solver.set("rlimit", self.rlimit)
            solver.add(*clause.premises, z3.Not(clause.conclusion))
            verdict, why = _asked(solver)
            reason = "" if verdict == z3.unsat else "refuted" if verdict == z3.sat else why
            solver.pop()
            if verdict == z3.unsat:
                break
        return self._record(theorem, label, verdict == z3.unsat, reason, time.perf_counter() - started)

    def _record(self, theorem: str, label: str, proved: bool, reason: str = "", seconds: float = 0.0) -> bool:
        self.goals.append(Goal(theorem, label, proved, reason, seconds))
        if self.stop_at_open and not proved and not self._exploring:
            raise FirstOpen
        return proved

    def fresh(self, sort: Any, name: str) -> Any:
        """A constant that nothing is known of."""
        self._names[name] = self._names.get(name, 0) + 1
        return z3.Const(f"{name}~{self._names[name]}", sort)

    def register(self, container: Container) -> None:
        """A container that this path has made, or was given."""
        self.heap.append(container)

    def _possible(self, condition: Any) -> bool:
        """Z3 is asked once: a path that has come the same way, past the same loops, knows the same."""
        here = (tuple(self._taken), tuple(self.entered), condition.sexpr())
        if here not in self._known:
            self._solver.push()
            self._solver.set("rlimit", self.feasibility_rlimit)
            self._solver.add(condition)
            self._known[here] = _asked(self._solver)[0] != z3.unsat
            self._solver.pop()
        return self._known[here]


def _asked(solver: Any) -> tuple[Any, str]:
    """The verdict of Z3, and why it knows none. Its theory of sequences may give up by raising: unknown, too."""
    try:
        verdict = solver.check()
    except z3.Z3Exception as error:
        return z3.unknown, str(error)
    return verdict, solver.reason_unknown() if verdict == z3.unknown else ""


def executing() -> Executor:
    """The execution going on."""
    run = terms.running()
    assert isinstance(run, Executor)
    return run
