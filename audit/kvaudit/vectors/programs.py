"""The programs of the vectors: the examples of the seed, some witnesses of reach goals, and a few of their own.

Together they tell every planted bug of `tests/mutants` from a right manager; a test holds them to it.
"""

from __future__ import annotations

from typing import NamedTuple

from kvaudit.goals import GOALS
from kvaudit.protocol import Allocate, Append, Free, Mutation, Pool
from kvaudit.scenario import Scenario


class Named(NamedTuple):
    """A program with the name of its file."""

    name: str
    about: str
    scenario: Scenario


def _program(name: str, about: str, pool: Pool, *program: Mutation) -> Named:
    return Named(name, about, Scenario(pool, program))


SEED_EXAMPLES = (
    _program(
        "seed-1-slots",
        "slots, an append across a block boundary, and blocks given back in reverse; the prefix cache is off",
        Pool(6, 4, False),
        Allocate("x", (11, 12, 13, 14, 15, 16)),
        *(Append("x", token) for token in (17, 18, 19)),
        Free("x"),
        Allocate("y", (1, 2, 3)),
    ),
    _program(
        "seed-2-sharing",
        "two prompts share their prefix; a freed block can be hit, the last token of a prompt never is",
        Pool(8, 2),
        Allocate("a", (1, 2, 3, 4, 5)),
        Allocate("b", (1, 2, 3, 4, 6)),
        Free("a"),
        Free("b"),
        Allocate("c", (1, 2, 3, 4)),
    ),
    _program(
        "seed-3-atomicity",
        "hits on idle blocks use up what is free: the first allocate of b is refused, and changes nothing",
        Pool(3, 2),
        Allocate("a", (1, 2, 3, 4, 5)),
        Free("a"),
        Allocate("b", (1, 2, 3, 4, 5, 6, 7)),
        Allocate("b", (1, 2, 3, 4, 5, 6)),
    ),
    _program(
        "seed-4-filled-by-append",
        "a block that append fills enters the cache, is hit, and is evicted later",
        Pool(3, 2),
        Allocate("a", (7, 8, 9)),
        Append("a", 10),
        Free("a"),
        Allocate("b", (7, 8, 9, 10, 11)),
        Free("b"),
        Allocate("z", (50, 51, 52, 53, 54, 55)),
        Free("z"),
        Allocate("b2", (7, 8, 9, 10, 11)),
    ),
    _program(
        "seed-5-shared-block",
        "of two sequences that share a block the first one's free gives back the unshared blocks only",
        Pool(8, 2),
        Allocate("a", (1, 2, 3, 4, 5, 6, 7)),
        Allocate("b", (1, 2, 8)),
        Free("a"),
        Free("b"),
    ),
)

_OWN = (
    _program(
        "token-order",
        "equal tokens in another order are another content",
        Pool(4, 2),
        Allocate("a", (0, 1, 2)),
        Allocate("b", (1, 0, 2)),
    ),
    _program(
        "token-ids",
        "ids that are equal modulo 2^8, 2^16 or 2^31, or in decimal digits that run together, are different",
        Pool(24, 1),
        *(
            Allocate(f"s{i}", (*prompt, 0))
            for i, prompt in enumerate(
                [(1,), (257,), (65537,), (2**31 + 1,), (2**32 - 1,), (2**31 - 1,), (0,), (1, 11), (11, 1), (111,)]
            )
        ),
    ),
    _program(
        "evicted-block-is-blank",
        "a block that was evicted and is not filled again goes back to the free list, not to the evictable pool",
        Pool(3, 2),
        Allocate("a", (0, 0, 0)),
        Append("a", 0),
        Free("a"),
        Allocate("a", (1, 1)),
        Append("a", 1),
        Free("a"),
        Allocate("a", (1,)),
        Allocate("b", (0, 0, 0)),
    ),
    _program(
        "used-on-after-a-refusal",
        "a refused append leaves no token behind: the next one goes to the start of a new block",
        Pool(2, 2),
        Allocate("a", (1, 2)),
        Allocate("b", (3,)),
        Append("a", 4),
        Free("b"),
        Append("a", 4),
        Append("a", 5),
    ),
    _program(
        "revived-block-keeps-its-content",
        "a block that was hit while idle can be hit again",
        Pool(3, 1),
        Allocate("a", (0,)),
        Free("a"),
        Allocate("a", (0, 1)),
        Free("a"),
        Allocate("a", (0, 2)),
    ),
)

_WITNESSES = (
    "filled by append",
    "evicted its own",
    "duplicated",
    "twins",
    "equal prompts",
    "many live",
    "cache off",
)

PROGRAMS: tuple[Named, ...] = (
    *SEED_EXAMPLES,
    *(Named(goal.id.replace(" ", "-"), goal.statement, goal.witness) for goal in GOALS if goal.id in _WITNESSES),
    *_OWN,
)
"""In the order in which an implementer meets them best."""
