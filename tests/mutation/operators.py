"""What may be changed in a program, one place at a time: the kinds of mutants."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator

KINDS = {
    "delete": "a statement is replaced by `pass`",
    "compare": "`<` for `<=`, `==` for `!=`, `is` for `is not`, `in` for `not in`, and the like",
    "arithmetic": "`+` for `-`, `*` for `//`, `//` for `%`, `+=` for `-=` or `=`, and the like; no minus sign",
    "logic": "`and` for `or`, an operand or a `not` is dropped",
    "negate": "a condition is negated",
    "number": "a number is one more, or one less",
    "truth": "`True` for `False`",
    "call": "another end (`pop` for `popleft`), another order, `max` for `min`, no copy, no default",
    "slice": "a bound of a slice is dropped",
}

_COMPARED: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq, ast.LtE, ast.GtE),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}

_OPPOSITE: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.GtE,
    ast.LtE: ast.Gt,
    ast.Gt: ast.LtE,
    ast.GtE: ast.Lt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}

_CALCULATED: dict[type[ast.operator], tuple[type[ast.operator], ...]] = {
    ast.Add: (ast.Sub,),
    ast.Sub: (ast.Add,),
    ast.Mult: (ast.FloorDiv, ast.Add),
    ast.FloorDiv: (ast.Mult, ast.Mod),
    ast.Mod: (ast.FloorDiv, ast.Mult),
    ast.Pow: (ast.Mult,),
}

_OTHER_METHOD = {"popleft": "pop", "append": "appendleft"}
_OTHER_FUNCTION = {"min": "max", "max": "min"}
_DROPPED = ("list", "tuple", "reversed", "bool")


def changes(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """Every mutant of the node itself, not of what is inside it: its kind, and what stands in its place."""
    match node:
        case ast.Compare():
            for n, op in enumerate(node.ops):
                for other in _COMPARED[type(op)]:
                    yield "compare", _with(node, ops=[*node.ops[:n], other(), *node.ops[n + 1 :]])
        case ast.BinOp():
            for operator in _CALCULATED[type(node.op)]:
                yield "arithmetic", _with(node, op=operator())
        case ast.AugAssign():
            for operator in _CALCULATED[type(node.op)]:
                yield "arithmetic", _with(node, op=operator())
            yield "arithmetic", ast.Assign([node.target], node.value, lineno=node.lineno)
        case ast.UnaryOp(op=ast.USub()):
            yield "arithmetic", node.operand
        case ast.UnaryOp(op=ast.Not()):
            yield "logic", node.operand
        case ast.BoolOp():
            yield "logic", _with(node, op=ast.Or() if isinstance(node.op, ast.And) else ast.And())
            for n in range(len(node.values)):
                rest = [*node.values[:n], *node.values[n + 1 :]]
                yield "logic", _with(node, values=rest) if len(rest) > 1 else rest[0]
        case ast.Constant(value=bool()):
            yield "truth", ast.Constant(not node.value)
        case ast.Constant(value=int(number)):
            yield "number", ast.Constant(number + 1)
            yield "number", ast.Constant(number - 1)
        case ast.Call():
            yield from (("call", other) for other in _calls(node))
        case ast.Slice():
            if node.lower is not None:
                yield "slice", _with(node, lower=None)
            if node.upper is not None:
                yield "slice", _with(node, upper=None)


def negated(condition: ast.expr) -> ast.expr:
    """The opposite condition, in the form in which `changes` makes it where it does."""
    match condition:
        case ast.UnaryOp(op=ast.Not()):
            return condition.operand
        case ast.Compare(ops=[op]) if type(op) in _OPPOSITE:
            return ast.Compare(condition.left, [_OPPOSITE[type(op)]()], condition.comparators)
        case _:
            return ast.UnaryOp(ast.Not(), condition)


def _calls(node: ast.Call) -> Iterator[ast.AST]:
    match node:
        case ast.Call(func=ast.Name(id=name)) if name in _OTHER_FUNCTION:
            yield _with(node, func=ast.Name(_OTHER_FUNCTION[name]))
        case ast.Call(func=ast.Name(id=name), args=[argument]) if name in _DROPPED:
            yield argument
        case ast.Call(func=ast.Attribute(value=target, attr="get"), args=[key]):
            yield ast.Subscript(target, key)
        case ast.Call(func=ast.Attribute(value=ast.Attribute(attr="_free") as target, attr=name)):
            yield _with(node, func=ast.Attribute(target, _OTHER_METHOD[name]))


def _with(node: ast.AST, **fields: object) -> ast.AST:
    other = copy.copy(node)
    for name, value in fields.items():
        setattr(other, name, value)
    return other
