"""The invariant rule for plain `for` loops, as rewritten code calls it.

Where a path enters the loop, the invariant is proved for no iteration done. Then everything that the body may
change becomes unknown: each local name that it binds, and each container that it can reach, unless every end of
the body leaves the container with the very same terms. Of an arbitrary number of iterations `i` the invariant is
known; one path runs the body once and proves the invariant for `i + 1`, another goes on after the loop with
`i == count`. A `break` or a `return` in the body simply goes on from there.
"""

from __future__ import annotations

from typing import Any, NoReturn

import z3

from kvblocks.arithmetic import TOKEN_BYTES
from kvproofs.containers import List, Ordered
from kvproofs.errors import EndOfPath, Restart, Unsupported
from kvproofs.executor import executing
from kvproofs.terms import INT, KEY, SIZE, Int, OptionalKey, Symbol, apart, div, times, wrap


class Items(Symbol):
    """What a loop goes over: `count` items, `at(i)`, and the terms that must stay the same meanwhile."""

    count: Any

    def at(self, i: Any) -> Any:
        raise Unsupported("a loop over this")

    def terms(self) -> tuple[Any, ...]:
        return ()


class Range(Items):
    """range(first, last)."""

    def __init__(self, first: Any, last: Any) -> None:
        self.first = first
        self.count = z3.If(last > first, last - first, z3.IntVal(0))

    def at(self, i: Any) -> Any:
        return Int(z3.simplify(self.first + i))


class Strides(Items):
    """range(0, last, step), where the step is the size of a block, in bytes."""

    def __init__(self, last: Any, step: Any) -> None:
        if not z3.simplify(step).eq(z3.simplify(TOKEN_BYTES * SIZE)):
            raise Unsupported("a range with a step that is no block")
        self.count = z3.If(last > 0, div(z3.simplify((last + step - 1) / TOKEN_BYTES)), z3.IntVal(0))

    def at(self, i: Any) -> Any:
        return Int(TOKEN_BYTES * times(i))


class Reversed(Items):
    """reversed(list)."""

    def __init__(self, items: List) -> None:
        self._items = items
        self.count = items.size()

    def at(self, i: Any) -> Any:
        array, start, length = self._items.snapshot()
        return wrap(array[z3.simplify(start + length - 1 - i)])

    def terms(self) -> tuple[Any, ...]:
        return self._items.snapshot()


class Forward(Reversed):
    """The items of a list, first to last."""

    def at(self, i: Any) -> Any:
        array, start, _ = self._items.snapshot()
        return wrap(array[z3.simplify(start + i)])


class Unbound(Symbol):
    """A local name of which nothing is known. Using it in any way is not supported."""

    def __init__(self, name: str) -> None:
        object.__setattr__(self, "_name", name)

    def __getattr__(self, name: str) -> NoReturn:
        raise Unsupported(f"the local name {self._name!r} is used, but its value depends on iterations before")

    def __eq__(self, other: object) -> Any:
        self._concrete()

    __bool__ = __hash__ = Symbol._concrete


def _parts_equal(left: dict[str, Any], right: dict[str, Any]) -> bool:
    return all(left[n] is right[n] or (None not in (left[n], right[n]) and left[n].eq(right[n])) for n in left)


class Loop:
    """One loop that a path has reached. `memo` is for the invariant to keep what held at the entry."""

    def __init__(self, site: str, items: Any, local: dict[str, Any], changed: tuple[str, ...]) -> None:
        if isinstance(items, List):
            items = Forward(items)
        if not isinstance(items, Items):
            raise Unsupported(f"{site}: a loop over {type(items).__name__}")
        self._run = executing()
        if site not in self._run.invariants:
            raise Unsupported(f"{site}: no invariant is given")
        self.site, self.items, self._changed = site, items, changed
        self.memo: dict[str, Any] = {}
        self.notes = self._run.notes
        self.count = items.count
        self.i: Any = z3.IntVal(0)
        self._prove("holds at the entry", local)

    def invariant(self, local: dict[str, Any]) -> list[tuple[str, Any]]:
        with apart():
            return list(self._run.invariants[self.site](self, local))

    def _prove(self, what: str, local: dict[str, Any]) -> None:
        for label, claim in self.invariant(local):
            self._run.prove("", f"{self.site}: {label} {what}", claim)

    def arbitrary(self, local: dict[str, Any]) -> tuple[Any, ...]:
        """Forget what the body may change; know the invariant. The new values of the local names."""
        run = self._run
        sequence = self.items.terms()
        self._heap = list(run.heap)
        unknown = run.changed.get(self.site, {})
        run.entered.append((self.site, tuple(sorted(unknown))))
        for index, sorts in unknown.items():
            container = run.heap[index]
            container.replace({name: run.fresh(sort, name) for name, sort in sorts.items()})
            if isinstance(container, Ordered):
                container.known()
        if not all(a is b or a.eq(b) for a, b in zip(sequence, self.items.terms(), strict=True)):
            raise Unsupported(f"{self.site}: the body changes the list that the loop goes over")
        self._at_head = [container.parts() for container in self._heap]
        self._attributes = [(o, dict(vars(o))) for o in run.objects]
        self.i = run.fresh(INT, "i")
        values = {
            name: Int(run.fresh(INT, name))
            if isinstance(local.get(name), Int | int)
            else OptionalKey(run.fresh(KEY, name))
            if isinstance(local.get(name), OptionalKey)
            else Unbound(name)
            for name in self._changed
        }
        run.assume(z3.And(0 <= self.i, self.i <= self.count))
        for label, claim in self.invariant({**local, **values}):
            run.assume(claim, f"{self.site}: {label}")
        return tuple(values[name] for name in self._changed)

    def rounds(self) -> tuple[int, ...]:
        """How often the body is run: once, for an arbitrary iteration. (Tests bring loops that iterate.)"""
        return (0,)

    def goes_on(self) -> bool:
        return self._run.fork(self.i < self.count)

    def item(self) -> Any:
        return self.items.at(self.i)

    def end_of_body(self, local: dict[str, Any]) -> NoReturn:
        """The invariant holds after one more iteration, and what was not forgotten is as it was."""
        run = self._run
        known = run.changed.setdefault(self.site, {})
        more = {
            index: {name: term.sort() for name, term in container.parts().items()}
            for index, (container, parts) in enumerate(zip(self._heap, self._at_head, strict=True))
            if index not in known and not _parts_equal(parts, container.parts())
        }
        if more:
            known.update(more)
            raise Restart
        for owner, attributes in self._attributes:
            if any(vars(owner).get(name, owner) is not value for name, value in attributes.items()) or len(
                vars(owner)
            ) != len(attributes):
                raise Unsupported(f"{self.site}: the body rebinds an attribute")
        self.i = self.i + 1
        self._prove("is kept", local)
        raise EndOfPath


def enter_loop(site: str, items: Any, local: dict[str, Any], changed: tuple[str, ...]) -> Loop:
    """A path has reached a loop."""
    return Loop(site, items, local, changed)
