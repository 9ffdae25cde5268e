"""What is owed to stages that share a card, said of concrete ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kvblocks.errors import InvalidArgument
from kvblocks.sizing import Stage

NumBlocks = Callable[[int, Sequence[Stage]], list[int]]


def broken(num_blocks: NumBlocks, usable: int, stages: Sequence[Stage]) -> set[str]:
    """The theorems of `kvproofs.sizing` that do not hold here."""
    fixed = sum(stage.weights_bytes + stage.activation_bytes for stage in stages)
    try:
        blocks = num_blocks(usable, stages)
    except InvalidArgument:
        return set() if fixed > usable else {"refused"}
    taken = fixed + sum(count * stage.block_bytes for count, stage in zip(blocks, stages, strict=True))
    shares = sum(stage.share for stage in stages)
    pairs = list(zip(blocks, stages, strict=True))
    claims = {
        "refused": fixed <= usable,
        "fits": taken <= usable and all(count >= 0 for count in blocks),
        "full": all(taken + stage.block_bytes > usable for stage in stages),
        "shares": all((count + 1) * s.block_bytes * shares > (usable - fixed) * s.share for count, s in pairs),
    }
    return {name for name, holds in claims.items() if not holds}
