"""What KV depends on beside tokens: which block adds what, and that equal identity is equal tokens and equal extra."""

from __future__ import annotations

import pickle
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvspec import operations
from kvspec.extra import Extra, Image, Item, Lora, Salt, extra_of, of_block
from kvspec.identity import chain_from, identity
from kvspec.ledger import Ledger, empty_ledger
from kvspec.logic import Finite, LedgerView, Transition
from kvspec.memory import prefixes_of
from kvspec.obligations import OBLIGATIONS, broken_by_state, broken_by_step

PICTURE = Image(b"\xaa\xbb", 1, 3)
ALL = extra_of("tenant", Lora("sql", "2"), [PICTURE])


def extras(num_tokens: int) -> st.SearchStrategy[Extra]:
    """Any extra of a prompt of so many tokens."""
    spans = st.sets(st.integers(0, num_tokens), max_size=4).map(sorted)
    hashes = st.sampled_from((b"\1", b"\2"))
    images = st.tuples(spans, hashes, hashes).map(
        lambda drawn: [
            Image(h, start, end - start) for (start, end), h in zip(_pairs(drawn[0]), drawn[1:], strict=False)
        ]
    )
    names = st.sampled_from(("a", "b"))
    return st.builds(extra_of, st.none() | names, st.none() | st.builds(Lora, names, names), images)


def _pairs(cuts: list[int]) -> list[tuple[int, int]]:
    return list(zip(cuts[::2], cuts[1::2], strict=False))


def test_kinds_are_told_apart() -> None:
    values: tuple[Item, ...] = (Salt("a"), Lora("a", "1"), Lora("1", "a"), Lora("a", "2"), Image(b"a", 0, 1))
    assert len(set(values)) == len(values)
    assert {Salt("a"), Lora("a", "1")} == set(values[:2])


def test_the_order_in_which_images_are_given_says_nothing() -> None:
    first, second = Image(b"a", 0, 1), Image(b"b", 2, 1)
    assert extra_of(images=[second, first]) == extra_of(images=[first, second]) == (first, second)


def test_each_item_is_of_the_block_in_which_it_begins() -> None:
    assert [of_block(ALL, i, 2) for i in range(3)] == [ALL, (), ()]
    assert [of_block(ALL, i, 1) for i in range(3)] == [ALL[:2], (PICTURE,), ()]


def test_what_an_identity_is_called() -> None:
    *_, last = chain_from(None, (1, 2, 3, 4, 5), 1, ALL)
    assert repr(last) == "<[salt 'tenant'] [LoRA 'sql' '2'] 1 [image aabb at 1] 2 3 4 5>"
    assert last.is_known
    assert not identity(None, (), (Salt("a key that nobody knows"),)).is_known
    assert pickle.loads(pickle.dumps(last)) is last


@given(st.data())
def test_equal_identity_is_equal_tokens_and_equal_extra(data: st.DataObject) -> None:
    size, count = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 3))
    num_tokens = size * count
    tokens = st.tuples(*[st.integers(0, 1)] * num_tokens)
    one, other = ((data.draw(tokens), data.draw(extras(num_tokens))) for _ in range(2))
    ends = [list(chain_from(None, text, size, extra))[-1] for text, extra in (one, other)]
    assert (ends[0] is ends[1]) == (one == other)
    cells = [prefixes_of(text, extra=extra)[-1] for text, extra in (one, other)]
    assert (cells[0] is cells[1]) == (one == other)


@given(st.data())
def test_blocks_agree_exactly_where_the_memory_does(data: st.DataObject) -> None:
    """What a hit on a block would have a sequence read is its own KV at each of its tokens."""
    size, num_tokens = 2, 6
    text = (0,) * num_tokens
    one, other = (data.draw(extras(num_tokens)) for _ in range(2))
    blocks = zip(*(chain_from(None, text, size, extra) for extra in (one, other)), strict=True)
    cells = list(zip(*(prefixes_of(text, extra=extra) for extra in (one, other)), strict=True))
    for i, (h, k) in enumerate(blocks):
        assert (h is k) == all(x is y for x, y in cells[: (i + 1) * size])


@pytest.mark.parametrize("other", [(), extra_of("b"), extra_of(lora=Lora("a", ""))], ids=str)
def test_nothing_is_shared_with_another_extra(other: Extra) -> None:
    ledger = operations.allocate(empty_ledger(6, 1), "a", (1, 2), extra=extra_of("a")).after
    assert operations.allocate(ledger, "b", (1, 2), extra=extra_of("a")).change.hit == (0,)
    assert operations.allocate(ledger, "b", (1, 2), extra=other).change.hit == ()


def test_what_is_appended_goes_on_under_the_same_extra() -> None:
    """An image in the partial last block of a prompt is in the block that an append fills."""
    for extra, again in product((ALL, ()), repeat=2):
        ledger = operations.allocate(empty_ledger(8, 4), "a", (1, 2, 3, 4, 5, 6, 7), extra=extra).after
        step = operations.append_slot(ledger, "a", 8)
        assert step.after.sequences["a"].extra == extra
        prompt = (1, 2, 3, 4, 5, 6, 7, 8, 9)
        assert len(operations.allocate(step.after, "b", prompt, extra=again).change.hit) == 2 * (extra == again)
    late = (Image(b"a", 6, 1),)
    ledger = operations.allocate(empty_ledger(8, 4), "a", (1, 2, 3, 4, 5, 6, 7), extra=late).after
    after = operations.append_slot(ledger, "a", 8).after
    hits = [len(operations.allocate(after, "b", (1, 2, 3, 4, 5, 6, 7, 8, 9), extra=e).change.hit) for e in (late, ())]
    assert hits == [2, 1]


def test_an_operation_that_forgets_or_mixes_up_extra_breaks_a_clause() -> None:
    before = operations.allocate(empty_ledger(8, 2), "a", (1, 2, 3), extra=ALL).after
    allocate = operations.allocate(before, "b", (1, 2, 3), extra=extra_of("b"))
    append = operations.append_slot(before, "a", 4)
    for step, name, seq, tokens, extra in (
        (allocate, "allocate", "b", (1, 2, 3), extra_of("b")),
        (append, "append", "a", (4,), ()),
    ):
        for victim in step.after.sequences:
            assert broken(name, before, step.after, seq, tokens, extra, step.result) == []
            record = step.after.sequences[victim]._replace(extra=extra_of("z"))
            wrong = step.after._replace(sequences={**step.after.sequences, victim: record})
            assert "O5" in broken(name, before, wrong, seq, tokens, extra, step.result)


def broken(
    name: str, before: Ledger, after: Ledger, seq: str, tokens: tuple[int, ...], extra: Extra, result: object
) -> list[str]:
    x = Transition(LedgerView(before), LedgerView(after), seq, tokens, extra=extra, result=result)  # type: ignore[arg-type]
    logic = Finite(before, after)
    names = {*broken_by_step(name, logic, x), *broken_by_state(logic, x.after)} - {"K1"}
    return [name for name in OBLIGATIONS if name in names]
