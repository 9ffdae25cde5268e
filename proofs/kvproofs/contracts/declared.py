"""What must come out: which contracts CrossHair confirms, which it leaves open, and which pairs do not differ."""

from __future__ import annotations

CONFIRMED: dict[str, dict[str, tuple[str, ...]]] = {
    "formulas": {
        "kvblocks_blocks_for": ("O2", "O3", "O5"),
        "kvspec_blocks_for": ("O2", "O3", "O5"),
        "kvblocks_match_limit": ("O4",),
        "kvspec_match_limit": ("O4",),
        "kvblocks_can_allocate": ("O3",),
        "kvspec_can_allocate": ("O3",),
        "kvspec_available": ("O2",),
        "kvblocks_slot": ("O5",),
        "kvspec_slot": ("O5",),
    },
    "pools": {
        "allocate_refused": ("O1", "O2"),
        "allocate_with_hits_refused": ("O1", "O2"),
        "allocate_misused": ("O10",),
        "append_refused": ("O1", "O2", "O5"),
        "append_misused": ("O10",),
    },
}
"""By file and function, the obligations that the contract speaks of."""

UNDECIDED: dict[str, str] = {
    "allocate_any_prompt": "the theorems O1 and O10 of allocate; `kvaudit explore`, all prompts on small pools",
    "append_after_append": "the theorem O1 of append; `kvaudit explore`, all tokens up to renaming",
    "slot_any_position": "the theorems O5, O10 and O11 of slot",
}
"""By function of `undecided`, what holds what it says."""

PAIRS = ("blocks_for", "match_limit", "can_allocate", "slot")
"""Of `formulas`: kvblocks_NAME and kvspec_NAME do not differ."""
