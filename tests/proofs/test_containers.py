"""Each symbolic container against the real one: the same calls on constants give the same answers."""

from __future__ import annotations

from array import array
from collections import OrderedDict, deque
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import z3
from hypothesis import given, settings
from hypothesis import strategies as st

from kvblocks.arithmetic import TOKEN
from kvproofs.containers import Array, Counters, Deque, Dict, List, OrderedKeys, Rows
from kvproofs.executor import Executor, executing
from kvproofs.loops import Strides
from kvproofs.terms import BOOL, INT, SEQ, SIZE, Argument, Bool, Int, SeqTerm, lift
from proofs.evaluating import Model
from proofs.standard import structure

Call = tuple[str, Any]
NUMBERS = st.integers(0, 3)
RAISED = object()


def answer(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except (KeyError, IndexError) as error:
        return RAISED, type(error)


def same(make: Callable[[], Any], real: Any, calls: list[Call], act: Callable[[Any, str, Any], Any]) -> None:
    """Run the calls on both; on the one path that there must be, each pair of answers is proved to be equal."""
    expected = [answer(partial(act, real, *call)) for call in calls]

    def program() -> list[Any]:
        made = make()
        return [answer(partial(act, made, *call)) for call in calls]

    executor = Executor([], mbqi=True)
    paths = 0
    for outcome in executor.paths(program):
        assert outcome.error is None and not outcome.ended, (outcome, executor.goals)
        paths += 1
        for call, got, want in zip(calls, outcome.value, expected, strict=True):
            if want is None or isinstance(want, tuple):
                assert got == want, (call, got, want)
            else:
                assert executor.prove("", str(call), lift(got) == lift(want)), (call, got, want)
                assert not executor.prove("", str(call), lift(got) != lift(want)), "the path is contradictory"
    assert paths == 1
    assert all(goal.label != "nothing is listed twice" or goal.proved for goal in executor.goals)


def size(container: Any) -> Any:
    return Int(container.size()) if hasattr(type(container), "size") else len(container)


def empty(kind: Any) -> Any:
    zero = z3.IntVal(0)
    made = kind(z3.K(INT, z3.BoolVal(False)), z3.K(INT, zero), zero, zero, zero)
    made.known()
    return made


def on_deque(d: Any, name: str, item: int) -> Any:
    if name == "len":
        return size(d)
    if name == "any":
        return bool(d)
    if name.startswith("append"):
        return getattr(d, name)(item)
    return getattr(d, name)()


@settings(max_examples=60)
@given(st.lists(st.sampled_from(["append", "appendleft", "popleft", "pop", "len", "any"]), max_size=7))
def test_deque(names: list[str]) -> None:
    calls = [(name, number) for number, name in enumerate(names)]  # without repetitions, as the model requires
    same(lambda: empty(Deque), deque(), calls, on_deque)


def on_keys(d: Any, name: str, key: int) -> Any:
    if name == "set":
        d[key] = None
    elif name == "del":
        del d[key]
    elif name == "in":
        return key in d
    elif name == "len":
        return size(d)
    elif name == "end":
        d.move_to_end(key)
    elif name == "begin":
        d.move_to_end(key, last=False)
    else:
        item, nothing = d.popitem(last=name == "newest")
        assert nothing is None
        return item
    return None


@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(st.sampled_from(["set", "set", "del", "in", "len", "end", "begin", "oldest", "newest"]), NUMBERS),
        max_size=6,
    )
)
def test_ordered_dict(calls: list[Call]) -> None:
    same(lambda: empty(OrderedKeys), OrderedDict(), calls, on_keys)


def on_dict(d: Any, name: str, pair: tuple[int, int]) -> Any:
    key, value = pair
    if name == "set":
        d[key] = value
    elif name == "del":
        del d[key]
    elif name == "in":
        return key in d
    elif name == "get":
        return d.get(key)
    elif name == "pop":
        return d.pop(key)
    elif name == "pop or":
        return d.pop(key, value)
    elif name == "default":
        return d.setdefault(key, value)
    else:
        return d[key]
    return None


@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["set", "set", "del", "in", "get", "pop", "pop or", "default", "item"]),
            st.tuples(NUMBERS, NUMBERS),
        ),
        max_size=7,
    )
)
def test_dict(calls: list[Call]) -> None:
    same(lambda: Dict(z3.K(INT, z3.BoolVal(False)), z3.K(INT, z3.IntVal(0))), {}, calls, on_dict)


IDS = [SeqTerm(z3.Const(f"s{n}", SEQ)) for n in range(2)]


def on_rows(rows: Any, name: str, pair: tuple[int, int]) -> Any:
    """Lists in a dict: a list that was stored is seen through the dict, whichever is changed."""
    which, item = pair
    key = IDS[which] if isinstance(rows, Rows) else which
    if name == "new":
        made: Any = List(None, z3.IntVal(0)) if isinstance(rows, Rows) else []
        made.append(item)
        rows[key] = made
        made.append(item + 1)
        return made[-1]
    if name == "append":
        return rows[key].append(item)
    if name == "last":
        return rows[key][-1]
    if name == "get":
        row = rows.get(key)
        return -1 if row is None else size(row)
    if name == "len":
        return size(rows[key])
    del rows[key]
    return None


