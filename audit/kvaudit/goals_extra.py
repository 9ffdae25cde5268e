"""The reach goals of targets that can be told what a sequence depends on beside its tokens.

Each is met where a careless key would take one sequence for another, or where right keys have to be the same.
"""

from __future__ import annotations

from kvaudit.goal import Goal, allocate, scenario
from kvaudit.protocol import Append, Free
from kvspec.extra import Image

_PICTURE, _ANOTHER = b"\1" * 32, b"\1" * 16 + b"\2" * 16
"""Content hashes that begin alike: to one who cuts them short they are the same."""

EXTRA_GOALS: tuple[Goal, ...] = (
    Goal(
        "same salt",
        "a prompt was hit under its own salt",
        ("O4",),
        scenario(5, 1, allocate("a", 0, 1, salt="x"), Free("a"), allocate("b", 0, 1, salt="x")),
        ("salt",),
    ),
    Goal(
        "another salt",
        "a prompt was asked for under another salt than that under which it was cached",
        ("K1", "O4"),
        scenario(
            6,
            1,
            allocate("a", 0, 1, salt="x"),
            allocate("b", 0, 1, salt="y"),
            allocate("c", 0, 1),
            Free("a"),
            Free("b"),
        ),
        ("salt",),
    ),
    Goal(
        "same LoRA",
        "a prompt was hit under its own LoRA",
        ("O4",),
        scenario(5, 1, allocate("a", 0, 1, lora=("x", "1")), Free("a"), allocate("b", 0, 1, lora=("x", "1"))),
        ("lora",),
    ),
    Goal(
        "another LoRA",
        "a prompt was asked for under another LoRA than that under which it was cached",
        ("K1", "O4"),
        scenario(6, 1, allocate("a", 0, 1, lora=("x", "1")), allocate("b", 0, 1, lora=("y", "1")), allocate("c", 0, 1)),
        ("lora",),
    ),
    Goal(
        "another LoRA version",
        "a prompt was asked for under another version of the LoRA under which it was cached",
        ("K1", "O4"),
        scenario(6, 1, allocate("a", 0, 1, lora=("x", "1")), allocate("b", 0, 1, lora=("x", "2")), Free("a")),
        ("lora",),
    ),
    Goal(
        "LoRA names that run together",
        "a prompt was asked for under a LoRA whose id and version, one after the other, read as those of the one under "
        "which it was cached",
        ("K1", "O4"),
        scenario(6, 1, allocate("a", 0, 1, lora=("x", "11")), allocate("b", 0, 1, lora=("x1", "1")), Free("a")),
        ("lora",),
    ),
    Goal(
        "LoRA named like a salt",
        "a prompt was asked for under a LoRA named as the salt under which it was cached, or the other way round",
        ("K1", "O4"),
        scenario(
            8,
            1,
            allocate("a", 0, 1, salt="x"),
            allocate("b", 0, 1, lora=("salt", "x")),
            allocate("c", 0, 1, lora=("x", "x")),
        ),
        ("salt", "lora"),
    ),
    Goal(
        "id used again without its extra",
        "the id of a sequence that had a salt was used again without, and what it then filled by append was hit",
        ("O7", "O8"),
        scenario(
            6,
            2,
            allocate("a", 0, salt="x"),
            Free("a"),
            allocate("a", 0),
            Append("a", 1),
            Append("a", 2),
            allocate("b", 0, 1, 3),
        ),
        ("salt",),
    ),
    Goal(
        "same image",
        "a block with an image was hit by a prompt with the same image in the same place",
        ("O4",),
        scenario(
            6,
            2,
            allocate("a", 0, 1, 1, 0, images=(Image(_PICTURE, 1, 2),)),
            Free("a"),
            allocate("b", 0, 1, 1, 0, 2, images=(Image(_PICTURE, 1, 2),)),
        ),
        ("images",),
    ),
    Goal(
        "another image",
        "a prompt was asked for with another image in the place of the one with which it was cached",
        ("K1", "O4"),
        scenario(
            8,
            2,
            allocate("a", 0, 1, 1, 0, images=(Image(_PICTURE, 1, 2),)),
            allocate("b", 0, 1, 1, 0, images=(Image(_ANOTHER, 1, 2),)),
            Free("a"),
            allocate("c", 0, 1, 1, 0),
        ),
        ("images",),
    ),
    Goal(
        "image elsewhere",
        "a prompt was asked for with the same image in another place than the one with which it was cached",
        ("K1", "O4"),
        scenario(
            8,
            4,
            allocate("a", 1, 1, 1, 1, 1, images=(Image(_PICTURE, 0, 2),)),
            allocate("b", 1, 1, 1, 1, 1, images=(Image(_PICTURE, 1, 2),)),
        ),
        ("images",),
    ),
    Goal(
        "image in a block filled by append",
        "an append filled a block in which an image lies, and the prompt was asked for with another image or none",
        ("K1", "O8"),
        scenario(
            8,
            2,
            allocate("a", 0, 1, 1, images=(Image(_PICTURE, 2, 1),)),
            Append("a", 0),
            Free("a"),
            allocate("b", 0, 1, 1, 0, 0),
            allocate("c", 0, 1, 1, 0, 0, images=(Image(_ANOTHER, 2, 1),)),
        ),
        ("images",),
    ),
)
