"""Contracts that CrossHair neither confirms nor refutes, each with what it is that it cannot finish.

They are run, so that a counterexample shows, and so that one that becomes decided is moved. What they say is held by
other evidence, named in `declared`.
"""

from __future__ import annotations

from kvblocks import BlockManager, InvalidArgument, OutOfBlocks, PositionOutOfRange
from kvblocks.arithmetic import MAX_TOKEN_ID
from kvproofs.contracts.formulas import NoMeaning, meaning  # noqa: F401  (contracts name NoMeaning)


def allocate_any_prompt(tokens: list[int]) -> bool:
    """Any prompt, hashed by what it says: there are as many paths as prompts, and a key is looked up by its value.

    post: __return__
    """
    manager = BlockManager(3, 1, hasher="builtin")
    manager.allocate("live", [0, 0])
    before = manager.observe()
    try:
        manager.allocate("new", tokens)
    except (OutOfBlocks, InvalidArgument):
        return manager.observe() == before
    return manager.observe() != before


def append_after_append(first: int, second: int) -> bool:
    """Two tokens that are hashed by their values: the key of a block is one among infinitely many.

    post: __return__
    raises: NoMeaning
    """
    meaning(0 <= first <= MAX_TOKEN_ID, 0 <= second <= MAX_TOKEN_ID)
    manager = BlockManager(2, 1, hasher="builtin")
    manager.allocate("a", [first])
    manager.append_slot("a", second)
    before = manager.observe()
    try:
        manager.append_slot("a", first)
    except OutOfBlocks:
        return manager.observe() == before
    return False


def slot_any_position(pos: int) -> bool:
    """Any position: the message of the error names it, and a number that is written out is a path of its own.

    post: __return__
    """
    manager = BlockManager(3, 2)
    manager.allocate("a", [0, 0, 0])
    before = manager.observe()
    try:
        slot = manager.slot("a", pos)
    except PositionOutOfRange:
        return not 0 <= pos < 3 and manager.observe() == before
    return 0 <= pos < 3 and slot == pos and manager.observe() == before
