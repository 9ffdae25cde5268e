"""The values of `sizing.num_blocks`: numbers by which programs may multiply and divide, and stages of any number.

Sums over the first k stages are functions of k: `fixed` of weights and activations, `shares`, and `spent` of the bytes
of the blocks in an array.
"""

from __future__ import annotations

from typing import Any

import z3

from kvproofs.containers import List
from kvproofs.errors import Unsupported
from kvproofs.executor import executing
from kvproofs.loops import Forward, Items
from kvproofs.terms import INT, Int, number, require

NUMBERS = z3.ArraySort(INT, INT)

weights, activation, block_bytes, share = (
    z3.Function(name, INT, INT) for name in ("weights", "activation", "block_bytes", "share")
)
fixed, shares = z3.Function("fixed", INT, INT), z3.Function("shares", INT, INT)
spent = z3.Function("spent", NUMBERS, INT, INT)


class Whole(Int):
    """A number that may be a factor or a divisor, whatever the other one is."""

    def __mul__(self, other: Any) -> Any:
        return Whole(self.term * number(other))

    def __rmul__(self, other: Any) -> Any:
        return Whole(number(other) * self.term)

    def __floordiv__(self, other: Any) -> Any:
        return _quotient(self.term, number(other))

    def __rfloordiv__(self, other: Any) -> Any:
        return _quotient(number(other), self.term)


def _quotient(dividend: Any, divisor: Any) -> Whole:
    """Any number that is the quotient, rounded down: there is exactly one."""
    require(divisor >= 1, "divisor >= 1")
    quotient = executing().fresh(INT, "quotient")
    executing().assume(z3.And(quotient * divisor <= dividend, dividend < quotient * divisor + divisor))
    return Whole(quotient)


class Stage:
    """Stage j."""

    def __init__(self, j: Any) -> None:
        self.weights_bytes, self.activation_bytes = Whole(weights(j)), Whole(activation(j))
        self.block_bytes, self.share = Whole(block_bytes(j)), Whole(share(j))


class Stages(Items):
    """Any number of stages."""

    def __init__(self) -> None:
        super().__init__(None)
        self.count = z3.Int("num_stages")

    def at(self, i: Any) -> Stage:
        return Stage(i)


class Zipped(Items):
    """zip(stages, list, strict=True)."""

    def __init__(self, stages: Stages, items: List) -> None:
        super().__init__(None)
        self._stages, self._items = stages, Forward(items)
        require(self._items.count == stages.count, "zip goes over as many items as stages")
        self.count = stages.count

    def at(self, i: Any) -> tuple[Any, Any]:
        return self._stages.at(i), self._items.at(i)

    def terms(self) -> tuple[Any, ...]:
        return self._items.terms()


def zipped(*items: Any, strict: bool = False) -> Zipped:
    """`zip` of stages and a list."""
    match items:
        case (Stages() as stages, List() as numbers) if strict:
            return Zipped(stages, numbers)
    raise Unsupported("zip of something else")


STAGES = Stages()


def _facts() -> dict[str, Any]:
    j, k, n, value = z3.Ints("j k n value")
    a = z3.Const("a", NUMBERS)
    sizes = z3.And(weights(j) >= 0, activation(j) >= 0, block_bytes(j) >= 1, share(j) >= 1)
    stored = z3.Store(a, n, value)
    return {
        "how many": STAGES.count >= 0,
        "a stage is one of sizes": z3.ForAll([j], sizes, patterns=[block_bytes(j), share(j)]),
        "no stage": z3.And(fixed(0) == 0, shares(0) == 0, z3.ForAll([a], spent(a, 0) == 0, patterns=[spent(a, 0)])),
        "one stage more": z3.And(
            z3.ForAll([k], z3.Implies(k >= 0, fixed(k + 1) == fixed(k) + weights(k) + activation(k)),
                      patterns=[fixed(k + 1)]),
            z3.ForAll([k], z3.Implies(k >= 0, shares(k + 1) == shares(k) + share(k)), patterns=[shares(k + 1)]),
            z3.ForAll([a, k], z3.Implies(k >= 0, spent(a, k + 1) == spent(a, k) + a[k] * block_bytes(k)),
                      patterns=[spent(a, k + 1)]),
        ),
        "a later stage does not count": z3.ForAll(
            [a, k, n, value], z3.Implies(z3.And(0 <= k, k <= n), spent(stored, k) == spent(a, k)),
            patterns=[spent(stored, k)]),
    }  # fmt: skip


FACTS = _facts()
"""What is known of any stages and of the sums. `sizing.sums` proves the last; the others are definitions."""
