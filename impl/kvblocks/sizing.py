"""How many blocks fit: bytes a block, and the blocks of the stages that share one card. Integers only, no rounding.

A stage is one model, or one part of a model, with a KV cache of its own. What a card may give is first spent on the
weights and the activation peaks of all its stages. The room that is left is split among them by their shares.

    card     | weights, activations | room                                  |
    room     | share of a           | share of b               |
    blocks   | a a a a a a a        | b b b b b b b b b b b b |

Pure functions: nothing here is used by `BlockManager`, which takes the number of blocks as it is given.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from kvblocks.arithmetic import check_size
from kvblocks.errors import InvalidArgument


@dataclass(frozen=True)
class Stage:
    """What one stage takes of a card, in bytes, and its share of what is left, relative to the others.

    Raises InvalidArgument for what is no size.
    """

    weights_bytes: int
    activation_bytes: int
    block_bytes: int
    share: int = 1

    def __post_init__(self) -> None:
        check_size("weights_bytes", self.weights_bytes, least=0)
        check_size("activation_bytes", self.activation_bytes, least=0)
        check_size("block_bytes", self.block_bytes)
        check_size("share", self.share)


def heads_of_rank(num_kv_heads: int, tensor_parallel: int) -> int:
    """The KV heads that one of `tensor_parallel` cards holds. With more cards than heads, each head is on several.

    Raises InvalidArgument where neither of the two divides the other: no engine can split such a model.
    """
    check_size("num_kv_heads", num_kv_heads)
    check_size("tensor_parallel", tensor_parallel)
    if num_kv_heads % tensor_parallel != 0 and tensor_parallel % num_kv_heads != 0:
        raise InvalidArgument(f"{num_kv_heads} KV heads cannot be split among {tensor_parallel} cards")
    return max(1, num_kv_heads // tensor_parallel)


def attention_elements(num_kv_heads: int, key_size: int, value_size: int) -> int:
    """The numbers that a layer of attention keeps of a token: a key and a value for each KV head of the card."""
    return check_size("num_kv_heads", num_kv_heads) * (
        check_size("key_size", key_size) + check_size("value_size", value_size)
    )


def latent_elements(latent_size: int, rope_size: int) -> int:
    """The numbers that a layer of latent attention (MLA) keeps of a token: one latent, one rotary key, no heads.

    Every card of a tensor-parallel group holds all of them.
    """
    return check_size("latent_size", latent_size) + check_size("rope_size", rope_size, least=0)


def layer_bytes(elements: int, element_bits: int, block_size: int) -> int:
    """The bytes of a block in one layer that keeps `elements` numbers of a token; half a byte counts as one."""
    check_size("elements", elements)
    check_size("element_bits", element_bits)
    check_size("block_size", block_size)
    return (elements * element_bits * block_size + 7) // 8


def usable_bytes(card_bytes: int, utilization: Fraction) -> int:
    """What of a card may be used. A Fraction, as 0.9 is no float: `Fraction("0.9")`.

    Raises InvalidArgument unless 0 < utilization <= 1.
    """
    check_size("card_bytes", card_bytes)
    if not isinstance(utilization, Fraction) or not 0 < utilization <= 1:
        raise InvalidArgument(f"utilization is a Fraction above 0 and not above 1, not {utilization!r}")
    return card_bytes * utilization.numerator // utilization.denominator


def num_blocks(usable: int, stages: Sequence[Stage]) -> list[int]:
    """How many blocks each stage gets of a card of which `usable` bytes may be used. O(number of stages).

    Each gets the whole blocks of its share at least. What rounding has left over goes to the first stage in which it
    makes a block, so that on the card no stage has room for one block more. That all of this is so is proved for
    any number of stages: `kvproofs.sizing`.

    Raises InvalidArgument if weights and activations alone take more than may be used.
    """
    check_size("usable", usable)
    room, shares = usable, 0
    for stage in stages:
        room -= stage.weights_bytes + stage.activation_bytes
        shares += stage.share
    if room < 0:
        raise InvalidArgument(f"weights and activations take {usable - room} bytes, {usable} may be used")
    rest = room
    due: list[int] = []
    for stage in stages:
        blocks = room * stage.share // shares // stage.block_bytes
        rest -= blocks * stage.block_bytes
        due.append(blocks)
    fitting: list[int] = []
    for stage, blocks in zip(stages, due, strict=True):
        more = rest // stage.block_bytes
        rest -= more * stage.block_bytes
        fitting.append(blocks + more)
    return fitting
