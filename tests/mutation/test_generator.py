"""The generator: nothing is left out, nothing twice, one change at a time."""

from __future__ import annotations

import ast

import pytest

from kvblocks import BlockManager
from mutation.generator import FUNCTIONS, LEFT_OUT, MANAGER, SOURCES, functions, generated
from mutation.operators import KINDS, changes, negated

MUTANTS = generated()


def test_every_function_is_mutated() -> None:
    """But for those that say why not, and what is no function."""
    tree = ast.parse(SOURCES[MANAGER])
    [manager] = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == BlockManager.__name__]
    methods = [node.name for node in manager.body if isinstance(node, ast.FunctionDef)]
    assert {*FUNCTIONS[MANAGER], *LEFT_OUT} == {"Sequence", *methods}
    assert {mutant.functions for mutant in MUTANTS} == {(name,) for names in FUNCTIONS.values() for name in names}


def test_every_statement_is_deleted() -> None:
    for module in FUNCTIONS:
        for name, function in functions(module).items():
            inside = [node for node in ast.walk(function) if isinstance(node, ast.stmt) and node is not function]
            statements = [
                node
                for node in inside
                if not (
                    (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)) or isinstance(node, ast.Pass)
                )
            ]
            deleted = [mutant for mutant in MUTANTS if mutant.kind == "delete" and mutant.functions == (name,)]
            assert len(deleted) == len(statements), name


def test_no_two_are_the_same_and_each_can_be_built() -> None:
    assert {mutant.kind for mutant in MUTANTS} == set(KINDS)
    assert len({mutant.id for mutant in MUTANTS}) == len(MUTANTS)
    assert len({ast.dump(ast.parse(mutant.text)) for mutant in MUTANTS}) == len(MUTANTS)
    for mutant in MUTANTS:
        assert mutant.text != SOURCES[mutant.module]
        assert mutant.build() is not BlockManager


def test_a_mutant_differs_in_one_place_and_not_in_what_is_only_said() -> None:
    for mutant in MUTANTS:
        removed = [line[1:].strip() for line in mutant.diff.splitlines() if line.startswith("-")]
        added = [line[1:].strip() for line in mutant.diff.splitlines() if line.startswith("+")]
        assert len(added) == 1
        assert len(removed) == 1 or (mutant.kind == "delete" and added[0].startswith("pass"))
        assert mutant.kind == "delete" or not removed[0].startswith(("raise", '"""', "#"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a < b", {"a <= b", "a >= b"}),
        ("a == b", {"a != b", "a <= b", "a >= b"}),
        ("a is None", {"a is not None"}),
        ("a not in b", {"a in b"}),
        ("0 <= a <= b", {"0 < a <= b", "0 > a <= b", "0 <= a < b", "0 <= a > b"}),
        ("a + b", {"a - b"}),
        ("a // b", {"a * b", "a % b"}),
        ("-a", {"a"}),
        ("not a", {"a"}),
        ("a and b", {"a or b", "a", "b"}),
        ("a or b or c", {"a and b and c", "b or c", "a or c", "a or b"}),
        ("True", {"False"}),
        ("1", {"2", "0"}),
        ("'text'", set()),
        ("min(a, b)", {"max(a, b)"}),
        ("list(a)", {"a"}),
        ("a.get(b)", {"a[b]"}),
        ("self._free.popleft()", {"self._free.pop()"}),
        ("table.append(a)", set()),
    ],
)
def test_what_an_expression_is_changed_into(text: str, expected: set[str]) -> None:
    node = ast.parse(text, mode="eval").body
    assert {ast.unparse(changed) for _, changed in changes(node)} == expected


def test_what_statements_and_slices_are_changed_into() -> None:
    statement = ast.parse("a[b] += 1").body[0]
    assert {ast.unparse(changed) for _, changed in changes(statement)} == {"a[b] -= 1", "a[b] = 1"}
    bounds = ast.parse("a[b:c]", mode="eval").body
    assert isinstance(bounds, ast.Subscript)
    assert {ast.unparse(changed) for _, changed in changes(bounds.slice)} == {":c", "b:"}


@pytest.mark.parametrize(("text", "expected"), [("a < b", "a >= b"), ("not a", "a"), ("a and b", "not (a and b)")])
def test_the_opposite_of_a_condition(text: str, expected: str) -> None:
    assert ast.unparse(negated(ast.parse(text, mode="eval").body)) == expected


def test_brackets_are_set_where_they_are_needed() -> None:
    texts = [mutant.diff for mutant in MUTANTS]
    assert any("return (num_tokens + 1) // block_size" in text for text in texts)
    assert any("if not (type(token_id) is not int or not 0 <= token_id" in text for text in texts)
    assert any(text.endswith("fills_block = self.enable_prefix_cache") for text in texts)
