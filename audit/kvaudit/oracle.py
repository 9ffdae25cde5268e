"""The oracle: holds every answer of a target to the specification.

It keeps the specification's ledger in lockstep with the target. Where the specification leaves a choice, the
choice is read off the target's answer, checked to be legal under the profile, and given to the specification,
whose effect is then what everything observable must equal. So one comparison decides all obligations at once;
only when it fails are the obligations evaluated one by one, to name those that are broken. Beside the ledger a
shadow memory follows nothing but the target's own answers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from kvaudit.errors import TargetError
from kvaudit.profiles import Profile
from kvaudit.protocol import (
    Allocate,
    Append,
    CanAllocate,
    Free,
    Mutation,
    Observe,
    Observed,
    Operation,
    Outcome,
    Pool,
    Raised,
    Refused,
    Returned,
    Scribble,
    Slot,
    State,
)
from kvspec import operations
from kvspec.identity import Identity, identity
from kvspec.ledger import Change, Ledger, empty_ledger
from kvspec.ledger import Sequence as Record
from kvspec.logic import Finite, LedgerView, Transition
from kvspec.memory import ShadowMemory, prefixes_of
from kvspec.obligations import broken_by_state, broken_by_step
from kvspec.operations import blocks_for
from kvspec.policy import Given

SEVERITY = (
    *("K1", "K2", "I8", "I4", "O1", "O2", "O9", "I5", "O5", "O4", "O3", "O11", "O6", "O7", "O8"),
    *("I1", "I2", "I3", "I6", "I7", "O10"),
)
"""Which of several obligations broken at one step gives the finding its name: what hurts a user most."""

_UNKNOWN = object()
"""Stands for the key of an identity that has never been seen with one: equals nothing."""


@dataclass(frozen=True)
class Breach:
    """One obligation broken at one step."""

    obligation: str
    detail: str


@dataclass(frozen=True)
class Judgement:
    """What one operation came to.

    expected, got: in words. refused: the specification refused it. change: what it did, if it completed.
    """

    expected: str
    got: str
    refused: bool
    before: Ledger
    after: Ledger
    result: tuple[int, ...] | int | None = None
    change: Change = field(default_factory=Change)
    breaches: tuple[Breach, ...] = ()


class Oracle:
    """Judges a target on one fresh pool, one operation after the other.

    ask(operation) is the program to run on the target; judge(operation, outcomes) says what came of it. After a
    breach the two have parted, and the oracle is of no further use.
    """

    def __init__(self, pool: Pool, profile: Profile, capabilities: frozenset[str]) -> None:
        self.ledger = empty_ledger(pool.num_blocks, pool.block_size, pool.enable_prefix_cache)
        self._variants = profile.variants
        self._keep_all = profile.variants.duplicates == "keep all"
        self._capabilities = capabilities
        self._memory = ShadowMemory(pool.block_size)
        self._prefixes: dict[str, list[Identity]] = {}
        self._tables: dict[str, list[int]] = {}
        self._identity_of: dict[Any, Identity] = {}
        self._key_of: dict[Identity, Any] = {}
        self._program: list[Operation] = []
        self._turn = 0

    # --- the program of one step ---------------------------------------------------------------------------

    def ask(self, operation: Mutation) -> list[Operation]:
        """The operation, everything that can be read, then reads that must not change it, then it again."""
        program: list[Operation] = [operation, Observe(), Scribble()]
        program += self._probes(operation)
        program.append(Observe())
        self._program = program
        return program

    def _probes(self, operation: Mutation) -> list[Operation]:
        """`slot` of one token and `can_allocate` of one length, others at every step."""
        self._turn += 1
        probes: list[Operation] = []
        if "slot" in self._capabilities:
            # Only sequences and tokens that are there whatever comes of the operation.
            sure = [seq for seq in self.ledger.sequences if seq != operation.seq or isinstance(operation, Append)]
            if sure:
                seq = sure[self._turn % len(sure)]
                probes.append(Slot(str(seq), self._turn % len(self.ledger.sequences[seq].tokens)))
        if "can_allocate" in self._capabilities:
            probes.append(CanAllocate(self._a_length()))
        return probes

    def _a_length(self) -> int:
        """Every length in turn, every other time one at the boundary of what is free."""
        size = self.ledger.block_size
        if self._turn % 2:
            return max(1, self.ledger.num_free_blocks * size + self._turn // 2 % 2)
        return 1 + self._turn // 2 % ((self.ledger.num_blocks + 1) * size)

    # --- judging one step ----------------------------------------------------------------------------------

    def judge(self, operation: Mutation, outcomes: Sequence[Outcome]) -> Judgement:
        """Compare the outcomes of `ask(operation)` with the specification, and move on to the next state."""
        breaches: list[Breach] = []
        before = self.ledger
        answer = outcomes[0]
        if isinstance(operation, Allocate):
            verdict = self._allocate(operation, outcomes, breaches)
        elif isinstance(operation, Append):
            verdict = self._append(operation, answer, breaches)
        else:
            verdict = self._free(operation, answer, breaches)
        self.ledger = verdict.after
        if isinstance(answer, Raised):
            return replace(verdict, breaches=tuple(breaches))
        seen, again = self._observed(outcomes[1], breaches), self._observed(outcomes[-1], breaches)
        if seen is not None and not breaches:
            self._compare(operation, before, verdict, seen, breaches)
        if again is not None and seen is not None and again != seen:
            breaches.append(Breach("O11", _difference(seen, again)))
        if not breaches:
            self._reads(outcomes, breaches)
        self._memory_is_faithful(breaches)
        return replace(verdict, breaches=tuple(breaches))

    # allocate

    def _allocate(self, op: Allocate, outcomes: Sequence[Outcome], breaches: list[Breach]) -> Judgement:
        before, size = self.ledger, self.ledger.block_size
        answer = outcomes[0]
        chain = operations.full_chain(before, op.tokens)
        run = operations.run_of_hits(before, chain, len(op.tokens))
        needed = blocks_for(len(op.tokens), size) - len(run)
        if isinstance(answer, Returned):
            table = _block_list(answer.value, before.num_blocks)
            claimed = self._claimed_cached(outcomes[1], op.seq)
            if table is not None:
                self._compute(op, table, claimed, breaches)
            hits = tuple(table[: len(run)]) if table is not None else ()
        else:
            table, claimed = None, None
            hits = self._idlest(run)
        spare = operations.available(before, hits)
        fits = needed <= spare
        expected = (
            f"{blocks_for(len(op.tokens), size)} blocks, {len(run) * size} tokens cached"
            if fits
            else f"refusal: {needed} new blocks needed, {spare} available"
        )
        verdict = Judgement(expected, _in_words(answer, claimed), not fits, before, before)
        if isinstance(answer, Raised):
            breaches.append(_unexpected(answer))
        elif isinstance(answer, Refused):
            if fits:
                breaches.append(Breach("O2", f"refused, though {needed} new blocks are needed and {spare} available"))
        elif table is None:
            breaches.append(Breach("O5", f"the answer is to be a list of block numbers, not {_short(_value(answer))}"))
        elif not fits:
            breaches.append(Breach("O2", f"completed, though {needed} new blocks are needed and {spare} available"))
        else:
            breaches += self._illegal_allocation(op, table, claimed, run)
            if not breaches:
                step = operations.allocate(before, op.seq, op.tokens, self._given(hits, tuple(table[len(run) :])))
                self._tables[op.seq] = table
                return replace(verdict, after=step.after, result=step.result, change=step.change)
        return verdict

    def _compute(self, op: Allocate, table: list[int], claimed: Any, breaches: list[Breach]) -> None:
        """What the caller does with the answer: write the tokens that are not cached, and read all of them."""
        prefixes = prefixes_of(op.tokens)
        if len(table) != blocks_for(len(prefixes), self.ledger.block_size):
            return
        start = claimed if type(claimed) is int and 0 <= claimed <= len(prefixes) else 0
        for block in table[start // self.ledger.block_size :]:
            owner = self._holder(block)
            if owner is not None:
                breaches.append(Breach("K2", f"block {block}, which is to be written, is held by {owner!r}"))
        self._memory.write(table, prefixes, start)
        self._prefixes[op.seq] = prefixes
        self._tables[op.seq] = table

    def _illegal_allocation(
        self, op: Allocate, table: list[int], claimed: Any, run: tuple[Identity, ...]
    ) -> list[Breach]:
        before, size, found = self.ledger, self.ledger.block_size, []
        if len(table) != blocks_for(len(op.tokens), size):
            count = blocks_for(len(op.tokens), size)
            return [Breach("O5", f"{len(op.tokens)} tokens need {count} blocks, the table has {len(table)}")]
        expected = len(run) * size
        if claimed is not None and (type(claimed) is not int or claimed != expected):
            found.append(Breach("O4", f"num_cached_tokens is to be {expected}, not {_short(claimed)}"))
            if type(claimed) is not int or claimed % size or not 0 <= claimed < len(op.tokens):
                found.append(Breach("I5", f"{_short(claimed)} of {len(op.tokens)} tokens cached, block size {size}"))
            if not before.enable_prefix_cache:
                found.append(Breach("O9", "tokens are cached though the prefix cache is off"))
        for i, (block, h) in enumerate(zip(table, run, strict=False)):
            legal = block == before.hash_to_block[h] or (self._keep_all and before.block_hash[block] is h)
            if not legal:
                found.append(Breach("O4", f"block {i} is cached in block {before.hash_to_block[h]}, not in {block}"))
        new = table[len(run) :]
        for i, block in enumerate(new):
            if block in table[: len(run) + i]:
                found.append(Breach("I8", f"block {block} stands twice in the table"))
            elif before.ref[block]:
                found.append(Breach("I8", f"new block {block} is in use by {self._holder(block)!r}"))
                if not before.enable_prefix_cache:
                    found.append(Breach("O9", f"block {block} is shared though the prefix cache is off"))
        if not found:
            found += self._out_of_order(new, tuple(table[: len(run)]))
        return found

    def _idlest(self, run: tuple[Identity, ...]) -> tuple[int, ...]:
        """A legal choice of hits for a run, idle copies first: the choice under which the least is available."""
        before = self.ledger
        if not self._keep_all:
            return tuple(before.hash_to_block[h] for h in run)
        return tuple(
            min((b for b, carried in enumerate(before.block_hash) if carried is h), key=lambda b: before.ref[b])
            for h in run
        )

    # append

    def _append(self, op: Append, answer: Outcome, breaches: list[Breach]) -> Judgement:
        before, size = self.ledger, self.ledger.block_size
        record = before.sequences[op.seq]
        pos = len(record.tokens)
        needs_block = pos // size == len(record.table)
        fits = not needs_block or before.num_free_blocks > 0
        verdict = Judgement("", _in_words(answer), not fits, before, before)
        if not fits:
            verdict = replace(verdict, expected="refusal: a new block is needed, 0 available")
        elif needs_block:
            verdict = replace(verdict, expected=f"a slot at offset {pos % size} of a new block")
        else:
            verdict = replace(verdict, expected=f"slot {record.table[-1] * size + pos % size}")
        if isinstance(answer, Raised):
            breaches.append(_unexpected(answer))
            return verdict
        if isinstance(answer, Refused):
            if fits:
                why = "no new block is needed" if not needs_block else f"{before.num_free_blocks} blocks are available"
                breaches.append(Breach("O2", f"refused, though {why}"))
            return verdict
        if not fits:
            breaches.append(Breach("O2", "completed, though a new block is needed and none is available"))
            return verdict
        slot = _value(answer)
        if type(slot) is not int or not 0 <= slot < before.num_blocks * size:
            breaches.append(Breach("O5", f"the answer is to be a slot of the pool, not {_short(slot)}"))
            return verdict
        block = slot // size if needs_block else record.table[-1]
        if slot != block * size + pos % size:
            expected = f"slot {block * size + pos % size}" if not needs_block else f"offset {pos % size} of a block"
            breaches.append(Breach("O5", f"token {pos} is to go to {expected}, not to slot {slot}"))
            return verdict
        self._compute_one(op, block, needs_block, breaches)
        if needs_block and not breaches:
            if before.ref[block]:
                breaches.append(Breach("I8", f"new block {block} is in use by {self._holder(block)!r}"))
            else:
                breaches += self._out_of_order([block], ())
        if breaches:
            return verdict
        step = operations.append_slot(before, op.seq, op.token, self._given((), (block,) if needs_block else ()))
        return replace(verdict, after=step.after, result=step.result, change=step.change)

    def _compute_one(self, op: Append, block: int, needs_block: bool, breaches: list[Breach]) -> None:
        if needs_block:
            owner = self._holder(block)
            if owner is not None:
                breaches.append(Breach("K2", f"block {block}, which is to be written, is held by {owner!r}"))
            self._tables[op.seq] = [*self._tables[op.seq], block]
        prefixes = self._prefixes[op.seq]
        prefixes += prefixes_of((op.token,), after=prefixes[-1])
        self._memory.write(self._tables[op.seq], prefixes, len(prefixes) - 1)

    # free

    def _free(self, op: Free, answer: Outcome, breaches: list[Breach]) -> Judgement:
        before = self.ledger
        verdict = Judgement("freed", _in_words(answer), False, before, before)
        if isinstance(answer, Raised):
            breaches.append(_unexpected(answer))
            return verdict
        if isinstance(answer, Refused):
            breaches.append(Breach("O2", "free was refused"))
            return verdict
        step = operations.free(before, op.seq)
        del self._tables[op.seq], self._prefixes[op.seq]
        return replace(verdict, after=step.after, result=step.result, change=step.change)

    # choices

    def _given(self, hits: tuple[int, ...], taken: tuple[int, ...]) -> Given:
        return Given(hits, taken, inherits=self._keep_all)

    def _out_of_order(self, new: list[int], hits: tuple[int, ...]) -> list[Breach]:
        """Blocks taken although others had to go first, under the profile's order."""
        before = self.ledger
        free = list(before.free)
        evictable = [b for b in before.evictable if b not in hits]
        for block in new:
            if block in evictable:
                if free and self._variants.take_from == "free first":
                    return [Breach("O6", f"cached block {block} is evicted though block {free[0]} is free")]
                if evictable[0] != block:
                    return [Breach("O6", f"block {block} is evicted though block {evictable[0]} is older")]
                evictable.pop(0)
            else:
                if self._variants.free_list == "fifo" and free[0] != block:
                    return [Breach("O6", f"block {block} is taken though block {free[0]} heads the free list")]
                free.remove(block)
        return []

    def _holder(self, block: int) -> str | None:
        return next((str(seq) for seq, record in self.ledger.sequences.items() if block in record.table), None)

    # --- everything that can be read -----------------------------------------------------------------------

    def _observed(self, outcome: Outcome, breaches: list[Breach]) -> Observed | None:
        if isinstance(outcome, Observed):
            if outcome.state is not None and "observe" not in self._capabilities:
                return msgspec.structs.replace(outcome, state=None)
            return outcome
        if isinstance(outcome, Raised):
            breaches.append(_unexpected(outcome))
            return None
        raise TargetError(f"observe was answered with {type(outcome).__name__.lower()}")

    def _claimed_cached(self, outcome: Outcome, seq: str) -> Any:
        return outcome.cached.get(seq) if isinstance(outcome, Observed) and outcome.cached is not None else None

    def _compare(
        self, op: Mutation, before: Ledger, verdict: Judgement, seen: Observed, breaches: list[Breach]
    ) -> None:
        after = verdict.after
        if seen.num_free_blocks is not None and seen.num_free_blocks != after.num_free_blocks:
            what = f"num_free_blocks is to be {after.num_free_blocks}, not {_short(seen.num_free_blocks)}"
            names = ("O1",) if verdict.refused else ("I8", "I4") if isinstance(op, Free) else ("I8", "I1")
            breaches += [Breach(name, what) for name in names]
        live = after.sequences
        if seen.tables is not None:
            for seq, table in seen.tables.items():
                if not isinstance(table, list) or tuple(table) != live[seq].table:
                    what = f"the table of {seq!r} is to be {list(live[seq].table)}, not {_short(table)}"
                    breaches.append(Breach("O1" if verdict.refused else "O5", what))
                    self._tables[seq] = _block_list(table, after.num_blocks) or self._tables[seq]
        if seen.cached is not None:
            for seq, cached in seen.cached.items():
                if type(cached) is not int or cached != live[seq].num_cached_tokens:
                    what = (
                        f"num_cached_tokens of {seq!r} is to stay {live[seq].num_cached_tokens}, not {_short(cached)}"
                    )
                    breaches.append(Breach("O1" if verdict.refused else "O4", what))
        if seen.state is not None:
            self._compare_ledger(op, before, verdict, seen.state, seen.num_free_blocks, breaches)

    def _compare_ledger(
        self, op: Mutation, before: Ledger, verdict: Judgement, state: State, num_free: Any, breaches: list[Breach]
    ) -> None:
        after = verdict.after
        self._learn_keys(verdict.change, state)
        if self._agrees(state, after):
            return
        observed = self._as_ledger(after, state)
        logic = Finite(before, after, observed)
        x = Transition(
            LedgerView(before),
            LedgerView(observed, num_free_blocks=num_free),
            op.seq,
            op.tokens if isinstance(op, Allocate) else (op.token,) if isinstance(op, Append) else (),
            refused=verdict.refused,
            result=verdict.result,
            variants=self._variants,
        )
        kind = {Allocate: "allocate", Append: "append", Free: "free"}[type(op)]
        names = set(broken_by_step(kind, logic, x)) | set(broken_by_state(logic, x.after))
        names -= {"K1"}  # the memory is looked at apart, through the tables that can be seen
        difference = _ledger_difference(after, observed)
        breaches += [Breach(name, difference) for name in SEVERITY if name in names]
        if not names:
            raise AssertionError(f"the ledgers differ and no obligation says so: {difference}")

    def _agrees(self, state: State, after: Ledger) -> bool:
        """Whether everything that can be seen is as the specification has it, under the profile."""
        key_of, sequences = self._key_of, after.sequences
        if state.free is not None and state.free != list(after.free):
            if self._variants.free_list == "fifo" or sorted(state.free) != sorted(after.free):
                return False
        if state.evictable is not None and state.evictable != list(after.evictable):
            return False
        if state.ref is not None and state.ref != list(after.ref):
            return False
        if state.block_hash is not None:
            if state.block_hash != [None if h is None else key_of.get(h, _UNKNOWN) for h in after.block_hash]:
                return False
        if state.hash_to_block is not None:
            seen, due = dict(state.hash_to_block), after.hash_to_block
            if self._keep_all:
                carried = after.block_hash
                due = {h: b if carried[b := seen.get(key_of.get(h), old)] is h else old for h, old in due.items()}
            if seen != {key_of.get(h, _UNKNOWN): b for h, b in due.items()}:
                return False
        for records, name in ((state.tables, "table"), (state.tokens, "tokens"), (state.cached, "num_cached_tokens")):
            if records is not None:
                if len(records) != len(sequences):
                    return False
                for seq, record in sequences.items():
                    mine, due_record = records.get(seq), getattr(record, name)
                    if mine != (due_record if name == "num_cached_tokens" else list(due_record)):
                        return False
        if state.hashes is not None:
            return state.hashes == {
                q: [key_of.get(h, _UNKNOWN) for h in record.chain] for q, record in sequences.items()
            }
        return True

    def _learn_keys(self, change: Change, state: State) -> None:
        """A key that appears where an identity was registered stands for that identity from then on."""
        if state.block_hash is None:
            return
        for block, h in change.registered:
            key = state.block_hash[block] if block < len(state.block_hash) else None
            if key is not None and key not in self._identity_of and h not in self._key_of:
                self._identity_of[key] = h
                self._key_of[h] = key

    def _meaning(self, key: Any) -> Identity | None:
        if key is None:
            return None
        known = self._identity_of.get(key)
        return known if known is not None else identity(None, (), ("unknown key", str(key)))

    def _as_ledger(self, after: Ledger, state: State) -> Ledger:
        """What was observed as a ledger; what cannot be seen is as the specification has it."""
        sequences: dict[Any, Record] = dict(after.sequences)
        for seq, record in after.sequences.items():
            name = str(seq)
            sequences[seq] = Record(
                tuple((state.tables or {}).get(name, record.table)),
                tuple((state.tokens or {}).get(name, record.tokens)),
                record.chain
                if state.hashes is None or name not in state.hashes
                else tuple(h for h in map(self._meaning, state.hashes[name]) if h is not None),
                (state.cached or {}).get(name, record.num_cached_tokens),
            )
        for seen in (state.tables, state.tokens, state.hashes, state.cached):
            for name in seen or ():
                if name not in sequences:
                    sequences[name] = Record((), (), (), 0)
            if seen is not None:
                sequences = {seq: record for seq, record in sequences.items() if str(seq) in seen}
        mapping = after.hash_to_block
        if state.hash_to_block is not None:
            mapping = {h: b for key, b in state.hash_to_block if (h := self._meaning(key)) is not None}
        return replace(
            after,
            free=after.free if state.free is None else tuple(state.free),
            evictable=after.evictable if state.evictable is None else tuple(state.evictable),
            ref=after.ref if state.ref is None else tuple(state.ref),
            block_hash=after.block_hash
            if state.block_hash is None
            else tuple(self._meaning(key) for key in state.block_hash),
            hash_to_block=mapping,
            sequences=sequences,
        )

    def _reads(self, outcomes: Sequence[Outcome], breaches: list[Breach]) -> None:
        for read, outcome in zip(self._program[3:-1], outcomes[3:-1], strict=True):
            if isinstance(outcome, Raised):
                breaches.append(_unexpected(outcome))
            elif isinstance(read, Slot):
                expected = operations.slot(self.ledger, read.seq, read.pos)
                if type(_value(outcome)) is not int or _value(outcome) != expected:
                    what = f"slot({read.seq!r}, {read.pos}) is to be {expected}, not {_short(_value(outcome))}"
                    breaches.append(Breach("O5", what))
            elif isinstance(read, CanAllocate):
                fits = operations.can_allocate(self.ledger, read.num_tokens)
                if type(_value(outcome)) is not bool or _value(outcome) != fits:
                    what = f"can_allocate({read.num_tokens}) is to be {fits}, not {_short(_value(outcome))}"
                    breaches.append(Breach("O3", f"{what}: {self.ledger.num_free_blocks} blocks are free"))

    def _memory_is_faithful(self, breaches: list[Breach]) -> None:
        for seq, prefixes in self._prefixes.items():
            table = self._tables[seq]
            if len(table) * self.ledger.block_size < len(prefixes):
                continue
            pos = self._memory.first_wrong(table, prefixes)
            if pos is not None:
                block = table[pos // self.ledger.block_size]
                held = self._memory(block * self.ledger.block_size + pos % self.ledger.block_size)
                what = "what nobody has written" if held is None else f"the KV of the prefix {held!r}"
                breaches.append(
                    Breach(
                        "K1", f"{seq!r} reads {what} at position {pos} (block {block}), its own is {prefixes[pos]!r}"
                    )
                )
                return


# --- in words --------------------------------------------------------------------------------------------------


def _value(outcome: Outcome) -> Any:
    return outcome.value if isinstance(outcome, Returned) else None


def _block_list(value: Any, num_blocks: int) -> list[int] | None:
    """The value as a list of block numbers, None if it is not one."""
    if isinstance(value, (list, tuple)) and all(type(b) is int and 0 <= b < num_blocks for b in value):
        return list(value)
    return None


def _unexpected(raised: Raised) -> Breach:
    if raised.error == "Hang":
        return Breach("O2", f"a legal call hangs: {raised.message}")
    said = f"{raised.error}: {raised.message}" if raised.message else raised.error
    where = f" ({raised.where})" if raised.where else ""
    return Breach("O2", f"a legal call raised {said}{where}; refusals are exceptions named OutOfBlocks (see --refusal)")


def _in_words(answer: Outcome, claimed: Any = None) -> str:
    if isinstance(answer, Refused):
        return f"refused ({answer.error})"
    if isinstance(answer, Raised):
        return f"raised {answer.error}"
    if _value(answer) is None:
        return "done"
    return _short(_value(answer)) + (f", {_short(claimed)} tokens cached" if claimed is not None else "")


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _difference(first: Observed, second: Observed) -> str:
    for name in ("num_free_blocks", "tables", "cached"):
        if getattr(first, name) != getattr(second, name):
            return f"{name} was {_short(getattr(first, name))}, and after reads {_short(getattr(second, name))}"
    for name in State.__struct_fields__:
        one, two = getattr(first.state, name, None), getattr(second.state, name, None)
        if one != two:
            return f"{name} was {_short(one)}, and after reads {_short(two)}"
    return "the state changed"


def _ledger_difference(expected: Ledger, observed: Ledger) -> str:
    for name in ("free", "evictable", "ref", "block_hash", "hash_to_block"):
        one, two = getattr(expected, name), getattr(observed, name)
        if one != two and not (name == "free" and sorted(one) == sorted(two)):
            return f"{name} is to be {_short(one)}, not {_short(two)}"
    for seq in {*expected.sequences, *observed.sequences}:
        if seq not in expected.sequences or seq not in observed.sequences:
            return f"the records of {seq!r} are {'left' if seq in observed.sequences else 'gone'}"
        for name in ("table", "tokens", "chain", "num_cached_tokens"):
            one, two = (getattr(ledger.sequences[seq], name) for ledger in (expected, observed))
            if one != two:
                return f"{name} of {seq!r} is to be {_short(one)}, not {_short(two)}"
    return f"the free list is to be {list(expected.free)}, not {list(observed.free)}"
