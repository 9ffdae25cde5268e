"""Z3 terms evaluated in Python, where a model gives every symbol a value and every sort the values to go through.

A quantifier is evaluated by going through its sort as the model lists it. That is a finite part of an infinite sort:
what is found false is false, and what is found true is true of all that the model lists. `test_following.py`
compares the verdicts with those of Z3 itself.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import z3


class Array:
    """A total function with finitely many exceptions: the value of an array. Never changed in place."""

    def __init__(self, default: Any, items: Mapping[Any, Any] | None = None) -> None:
        self.default = default
        self.items = {k: v for k, v in (items or {}).items() if v != default}

    def __getitem__(self, index: Any) -> Any:
        return self.items.get(index, self.default)

    def store(self, index: Any, value: Any) -> Array:
        return Array(self.default, {**self.items, index: value})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Array) and (self.default, self.items) == (other.default, other.items)

    def __hash__(self) -> int:
        return hash((self.default, frozenset(self.items.items())))

    def __repr__(self) -> str:
        return f"Array({self.default!r}, {self.items!r})"


class Model:
    """The values of symbols. `domains`: for each sort by name, the values that quantifiers go through."""

    def __init__(
        self,
        constants: Mapping[str, Any],
        functions: Mapping[str, Callable[..., Any]],
        domains: Mapping[str, Sequence[Any]],
    ) -> None:
        self.constants = dict(constants)
        self.functions = dict(functions)
        self.domains = domains
        self.known: dict[int, tuple[Any, Any]] = {}  # closed terms, kept alive, with their values

    def __call__(self, term: Any) -> Any:
        """The value of a closed term. Raises KeyError for a symbol without a value."""
        return compiled(term).code(self, ())

    def constant(self, name: str) -> Any:
        try:
            return self.constants[name]
        except KeyError:
            raise KeyError(f"the model has no value for {name}") from None


Code = Callable[[Model, tuple[Any, ...]], Any]
"""A compiled term: given the model and the values of the variables bound around it, the innermost last."""


@dataclass(frozen=True)
class Compiled:
    """A compiled term: its code, the constants in it, and how many variables bound around it it needs."""

    term: Any  # keeps the term, and with it its id, alive
    code: Code
    names: frozenset[str]
    outer: int


_compiled: dict[int, Compiled] = {}


def compiled(term: Any) -> Compiled:
    """The compiled form of a term."""
    found = _compiled.get(term.get_id())
    if found is None:
        code, names, outer = _compile(term)
        if not outer:
            code = _remembering(term, code)
        found = _compiled[term.get_id()] = Compiled(term, code, names, outer)
    return found


def _remembering(term: Any, code: Code) -> Code:
    key = term.get_id()

    def remembered(model: Model, _: tuple[Any, ...]) -> Any:
        known = model.known.get(key)
        if known is None:
            known = model.known[key] = (term, code(model, ()))
        return known[1]

    return remembered


def _compile(term: Any) -> tuple[Code, frozenset[str], int]:
    if z3.is_var(term):
        place = z3.get_var_index(term)
        return (lambda _, bound: bound[-1 - place]), frozenset(), place + 1
    if z3.is_quantifier(term):
        return _quantifier(term)
    if z3.is_int_value(term):
        number = term.as_long()
        return (lambda *_: number), frozenset(), 0
    parts = [compiled(child) for child in term.children()]
    codes = [part.code for part in parts]
    names = frozenset[str]().union(*(part.names for part in parts))
    outer = max((part.outer for part in parts), default=0)
    kind = term.decl().kind()
    if kind == z3.Z3_OP_UNINTERPRETED:
        name = term.decl().name()
        if not codes:
            return (lambda model, _: model.constant(name)), frozenset({name}), 0
        return (lambda model, bound: model.functions[name](*(c(model, bound) for c in codes))), names, outer
    return _FORMS[kind](*codes), names, outer


def _quantifier(term: Any) -> tuple[Code, frozenset[str], int]:
    count = term.num_vars()
    sorts = [str(term.var_sort(n)) for n in range(count)]
    body = compiled(term.body())
    code, quantify = body.code, all if term.is_forall() else any

    def quantified(model: Model, bound: tuple[Any, ...]) -> bool:
        return quantify(code(model, bound + values) for values in product(*(model.domains[sort] for sort in sorts)))

    return quantified, body.names, max(0, body.outer - count)


def _fold(step: Callable[[Any, Any], Any]) -> Callable[..., Code]:
    def form(first: Code, *others: Code) -> Code:
        def code(model: Model, bound: tuple[Any, ...]) -> Any:
            value = first(model, bound)
            for other in others:
                value = step(value, other(model, bound))
            return value

        return code

    return form


def _two(compare: Callable[[Any, Any], bool]) -> Callable[[Code, Code], Code]:
    return lambda left, right: lambda m, bound: compare(left(m, bound), right(m, bound))


def _distinct(*codes: Code) -> Code:
    def code(model: Model, bound: tuple[Any, ...]) -> bool:
        values = [c(model, bound) for c in codes]
        return all(values[i] != values[j] for i in range(len(values)) for j in range(i))

    return code


_FORMS: dict[int, Callable[..., Code]] = {
    z3.Z3_OP_TRUE: lambda: lambda *_: True,
    z3.Z3_OP_FALSE: lambda: lambda *_: False,
    z3.Z3_OP_AND: lambda *codes: lambda m, bound: all(c(m, bound) for c in codes),
    z3.Z3_OP_OR: lambda *codes: lambda m, bound: any(c(m, bound) for c in codes),
    z3.Z3_OP_NOT: lambda code: lambda m, bound: not code(m, bound),
    z3.Z3_OP_IMPLIES: lambda left, right: lambda m, bound: not left(m, bound) or right(m, bound),
    z3.Z3_OP_ITE: lambda test, yes, no: lambda m, bound: yes(m, bound) if test(m, bound) else no(m, bound),
    z3.Z3_OP_EQ: _two(operator.eq),
    z3.Z3_OP_DISTINCT: _distinct,
    z3.Z3_OP_LE: _two(operator.le),
    z3.Z3_OP_LT: _two(operator.lt),
    z3.Z3_OP_GE: _two(operator.ge),
    z3.Z3_OP_GT: _two(operator.gt),
    z3.Z3_OP_ADD: _fold(operator.add),
    z3.Z3_OP_SUB: _fold(operator.sub),
    z3.Z3_OP_MUL: _fold(operator.mul),
    z3.Z3_OP_IDIV: _fold(operator.floordiv),  # divisors are positive
    z3.Z3_OP_UMINUS: lambda code: lambda m, bound: -code(m, bound),
    z3.Z3_OP_SELECT: lambda array, index: lambda m, bound: array(m, bound)[index(m, bound)],
    z3.Z3_OP_STORE: lambda array, index, value: (
        lambda m, bound: array(m, bound).store(index(m, bound), value(m, bound))
    ),
    z3.Z3_OP_CONST_ARRAY: lambda value: lambda m, bound: Array(value(m, bound)),
}
"""What Z3 itself gives a meaning to, as far as the proofs use it; anything else raises KeyError."""
