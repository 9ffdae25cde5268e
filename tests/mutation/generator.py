"""Every mutant of the text of kvblocks: one place changed in one way.

What is mutated are the bodies of the functions in `FUNCTIONS`, and the defaults of those that only kvblocks calls.
Documentation, annotations and the texts of messages are not: no obligation speaks of them.
"""

from __future__ import annotations

import ast
import difflib
import functools
import inspect
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import kvblocks.arithmetic
import kvblocks.manager
from kvblocks import BlockManager
from kvproofs import sources
from mutation.operators import changes, negated

MANAGER, ARITHMETIC = "manager", "arithmetic"
SOURCES = {MANAGER: inspect.getsource(kvblocks.manager), ARITHMETIC: inspect.getsource(kvblocks.arithmetic)}

FUNCTIONS = {
    MANAGER: (
        "Sequence",
        "__init__",
        "allocate",
        "append_slot",
        "free",
        "slot",
        "can_allocate",
        "num_free_blocks",
        "num_cached_tokens",
        "block_table",
        "_live",
        "_append_at_edge",
        "_hash_chain",
        "_match",
        "_hit",
        "_take",
        "_forget",
        "_register",
        "_release",
    ),
    ARITHMETIC: (
        "MAX_TOKEN_ID",
        "TOKEN_BYTES",
        "blocks_for",
        "match_limit",
        "check_size",
        "check_token",
        "check_tokens",
        "_packed",
        "_buffer",
    ),
}

LEFT_OUT = ("observe", "append_slots", "extend", "_check_room")
"""A copy of the state; and appends in turn, which no audit makes: tests/proofs/test_batches.py changes their text."""
"""By module, in the order of its text; a constructor other than the manager's goes by the name of its class.

`observe` is not among them: it is how a state is looked at.
"""


@dataclass(frozen=True)
class Generated:
    """One mutant. `id` is function:kind:number, where the number counts the mutants of that kind in the function."""

    id: str
    kind: str
    functions: tuple[str, ...]
    module: str
    text: str

    @property
    def diff(self) -> str:
        """The lines that differ."""
        old, new = SOURCES[self.module].splitlines(), self.text.splitlines()
        lines = difflib.unified_diff(old, new, n=0, lineterm="")
        return "\n".join(line for line in lines if not line.startswith(("---", "+++", "@@")))

    def texts(self) -> dict[str, str]:
        return {**SOURCES, self.module: self.text}

    def build(self) -> type[BlockManager]:
        """The class, to be run."""
        texts = self.texts()
        helpers = _run(texts[ARITHMETIC], kvblocks.arithmetic.__name__)
        names = _run(texts[MANAGER], kvblocks.manager.__name__)
        names.update({name: helpers[name] for name in FUNCTIONS[ARITHMETIC]})
        made = names["BlockManager"]
        assert isinstance(made, type)
        return made

    def symbolic(self) -> Any:
        """The class, to be executed on symbolic values."""
        texts = self.texts()
        return sources.class_of(texts[MANAGER], texts[ARITHMETIC])


def _run(text: str, name: str) -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": name}
    exec(compile(text, f"<mutant of {name}>", "exec"), names)
    return names


_EVERYWHERE = tuple(name for names in FUNCTIONS.values() for name in names)
UNCHANGED = Generated("unchanged", "none", _EVERYWHERE, MANAGER, SOURCES[MANAGER])
"""kvblocks as it is: a killer that kills it kills for a wrong reason."""


@functools.cache
def generated() -> tuple[Generated, ...]:
    """Every mutant, in the order of the text. No two have the same syntax tree."""
    found = []
    for module, text in SOURCES.items():
        seen = {ast.dump(ast.parse(text))}
        for function, node in functions(module).items():
            numbers: Counter[str] = Counter()
            for kind, changed in _mutants(text, node):
                tree = ast.dump(ast.parse(changed))
                if tree not in seen:
                    seen.add(tree)
                    numbers[kind] += 1
                    found.append(Generated(f"{function}:{kind}:{numbers[kind]}", kind, (function,), module, changed))
    return tuple(found)


def functions(module: str) -> dict[str, ast.stmt]:
    """The definitions of a module that are mutated."""
    found: dict[str, ast.stmt] = {}
    waiting = ast.parse(SOURCES[module]).body
    while waiting:
        match waiting.pop(0):
            case ast.ClassDef(name=name, body=[*_, ast.FunctionDef(name="__init__") as constructor]) if (
                name in FUNCTIONS[module]
            ):
                found[name] = constructor
            case ast.ClassDef(body=body):
                waiting += body
            case (ast.FunctionDef(name=name) | ast.Assign(targets=[ast.Name(id=name)])) as node if (
                name in FUNCTIONS[module]
            ):
                found[name] = node
    return {name: found[name] for name in FUNCTIONS[module]}


def _mutants(text: str, function: ast.stmt) -> Iterator[tuple[str, str]]:
    """Each mutant of a function: its kind, and the text of the whole module."""
    for node in _nodes(function):
        if isinstance(node, ast.stmt) and node is not function:
            yield "delete", _replaced(text, node, "pass")
        if isinstance(node, ast.If | ast.IfExp):
            yield "negate", _replaced(text, node.test, ast.unparse(negated(node.test)))
        for kind, changed in changes(node):
            yield kind, _replaced(text, node, ast.unparse(changed))


def _nodes(node: ast.AST) -> Iterator[ast.AST]:
    """The node and all that is inside it and may be mutated."""
    match node:
        case ast.JoinedStr() | ast.Expr(value=ast.Constant()):
            return
        case ast.FunctionDef():
            inside = [*(node.args.defaults if _is_private(node.name) else ()), *node.body]
        case ast.AnnAssign():
            inside = [node.target, *([node.value] if node.value else [])]
        case _:
            inside = list(ast.iter_child_nodes(node))
    yield node
    for child in inside:
        yield from _nodes(child)


def _is_private(name: str) -> bool:
    return (name.startswith("_") and name != "__init__") or name in FUNCTIONS[ARITHMETIC]


def _replaced(text: str, node: ast.AST, new: str) -> str:
    """The text with another piece in the place of the node, in brackets where it would be read otherwise."""
    assert isinstance(node, ast.expr | ast.stmt)
    assert node.end_lineno is not None and node.end_col_offset is not None
    lines = text.encode().splitlines(keepends=True)  # columns count bytes
    begin = sum(map(len, lines[: node.lineno - 1])) + node.col_offset
    end = sum(map(len, lines[: node.end_lineno - 1])) + node.end_col_offset

    def spliced(piece: str) -> str:
        return (text.encode()[:begin] + piece.encode() + text.encode()[end:]).decode()

    plain = spliced(new)
    if isinstance(node, ast.stmt | ast.Slice):
        return plain
    bracketed = spliced(f"({new})")
    return plain if ast.dump(ast.parse(plain)) == ast.dump(ast.parse(bracketed)) else bracketed
