"""What kvblocks raises. Each error leaves the manager exactly as it was before the call."""


class BlockManagerError(Exception):
    """Base of everything that kvblocks raises on purpose."""


class OutOfBlocks(BlockManagerError):
    """A refusal, not a fault: the pool cannot supply the blocks that the call needs.

    The caller may free or preempt a sequence and try again.
    """


class InvalidArgument(BlockManagerError, ValueError):
    """A size, a token id, a prompt or a hash strategy that no call may use."""


class SequenceExists(BlockManagerError, ValueError):
    """`allocate` with the id of a sequence that is live now."""


class UnknownSequence(BlockManagerError, KeyError):
    """An id that no live sequence has."""

    __str__ = Exception.__str__  # KeyError would show the message quoted


class PositionOutOfRange(BlockManagerError, IndexError):
    """A token position outside `0 <= pos < len(tokens)`."""
