"""Makes a failing scenario small, keeping the obligation that it breaks.

It works on operations, not on random choices, so that witnesses, generated programs and recorded ones end alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

import msgspec

from kvaudit.programs import (
    cancelled_by,
    extra_of,
    names_of,
    prompt_of,
    tokens_of,
    wanted_by,
    with_extra,
    with_hashes,
    with_names,
    with_prompt,
    with_tokens,
)
from kvaudit.protocol import NOTHING, AnyMutation, Extras, Pool, Program, Step, Submit
from kvaudit.scenario import Scenario

T = TypeVar("T", int, str)

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
    """Smaller is better: operations first, then settings, then tokens, then the pool, then how odd the values are."""
    program, pool = scenario.program, scenario.pool
    tokens = [token for operation in program for token in tokens_of(operation)]
    names = [name for operation in program for name in names_of(operation)]
    return (
        len(program),
        len(pool.configuration),
        len(tokens) + sum(wanted_by(operation) + cancelled_by(operation) for operation in program),
        pool.num_blocks * pool.block_size,
        pool.block_size,
        sum(len(extra_of(operation).items) for operation in program),
        sum(len(image.content_hash) for operation in program for image in extra_of(operation).images),
        sum(tokens),
        sum(len(name) + ord(name[0]) for name in names),
    )


def _candidates(scenario: Scenario) -> Iterator[Scenario]:
    """Smaller scenarios, the boldest first."""
    program, pool = scenario.program, scenario.pool
    num_blocks = 1
    while pool.num_blocks > _LARGE and num_blocks < pool.num_blocks:  # first: every play costs what the pool is large
        yield Scenario(msgspec.structs.replace(pool, num_blocks=num_blocks), program)
        num_blocks *= 2
    for name in pool.configuration:
        yield Scenario(_without_setting(pool, name), program)
    width = len(program) // 2
    while width:
        for start in range(len(program) - width, -1, -1):
            yield Scenario(scenario.pool, program[:start] + program[start + width :])
        width //= 2
    for index, operation in enumerate(program):
        # What a block less asks of the program, it often asks of the pool as well.
        yield from _in_smaller_pools(scenario.pool, program[:index] + program[index + 1 :])
        for changed in _smaller(operation):
            shorter = (*program[:index], changed, *program[index + 1 :])
            yield Scenario(scenario.pool, shorter)
            yield from _in_smaller_pools(scenario.pool, shorter)
    yield from _without_a_block_of_tokens(scenario)
    if pool.num_blocks > 1:
        yield Scenario(msgspec.structs.replace(pool, num_blocks=pool.num_blocks - 1), program)
    if pool.block_size > 1:
        yield Scenario(msgspec.structs.replace(pool, block_size=pool.block_size - 1), program)
        yield _rescaled(scenario, pool.block_size - 1)
    yield Scenario(pool, _with_short_hashes(program))
    used = sorted({token for operation in program for token in tokens_of(operation)})
    for token in used:
        for plainer in (0, 1, 2):
            if plainer < token:
                yield Scenario(pool, tuple(with_tokens(op, _renaming(token, plainer)) for op in program))
    names = list(dict.fromkeys(name for operation in program for name in names_of(operation)))
    plain = {name: "abcdefghijklmnopqrstuvwxyz"[i % 26] * (1 + i // 26) for i, name in enumerate(names)}
    yield Scenario(pool, tuple(with_names(op, plain.__getitem__) for op in program))
    for name in names:
        for other in names:
            if other < name:
                yield Scenario(pool, tuple(with_names(op, _renaming(name, other)) for op in program))


def _renaming(old: T, new: T) -> Callable[[T], T]:
    return lambda name: new if name == old else name


def _without_setting(pool: Pool, name: str) -> Pool:
    left = {other: value for other, value in pool.configuration.items() if other != name}
    return msgspec.structs.replace(pool, settings=left)


def _smaller(operation: AnyMutation) -> Iterator[AnyMutation]:
    """The operation with fewer tokens, or with fewer names."""
    prompt = prompt_of(operation)
    for tokens in _shorter(prompt) if prompt else ():
        yield with_prompt(operation, tokens)
    for extra in _fewer(extra_of(operation)):
        yield with_extra(operation, extra)
    if isinstance(operation, Submit):
        for wanted in {1, operation.max_new_tokens // 2, operation.max_new_tokens - 1}:
            if 0 < wanted < operation.max_new_tokens:
                yield msgspec.structs.replace(operation, max_new_tokens=wanted)
    elif isinstance(operation, Step):
        for index in range(len(operation.cancel)):
            yield msgspec.structs.replace(operation, cancel=operation.cancel[:index] + operation.cancel[index + 1 :])


def _fewer(extra: Extras) -> Iterator[Extras]:
    """Without one of the items."""
    if extra.items:
        yield NOTHING
    for name in ("salt", "lora"):
        if getattr(extra, name) is not None:
            yield msgspec.structs.replace(extra, **{name: None})
    for i in range(len(extra.images)):
        yield msgspec.structs.replace(extra, images=extra.images[:i] + extra.images[i + 1 :])


def _with_short_hashes(program: Program) -> Program:
    """Its images have hashes of one byte: a, b, c, ..."""
    hashes = dict.fromkeys(image.content_hash for operation in program for image in extra_of(operation).images)
    short = {content_hash: bytes((ord("a") + i % 26,)) for i, content_hash in enumerate(hashes)}
    return tuple(with_hashes(operation, short.__getitem__) for operation in program)


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
        with_prompt(op, prompt_of(op)[size:]) if len(prompt_of(op)) > size else op for op in scenario.program
    )
    yield Scenario(pool, program)
    yield Scenario(msgspec.structs.replace(pool, num_blocks=pool.num_blocks - 1), program)


def _rescaled(scenario: Scenario, size: int) -> Scenario:
    """The same program in smaller blocks: the last token of every full block is left out."""

    def fewer(op: AnyMutation) -> AnyMutation:
        tokens = prompt_of(op)
        kept = tuple(t for i, t in enumerate(tokens) if (i + 1) % scenario.pool.block_size)
        return with_prompt(op, kept or tokens[:1]) if tokens else op

    pool: Pool = msgspec.structs.replace(scenario.pool, block_size=size)
    return Scenario(pool, tuple(fewer(op) for op in scenario.program))
