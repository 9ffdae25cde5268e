"""Bugs of which each must be found: edits of the text of kvblocks and kvspec, and what has to fall to each.

Every contract and every pair falls to one of them at least: none is vacuous.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Bug:
    """A copy of `module` in which `old` is replaced by `new` does `what`. refuted: contracts. told_apart: pairs."""

    module: str
    what: str
    old: str
    new: str
    refuted: tuple[str, ...]
    told_apart: tuple[str, ...] = ()


_ARITHMETIC, _MANAGER, _SPEC = "kvblocks.arithmetic", "kvblocks.manager", "kvspec.operations"

BUGS = (
    Bug(
        _ARITHMETIC,
        "takes a block too many for whole blocks",
        "(num_tokens + block_size - 1) // block_size",
        "num_tokens // block_size + 1",
        ("kvblocks_blocks_for", "kvblocks_can_allocate", "allocate_refused"),
        ("blocks_for", "can_allocate"),
    ),
    Bug(
        _ARITHMETIC,
        "lets every block of a prompt be a hit",
        "(num_tokens - 1) // block_size",
        "num_tokens // block_size",
        ("kvblocks_match_limit", "allocate_with_hits_refused"),
        ("match_limit",),
    ),
    Bug(
        _ARITHMETIC,
        "takes 2**32 for a token id",
        "0 <= token_id <= MAX_TOKEN_ID",
        "0 <= token_id <= MAX_TOKEN_ID + 1",
        ("allocate_misused", "append_misused"),
    ),
    Bug(
        _MANAGER,
        "lets one block be left over",
        "blocks_for(num_tokens, self.block_size) <= self.num_free_blocks",
        "blocks_for(num_tokens, self.block_size) < self.num_free_blocks",
        ("kvblocks_can_allocate",),
        ("can_allocate",),
    ),
    Bug(
        _MANAGER,
        "forgets the evictable blocks",
        "len(self._free) + len(self._evictable)",
        "len(self._free)",
        ("kvblocks_can_allocate", "allocate_with_hits_refused"),
        ("can_allocate",),
    ),
    Bug(
        _MANAGER,
        "spreads the blocks of the slots",
        "[pos // self.block_size] * self.block_size",
        "[pos // self.block_size] * (self.block_size + 1)",
        ("kvblocks_slot", "append_refused", "slot_any_position"),
        ("slot",),
    ),
    Bug(
        _MANAGER,
        "takes the position after the last token",
        "not 0 <= pos < len",
        "not 0 <= pos <= len",
        ("slot_any_position",),
    ),
    Bug(
        _MANAGER,
        "lets an idle hit be taken as well",
        "if ref[block] == 0:  # counted as free",
        "if False:  # counted as free",
        ("allocate_with_hits_refused",),
    ),
    Bug(
        _MANAGER,
        "counts hits before it refuses",
        "        needed = blocks_for(len(tokens), self.block_size) - len(hits)",
        "        self._sequences[seq_id] = Sequence([0], tokens, [], 0, (), self.block_size)\n"
        "        needed = blocks_for(len(tokens), self.block_size) - len(hits)",
        ("allocate_refused", "allocate_with_hits_refused"),
    ),
    Bug(
        _MANAGER,
        "appends the token before it refuses",
        "        if offset == 0:\n            seq.table.append(self._take())",
        "        if offset == 0:\n            seq.tokens.append(token_id)\n            seq.table.append(self._take())",
        ("append_refused", "append_after_append"),
    ),
    Bug(_MANAGER, "appends anything", "            check_token(token_id)\n", "            pass\n", ("append_misused",)),
    Bug(
        _MANAGER,
        "allocates anything",
        "tokens = check_tokens(token_ids)",
        'tokens = array("I", token_ids)',
        ("allocate_misused", "allocate_any_prompt"),
    ),
    Bug(
        _SPEC,
        "takes a block too many for whole blocks",
        "-(-num_tokens // block_size)",
        "num_tokens // block_size + 1",
        ("kvspec_blocks_for", "kvspec_can_allocate"),
        ("blocks_for", "can_allocate"),
    ),
    Bug(
        _SPEC,
        "lets every block of a prompt be a hit",
        "(num_tokens - 1) // block_size",
        "num_tokens // block_size",
        ("kvspec_match_limit",),
        ("match_limit",),
    ),
    Bug(
        _SPEC,
        "lets one block be left over",
        "blocks_for(num_tokens, ledger.block_size) <= ledger.num_free_blocks",
        "blocks_for(num_tokens, ledger.block_size) < ledger.num_free_blocks",
        ("kvspec_can_allocate",),
        ("can_allocate",),
    ),
    Bug(
        _SPEC,
        "takes a hit with one holder to be idle",
        "sum(ledger.ref[b] == 0 for",
        "sum(ledger.ref[b] <= 1 for",
        ("kvspec_available",),
    ),
    Bug(
        _SPEC,
        "spreads the blocks of the slots",
        ".table[pos // ledger.block_size] * ledger.block_size",
        ".table[pos // ledger.block_size] * (ledger.block_size + 1)",
        ("kvspec_slot",),
        ("slot",),
    ),
)
