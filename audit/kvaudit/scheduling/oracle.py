"""The oracle of the scheduler level: shadow memory first.

It knows nothing of how a scheduler decides. It writes and reads what the scheduler says that the model wrote and read,
in that order, and looks whether each request reads its own prefix; then at what is shown of the pool.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from kvaudit import words
from kvaudit.breach import Breach
from kvaudit.protocol import Cancel, Observe, Observed, Operation, Outcome, Pool, Raised, Refused, Request, Step, Submit
from kvaudit.scheduling import requests
from kvaudit.scheduling.passes import Begun, Passes
from kvaudit.scheduling.pool_shown import pool_breaches
from kvaudit.scheduling.work import Nonsense, Work, read_work
from kvspec.identity import Identity

IDLE_STEPS = 4
"""So many steps in a row that compute nothing, while requests wait, are a deadlock. Some, ahead, have one or two."""

_OBSERVE = Observe()


class Judgement(msgspec.Struct, frozen=True):
    """What one operation came to.

    work: of a step. begun: who was computed for the first time, or again after a preemption. ended: who was cancelled
    or finished, with all its tokens. tables: through which the live requests read. cells: what is in the memory. seen:
    what was read of the target.
    """

    answer: Outcome
    refused: bool = False
    work: Work = Work()
    begun: tuple[Begun, ...] = ()
    sampled: tuple[str, ...] = ()
    ended: dict[str, tuple[int, ...]] = {}
    tables: dict[str, Sequence[int]] = {}
    cells: dict[int, Identity] = {}
    seen: Observed | None = None
    breaches: tuple[Breach, ...] = ()

    @property
    def excused(self) -> tuple[Breach, ...]:
        """Nothing is: a scheduler's decisions are its own, and what they break is broken."""
        return ()


class Oracle:
    """Judges a scheduler on one fresh pool, one operation after the other. After a breach it is of no further use."""

    def __init__(self, pool: Pool) -> None:
        self.live: dict[str, requests.Request] = {}
        self._pool = pool
        self._passes = Passes(pool, self.live)
        self._breaches: list[Breach] = []
        self._idle = 0
        self._patience = 0

    def ask(self, operation: Request) -> list[Operation]:
        """The operation, then everything that can be read."""
        return [operation, _OBSERVE]

    def judge(self, operation: Request, outcomes: Sequence[Outcome]) -> Judgement:
        """Follow what the target says, and look for what is broken."""
        answer = outcomes[0]
        self._breaches = []
        judgement = Judgement(answer, refused=isinstance(answer, Refused))
        if judgement.refused or isinstance(answer, Raised):
            self._failed(operation, answer)
        elif isinstance(operation, Submit):
            self._submitted(operation)
        elif isinstance(operation, Cancel):
            judgement = self._ended(judgement, [operation.seq])
            self._expect()
        else:
            judgement = self._stepped(operation, judgement)
        last = outcomes[-1]
        if isinstance(last, Observed) and not self._breaches:
            self._look(last)
        elif isinstance(last, Raised) and not self._breaches:
            self._breaches.append(Breach("O2", words.unexpected(last)))
        return msgspec.structs.replace(
            judgement,
            tables={seq: request.table for seq, request in self.live.items() if request.table is not None},
            cells=self._passes.memory.cells(),
            seen=last if isinstance(last, Observed) else None,
            breaches=tuple(self._breaches),
        )

    # --- operations ----------------------------------------------------------------------------------------

    def _failed(self, operation: Request, answer: Outcome) -> None:
        if isinstance(answer, Refused):
            due = "it fits in the pool" if isinstance(operation, Submit) else "it is never to be refused"
            self._breaches.append(Breach("O2", f"{words.call(operation)} is refused, and {due}"))
        else:
            self._breaches.append(Breach("O2", words.unexpected(answer)))

    def _submitted(self, op: Submit) -> None:
        self.live[op.seq] = requests.Request(op.seq, list(op.tokens), len(op.tokens), op.max_new_tokens)
        self._expect()

    def _expect(self) -> None:
        """From now on somebody is to get a token in so many steps: all is computed again meanwhile, token by token."""
        self._patience = IDLE_STEPS + 2 * sum(len(request.tokens) for request in self.live.values())
        self._idle = 0

    def _stepped(self, op: Step, judgement: Judgement) -> Judgement:
        try:
            work = read_work(words.value(judgement.answer))
        except Nonsense as nonsense:
            self._breaches.append(Breach("O2", f"step() is to answer with its work: {nonsense}"))
            return judgement
        before = {seq: request.num_sampled for seq, request in self.live.items()}
        waiting = bool(self.live)
        self._preempt(work)
        passes = self._passes
        passes.begun, passes.breaches = [], self._breaches
        for items in work.passes:
            if not self._breaches:
                passes.follow(items, op.token)
        sampled = tuple(seq for seq, request in self.live.items() if request.num_sampled > before[seq])
        self._count(work, waiting=waiting, sampled=bool(sampled))
        judgement = msgspec.structs.replace(judgement, work=work, begun=tuple(passes.begun), sampled=sampled)
        for seq in work.finished if not self._breaches else ():
            self._finish(seq, op)
        judgement = self._ended(judgement, [*op.cancel, *work.finished])
        if judgement.ended:
            self._expect()
        return judgement

    def _preempt(self, work: Work) -> None:
        for seq in work.preempted:
            if seq in self.live:
                self.live[seq].preempt()
            else:
                self._breaches.append(Breach("O2", f"{seq!r} is said to be preempted, and no such request is live"))

    def _finish(self, seq: str, op: Step) -> None:
        request = self.live.get(seq)
        if request is not None and not request.is_done and seq not in op.cancel:
            what = f"{seq!r} is said to be finished with {request.num_sampled} of {request.max_new_tokens} new tokens"
            self._breaches.append(Breach("O2", what))

    def _ended(self, judgement: Judgement, seqs: Sequence[str]) -> Judgement:
        """These requests are live no more; what they wrote stays in the memory."""
        ended = {seq: tuple(self.live.pop(seq).tokens) for seq in dict.fromkeys(seqs) if seq in self.live}
        return msgspec.structs.replace(judgement, ended=ended)

    def _count(self, work: Work, *, waiting: bool, sampled: bool) -> None:
        """O2: whoever waits is served. A request has only so many tokens to get, so this ends."""
        if sampled:
            self._expect()
        self._patience -= 1
        self._idle = 0 if any(work.passes) else self._idle + 1
        left = ", ".join(map(repr, self.live))
        if waiting and self._idle >= IDLE_STEPS:
            what = f"{words.count(IDLE_STEPS, 'step')} in a row compute nothing, and {left} wait"
            self._breaches.append(Breach("O2", what))
        elif waiting and self._patience < 0:
            self._breaches.append(Breach("O2", f"steps go by, nothing new arrives, and none of {left} gets a token"))

    # --- what can be seen afterwards ------------------------------------------------------------------------

    def _look(self, seen: Observed) -> None:
        self._breaches += pool_breaches(self._pool, seen, self.live)
        for seq, table in ((seen.state and seen.state.tables) or {}).items():
            request = self.live.get(seq)
            if request is not None and request.end is not None and len(table) * self._pool.block_size >= request.end:
                request.table = table  # of a duplicate, say, the older copy is kept
