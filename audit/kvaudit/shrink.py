"""Makes a failing scenario small, keeping the obligation that it breaks.

It works on operations, not on random choices, so that witnesses, generated programs and recorded ones end alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from kvaudit.execution import Scenario
from kvaudit.protocol import NOTHING, Allocate, Append, Extras, Mutation, Pool, Program
from kvspec.extra import Image

Breaks = Callable[[Scenario], Scenario | None]
"""Plays a scenario; the part of it up to the breach if it still breaks the same obligation, else None."""


MAX_PLAYS = 2_000

_LARGE = 16


def shrink(scenario: Scenario, breaks: Breaks, max_plays: int = MAX_PLAYS) -> Scenario:
    """The smallest scenario found: greedily fewer operations, fewer tokens, a smaller pool, plainer tokens.

    Every accepted candidate is smaller in `_size`, so it ends. Cost: at most `max_plays` plays.
    """
    plays = 0
    while True:
        for candidate in _candidates(scenario):
            if plays >= max_plays:
                return scenario
            if _size(candidate) >= _size(scenario):
                continue
            plays += 1
            smaller = breaks(candidate)
            if smaller is not None and _size(smaller) < _size(scenario):
                scenario = smaller
                break
        else:
            return scenario


def _size(scenario: Scenario) -> tuple[int, ...]:
    """Smaller is better: operations first, then tokens, then the pool, then how odd the values are."""
    tokens = [token for operation in scenario.program for token in _tokens(operation)]
    names = sum(len(operation.seq) + ord(operation.seq[0]) for operation in scenario.program)
    pool = scenario.pool
    return (
        len(scenario.program),
        len(tokens),
        pool.num_blocks * pool.block_size,
        pool.block_size,
        sum(len(operation.extra.items) for operation in scenario.program if isinstance(operation, Allocate)),
        sum(len(image.content_hash) for image in _images(scenario.program)),
        sum(tokens),
        names,
    )


def _tokens(operation: Mutation) -> tuple[int, ...]:
    if isinstance(operation, Allocate):
        return operation.tokens
    return (operation.token,) if isinstance(operation, Append) else ()


def _images(program: Program) -> list[Image]:
    return [image for operation in program if isinstance(operation, Allocate) for image in operation.extra.images]


def _with_short_hashes(program: Program) -> Program:
    """Its images have hashes of one byte: a, b, c, ..."""
    hashes = list(dict.fromkeys(image.content_hash for image in _images(program)))
    short = {content_hash: bytes((ord("a") + i,)) for i, content_hash in enumerate(hashes)}

    def shortened(operation: Mutation) -> Mutation:
        if not isinstance(operation, Allocate) or not operation.extra.images:
            return operation
        images = tuple(Image(short[i.content_hash], i.start, i.length) for i in operation.extra.images)
        return msgspec.structs.replace(operation, extra=msgspec.structs.replace(operation.extra, images=images))

    return tuple(map(shortened, program))


def _candidates(scenario: Scenario) -> Iterator[Scenario]:
    """Smaller scenarios, the boldest first."""
    program, pool = scenario.program, scenario.pool
    num_blocks = 1
    while pool.num_blocks > _LARGE and num_blocks < pool.num_blocks:  # first: every play costs what the pool is large
        yield Scenario(msgspec.structs.replace(pool, num_blocks=num_blocks), program)
        num_blocks *= 2
    width = len(program) // 2
    while width:
        for start in range(len(program) - width, -1, -1):
            yield Scenario(scenario.pool, program[:start] + program[start + width :])
        width //= 2
    for index, operation in enumerate(program):
        # What a block less asks of the program, it often asks of the pool as well.
        yield from _in_smaller_pools(scenario.pool, program[:index] + program[index + 1 :])
        if isinstance(operation, Allocate):
            for tokens in _shorter(operation.tokens):
                changed = msgspec.structs.replace(operation, tokens=tokens)
                shorter = (*program[:index], changed, *program[index + 1 :])
                yield Scenario(scenario.pool, shorter)
                yield from _in_smaller_pools(scenario.pool, shorter)
            for extra in _fewer(operation.extra):
                changed = msgspec.structs.replace(operation, extra=extra)
                yield Scenario(scenario.pool, (*program[:index], changed, *program[index + 1 :]))
    yield from _without_a_block_of_tokens(scenario)
    if pool.num_blocks > 1:
        yield Scenario(msgspec.structs.replace(pool, num_blocks=pool.num_blocks - 1), program)
    if pool.block_size > 1:
        yield Scenario(msgspec.structs.replace(pool, block_size=pool.block_size - 1), program)
        yield _rescaled(scenario, pool.block_size - 1)
    yield Scenario(pool, _with_short_hashes(program))
    used = sorted({token for operation in program for token in _tokens(operation)})
    for token in used:
        for plainer in (0, 1, 2):
            if plainer < token:
                yield Scenario(pool, tuple(_renamed(operation, token, plainer) for operation in program))
    names = list(dict.fromkeys(operation.seq for operation in program))
    plain = {name: "abcdefghijklmnopqrstuvwxyz"[i % 26] * (1 + i // 26) for i, name in enumerate(names)}
    yield Scenario(pool, tuple(msgspec.structs.replace(op, seq=plain[op.seq]) for op in program))
    for name in names:
        for other in names:
            if other < name:
                merged = {name: other}
                yield Scenario(
                    pool, tuple(msgspec.structs.replace(op, seq=merged.get(op.seq, op.seq)) for op in program)
                )


def _fewer(extra: Extras) -> Iterator[Extras]:
    """Without one of the items."""
    if extra.items:
        yield NOTHING
    for name in ("salt", "lora"):
        if getattr(extra, name) is not None:
            yield msgspec.structs.replace(extra, **{name: None})
    for i in range(len(extra.images)):
        yield msgspec.structs.replace(extra, images=extra.images[:i] + extra.images[i + 1 :])


def _in_smaller_pools(pool: Pool, program: Program) -> Iterator[Scenario]:
    for num_blocks in range(1, pool.num_blocks):
        yield Scenario(msgspec.structs.replace(pool, num_blocks=num_blocks), program)


def _shorter(tokens: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    for length in {1, len(tokens) // 2, len(tokens) - 1}:
        if 0 < length < len(tokens):
            yield tokens[:length]
    for index in range(len(tokens) - 1):
        yield tokens[:index] + tokens[index + 1 :]


def _without_a_block_of_tokens(scenario: Scenario) -> Iterator[Scenario]:
    """Every prompt and the pool one block smaller: prompts that share a prefix have to shrink together."""
    size, pool = scenario.pool.block_size, scenario.pool
    if pool.num_blocks == 1:
        return
    program = tuple(
        msgspec.structs.replace(op, tokens=op.tokens[size:])
        if isinstance(op, Allocate) and len(op.tokens) > size
        else op
        for op in scenario.program
    )
    yield Scenario(pool, program)
    yield Scenario(msgspec.structs.replace(pool, num_blocks=pool.num_blocks - 1), program)


def _rescaled(scenario: Scenario, size: int) -> Scenario:
    """The same program in smaller blocks: the last token of every full block is left out."""

    def fewer(op: Mutation) -> Mutation:
        if not isinstance(op, Allocate):
            return op
        kept = tuple(t for i, t in enumerate(op.tokens) if (i + 1) % scenario.pool.block_size)
        return msgspec.structs.replace(op, tokens=kept or op.tokens[:1])

    pool: Pool = msgspec.structs.replace(scenario.pool, block_size=size)
    return Scenario(pool, tuple(fewer(op) for op in scenario.program))


def _renamed(operation: Mutation, token: int, plainer: int) -> Mutation:
    if isinstance(operation, Allocate):
        tokens = tuple(plainer if t == token else t for t in operation.tokens)
        return msgspec.structs.replace(operation, tokens=tokens)
    if isinstance(operation, Append) and operation.token == token:
        return msgspec.structs.replace(operation, token=plainer)
    return operation
