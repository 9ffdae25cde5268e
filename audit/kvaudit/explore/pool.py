"""The search of one pool: exhaustive where that can be said, bounded where it cannot.

It begins with what promises most, a search of restored states up to all symmetries, and takes back what turns out
not to be so: a symmetry that the target does not have, or a state that is more than it declares.
"""

from __future__ import annotations

import multiprocessing
import random
import time
from collections.abc import Callable

import msgspec

from kvaudit.api import ApiTarget
from kvaudit.explore.canonical import Symmetries
from kvaudit.explore.expand import Expander, Expansion, Failure, Playing, Restoring
from kvaudit.explore.findings import consequence, counterexample, in_words, wrong_reads
from kvaudit.explore.job import BOUNDED_DEPTH, STRICT_BLOCKS, Job, Tick
from kvaudit.explore.layout import Unfit
from kvaudit.explore.moves import moves, sequence_ids
from kvaudit.explore.names import BLOCKS, MAPPINGS, SEQUENCES, TOKENS, under_other_names
from kvaudit.explore.report import BOUNDED, EXHAUSTIVE, PoolSearched
from kvaudit.explore.search import Limits, Search
from kvaudit.manager_execution import ManagerExecution
from kvaudit.protocol import Pool
from kvaudit.report import Finding
from kvaudit.words import count
from kvspec.ledger import Ledger

_SAMPLES = 300
"""Programs that are played once more with other token ids."""


