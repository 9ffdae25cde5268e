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
