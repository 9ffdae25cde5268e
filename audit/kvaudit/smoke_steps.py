"""What `kvaudit.smoke` plays: each operation once completed and once refused, blocks shared, kept and hit again."""

from __future__ import annotations

from kvaudit.protocol import Allocate, Append, Call, Free, Mutation, Pool

Step = tuple[str, Mutation]
"""What an operation is to show, and the operation."""

POOL = Pool(4, 2)
POOL_WITHOUT_CACHE = Pool(4, 2, enable_prefix_cache=False)

STEPS: tuple[Step, ...] = (
    ("a prompt of three tokens takes two blocks", Allocate("a", (7, 8, 9))),
    ("a fourth token fills the second block", Append("a", 10)),
    ("a fifth takes a third block", Append("a", 11)),
    ("another prompt shares the two full blocks, and takes the last free one", Allocate("b", (7, 8, 9, 10, 12))),
    ("no block is free: refused, and nothing has changed", Allocate("c", (1, 2, 3))),
    ("no block is free: an append that needs none goes on", Append("a", 13)),
    ("an append that needs one is refused", Append("a", 14)),
    ("a block that two sequences hold stays when one ends", Free("b")),
    ("all blocks are back, and three of them can be hit", Free("a")),
    ("a prefix is hit that nobody holds", Allocate("d", (7, 8, 5))),
    ("the last one ends", Free("d")),
)
TWICE: tuple[Step, ...] = (
    ("the same prompt on the second pool: nothing is cached, every block is free", Allocate("a", (7, 8, 9))),
    ("and ends", Free("a")),
)
WITHOUT_CACHE: tuple[Step, ...] = (
    ("without the prefix cache", Allocate("a", (7, 8, 9))),
    ("an equal prompt shares nothing", Allocate("b", (7, 8, 9))),
)
MISUSE = Call("free", ("nobody",))
