"""Watches executions and tells when a reach goal (`kvaudit.goals`) is met."""

from __future__ import annotations

from kvaudit.execution import Played
from kvaudit.oracle import Judgement
from kvaudit.protocol import Allocate, Append, Free, Mutation, Pool
from kvspec.extra import Extra, Image, Item, Lora, Salt
from kvspec.identity import Identity
from kvspec.ledger import Change, Ledger
from kvspec.operations import blocks_for, can_allocate, full_chain, match_limit, run_of_hits

_SAME = {Salt: "same salt", Lora: "same LoRA", Image: "same image"}


def _of(kind: type[Item], extra: Extra) -> Extra:
    return tuple(item for item in extra if isinstance(item, kind))


def _differences(one: Extra, other: Extra) -> set[str]:
    found: set[str] = set()
    if _of(Salt, one) != _of(Salt, other):
        found.add("another salt")
    loras = [item for item in (*one, *other) if isinstance(item, Lora)]
    if _of(Lora, one) != _of(Lora, other):
        found.add("another LoRA version" if len({lora.id for lora in loras}) < len(loras) else "another LoRA")
        if len(loras) == 2 and len({lora.id + lora.version for lora in loras}) == 1:
            found.add("LoRA names that run together")
    names = {name for lora in loras for name in (lora.id, lora.version)}
    if len(loras) == 1 and any(isinstance(item, Salt) and item.value in names for item in (*one, *other)):
        found.add("LoRA named like a salt")
    images = [[item for item in extra if isinstance(item, Image)] for extra in (one, other)]
    if images[0] != images[1]:
        same_hashes = [i.content_hash for i in images[0]] == [i.content_hash for i in images[1]]
        found.add("image elsewhere" if same_hashes else "another image")
    return found


