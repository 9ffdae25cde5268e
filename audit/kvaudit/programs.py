"""Operations of either level, for those who only look at their names and tokens: to count, rename or shorten them."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from kvaudit.protocol import (
    NOTHING,
    Allocate,
    AnyMutation,
    Append,
    Extras,
    ManagerProgram,
    Mutation,
    Program,
    Request,
    Step,
    Submit,
)
from kvspec.extra import Image

Tokens = tuple[int, ...]


def of_manager(program: Program) -> ManagerProgram:
    """The operations of a program that are those of a block manager."""
    return tuple(operation for operation in program if isinstance(operation, Mutation))


def of_scheduler(program: Program) -> tuple[Request, ...]:
    """The operations of a program that are those of a scheduler."""
    return tuple(operation for operation in program if isinstance(operation, Request))


def prompt_of(operation: AnyMutation) -> Tokens:
    """The tokens with which it begins a sequence, if it does."""
    return operation.tokens if isinstance(operation, (Allocate, Submit)) else ()


def tokens_of(operation: AnyMutation) -> Tokens:
    """The token ids that it speaks of."""
    return (operation.token,) if isinstance(operation, (Append, Step)) else prompt_of(operation)


def extra_of(operation: AnyMutation) -> Extras:
    """What the sequence that it begins depends on beside its tokens."""
    return operation.extra if isinstance(operation, Allocate) else NOTHING


def with_extra(operation: AnyMutation, extra: Extras) -> AnyMutation:
    """The beginning of a sequence, which depends on something else."""
    return msgspec.structs.replace(operation, extra=extra)


def with_hashes(operation: AnyMutation, rename: Callable[[bytes], bytes]) -> AnyMutation:
    """The operation with the hashes of its images renamed."""
    extra = extra_of(operation)
    if not extra.images:
        return operation
    images = tuple(Image(rename(image.content_hash), image.start, image.length) for image in extra.images)
    return with_extra(operation, msgspec.structs.replace(extra, images=images))


def names_of(operation: AnyMutation) -> tuple[str, ...]:
    """The sequences that it speaks of."""
    return operation.cancel if isinstance(operation, Step) else (operation.seq,)


def wanted_by(operation: AnyMutation) -> int:
    """How many tokens are to be generated for it."""
    return operation.max_new_tokens if isinstance(operation, Submit) else 0


def cancelled_by(operation: AnyMutation) -> int:
    """How many requests a step cancels."""
    return len(operation.cancel) if isinstance(operation, Step) else 0


def with_prompt(operation: AnyMutation, tokens: Tokens) -> AnyMutation:
    """The beginning of a sequence, with other tokens."""
    return msgspec.structs.replace(operation, tokens=tokens)


def with_tokens(operation: AnyMutation, rename: Callable[[int], int]) -> AnyMutation:
    """The operation with its tokens renamed."""
    if isinstance(operation, (Allocate, Submit)):
        return with_prompt(operation, tuple(map(rename, operation.tokens)))
    if isinstance(operation, (Append, Step)):
        return msgspec.structs.replace(operation, token=rename(operation.token))
    return operation


def with_names(operation: AnyMutation, rename: Callable[[str], str]) -> AnyMutation:
    """The operation with its sequences renamed."""
    if isinstance(operation, Step):
        return msgspec.structs.replace(operation, cancel=tuple(map(rename, operation.cancel)))
    return msgspec.structs.replace(operation, seq=rename(operation.seq))
