"""Formulas cut into clauses: what is to be proved one by one, and what Z3 can instantiate at once.

Nested quantifiers would be instantiated from the outside in, and one query would hold many questions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import z3


@dataclass(frozen=True)
class Clause:
    """For all values of the constants: if the premises hold, so does the conclusion."""

    constants: tuple[Any, ...]
    premises: tuple[Any, ...]
    conclusion: Any

    def formula(self) -> Any:
        """The clause as one quantified formula."""
        body = z3.Implies(z3.And(*self.premises), self.conclusion) if self.premises else self.conclusion
        return z3.ForAll(list(self.constants), body) if self.constants else body


def clauses(formula: Any) -> list[Clause]:
    """Clauses that together say the same as the formula. Bound names become fresh constants."""
    if z3.is_quantifier(formula) and formula.is_forall():
        fresh = tuple(z3.FreshConst(formula.var_sort(n), formula.var_name(n)) for n in range(formula.num_vars()))
        inside = clauses(z3.substitute_vars(formula.body(), *reversed(fresh)))
        return [Clause((*fresh, *c.constants), c.premises, c.conclusion) for c in inside]
    if z3.is_and(formula):
        return [c for part in formula.children() for c in clauses(part)]
    if z3.is_implies(formula):
        premise, conclusion = formula.children()
        return [Clause(c.constants, (premise, *c.premises), c.conclusion) for c in clauses(conclusion)]
    if z3.is_not(formula) and z3.is_not(formula.arg(0)):
        return clauses(formula.arg(0).arg(0))
    if z3.is_true(formula):
        return []
    return [Clause((), (), formula)]


def instantiable(formula: Any) -> list[Any]:
    """The formula as hypotheses: one quantified formula a clause. Explicit patterns are kept."""
    if z3.is_quantifier(formula) and formula.num_patterns():
        return [formula]
    if z3.is_and(formula):
        return [part for child in formula.children() for part in instantiable(child)]
    return [c.formula() for c in clauses(formula)]
