"""A reach goal, and how its witness is written."""

from __future__ import annotations

from dataclasses import dataclass

from kvaudit.protocol import Allocate, Extras, Mutation, Pool
from kvaudit.scenario import Scenario
from kvspec.extra import Image, Lora


@dataclass(frozen=True)
class Goal:
    """A situation, the obligations whose verdicts rest on having met it, and a program that meets it.

    needs: of EXTRAS those that a target must take to get there.
    """

    id: str
    statement: str
    supports: tuple[str, ...]
    witness: Scenario
    needs: tuple[str, ...] = ()


def scenario(num_blocks: int, block_size: int, *program: Mutation, cache: bool = True) -> Scenario:
    """A pool, and a program for it."""
    return Scenario(Pool(num_blocks, block_size, cache), program)


def allocate(
    seq: str, *tokens: int, salt: str | None = None, lora: tuple[str, str] | None = None, images: tuple[Image, ...] = ()
) -> Allocate:
    """The operation. lora: id and version."""
    return Allocate(seq, tokens, Extras(salt, Lora(*lora) if lora else None, images))
