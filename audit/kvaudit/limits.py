"""The pools that a target can make: not every engine has blocks of one token, or a switch for its prefix cache."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from kvaudit.protocol import MAX_TOKEN, Allocate, Append, Mutation, Pool, Program
from kvspec.extra import Image


@dataclass(frozen=True)
class Limits:
    """least_block_size: the smallest block. cache_switch: whether the prefix cache can be off. most_token: the largest
    token id. appends: whether a sequence can grow."""

    least_block_size: int = 1
    cache_switch: bool = True
    most_token: int = MAX_TOKEN
    appends: bool = True

    def allow(self, pool: Pool) -> bool:
        """Whether there can be such a pool."""
        return pool.block_size >= self.least_block_size and (pool.enable_prefix_cache or self.cache_switch)

    def nearest(self, pool: Pool) -> Pool:
        """The pool itself, or the one most like it that there can be."""
        size = max(pool.block_size, self.least_block_size)
        return msgspec.structs.replace(
            pool, block_size=size, enable_prefix_cache=pool.enable_prefix_cache or not self.cache_switch
        )

    def scaled(self, pool: Pool, program: Program) -> tuple[Pool, Program]:
        """A program that meets, on a pool that there can be, the situation that the given one meets on its own.

        Blocks become so many times larger, and so many equal tokens stand for each token.
        """
        times = -(-self.least_block_size // pool.block_size)
        larger = self.nearest(msgspec.structs.replace(pool, block_size=pool.block_size * times))
        kept = [operation for operation in program if self.appends or not isinstance(operation, Append)]
        return larger, tuple(longer for operation in kept for longer in _repeated(operation, times))


def _repeated(operation: Mutation, times: int) -> Iterator[Mutation]:
    if isinstance(operation, Allocate):
        tokens = tuple(token for token in operation.tokens for _ in range(times))
        images = tuple(Image(i.content_hash, i.start * times, i.length * times) for i in operation.extra.images)
        extra = msgspec.structs.replace(operation.extra, images=images)
        yield msgspec.structs.replace(operation, tokens=tokens, extra=extra)
    else:
        yield from [operation] * (times if isinstance(operation, Append) else 1)


ANY_POOL = Limits()
