"""check_tokens: what is proved of its text, which texts are not proved, and that allocate may rely on it."""

from __future__ import annotations

import inspect
from array import array
from collections.abc import Iterable
from typing import Any

import pytest
import z3

import kvblocks.manager
from kvblocks import InvalidArgument, arithmetic
from kvblocks.arithmetic import MAX_TOKEN_ID, TOKEN, check_tokens
from kvproofs import prompt, sources
from kvproofs.allocate_prompt import LENGTH
from kvproofs.executor import Executor
from kvproofs.operations import OPERATIONS
from kvproofs.theorems import DECLARED, theorems

SOURCE = inspect.getsource(arithmetic)


def test_what_is_no_prompt_is_refused_and_what_is_one_is_copied() -> None:
    found = theorems("check_tokens", OPERATIONS["check_tokens"](sources.manager_class(), {}))
    assert {t.name for t in found} == DECLARED["check_tokens"]
    assert [t for t in found if not t.proved] == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("    if not tokens:\n", "    if False:\n"),
        (".count(int) == len(items)", ".count(int) == len(items) - 1"),
        ("if list(map(type, items)).count(int) == len(items):", "if True:"),
        ("[check_token(item) for item in items]", "[item for item in items]"),
        ("0 <= token_id <= MAX_TOKEN_ID", "0 <= token_id"),
        ("0 <= token_id <= MAX_TOKEN_ID", "0 < token_id <= MAX_TOKEN_ID"),
        (" or isinstance(token_id, bool)", ""),
        (" and view.format == TOKEN", ""),
        ("if view.ndim == 1 else None", ""),
        ("    except TypeError:\n        return None", "    except KeyError:\n        return None"),
        ("        except OverflowError:\n", "        except KeyError:\n"),
        ("    return tokens\n", "    return tokens[1:]\n"),
    ],
)
def test_another_text_is_not_proved(old: str, new: str) -> None:
    assert SOURCE.count(old) == 1
    cls = sources.class_of(inspect.getsource(kvblocks.manager), SOURCE.replace(old, new))
    goals = OPERATIONS["check_tokens"](cls, {"rlimit": 300_000, "stop_at_open": True})
    assert any(not goal.proved for goal in goals)


class Other(int):
    """An integer of a type of its own."""


GIVEN: list[Any] = [
    [], [0], [1, MAX_TOKEN_ID], [1, MAX_TOKEN_ID + 1], [-1], [True], [0, False, 2], [1.0], ["1"], [None], "12", (1, 2),
    [Other(3), 4], [Other(-3)], range(3), iter([5, 6]), {7: 8}, b"\1\2", bytearray(b"\3"), array(TOKEN, [9, 10]),
    array(TOKEN), array("q", [1, -1]), array("q", [1, 2]), array("d", [1.0]), memoryview(array(TOKEN, range(6)))[::2],
    memoryview(b"\1\0").cast("?"), memoryview(b"12345678").cast("I"),
]  # fmt: skip


@pytest.mark.parametrize("given", GIVEN, ids=[f"{i}-{type(given).__name__}" for i, given in enumerate(GIVEN)])
def test_the_model_says_what_comes_of_it(given: Any) -> None:
    """As is proved: token ids are copied, be they items of anything or numbers in a buffer, and all else is refused."""
    expected = _expected(given)
    try:
        found = check_tokens(given)
    except InvalidArgument:
        assert expected is None
    else:
        assert type(found) is array and found.typecode == TOKEN
        assert found.tolist() == expected
        assert found is not given


def _expected(given: Iterable[Any]) -> list[int] | None:
    """The tokens, if all of them are token ids and there is one at least."""
    try:
        items = memoryview(given).tolist()  # type: ignore[arg-type]
    except TypeError:
        items = list(given) if not hasattr(given, "__next__") else [5, 6]
    legal = [type(item) in (int, Other) and 0 <= item <= MAX_TOKEN_ID for item in items]
    return items if items and all(legal) else None


def test_a_list_of_what_is_no_integer_is_no_array() -> None:
    """The model of `array` asks for integers: real ones take a truth value, and raise of anything else."""
    executor = Executor([])
    for _ in executor.paths(lambda: prompt.array(TOKEN, prompt.Listed())):
        pass
    assert any(not goal.proved and "integers" in goal.label for goal in executor.goals)
    assert array(TOKEN, [True]) == array(TOKEN, [1])
    assert z3.is_int(LENGTH)
