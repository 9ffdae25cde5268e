"""Shorthands for formulas."""

from __future__ import annotations

from typing import Any

import z3


def between(variable: Any, low: Any, high: Any, claim: Any, *patterns: Any) -> Any:
    """The claim holds of low .. high - 1; Z3 looks it up where one of the patterns occurs."""
    body = z3.Implies(z3.And(low <= variable, variable < high), claim)
    return z3.ForAll([variable], body, patterns=list(patterns))


def one(claim: Any) -> Any:
    """1 if the claim holds, else 0: what it adds to a count."""
    return z3.If(claim, z3.IntVal(1), z3.IntVal(0))


def counted(count: Any, one_holds: Any, another_holds: Any, distinct: Any) -> Any:
    """A count of holders is as great as what it counts. See `lemmas`, which proves it of a sum."""
    return z3.And(
        count >= 0,
        z3.Implies(one_holds, count >= 1),
        z3.Implies(z3.And(one_holds, another_holds, distinct), count >= 2),
    )


def recounted(count: Any, held: Any, holds: Any) -> Any:
    """The count after one holder has changed: whether it held before, and whether it does now."""
    return count - one(held) + one(holds)
