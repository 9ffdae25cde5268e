"""What a cache without limits could serve: counted on the workload alone, without any manager or pool."""

from __future__ import annotations

from typing import NamedTuple

from kvaudit.simulate.workload import Workload


class Ceiling(NamedTuple):
    """Blocks of prompts. seen: with the same prefix as one before, each block that is not full included.
    reusable: full blocks in a run from the start, of which the last token of the prompt is none.
    """

    seen: int
    reusable: int


def ceiling(workload: Workload) -> Ceiling:
    """Go through the prompts in the order of arrival; a prefix is a path in a tree. O(blocks)."""
    size = workload.played_size
    tree: dict[tuple[int, tuple[int, ...]], int] = {}  # a prefix and the tokens that follow it -> the longer prefix
    seen = reusable = 0
    for request in workload.requests:
        tokens, prefix, run = request.prompt, 0, True
        last = len(tokens) - 1
        for start in range(0, len(tokens), size):
            step = (prefix, tuple(tokens[start : start + size]))
            known = tree.get(step)
            seen += known is not None
            run = run and known is not None and start + size <= last
            reusable += run
            prefix = tree.setdefault(step, len(tree) + 1)
        if request.output:
            _grow(tree, [*tokens, *request.output], size)
    return Ceiling(seen, reusable)


def _grow(tree: dict[tuple[int, tuple[int, ...]], int], tokens: list[int], size: int) -> None:
    """What was generated can be in a later prompt, too; full blocks only."""
    prefix = 0
    for start in range(0, len(tokens) - size + 1, size):
        prefix = tree.setdefault((prefix, tuple(tokens[start : start + size])), len(tree) + 1)
