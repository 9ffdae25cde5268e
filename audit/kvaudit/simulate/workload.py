"""A workload: requests as a block manager sees them, whatever the trace said of them.

A trace of hash ids says of whole blocks what they hold, and not which tokens those are. Such a block is played as two
tokens, both of them the number of its id, and a block that is not full as one: so a half-filled block has no identity,
as with real tokens, and any block size of a trace costs the same.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple

from kvaudit.trace import MAX_SLOTS

MOST_TOKENS = MAX_SLOTS
"""Of one output, as of the largest pool: an output is played token by token."""

TOKENS_OF_BLOCK = 2
"""Tokens for which a block of hash ids stands."""


class Request(NamedTuple):
    """A prompt and what is generated, in tokens to play. output_length: as the trace has it, in real tokens."""

    prompt: list[int]
    output: Sequence[int]
    arrival_s: float
    output_length: int


class Workload(NamedTuple):
    """Requests in the order of their arrival. played_size: the block size in tokens to play; block_size: the real one.

    kind: the format of the trace, in words. timed: whether the trace says when requests arrive.
    """

    kind: str
    requests: list[Request]
    block_size: int
    played_size: int
    timed: bool

    @property
    def prompt_blocks(self) -> int:
        """The blocks of all prompts, each that is not full included."""
        return sum(-(-len(request.prompt) // self.played_size) for request in self.requests)

    @property
    def total_blocks(self) -> int:
        """The blocks of all prompts and of what was generated: with so many in the pool, none is ever evicted."""
        size = self.played_size
        return sum(-(-(len(request.prompt) + len(request.output)) // size) for request in self.requests)


class Numbers:
    """Numbers for contents: the same for equal ones, a new one for what is like nothing else."""

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}
        self._next = 0

    def of(self, content: Hashable) -> int:
        """The number of a content."""
        number = self._numbers.get(content)
        if number is None:
            number = self._numbers[content] = self.fresh()
        return number

    def fresh(self) -> int:
        """A number that stands for nothing else."""
        self._next += 1
        return self._next - 1


def hashed_request(
    numbers: Numbers,
    ids: Sequence[Hashable],
    lengths: tuple[int, int],
    block_size: int,
    arrival_s: float,
) -> Request:
    """A request whose blocks are known by hash ids. lengths: of input and output. An id for a last block that is not
    full may be there or not. What was generated is like nothing else: the trace does not say what it is.
    """
    num_input, num_output = lengths
    full, rest = divmod(num_input, block_size)
    prompt = [number for content in ids[:full] for number in (numbers.of(content),) * TOKENS_OF_BLOCK]
    if rest:
        prompt.append(numbers.of(ids[full]) if len(ids) > full else numbers.fresh())
    all_full, all_rest = divmod(num_input + num_output, block_size)
    num_appended = TOKENS_OF_BLOCK * all_full + bool(all_rest) - len(prompt)
    output = [numbers.fresh()] * num_appended if num_appended else ()
    return Request(prompt, output, arrival_s, num_output)
