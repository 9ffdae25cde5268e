"""How many blocks fit: by hand, and as any card and any stages have it."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blocks.sizing_claims import broken
from kvblocks.errors import InvalidArgument
from kvblocks.sizing import (
    Stage,
    attention_elements,
    heads_of_rank,
    latent_elements,
    layer_bytes,
    num_blocks,
    usable_bytes,
)

GIB = 2**30

SIZES = st.integers(0, 10**12)
STAGES = st.lists(st.builds(Stage, SIZES, SIZES, st.integers(1, 10**8), st.integers(1, 100)), max_size=5)


def test_a_model_of_8_billion_parameters_on_80_gib() -> None:
    """32 layers, 8 KV heads of 128, bfloat16, blocks of 16 tokens: 128 KiB a token, 2 MiB a block."""
    block = 32 * layer_bytes(attention_elements(heads_of_rank(8, 1), 128, 128), 16, 16)
    assert block == 2 * 2**20
    usable = usable_bytes(80 * GIB, Fraction("0.9"))
    assert num_blocks(usable, [Stage(16 * GIB, 2 * GIB, block)]) == [(usable - 18 * GIB) // block] == [27648]


def test_a_latent_has_no_heads_to_split() -> None:
    assert layer_bytes(latent_elements(512, 64), 16, 64) == 576 * 2 * 64


@pytest.mark.parametrize(
    ("heads", "cards", "of_rank"), [(8, 1, 8), (8, 4, 2), (8, 8, 1), (2, 8, 1), (1, 8, 1), (12, 6, 2)]
)
def test_heads_are_split_or_copied(heads: int, cards: int, of_rank: int) -> None:
    assert heads_of_rank(heads, cards) == of_rank


def test_half_a_byte_counts_as_one() -> None:
    assert [layer_bytes(1, 4, size) for size in (1, 2, 3)] == [1, 1, 2]


def test_a_decimal_is_taken_to_the_letter() -> None:
    assert usable_bytes(10, Fraction("0.9")) == 9
    assert usable_bytes(10**20 + 1, Fraction("0.3")) == 3 * 10**19


def test_what_rounding_leaves_goes_to_the_first_stage_in_which_it_makes_a_block() -> None:
    """21 bytes in equal shares: 10 for each, of which blocks of 4 use 8, and blocks of 7 use 7; 6 bytes are left."""
    assert num_blocks(21, [Stage(0, 0, 7), Stage(0, 0, 4)]) == [1, 3]
    assert num_blocks(21, [Stage(0, 0, 4), Stage(0, 0, 7)]) == [3, 1]
    assert num_blocks(21, [Stage(1, 2, 3, share=2), Stage(0, 0, 1)]) == [4, 6]


def test_room_for_no_block_is_no_error() -> None:
    assert num_blocks(10, [Stage(6, 4, 1)]) == [0]
    assert num_blocks(10, []) == []


@given(st.integers(1, 10**13), STAGES)
def test_the_claims_hold(usable: int, stages: list[Stage]) -> None:
    assert broken(num_blocks, usable, stages) == set()


def test_what_does_not_fit_is_told() -> None:
    with pytest.raises(InvalidArgument, match=r"take 11 bytes, 10 may be used"):
        num_blocks(10, [Stage(6, 1, 1), Stage(2, 2, 1)])
    with pytest.raises(InvalidArgument, match=r"6 KV heads cannot be split among 4 cards"):
        heads_of_rank(6, 4)
    for wrong in (Fraction(0), Fraction(11, 10), 0.9):
        with pytest.raises(InvalidArgument, match="utilization"):
            usable_bytes(10, wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("field", ["weights_bytes", "activation_bytes", "block_bytes", "share"])
@pytest.mark.parametrize("wrong", [-1, True, 1.0, None])
def test_a_stage_is_one_of_sizes(field: str, wrong: object) -> None:
    sizes: dict[str, object] = {"weights_bytes": 1, "activation_bytes": 1, "block_bytes": 1, "share": 1, field: wrong}
    with pytest.raises(InvalidArgument, match=field):
        Stage(**sizes)  # type: ignore[arg-type]


def test_a_block_of_nothing_is_none() -> None:
    with pytest.raises(InvalidArgument, match="block_bytes"):
        Stage(0, 0, 0)
    with pytest.raises(InvalidArgument, match="elements"):
        layer_bytes(0, 16, 16)
