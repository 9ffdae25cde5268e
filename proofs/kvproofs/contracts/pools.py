"""Contracts on operations of kvblocks, on pools of two or three blocks: what is refused or misused changes nothing.

The hash strategy is `by_length`: any two prompts share what prefix they can, whatever their tokens. So the paths are
few. A token that goes into an array has a value: where it matters, those on both sides of both limits are tried.
"""

from __future__ import annotations

from itertools import takewhile
from typing import Any

from kvblocks import BlockManager, InvalidArgument, OutOfBlocks
from kvblocks.arithmetic import MAX_TOKEN_ID
from kvproofs.contracts.formulas import NoMeaning, meaning  # noqa: F401  (contracts name NoMeaning)

LIMITS = (-1, 0, MAX_TOKEN_ID, MAX_TOKEN_ID + 1)


def allocate_refused(held: int, num_tokens: int) -> bool:
    """Beside other sequences: refused exactly if the blocks that are left do not do, and then nothing changes.

    post: __return__
    raises: NoMeaning
    """
    meaning(0 <= held <= 3, 1 <= num_tokens <= 7)
    manager = BlockManager(3, 2, hasher=by_length)
    for name in "abc"[:held]:
        manager.allocate(name, [0])
    before = manager.observe()
    try:
        manager.allocate("new", [0] * num_tokens)
    except OutOfBlocks:
        return num_tokens > 2 * (3 - held) and manager.observe() == before
    return num_tokens <= 2 * (3 - held)


def allocate_with_hits_refused(shared: int, num_tokens: int) -> bool:
    """All blocks have content, `shared` of them are live: hits are no new blocks, idle hits cannot be taken as well.

    post: __return__
    raises: NoMeaning
    """
    meaning(0 <= shared <= 2, 1 <= num_tokens <= 3)
    manager = BlockManager(2, 1, hasher=by_length)
    manager.allocate("old", [0, 0])
    manager.free("old")
    if shared:
        manager.allocate("live", [0] * shared)
    before = manager.observe()
    run = takewhile(before.hash_to_block.__contains__, range(1, num_tokens))  # the last token is computed in any case
    hits = [before.hash_to_block[key] for key in run]
    fits = num_tokens - len(hits) <= sum(count == 0 and b not in hits for b, count in enumerate(before.ref))
    try:
        manager.allocate("new", [0] * num_tokens)
    except OutOfBlocks:
        return not fits and manager.observe() == before
    return fits


def allocate_misused(at: int, token: int) -> bool:
    """One token of the prompt is at a limit: InvalidArgument exactly if it is no token id, and nothing changes.

    post: __return__
    raises: NoMeaning
    """
    meaning(0 <= at <= 2, token in LIMITS)
    manager = BlockManager(3, 2, hasher=by_length)
    manager.allocate("live", [0, 0, 0])
    before = manager.observe()
    prompt = [0, 0, 0]
    prompt[at] = token
    try:
        manager.allocate("new", prompt)
    except InvalidArgument:
        return not 0 <= token <= MAX_TOKEN_ID and manager.observe() == before
    return 0 <= token <= MAX_TOKEN_ID


def append_refused(length: int, others: int) -> bool:
    """Refused exactly if the last block is full and none is left, and then nothing changes.

    post: __return__
    raises: NoMeaning
    """
    meaning(1 <= length <= 6, 0 <= others <= 2, length <= 2 * (3 - others))
    manager = BlockManager(3, 2, hasher=by_length)
    manager.allocate("a", [0] * length)
    for name in "bc"[:others]:
        manager.allocate(name, [0])
    before = manager.observe()
    try:
        slot = manager.append_slot("a", 0)
    except OutOfBlocks:
        return length == 2 * (3 - others) and manager.observe() == before
    return length < 2 * (3 - others) and slot == manager.slot("a", length)


def append_misused(token: int) -> bool:
    """A token at a limit: InvalidArgument exactly if it is no token id, and then nothing changes.

    post: __return__
    raises: NoMeaning
    """
    meaning(token in LIMITS)
    manager = BlockManager(3, 2, hasher=by_length)
    manager.allocate("a", [0, 0, 0])
    before = manager.observe()
    try:
        manager.append_slot("a", token)
    except InvalidArgument:
        return not 0 <= token <= MAX_TOKEN_ID and manager.observe() == before
    return 0 <= token <= MAX_TOKEN_ID


def by_length(parent: Any, tokens: bytes, extra: tuple[Any, ...]) -> int:
    """A key that says how many blocks the prefix has, and nothing else."""
    return 1 if parent is None else parent + 1
