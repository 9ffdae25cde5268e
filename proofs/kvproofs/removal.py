"""kvblocks' manager with one statement of `allocate` removed: to show what that statement is needed for."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from typing import Any

import kvblocks.manager


def text_without(unwanted: Callable[[ast.stmt], bool]) -> str:
    """The source of kvblocks' manager without the one statement of `allocate` that is unwanted.

    Raises ValueError if there is not exactly one.
    """
    module = ast.parse(inspect.getsource(kvblocks.manager))
    (allocate,) = (n for n in ast.walk(module) if isinstance(n, ast.FunctionDef) and n.name == "allocate")
    kept = [statement for statement in allocate.body if not unwanted(statement)]
    if len(kept) != len(allocate.body) - 1:
        raise ValueError(f"allocate has {len(allocate.body) - len(kept)} such statements")
    allocate.body = kept
    return ast.unparse(module)


def is_capacity_check(statement: ast.stmt) -> bool:
    """`if needed > available: raise OutOfBlocks(...)`"""
    return isinstance(statement, ast.If) and any(
        isinstance(node, ast.Raise) and "OutOfBlocks" in ast.unparse(node) for node in statement.body
    )


def excludes_idle_hits(statement: ast.stmt) -> bool:
    """The loop that takes idle hits out of what is available."""
    return isinstance(statement, ast.For) and any(
        isinstance(node, ast.AugAssign) and ast.unparse(node.target) == "available" for node in ast.walk(statement)
    )


def real_class(text: str) -> Any:
    """BlockManager of a text, for real values."""
    names: dict[str, Any] = {"__name__": "kvblocks.manager"}
    exec(compile(text, "<kvblocks without a statement>", "exec"), names)
    return names["BlockManager"]
