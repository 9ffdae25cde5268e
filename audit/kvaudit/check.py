"""Holds a recorded trace to the specification, line by line, without any target.

The rules are those of an audit (`kvaudit.rulings`) on a ledger that is written in place (`kvspec.live`): a line costs
what it changes, and the memory is that of the ledger. The first departure ends it: what a system does after a wrong
step is not comparable with anything.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable

from kvaudit import words
from kvaudit.breach import Breach
from kvaudit.caller import Caller
from kvaudit.checked import Checked, checked
from kvaudit.choices import block_list
from kvaudit.departure import Departure, departure_of
from kvaudit.errors import UsageError
from kvaudit.interrupt import Interrupt
from kvaudit.oracle import Judgement
from kvaudit.profiles import Profile
from kvaudit.protocol import SCHEDULER, Allocate, Append, Mutation, Outcome, Pool, Returned
from kvaudit.rulings import rule, wrong_free_count
from kvaudit.trace import RECORDED, Answer, TraceHeader, TraceLine, TraceReader
from kvaudit.transcript import outcome_of
from kvspec.ledger import Ledger
from kvspec.live import live
from kvspec.operations import blocks_for, full_chain, run_of_hits
from kvspec.policy import SEED

_TELL_EVERY = 512


def check_trace(reader: TraceReader, profile: Profile, tell: Callable[[int, float], None]) -> Checked:
    """Check a trace to its end, its first departure, or Ctrl-C.

    tell(operations, done) is called every few hundred lines; `done` goes from 0 to 1. Raises UsageError for what is no
    trace. Cost: O(length of the operation) a line; memory: the ledger.
    """
    began = time.monotonic()
    checker = Checker(reader.header, profile)
    departure = None
    with Interrupt() as interrupt:
        try:
            for line in reader:
                departure = checker.check(line, reader.where)
                if departure is not None or interrupt.came:
                    break
                if line.step % _TELL_EVERY == 0:
                    tell(line.step, reader.done)
        except KeyboardInterrupt:  # the next line, of a pipe, does not come
            interrupt.came = True
    seconds, came = time.monotonic() - began, interrupt.came
    return checked(
        reader.header, str(reader.path), profile.name, checker.met, checker.recorded, departure, came, seconds
    )


class Checker:
    """Follows one trace. `recorded` counts the answers that gave each field, `met` what has happened."""

    def __init__(self, header: TraceHeader, profile: Profile) -> None:
        if SCHEDULER in (header.level, profile.level):
            raise UsageError(
                "it is the trace of a scheduler, whose decisions are its own: kvaudit replay plays it on the target"
                if header.level == SCHEDULER
                else f"the profile {profile.name} is for schedulers, and the trace is of a block manager"
            )
        if profile.chooses:
            raise UsageError(
                f"under the profile {profile.name} what is cached is read off observe(), which no trace records; "
                "kvaudit replay plays the trace on the target"
            )
        self._pool = header.pool
        self._profile = profile
        self._ledger: Ledger = live(_start(header, profile))
        self._has_tables: bool | None = None  # until the first answer tells
        self.recorded: Counter[str] = Counter()
        self.met: Counter[str] = Counter()

    def check(self, line: TraceLine, where: str) -> Departure | None:
        """Hold the next line to the specification; None if it agrees.

        Raises UsageError, at `where`, for what no caller may do and for an answer that leaves open what happened.
        """
        operation, came, ledger = line.mutation, line.came, self._ledger
        if came is None:
            raise UsageError(f"{where} does not say what came: a trace that is to be checked has `came` in every line")
        self._check_caller(operation, where)
        outcome = self._outcome(operation, came, where)
        cached = came.num_cached_tokens
        refused, step, breaches = rule(ledger, operation, outcome, cached, self._profile.variants, None)
        if step is None and breaches:
            breaches = self._by_a_caller(operation, outcome, cached) + breaches
            judgement = Judgement(ledger, ledger, outcome, cached, refused, None, tuple(breaches))
            return departure_of(line, judgement)
        if came.num_free_blocks is not None:
            breaches = wrong_free_count(operation, refused, ledger.num_free_blocks, came.num_free_blocks)
        judgement = Judgement(ledger, ledger, outcome, cached, refused, step, tuple(breaches))
        if breaches:
            free = words.count(ledger.num_free_blocks, "free block")
            due = f"{free} after it, not {words.short(came.num_free_blocks)}"
            return departure_of(line, judgement, due)
        self._count(operation, came, judgement)
        return None

    def _check_caller(self, operation: Mutation, where: str) -> None:
        is_live = operation.seq in self._ledger.sequences
        if isinstance(operation, Allocate) and is_live:
            raise UsageError(f"{where}: {operation.seq!r} is live already. Was its free not recorded?")
        if not isinstance(operation, Allocate) and not is_live:
            raise UsageError(f"{where}: {operation.seq!r} is not live. Was its allocate refused, or not recorded?")

    # --- what was not recorded -------------------------------------------------------------------------------

    def _outcome(self, operation: Mutation, came: Answer, where: str) -> Outcome:
        """The answer to judge: without tables, the specification's own choices stand for the system's."""
        if came.outcome != "completed" or came.other:
            return outcome_of(came)
        if isinstance(operation, Allocate):
            if came.table is None:
                self._without_tables(where)
                return Returned(self._own_table(operation))
            self._with_tables(where)
        elif isinstance(operation, Append):
            if came.slot is None:
                return Returned(self._own_slot(operation, where))
            self._with_tables(where)
        return outcome_of(came)

    def _with_tables(self, where: str) -> None:
        if self._has_tables is False:
            raise UsageError(f"{where} gives block numbers and earlier lines do not: record them always or never")
        self._has_tables = True

    def _without_tables(self, where: str) -> None:
        if self._has_tables:
            raise UsageError(f"{where} gives no block numbers, though earlier lines do: record them always or never")
        if self._profile.variants.duplicates == "keep all":
            raise UsageError(
                f"{where} gives no table: under the profile {self._profile.name} any copy of a block may be hit, and "
                "without tables nobody can tell which one was"
            )
        self._has_tables = False

    def _own_table(self, op: Allocate) -> list[int]:
        ledger = self._ledger
        hits = SEED.hits(ledger, run_of_hits(ledger, full_chain(ledger, op.tokens, op.extra.items), len(op.tokens)))
        needed = blocks_for(len(op.tokens), ledger.block_size) - len(hits)
        new = SEED.blocks(ledger, hits, needed)
        return [*hits, *new, *[0] * (needed - len(new))]  # with too few blocks, which ones does not matter

    def _own_slot(self, op: Append, where: str) -> int:
        ledger, record = self._ledger, self._ledger.sequences[op.seq]
        index, offset = divmod(len(record.tokens), ledger.block_size)
        if index < len(record.table):
            return record.table[index] * ledger.block_size + offset
        self._without_tables(where)
        new = SEED.blocks(ledger, (), 1) or (0,)
        return new[0] * ledger.block_size + offset

    # --- what comes of it ------------------------------------------------------------------------------------

    def _by_a_caller(self, operation: Mutation, outcome: Outcome, cached: int | None) -> list[Breach]:
        if self._has_tables is False:
            return []  # the tables are our own
        return by_a_caller(self._pool, self._ledger, operation, outcome, cached)

    def _count(self, operation: Mutation, came: Answer, judgement: Judgement) -> None:
        self.met[type(operation).__name__.lower()] += 1
        self.met["refused"] += judgement.refused
        self.met["allocated"] += isinstance(operation, Allocate) and not judgement.refused
        change = judgement.change
        if change.hit:
            self.met["hit"] += len(change.hit)
        if change.evicted:
            self.met["evicted"] += len(change.evicted)
        for name in RECORDED:
            if getattr(came, name) is not None:
                self.recorded[name] += 1


def _start(header: TraceHeader, profile: Profile) -> Ledger:
    """The ledger before the first operation. Raises UsageError if there is none such under the profile."""
    ledger = header.start
    if profile.variants.duplicates == "keep all":
        for block, h in enumerate(ledger.block_hash):
            if h is not None and h not in ledger.hash_to_block:
                raise UsageError(
                    "the ledger in the header of the trace makes no sense: no block is hit for the content of block "
                    f"{block}, and under the profile {profile.name} each copy of a content can be hit"
                )
    return ledger


def by_a_caller(pool: Pool, ledger: Ledger, operation: Mutation, outcome: Outcome, cached: int | None) -> list[Breach]:
    """What a caller runs into who acts on the answer: K2, K1. O(tokens of the sequences concerned)."""
    caller, size = Caller(pool), pool.block_size
    value = outcome.value if isinstance(outcome, Returned) else None
    if isinstance(operation, Allocate):
        table = block_list(value, pool.num_blocks)
        if table is None or cached is None:
            return []
        caller.resume(ledger, set(table))
        found = caller.allocated(operation, table, cached)
    elif isinstance(operation, Append) and type(value) is int and 0 <= value < pool.num_blocks * size:
        record = ledger.sequences[operation.seq]
        is_new = len(record.tokens) // size == len(record.table)
        if value % size != len(record.tokens) % size or not (is_new or value // size == record.table[-1]):
            return []
        caller.resume(ledger, {*record.table, value // size})
        found = caller.appended(operation, value // size, is_new)
    else:
        return []
    return found + caller.misreads()
