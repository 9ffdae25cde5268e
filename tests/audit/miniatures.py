"""Tiny targets, good and bad: each class is what somebody might hand to the auditor by mistake."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

from kvblocks import BlockManager, OutOfBlocks


class Good:
    """A manager in front of another one, so that what it answers is not what it works with."""

    def __init__(self, num_blocks: int, block_size: int, enable_prefix_cache: bool = True) -> None:
        self.inner = BlockManager(num_blocks, block_size, enable_prefix_cache)

    def allocate(self, seq_id: str, token_ids: Sequence[int]) -> Any:
        return self.inner.allocate(seq_id, token_ids)

    def append_slot(self, seq_id: str, token_id: int) -> Any:
        return self.inner.append_slot(seq_id, token_id)

    def free(self, seq_id: str) -> None:
        self.inner.free(seq_id)

    def slot(self, seq_id: str, pos: int) -> Any:
        return self.inner.slot(seq_id, pos)

    def can_allocate(self, num_tokens: int) -> Any:
        return self.inner.can_allocate(num_tokens)

    def num_free_blocks(self) -> Any:
        return self.inner.num_free_blocks

    def num_cached_tokens(self, seq_id: str) -> Any:
        return self.inner.num_cached_tokens(seq_id)

    def block_table(self, seq_id: str) -> Any:
        return self.inner.block_table(seq_id)

    def observe(self) -> Any:
        return self.inner.observe()


class TakesOneArgument(Good):
    def __init__(self, num_blocks: int) -> None:
        super().__init__(num_blocks, 2)


def answering(method: str, changed: Callable[[Any], Any]) -> type[Good]:
    """A manager that does everything right, and whose `method` answers `changed(what it should)`."""

    def answer(self: Good, *arguments: Any) -> Any:
        return changed(getattr(Good, method)(self, *arguments))

    return type(f"Strange_{method}", (Good,), {method: answer})


class Array:
    """Numbers as an array library has them: comparing gives one answer for each, and no truth."""

    def __init__(self, numbers: list[int]) -> None:
        self._numbers = numbers

    def __eq__(self, other: object) -> Any:
        return Array([int(number == other) for number in self._numbers])

    def __bool__(self) -> bool:
        raise ValueError("the truth value of an array is ambiguous")

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"array({self._numbers})"


class Int64:
    """A number as an array library has it."""

    def __init__(self, number: int) -> None:
        self._number = number

    def __index__(self) -> int:
        return self._number


class Lacking:
    """Offers one method of five."""

    def allocate(self, seq_id: str, token_ids: Sequence[int]) -> list[int]:
        return []


class RaisesInConstructor(Good):
    """Its constructor asks for hardware that is not there."""

    def __init__(self, *arguments: Any) -> None:
        raise RuntimeError("no GPU found")


class HangsInConstructor(Good):
    """Its constructor does not return."""

    def __init__(self, *arguments: Any) -> None:
        while True:
            pass


class HangsInAppend(Good):
    """A call that does not return."""

    def append_slot(self, seq_id: str, token_id: int) -> Any:
        while True:
            pass


class HangsInObserve(Good):
    """A read that does not return."""

    def observe(self) -> Any:
        while True:
            pass


class CannotBeRung(Good):
    """A call that does not return and does not even hear the alarm, as one into a library in C."""

    def append_slot(self, seq_id: str, token_id: int) -> Any:
        import signal

        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})
        while True:
            signal.pause()


class Prints(Good):
    """Talks while it works, in Python and below it."""

    def allocate(self, seq_id: str, token_ids: Sequence[int]) -> Any:
        print("allocating", seq_id)
        print('{"type":"ran","outcomes":[]}')
        return super().allocate(seq_id, token_ids)


class PrintsBelow(Good):
    """Writes to the descriptor of standard output, as a library in C does."""

    def allocate(self, seq_id: str, token_ids: Sequence[int]) -> Any:
        os.write(1, b'{"type":"ran","outcomes":[]}\n')
        return super().allocate(seq_id, token_ids)


class Exits(Good):
    """Ends the program where it should raise."""

    def append_slot(self, seq_id: str, token_id: int) -> Any:
        sys.exit("no block")


class Dies(Good):
    """Ends its process at once, as a crash in C does."""

    def append_slot(self, seq_id: str, token_id: int) -> Any:
        print("about to die", file=sys.stderr)
        os._exit(7)


class PoolExhausted(Exception):
    """Not called OutOfBlocks."""


class RefusesInItsOwnWords(Good):
    """Raises an exception of another name where it refuses."""

    def allocate(self, seq_id: str, token_ids: Sequence[int]) -> Any:
        try:
            return super().allocate(seq_id, token_ids)
        except OutOfBlocks as refusal:
            raise PoolExhausted(str(refusal)) from refusal

    def append_slot(self, seq_id: str, token_id: int) -> Any:
        try:
            return super().append_slot(seq_id, token_id)
        except OutOfBlocks as refusal:
            raise PoolExhausted(str(refusal)) from refusal


class RefusesEverything(Good):
    """Never has a block."""

    def allocate(self, seq_id: str, token_ids: Sequence[int]) -> Any:
        raise OutOfBlocks("come back later")


class RefusesFree(Good):
    """Refuses what cannot be refused."""

    def free(self, seq_id: str) -> None:
        raise OutOfBlocks("come back later")


class ReadsRaise(Good):
    """A read that breaks down."""

    def num_free_blocks(self) -> Any:
        raise ZeroDivisionError("division by zero")


class ObservesNothing(Good):
    """Has the method, and nothing to say."""

    def observe(self) -> Any:
        return {}
