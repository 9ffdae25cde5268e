"""kvblocks: the block manager of a paged KV cache, with prefix caching.

>>> from kvblocks import BlockManager
>>> manager = BlockManager(num_blocks=8, block_size=2)
>>> manager.allocate("a", [1, 2, 3, 4, 5])
[0, 1, 2]
>>> manager.allocate("b", [1, 2, 3, 4, 6])  # shares the two full blocks of the common prefix
[0, 1, 3]
>>> manager.num_cached_tokens("b")
4
"""

from kvblocks.errors import (
    BlockManagerError,
    InvalidArgument,
    OutOfBlocks,
    PositionOutOfRange,
    SequenceExists,
    UnknownSequence,
)
from kvblocks.extra import Image, Lora
from kvblocks.hashing import HashStrategy, Key
from kvblocks.manager import BlockManager, Observation

__all__ = [
    "BlockManager",
    "BlockManagerError",
    "HashStrategy",
    "Image",
    "InvalidArgument",
    "Key",
    "Lora",
    "Observation",
    "OutOfBlocks",
    "PositionOutOfRange",
    "SequenceExists",
    "UnknownSequence",
]
