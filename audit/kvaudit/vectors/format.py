"""What a vector is, as typed values; one JSON file each."""

from __future__ import annotations

import msgspec

from kvaudit.protocol import Mutation, Pool
from kvaudit.trace import Answer


class Reads(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What every read says between two operations.

    can_allocate: the longest prompt for which it is true (0: for none). tables, slots (of every token) and
    num_cached_tokens: of the live sequences.
    """

    num_free_blocks: int
    can_allocate: int
    tables: dict[str, tuple[int, ...]]
    slots: dict[str, tuple[int, ...]]
    num_cached_tokens: dict[str, int]


class VectorStep(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An operation, its answer, and what can be read then."""

    operation: Mutation
    expected: Answer
    reads: Reads


class Vector(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="format", tag="kvaudit-vector/1"):
    """A program on a fresh pool. `about`: what it is there for."""

    name: str
    about: str
    pool: Pool
    steps: tuple[VectorStep, ...]