class PoolSearch:
    """Searches one pool. `finding`, `misuse` and `result()` are valid at any time, also after Ctrl-C."""

    def __init__(self, job: Job, pool: Pool) -> None:
        self.finding: Finding | None = None
        self.misuse = ""
        self._job = job
        self._pool = pool
        self._began = time.monotonic()
        self._symmetries = _symmetries(job, pool)
        self._kind = EXHAUSTIVE
        self._why = ""
        self._notes: list[str] = []
        if not self._symmetries.tokens:
            self._notes.append(f"prompts are made of {pool.num_blocks + 1} token ids only")
        self._renamed = 0
        self._search = Search(self._restoring, Limits())

    def run(self) -> None:
        """Search to the end, or to a counterexample."""
        if not isinstance(self._job.target, ApiTarget):
            self._why = "the target runs in another process, where its state cannot be restored"
        elif self._job.spec.adapted:
            self._why = "the target is an engine behind an adapter, whose state cannot be restored"
        else:
            try:
                while not self._restore_and_search():
                    pass
            except Unfit as unfit:
                self._why = str(unfit)
        if self._why:
            self._kind = BOUNDED
            self._symmetries = self._symmetries._replace(blocks=False)
            self._play_and_search()

    def result(self, ended: str = "") -> PoolSearched:
        """How far it is."""
        search, found = self._search, self._search.found
        if self.finding is not None:
            ended = "a counterexample was found"
        elif not ended and not search.is_complete:
            late = self._job.deadline is not None and time.monotonic() > self._job.deadline
            ended = "the time is up" if late else f"no more than {count(search.depth, 'operation')}"
        names = [n for n, used in zip((BLOCKS, SEQUENCES, TOKENS), self._symmetries, strict=True) if used]
        return PoolSearched(
            num_blocks=self._pool.num_blocks,
            block_size=self._pool.block_size,
            enable_prefix_cache=self._pool.enable_prefix_cache,
            kind=self._kind,
            why=self._why,
            ended=ended,
            symmetries=names,
            notes=self._notes,
            states=search.states,
            transitions=found.transitions,
            refused=found.refused,
            reads=found.reads,
            misuses=found.misuses,
            renamed=found.renamed + self._renamed,
            depth=search.depth,
            waiting=0 if search.is_complete else search.waiting,
            seconds=time.monotonic() - self._began,
        )

    # --- restored states -----------------------------------------------------------------------------------

    def _restore_and_search(self) -> bool:
        """One search. False if it is to be done again without a symmetry. Raises Unfit."""
        self._restoring()  # raises at once if it cannot be done
        found = self._run(self._restoring, self._job.options.depth)
        if found.unfit:
            raise Unfit(found.unfit)
        if found.failure is not None:
            self._found(found.failure)
            if self.finding is None and found.failure.op is not None:
                program = (*self._search.program_to(found.failure.at), found.failure.op)
                self.finding = consequence(self._job, self._pool, program)
            if self.finding is None:
                detail = found.failure.breach.detail
                raise Unfit(f"what is wrong in a restored state is not seen on a fresh pool ({detail})")
            return True
        if found.asymmetry is not None:
            asymmetry = found.asymmetry
            if asymmetry.names == MAPPINGS:
                raise Unfit(f"what it does depends on the order in which a mapping was filled ({asymmetry.detail})")
            if asymmetry.names == SEQUENCES:
                program = (*self._search.program_to(asymmetry.at), asymmetry.op)
                ids = asymmetry.ids
                renamed = [msgspec.structs.replace(op, seq=ids.get(op.seq, op.seq)) for op in program[:-1]]
                self.finding = counterexample(self._job, self._pool, (*renamed, asymmetry.op))
                if self.finding is not None:
                    return True
            self._symmetries = self._symmetries._replace(**{asymmetry.names: False})
            self._notes.append(
                f"it does not commute with renaming of {asymmetry.names} ({asymmetry.detail}): searched without"
            )
            return False
        self._play_under_other_names()
        return True

    def _restoring(self) -> Expander:
        target = self._job.target
        assert isinstance(target, ApiTarget)
        return Restoring(target, self._pool, self._job.profile, self._symmetries)

    def _play_under_other_names(self) -> None:
        """Sampled transitions from the start, with other sequence ids, and token ids that are easily confused."""
        rng = random.Random(0)
        for number in range(min(_SAMPLES, 2 * self._search.states)):
            program = self._search.program_to(rng.randrange(self._search.states))
            ledger = ManagerExecution(self._job.target, self._pool, self._job.profile).play(program).oracle.ledger
            every = list(moves(ledger, self._unused(ledger)))
            renamed = under_other_names((*program, rng.choice(every)), number)
            self._renamed += 1
            self.finding = counterexample(self._job, self._pool, renamed)
            if self.finding is not None:
                return

    def _unused(self, ledger: Ledger) -> list[str]:
        return [seq for seq in sequence_ids(self._pool.num_blocks) if seq not in ledger.sequences][:1]

    # --- played programs -----------------------------------------------------------------------------------

    def _play_and_search(self) -> None:
        depth = self._job.options.depth
        found = self._run(self._playing, BOUNDED_DEPTH if depth is None else depth)
        if found.failure is not None:
            self._found(found.failure)
        else:
            self._play_under_other_names()

    def _playing(self) -> Expander:
        job = self._job
        is_worker = multiprocessing.parent_process() is not None
        # A process that is forked has a copy of a target in this one, but must not share a conversation with another.
        target = job.spec.start() if is_worker and not isinstance(job.target, ApiTarget) else job.target
        return Playing(target, self._pool, job.profile, self._symmetries, tries_misuse=not job.spec.adapted)

    # --- both ----------------------------------------------------------------------------------------------

    def _run(self, make: Callable[[], Expander], depth: int | None) -> Expansion:
        job, began = self._job, time.monotonic()
        search = self._search = Search(make, Limits(depth, job.deadline), job.options.processes)

        def tick() -> None:
            found = search.found.transitions
            seconds = time.monotonic() - began
            job.on_tick(Tick(self._pool, self._kind, search.depth, search.states, search.waiting, found, seconds))

        search.run(tick)
        found = search.found
        if found.accepted is not None and not self.misuse:
            program = search.program_to(found.accepted.at)
            self.misuse = f"{found.accepted.misuse} ({found.accepted.breach.detail}, after: {in_words(program)})"
        return found

    def _found(self, failure: Failure) -> None:
        program = self._search.program_to(failure.at)
        if failure.op is None:
            self.finding = wrong_reads(self._job, self._pool, program)
        else:
            self.finding = counterexample(self._job, self._pool, (*program, failure.op))


def _symmetries(job: Job, pool: Pool) -> Symmetries:
    """All that may be used: block numbers count on small pools where they are laid down to the letter."""
    numbers_count = job.profile.variants.free_list == "fifo" and pool.num_blocks <= STRICT_BLOCKS
    return Symmetries(
        blocks=BLOCKS not in job.options.without and not numbers_count,
        sequences=SEQUENCES not in job.options.without,
        tokens=TOKENS not in job.options.without,
    )
