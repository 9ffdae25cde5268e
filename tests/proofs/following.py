"""An executor that follows the one path of a concrete call, and the two kinds of loops with which it does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import z3

import kvblocks.manager
from kvblocks.manager import Observation
from kvproofs import sources
from kvproofs.containers import List, Modelled
from kvproofs.executor import Executor, Outcome, executing
from kvproofs.loops import Forward, Loop
from kvproofs.rewriting import load
from kvproofs.state import State, capture
from kvproofs.terms import Bool, Int, KeyTerm, OptionalKey, Symbol
from proofs.calls import Call
from proofs.evaluating import Array, Model, compiled
from proofs.paths import Decisions
from proofs.standard import observed

Stop = tuple[str, int] | None
Result = tuple[Decisions, Outcome, Any, Observation]
"""The path, its end, the value of the answer, and the state after it."""


@dataclass(frozen=True)
class Head:
    """The begin of one iteration of a loop, or where it ended: the values of local names and of all containers."""

    index: int
    local: dict[str, Any]
    attributes: dict[str, dict[str, Any]]


@dataclass
class Following(Executor):
    """Follows the one path that a call takes: each condition has a value.

    stop_in: the loop and the number of the iteration that is looked at; without one, what comes after all loops.
    """

    model: Model = field(default_factory=lambda: Model({}, {}, {}))
    call: Call = field(default_factory=lambda: Call(""))
    heads: dict[str, list[Head]] = field(default_factory=dict)
    stop_in: Stop = None
    is_checked: bool = False  # evaluate all facts and goals, which is the dear part
    false: list[str] = field(default_factory=list)
    facts: int = 0
    claims: int = 0
    end: Result | None = None

    def result(self) -> Result:
        """How the path ended. There is one."""
        assert self.end is not None
        return self.end

    def paths(self, program: Callable[[], Any]) -> Iterator[Outcome]:
        self._exploring, self.supply, self.index = False, list[Any](), 0
        self._unvalued: list[str] = []
        self._about_unvalued: list[Any] = []
        for outcome in self._paths(program):
            self.settle()
            after = capture(self.objects[0])
            self._place(after)
            answer = None if outcome.ended else self.value_of(outcome.value)
            self.end = self.decisions, outcome, answer, observed(self.model, after)
            if self.is_checked:
                yield outcome
        assert not self._todo, "a second path is open, though every condition has a value"

    def _place(self, after: State) -> None:
        """`place_after` is where each block stands in the table of the sequence, afterwards."""
        table, length = self.model(after.tables)[self.call.seq], self.model(after.tables_len)[self.call.seq]
        where = {table[i]: i for i in reversed(range(length))}
        self.model.functions["place_after"] = lambda b: where.get(b, -1)

    def _new_solver(self) -> Any:
        return None

    def _possible(self, condition: Any) -> bool:
        self.settle()
        return bool(self.model(condition))

    def fresh(self, sort: Any, name: str) -> Any:
        const = super().fresh(sort, name)
        if name in ("some", "end"):  # said by the facts that follow
            self._unvalued.append(str(const))
        elif self.supply:
            self.model.constants[str(const)] = self.supply.pop(0)
        elif name == "iterating_raises":  # somewhere: `check_tokens` goes through the whole prompt at once
            self.model.constants[str(const)] = self.call.iteration_raises >= 0
        elif name == "strategy_raises":
            self.model.constants[str(const)] = self.index == self.call.strategy_raises
        else:
            self.model.constants[str(const)] = _anything(sort)
        return const

    def assume(self, claim: Any, label: str = "") -> None:
        if self._unvalued and not compiled(claim).names.isdisjoint(self._unvalued):
            self._about_unvalued.append(claim)
        elif self.is_checked:
            self.facts += 1
            if not self.model(claim):
                self.false.append(f"fact {label}: {claim}")

    def prove(self, theorem: str, label: str, claim: Any, using: tuple[str, ...] = ()) -> bool:
        if self.is_checked:
            self.settle()
            self.claims += 1
            if not self.model(claim):
                self.false.append(f"goal {theorem} {label}: {claim}")
        return True

    def settle(self) -> None:
        """Give a value to each new constant of which so far there are only facts. The first that fits."""
        while self._unvalued:
            name = self._unvalued.pop(0)
            facts = [claim for claim in self._about_unvalued if compiled(claim).names.isdisjoint(self._unvalued)]
            for value in self.model.domains["Int"]:
                self.model.constants[name] = value
                self.model.known.clear()
                if all(map(self.model, facts)):
                    break
            else:
                self.false.append(f"fact: there is no {name}")
            self._about_unvalued = [c for c in self._about_unvalued if not any(c is fact for fact in facts)]

    def value_of(self, value: Any) -> Any:
        """What a symbolic value stands for; of a container, its parts."""
        self.settle()
        if isinstance(value, List):
            array, start, length = value.snapshot()
            if array is None:
                return []
            items, first = self.model(array), self.model(start)
            return [items[first + i] for i in range(self.model(length))]
        return self.model(value.term) if isinstance(value, Symbol) else value

    def parts_of(self, container: Modelled) -> dict[str, Any]:
        """The values of the terms of a container."""
        self.settle()
        return {
            name: _anything(z3.ArraySort(z3.IntSort(), z3.IntSort())) if term is None else self.model(term)
            for name, term in container.parts().items()
        }


def _anything(sort: Any) -> Any:
    if sort.kind() == z3.Z3_ARRAY_SORT:
        return Array(_anything(sort.range()))
    return {"Int": -1, "Bool": False, "Key": (), "Extra": ()}[sort.name()]


def _following() -> Following:
    run = executing()
    assert isinstance(run, Following)
    return run


class Playing:
    """A loop that iterates, on symbolic values, and notes what holds at the begin of each iteration."""

    def __init__(self, site: str, items: Any, local: dict[str, Any], changed: tuple[str, ...]) -> None:
        self._run = _following()
        self._items = Forward(items) if isinstance(items, List) else items
        self._heads = self._run.heads.setdefault(site, [])
        assert not self._heads, f"{site} is reached twice in one call"
        self._changed = changed
        self._note(0, local)

    def arbitrary(self, local: dict[str, Any]) -> tuple[Any, ...]:
        return tuple(local.get(name) for name in self._changed)

    def rounds(self) -> Iterator[int]:
        while self.goes_on():
            self._run.index = self._heads[-1].index
            yield self._run.index

    def goes_on(self) -> bool:
        self._run.settle()
        return bool(self._heads[-1].index < self._run.model(self._items.count))

    def item(self) -> Any:
        return self._items.at(z3.IntVal(self._heads[-1].index))

    def end_of_body(self, local: dict[str, Any]) -> None:
        self._note(self._heads[-1].index + 1, local)

    def _note(self, index: int, local: dict[str, Any]) -> None:
        run = self._run
        values = {
            name: run.parts_of(value) if isinstance(value, Modelled) else run.value_of(value)
            for name, value in local.items()
            if isinstance(value, Modelled | Int | Bool | KeyTerm | OptionalKey | int) and not _is_row(value)
        }
        attributes = {name: run.parts_of(v) for name, v in vars(run.objects[0]).items() if isinstance(v, Modelled)}
        self._heads.append(Head(index, values, attributes))


def _is_row(value: Any) -> bool:
    return isinstance(value, List) and not value.is_private


class Standing(Loop):
    """A loop by the rule of the proof, where what it forgets gets the value that it had in one iteration."""

    def arbitrary(self, local: dict[str, Any]) -> tuple[Any, ...]:
        run = _following()
        heads = run.heads[self.site]
        stop = run.stop_in
        head = heads[stop[1]] if stop is not None and stop[0] == self.site else heads[-1]
        for index, sorts in run.changed.get(self.site, {}).items():
            parts = self._parts(run.heap[index], head, local)
            run.supply += [parts[name] for name in sorts]
        run.supply.append(head.index)
        run.supply += [
            head.local[name] for name in self._changed if isinstance(local.get(name), Int | OptionalKey | int)
        ]
        run.index = head.index
        return super().arbitrary(local)

    @staticmethod
    def _parts(container: Any, head: Head, local: dict[str, Any]) -> dict[str, Any]:
        for name, value in vars(_following().objects[0]).items():
            if value is container:
                return head.attributes[name]
        for name, value in local.items():
            if value is container:
                return dict(head.local[name])
        raise AssertionError(f"a loop changes a {type(container).__name__} that has no name")


@cache
def rewritten(loop: Any) -> Any:
    """kvblocks' manager for symbolic values, with loops of that kind."""
    return load(kvblocks.manager, {**sources.imported(), "_enter_loop_": loop})["BlockManager"]
