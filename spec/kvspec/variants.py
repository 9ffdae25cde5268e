"""Named variants: the ways in which good managers differ from the seed, each a choice among legal behaviours.

A profile of an engine names one of each kind. An obligation is then held to that variant and reported so,
`holds (one queue)`: a variant is a different rule, not an exception from the rule.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal


@dataclass(frozen=True, slots=True)
class Variants:
    """The rules that a manager claims to follow; the defaults are the seed's."""

    free_list: Literal["fifo", "any order"] = "fifo"
    """Which block without content is taken: the one freed longest ago, or any (they are interchangeable)."""

    take_from: Literal["free first", "one queue"] = "free first"
    """Blocks without content before cached ones, or one queue in which both wait. LRU within each either way."""

    duplicates: Literal["keep old", "keep new", "keep all"] = "keep old"
    """Of several blocks with equal content: only the first registered can be hit, only the last, or all of them."""

    cache: Literal["as the seed", "its own"] = "as the seed"
    """Which content is kept, and what is given up: by the rules above, or as the manager decides (`own_cache`)."""


SEED_VARIANTS = Variants()

AFFECTS = {
    "free_list": ("O6", "O7"),
    "take_from": ("O6",),
    "duplicates": ("O4", "O6", "O8"),
    "cache": ("I7", "O4", "O6", "O7", "O8"),
}
"""The obligations whose rule each kind of variant changes."""


def chosen(variants: Variants, obligation: str) -> list[str]:
    """The names of the variants, other than the seed's, to which an obligation is held."""
    return [
        f"{getattr(variants, f.name)}"
        if f.name == "take_from"
        else f"{f.name.replace('_', ' ')}: {getattr(variants, f.name)}"
        for f in fields(variants)
        if getattr(variants, f.name) != getattr(SEED_VARIANTS, f.name) and obligation in AFFECTS[f.name]
    ]
