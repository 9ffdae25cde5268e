"""Reach goals: situations that an audit has to have met before its verdict means anything.

Each goal ships a witness, a scripted program that reaches it on a manager that follows the specification.
Witnesses are played first and then mutated (see `kvaudit.machine`), so that a verdict does not hang on luck.
`kvaudit.tracker` tells when a goal is reached.
"""

from __future__ import annotations

from kvaudit.goal import Goal, allocate, scenario
from kvaudit.goals_extra import EXTRA_GOALS
from kvaudit.protocol import Append, Free

GOALS: tuple[Goal, ...] = (
    Goal(
        "shared three ways",
        "three live sequences shared one block",
        ("I4", "I7", "K2"),
        scenario(
            6,
            2,
            allocate("a", 0, 1, 0),
            allocate("b", 0, 1, 1),
            allocate("c", 0, 1, 2),
            Free("b"),
            Free("a"),
            Free("c"),
        ),
    ),
    Goal(
        "shared five ways",
        "five live sequences shared one block",
        ("I4", "I8"),
        scenario(
            6,
            1,
            *(allocate(seq, 0, 1 + i) for i, seq in enumerate("abcde")),
            *(Free(seq) for seq in "dbeca"),
            allocate("f", 0, 1, 2, 3, 4, 5),
        ),
    ),
    Goal(
        "evicted",
        "a cached block was evicted for new content, and its prefix asked for again",
        ("I1", "I2", "I3", "I8", "O6", "K1"),
        scenario(
            3, 1, allocate("a", 0, 1), Free("a"), allocate("b", 2, 3, 4), Free("b"), allocate("c", 0, 1), Free("c")
        ),
    ),
    Goal(
        "evicted in order",
        "of several cached blocks the oldest was evicted, and a younger one was hit afterwards",
        ("O6", "O7"),
        scenario(
            4, 1, allocate("a", 0, 1, 2), Free("a"), allocate("b", 5, 6), allocate("c", 0, 1), Free("c"), Free("b")
        ),
    ),
    Goal(
        "revived",
        "a hit brought an idle block back to life",
        ("I2", "O4", "I5"),
        scenario(4, 2, allocate("a", 0, 1, 2), Free("a"), allocate("b", 0, 1, 3), allocate("c", 4, 5, 6), Free("b")),
    ),
    Goal(
        "naive check refuted",
        "an allocate was refused because the blocks it hits were idle, though the new ones seemed to fit",
        ("O1", "O2"),
        scenario(
            3,
            2,
            allocate("a", 1, 2, 3, 4, 5),
            Free("a"),
            allocate("b", 1, 2, 3, 4, 5, 6, 7),
            allocate("b", 1, 2, 3, 4, 5, 6),
        ),
    ),
    Goal(
        "coarse check surpassed",
        "an allocate succeeded thanks to hits, though can_allocate said no",
        ("O2", "O3"),
        scenario(3, 1, allocate("a", 0, 1), allocate("b", 0, 2), Free("a"), Free("b")),
    ),
    Goal(
        "allocate refused",
        "an allocate was refused, and the pool was used on",
        ("O1", "O2"),
        scenario(2, 2, allocate("a", 0, 1, 2), allocate("b", 5), Append("a", 3), Free("a"), allocate("b", 0, 1, 2, 3)),
    ),
    Goal(
        "refused with room",
        "an allocate was refused though blocks of both kinds were idle, two at least of each",
        ("O1",),
        scenario(
            6,
            1,
            allocate("a", 0, 1),
            Free("a"),
            allocate("b", 2, 3, 4, 5, 6, 7, 8),
            allocate("b", 0, 1, 2),
            Free("b"),
            allocate("c", 3, 4, 5, 6, 7, 8),
        ),
    ),
    Goal(
        "append refused",
        "an append was refused, and the sequence was used on",
        ("O1", "O2"),
        scenario(
            2,
            1,
            allocate("a", 0),
            allocate("b", 1),
            Append("a", 2),
            Free("b"),
            Append("a", 2),
            Free("a"),
            allocate("c", 0, 2),
        ),
    ),
    Goal(
        "crossed a boundary",
        "an append took a new block",
        ("O2", "O5"),
        scenario(3, 2, allocate("a", 0, 1), Append("a", 2), Append("a", 3), Append("a", 4), Free("a")),
    ),
    Goal(
        "filled by append",
        "a block filled by appends was hit by a later prompt",
        ("O8", "K1"),
        scenario(
            4,
            2,
            allocate("a", 0),
            Append("a", 1),
            Append("a", 2),
            Append("a", 3),
            Free("a"),
            allocate("b", 0, 1, 2, 3, 4),
        ),
    ),
    Goal(
        "duplicated",
        "two blocks carried equal content, and one of them was evicted",
        ("I3", "O6", "O8"),
        scenario(
            3,
            1,
            allocate("a", 0),
            allocate("b", 0),
            Free("b"),
            allocate("c", 1, 2),
            allocate("d", 0, 3),
            Free("c"),
            allocate("d", 0, 3),
        ),
    ),
    Goal(
        "original evicted",
        "of two blocks with equal content the one that was mapped was evicted",
        ("I3", "O6"),
        scenario(
            3,
            1,
            allocate("a", 0),
            allocate("b", 0),
            Free("a"),
            allocate("c", 1, 2),
            Free("c"),
            allocate("d", 0, 5),
            Free("b"),
        ),
    ),
    Goal(
        "whole prompt cached",
        "a prompt of whole blocks was cached to its end, and its last block was computed again",
        ("I5", "O4"),
        scenario(
            4,
            2,
            allocate("a", 0, 1, 2, 3),
            allocate("b", 0, 1, 2, 3),
            Free("a"),
            Free("b"),
            allocate("c", 0, 1, 2, 3),
        ),
    ),
    Goal(
        "another prefix",
        "a full block was asked for under another prefix",
        ("I7", "K1"),
        scenario(6, 1, allocate("a", 0, 1, 2), allocate("b", 3, 1, 2)),
    ),
    Goal(
        "partial block",
        "a prompt went on where another one had only part of a block",
        ("I6", "K1", "K2"),
        scenario(5, 2, allocate("a", 0, 1, 2), allocate("b", 0, 1, 2, 3, 4), Append("a", 5), Free("a"), Free("b")),
    ),
    Goal(
        "equal prompts",
        "two live sequences had equal prompts that end within a block",
        ("I6", "K2"),
        scenario(
            5, 2, allocate("a", 0, 1, 2), allocate("b", 0, 1, 2), Append("a", 3), Append("b", 4), Free("a"), Free("b")
        ),
    ),
    Goal(
        "gap in the cache",
        "a block was cached though its predecessor was not",
        ("O4",),
        scenario(
            5,
            1,
            allocate("a", 0),
            Free("a"),
            allocate("b", 0),
            Append("b", 0),
            allocate("c", 1, 5, 6),
            Free("c"),
            allocate("d", 0, 0, 6),
        ),
    ),
    Goal(
        "evicted its own",
        "a prompt was computed anew, and for its later blocks the copy of an earlier one was evicted",
        ("O8",),
        scenario(
            4,
            1,
            allocate("a", 0),
            Free("a"),
            allocate("b", 0),
            Append("b", 0),
            allocate("c", 1, 1),
            Free("c"),
            Free("b"),
            allocate("d", 0, 0, 1),
            Free("d"),
            allocate("e", 0, 0, 1),
        ),
    ),
    Goal(
        "cached further",
        "a prompt that hit two blocks was cached to its end, and its later blocks were hit by the next one",
        ("O4", "O8"),
        scenario(8, 1, allocate("a", 0, 1, 2), allocate("b", 0, 1, 3, 4), Free("b"), allocate("c", 0, 1, 3, 4, 5)),
    ),
    Goal(
        "many live",
        "six sequences were live at once, and their blocks were evicted later",
        ("O7", "I8"),
        scenario(
            8,
            1,
            *(allocate(seq, i) for i, seq in enumerate("abcdef")),
            *(Free(seq) for seq in "cafbed"),
            allocate("g", 6, 7, 8, 0, 1),
        ),
    ),
    Goal(
        "twins",
        "two live sequences of equal content filled equal blocks by append",
        ("I7", "O8"),
        scenario(
            6,
            1,
            allocate("a", 0),
            allocate("b", 0),
            Append("a", 1),
            Append("b", 1),
            Append("b", 1),
            allocate("c", 0, 1, 1),
        ),
    ),
    Goal(
        "cache off",
        "a prompt was repeated with the prefix cache off",
        ("O9",),
        scenario(
            4,
            1,
            allocate("a", 0, 1),
            allocate("b", 0, 1),
            Free("a"),
            allocate("c", 0, 1),
            Free("b"),
            Free("c"),
            cache=False,
        ),
    ),
    Goal(
        "id used again",
        "the id of a sequence that had ended was used again",
        ("O7", "K1"),
        scenario(3, 2, allocate("a", 0, 1, 2), Free("a"), allocate("a", 3), Append("a", 4), Free("a")),
    ),
    Goal(
        "all back",
        "every sequence was freed, and then one prompt took the whole pool",
        ("I4", "I8"),
        scenario(
            3, 1, allocate("a", 0, 1), allocate("b", 0, 2), Free("a"), Free("b"), allocate("c", 4, 5, 6), Free("c")
        ),
    ),
    *EXTRA_GOALS,
)
