"""The pools that a target can make: not every engine has blocks of one token, or a switch for its prefix cache."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from kvaudit.programs import extra_of, prompt_of, with_extra, with_prompt
from kvaudit.protocol import MAX_TOKEN, AnyMutation, Append, Pool, Program, Step, Submit
from kvspec.extra import Image


@dataclass(frozen=True)
class Limits:
    """least_block_size, most_block_size: the smallest and the largest block. cache_switch: whether the prefix cache can
    be off. most_token: the largest token id. appends: whether a sequence can grow. spare_blocks, spare_tokens: what of
    a pool no request of a scheduler may count on."""

    least_block_size: int = 1
    cache_switch: bool = True
    most_token: int = MAX_TOKEN
    appends: bool = True
    spare_blocks: int = 0
    spare_tokens: int = 0
    most_block_size: int | None = None

    @property
    def sizes(self) -> str:
        """The sizes of its blocks, in words."""
        most = f" and {self.most_block_size} at most" if self.most_block_size is not None else ""
        return f"{self.least_block_size} tokens at least{most}"

    def longest(self, pool: Pool) -> int:
        """So many tokens may one request of a scheduler have in all, those that it generates included."""
        return (pool.num_blocks - self.spare_blocks) * pool.block_size - self.spare_tokens

    def allow(self, pool: Pool) -> bool:
        """Whether there can be such a pool."""
        return pool.block_size == self._size(pool) and (pool.enable_prefix_cache or self.cache_switch)

    def common(self, other: Limits) -> Limits:
        """The pools and programs that both can do."""
        return Limits(
            max(self.least_block_size, other.least_block_size),
            self.cache_switch and other.cache_switch,
            min(self.most_token, other.most_token),
            self.appends and other.appends,
            most_block_size=min(
                (most for most in (self.most_block_size, other.most_block_size) if most is not None), default=None
            ),
        )

    def nearest(self, pool: Pool) -> Pool:
        """The pool itself, or the one most like it that there can be and that holds as long a request."""
        size = self._size(pool)
        smaller = -(-pool.block_size // size) if size < pool.block_size else 1
        return msgspec.structs.replace(
            pool,
            num_blocks=pool.num_blocks * smaller + self.spare_blocks + -(-self.spare_tokens // size),
            block_size=size,
            enable_prefix_cache=pool.enable_prefix_cache or not self.cache_switch,
        )

    def _size(self, pool: Pool) -> int:
        """The size of its blocks, or the one next to it that there can be."""
        size = max(pool.block_size, self.least_block_size)
        return size if self.most_block_size is None else min(size, self.most_block_size)

    def scaled(self, pool: Pool, program: Program) -> tuple[Pool, Program]:
        """A program that meets, on a pool that there can be, the situation that the given one meets on its own.

        Blocks become so many times larger, and so many equal tokens stand for each token.
        """
        times = -(-self.least_block_size // pool.block_size)
        larger = self.nearest(msgspec.structs.replace(pool, block_size=pool.block_size * times))
        kept = [operation for operation in program if self.appends or not isinstance(operation, Append)]
        return larger, tuple(longer for operation in kept for longer in _repeated(operation, times))


def _repeated(operation: AnyMutation, times: int) -> Iterator[AnyMutation]:
    prompt = prompt_of(operation)
    if prompt:
        longer = with_prompt(operation, tuple(token for token in prompt for _ in range(times)))
        if isinstance(longer, Submit):
            longer = msgspec.structs.replace(longer, max_new_tokens=longer.max_new_tokens * times)
        extra = extra_of(operation)
        if extra.images:
            images = tuple(Image(i.content_hash, i.start * times, i.length * times) for i in extra.images)
            longer = with_extra(longer, msgspec.structs.replace(extra, images=images))
        yield longer
    else:
        grows = isinstance(operation, Append) or (isinstance(operation, Step) and not operation.cancel)
        yield from [operation] * (times if grows else 1)


ANY_POOL = Limits()
