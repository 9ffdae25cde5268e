"""The rewritten text, with loops that simply iterate, does what the original does, whatever is called."""

from __future__ import annotations

import builtins
from collections.abc import Iterable, Iterator
from typing import Any, NoReturn

import pytest

import kvblocks.arithmetic
import kvblocks.manager
from kvblocks import BlockManager, InvalidArgument
from kvproofs import builtin
from kvproofs.rewriting import load, load_source
from proofs.calls import CALLED, Call, Place, calls, manager_at, reached

POOLS = ((1, 1, True), (2, 1, True), (2, 2, True), (2, 2, False))


class Iterating:
    """A loop that goes over its items. A local name that is not bound yet is None before the first."""

    def __init__(self, site: str, items: Iterable[Any], local: dict[str, Any], changed: tuple[str, ...]) -> None:
        self._items, self._changed = items, changed

    def arbitrary(self, local: dict[str, Any]) -> tuple[Any, ...]:
        return tuple(local.get(name) for name in self._changed)

    def rounds(self) -> Iterator[Any]:
        for item in self._items:
            self._item = item
            yield item

    def goes_on(self) -> bool:
        return True

    def item(self) -> Any:
        return self._item

    def end_of_body(self, local: dict[str, Any]) -> None:
        pass


class LeavesOutTheLast(Iterating):
    def rounds(self) -> Iterator[Any]:
        self._items = list(self._items)[:-1]
        yield from super().rounds()


def _list(*parts: tuple[bool, Any]) -> list[Any]:
    return [item for is_starred, part in parts for item in (part if is_starred else [part])]


def _unsupported(what: str) -> NoReturn:
    raise AssertionError(f"the rewriting gives up: {what}")


def manager_class(loop: Any) -> Any:
    """kvblocks' manager, rewritten, on ordinary values and with loops of that kind."""
    names = {**ORDINARY, "_enter_loop_": loop}
    arithmetic = load(kvblocks.arithmetic, names)
    public = {name: arithmetic[name] for name in ("blocks_for", "match_limit", *_CHECKS)}
    return load(kvblocks.manager, {**names, **public})["BlockManager"]


_CHECKS = ("check_size", "check_token", "check_tokens")
ORDINARY = {
    **{name: getattr(builtins, name) for name in builtin.NAMES if hasattr(builtins, name)},
    "_list_": _list,
    "_typed_": lambda annotation, value: value,
    "_dict_": lambda annotation: {},
    "_no_key_": lambda: None,
    "_has_type_": lambda value, kind: type(value) is kind,
    "_repeated_": lambda item, count: [item] * count,
    "_set_": lambda value, owner, name: setattr(owner, name, value),
    "_unsupported_": _unsupported,
}


def outcome(manager: Any, call: Call) -> Any:
    """How the call ends, and all that the manager then holds, orders included."""
    try:
        end = "answer", call.on(manager)
    except AssertionError:
        raise
    except Exception as error:
        end = type(error).__name__, str(error)
    state = {name: value for name, value in vars(manager).items() if name not in ("_hasher", "_sequences")}
    state["records"] = {
        q: {name: getattr(seq, name) for name in type(seq).__slots__} for q, seq in manager._sequences.items()
    }
    return end, {name: list(value.items()) if isinstance(value, dict) else value for name, value in state.items()}


def differing(rewritten: Any, place: Place, call: Call) -> bool:
    original, other = manager_at(place, call), object.__new__(rewritten)
    vars(other).update(vars(manager_at(place, call)))
    return bool(outcome(original, call) != outcome(other, call))


def everything() -> Iterator[tuple[Place, Call]]:
    for pool in POOLS:
        for place in reached(*pool):
            for operation in CALLED:
                yield from ((place, call) for call in calls(place, operation))


def test_the_rewritten_text_is_the_original() -> None:
    rewritten = manager_class(Iterating)
    tried = 0
    for place, call in everything():
        assert not differing(rewritten, place, call), (place, call)
        tried += 1
    assert tried > 5_000


def test_so_is_the_constructor() -> None:
    rewritten = manager_class(Iterating)
    both: tuple[Any, Any] = (BlockManager, rewritten)
    for arguments in [(1, 1), (3, 2, False), (0, 1), (1, True)]:
        made = []
        for cls in both:
            try:
                made.append(dict(vars(cls(*arguments))))
            except InvalidArgument as error:
                made.append({"error": str(error)})
        assert made[0] == made[1]


@pytest.mark.parametrize("operation", ["allocate", "free"])
def test_a_loop_that_leaves_out_an_item_is_seen(operation: str) -> None:
    wrong = manager_class(LeavesOutTheLast)
    assert any(call.operation == operation and differing(wrong, place, call) for place, call in everything())


ASSIGNS = """
def assign(one, other, items):
    one.a = items.pop()
    one.a += items.pop()
    one.a, other.b, last = items.pop(), items.pop(), items.pop()
    other.b -= last
    return last
"""


class Plain:
    a = b = 0


def test_attributes_of_other_objects_are_assigned_in_the_same_order() -> None:
    names: dict[str, Any] = {}
    exec(ASSIGNS, names)
    both = []
    for assign in (names["assign"], load_source(ASSIGNS, "text", ORDINARY)["assign"]):
        one, other = Plain(), Plain()
        both.append((assign(one, other, [1, 20, 300, 4_000, 50_000]), vars(one), vars(other)))
    assert both[0] == both[1]


def test_what_a_call_gives_is_not_changed_in_place() -> None:
    """It would be called twice."""
    text = "def change(make):\n    make().a += 1\n"
    with pytest.raises(AssertionError, match="what a call gives"):
        load_source(text, "text", ORDINARY)["change"](Plain)