class Tracker:
    """Watches one execution and says which goals each operation reaches."""

    def __init__(self, pool: Pool) -> None:
        self._refused: set[str] = set()
        self._ended: set[str] = set()
        self._evicted: set[Identity] = set()
        self._spared: set[Identity] = set()
        self._appended: set[Identity] = set()
        self._further: set[Identity] = set()
        self._had_many = False
        self._prompts: set[tuple[int, ...]] = set()
        self._was_used = False
        self._has_extra = False
        self._had_salt: set[str] = set()
        self._unsalted: set[Identity] = set()

    def reached(self, played: Played[Mutation, Judgement]) -> set[str]:
        """The goals that this operation, the next of the execution, reaches."""
        operation, judgement = played.operation, played.judgement
        before, after, change = judgement.before, judgement.after, judgement.change
        found: set[str] = set()
        if judgement.refused:
            self._refused.add("append refused" if isinstance(operation, Append) else "allocate refused")
        elif self._refused:
            found |= self._refused
            self._refused.clear()
        if change.hit:
            found |= self._by_hits(before, after, change)
        for b, h in change.evicted:
            if before.block_hash.count(h) > 1:
                found.add("duplicated")
                if before.hash_to_block.get(h) == b:
                    found.add("original evicted")
        if isinstance(operation, Allocate):
            found |= self._by_allocate(operation, judgement)
        elif isinstance(operation, Append) and not judgement.refused:
            if change.taken:
                found.add("crossed a boundary")
            if change.duplicates:
                found.add("twins")
            self._appended.update(h for _, h in change.registered)
            if operation.seq in self._had_salt and not after.sequences[operation.seq].extra:
                self._unsalted.update(h for _, h in change.registered)
        elif isinstance(operation, Free):
            self._ended.add(operation.seq)
            if _of(Salt, before.sequences[operation.seq].extra):
                self._had_salt.add(operation.seq)
        if change.evicted:
            if self._had_many:
                found.add("many live")
            self._evicted.update(h for _, h in change.evicted)
            hashes = after.block_hash
            self._spared.update([kept for b in after.evictable if (kept := hashes[b]) is not None])
        return found

    def _by_hits(self, before: Ledger, after: Ledger, change: Change) -> set[str]:
        found: set[str] = set()
        most = max(after.ref[b] for b in change.hit)
        if most >= 3:
            found.add("shared three ways")
        if most >= 5:
            found.add("shared five ways")
        if change.revived:
            found.add("revived")
        hit = {h for b in change.hit if (h := before.block_hash[b]) is not None}
        if hit & self._spared:
            found.add("evicted in order")
        if hit & self._appended:
            found.add("filled by append")
        if len(hit & self._further) >= 2:
            found.add("cached further")
        if hit & self._unsalted:
            found.add("id used again without its extra")
        if self._has_extra:
            found.update(_SAME[type(item)] for h in hit for item in h.extra_of_all())
        return found

    def _by_extra(self, before: Ledger, missed: Identity) -> set[str]:
        """What can be hit that differs from the first block that was not hit in nothing but its extra."""
        found: set[str] = set()
        for h in before.hash_to_block:
            if h.parent is missed.parent and h.tokens == missed.tokens and h.extra != missed.extra:
                found |= _differences(h.extra, missed.extra)
                if h in self._appended and _of(Image, h.extra) != _of(Image, missed.extra):
                    found.add("image in a block filled by append")
        return found

    def _by_allocate(self, operation: Allocate, judgement: Judgement) -> set[str]:
        before, change, tokens = judgement.before, judgement.change, operation.tokens
        size = before.block_size
        found: set[str] = set()
        if judgement.refused:
            if len(before.free) >= 2 and len(before.evictable) >= 2:
                found.add("refused with room")
            # The naive check compares the new blocks with all that is free; hits that are idle are counted twice.
            fewest = blocks_for(len(tokens), size) - match_limit(len(tokens), size)
            if fewest <= before.num_free_blocks:
                run = run_of_hits(before, full_chain(before, tokens, operation.extra.items), len(tokens))
                if blocks_for(len(tokens), size) - len(run) <= before.num_free_blocks:
                    found.add("naive check refuted")
            return found
        if judgement.step is None:
            return found
        chain, hits = judgement.after.sequences[operation.seq].chain, len(change.hit)
        self._has_extra = self._has_extra or bool(operation.extra.items)
        if self._has_extra and hits < match_limit(len(tokens), size) and hits < len(chain):
            found |= self._by_extra(before, chain[hits])
        if not can_allocate(before, len(tokens)):
            found.add("coarse check surpassed")
        for b, h in change.evicted:
            if h in chain and b in change.taken and hits <= chain.index(h) < hits + change.taken.index(b):
                found.add("evicted its own")
        if self._evicted.intersection(chain):
            found.add("evicted")
        unmapped = [h for h in chain if h not in before.hash_to_block]
        if unmapped:
            known = {h.tokens for h in before.hash_to_block}
            if any(h.tokens in known for h in unmapped):
                found.add("another prefix")
            if any(h in before.hash_to_block for h in chain[hits + 1 : match_limit(len(tokens), size)]):
                found.add("gap in the cache")
        elif chain and len(tokens) % size == 0:
            found.add("whole prompt cached")
        for live in before.sequences.values() if before.enable_prefix_cache else ():
            if len(live.tokens) % size and tokens[: len(live.tokens)] == live.tokens:
                if len(tokens) == len(live.tokens):
                    found.add("equal prompts")
                elif len(tokens) > len(live.table) * size:
                    found.add("partial block")
        if not before.enable_prefix_cache and len(tokens) > size and tokens[:size] in self._prompts:
            found.add("cache off")
        if operation.seq in self._ended:
            found.add("id used again")
        if self._was_used and not before.sequences and len(change.taken) == before.num_blocks:
            found.add("all back")
        if hits >= 2:
            self._further.update(h for _, h in change.registered)
        self._had_many = self._had_many or len(judgement.after.sequences) >= 6
        self._prompts.add(tokens[:size])
        self._was_used = True
        return found
