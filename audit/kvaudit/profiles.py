"""Profiles: the rules to which a target is held, and what is assumed about its caller."""

from __future__ import annotations

from dataclasses import dataclass

from kvspec.variants import SEED_VARIANTS, Variants

COMPUTED = "the KV that an operation makes the caller compute is written before the next operation"
ONE_THREAD = "one operation at a time"


@dataclass(frozen=True)
class Profile:
    """A choice among the named variants of the specification."""

    name: str
    summary: str
    variants: Variants
    assumptions: tuple[str, ...] = (COMPUTED, ONE_THREAD)
    notes: tuple[str, ...] = ()


STRICT = Profile(
    "strict",
    "free blocks first in, first out, then the longest idle; block numbers to the letter",
    SEED_VARIANTS,
)
SEED = Profile(
    "seed",
    "free blocks first, then the longest idle; block numbers up to renaming",
    Variants(free_list="any order"),
)
_VLLM_NOTES = (
    "block 0 of the engine's pool is its null block: it is left out, and the others are renumbered from 0",
    "full blocks are registered when their slots are allocated, before they are computed",
)
VLLM = Profile(
    "vllm",
    "every copy of equal content can be hit, and blocks without content are taken first",
    Variants(free_list="any order", duplicates="keep all"),
    notes=_VLLM_NOTES,
)
VLLM_ONE_QUEUE = Profile(
    "vllm-one-queue",
    "every copy of equal content can be hit, and free and cached blocks wait in one queue",
    Variants(free_list="any order", take_from="one queue", duplicates="keep all"),
    notes=_VLLM_NOTES,
)

PROFILES = {profile.name: profile for profile in (SEED, STRICT, VLLM, VLLM_ONE_QUEUE)}