@settings(max_examples=40)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["new", "append", "last", "len", "get", "del"]), st.tuples(st.integers(0, 1), NUMBERS)
        ),
        max_size=6,
    )
)
def test_lists_in_a_dict(calls: list[Call]) -> None:
    def make() -> Rows:
        executing().assume(IDS[0].term != IDS[1].term)
        empty_rows = z3.K(SEQ, z3.K(INT, z3.IntVal(0)))
        return Rows(z3.K(SEQ, z3.BoolVal(False)), empty_rows, z3.K(SEQ, z3.IntVal(0)))

    same(make, {}, calls, on_rows)


@settings(max_examples=40)
@given(st.lists(NUMBERS, min_size=1, max_size=5), st.data())
def test_slices_and_indices(items: list[int], data: st.DataObject) -> None:
    first = data.draw(st.integers(0, len(items)))
    last = data.draw(st.integers(first, len(items)))
    index = data.draw(st.integers(-len(items), len(items) - 1))

    def make() -> List:
        made = List(None, z3.IntVal(0))
        for item in items:
            made.append(item)
        return made

    def act(listed: Any, name: str, _: Any) -> Any:
        part = listed[first:last]
        if name == "item":
            return listed[index]
        if name == "len":
            return size(part)
        part.append(7)  # a slice is a copy
        return part[0] if name == "begin" else size(listed)

    same(make, list(items), [("item", 0), ("len", 0), ("begin", 0), ("unchanged", 0)], act)


@settings(max_examples=40)
@given(st.lists(st.tuples(NUMBERS, st.integers(-1, 2)), max_size=6))
def test_counters_count_the_positive(writes: list[tuple[int, int]]) -> None:
    real = [0] * 4
    executor = Executor([])

    def program() -> Counters:
        made = Counters(z3.K(INT, z3.IntVal(0)), z3.IntVal(4), z3.IntVal(0))
        for index, value in writes:
            made[index] = value
        return made

    for index, value in writes:
        real[index] = value
    for outcome in executor.paths(program):
        made = outcome.value
        assert executor.prove("", "positive", made.positive == sum(value > 0 for value in real))
        for index in range(4):
            assert executor.prove("", "item", made.array[index] == real[index])


@settings(max_examples=40)
@given(st.lists(NUMBERS, min_size=1, max_size=5), st.data())
def test_the_bytes_of_an_array(items: list[int], data: st.DataObject) -> None:
    """What a slice of the bytes holds is what a slice of the array holds; what can be appended is a token id."""
    first = data.draw(st.integers(0, len(items) - 1))
    last = data.draw(st.integers(first, len(items)))
    executor = Executor([], mbqi=True)

    def program() -> Any:
        made = Array(z3.K(INT, z3.IntVal(0)), z3.IntVal(0))
        for item in items:
            made.append(item)
        made[:first].append(9)  # a slice is a copy
        return made.tobytes()[4 * first : 4 * last], size(made.tobytes())

    real = array(TOKEN, items).tobytes()
    part = array(TOKEN, real[4 * first : 4 * last]).tolist()
    for outcome in executor.paths(program):
        found, count = outcome.value
        assert executor.prove("", "size", lift(count) == len(real))
        assert executor.prove("", "size of the slice", found.length == len(part))
        for index, item in enumerate(part):
            assert executor.prove("", "item", found.array[z3.simplify(found.start + index)] == item)
    assert all(goal.proved for goal in executor.goals)


@pytest.mark.parametrize(
    "act",
    [
        lambda a: a.append(2**32),
        lambda a: a.append(-1),
        lambda a: a.append(Argument(z3.IntVal(1), z3.BoolVal(False), z3.BoolVal(False))),
        lambda a: a.tobytes()[0:6],
        lambda a: a.tobytes()[0:8],
        lambda a: a.tobytes()[1:4],
    ],
)
def test_what_an_array_would_refuse_is_not_proved(act: Callable[[Any], None]) -> None:
    executor = Executor([])
    for _ in executor.paths(lambda: act(Array(z3.K(INT, z3.IntVal(0)), z3.IntVal(1)))):
        pass
    assert any(not goal.proved for goal in executor.goals)


@pytest.mark.parametrize("block_size", [1, 2, 3, 5])
def test_a_range_by_blocks(block_size: int) -> None:
    step = 4 * block_size
    for tokens in range(12):
        last = 4 * tokens - step + 1
        made = Strides(z3.IntVal(last), 4 * SIZE)
        model = Model({"block_size": block_size}, structure(block_size), {})
        count = model(made.count)
        assert [model(made.at(z3.IntVal(i)).term) for i in range(count)] == list(range(0, last, step))


def test_an_index_out_of_range_is_not_proved() -> None:
    executor = Executor([])
    n = z3.Int("n")

    def program() -> Any:
        return List(z3.Array("a", INT, INT), n)[Int(z3.Int("i"))]

    for _ in executor.paths(program):
        pass
    assert executor.goals and not any(goal.proved for goal in executor.goals)


def test_truth_is_of_sort_bool() -> None:
    assert Bool(z3.Bool("p")).term.sort() == BOOL
