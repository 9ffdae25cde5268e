"""A first conversation with a target: is the harness broken, or is the manager behind it wrong?

A fixed program of a dozen steps over the protocol. What cannot be read, or is of the wrong kind, is the harness's
fault. What can be read and is not what the specification says is the manager's. A manager that answered a fresh
pool well, and does not the second time, was not made anew: the harness's fault again.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence

import msgspec

from kvaudit.answers import unknown_fields
from kvaudit.errors import BrokenProtocol, TargetError, UsageError
from kvaudit.limits import ANY_POOL
from kvaudit.oracle import Oracle
from kvaudit.printable import without_controls
from kvaudit.process import ProcessTarget
from kvaudit.profiles import Profile
from kvaudit.protocol import (
    SCHEDULER,
    Operation,
    Outcome,
    Pool,
    Question,
    Raised,
    Returned,
    Unsupported,
)
from kvaudit.shapes import misshapen
from kvaudit.smoke_steps import MISUSE, POOL, POOL_WITHOUT_CACHE, STEPS, TWICE, WITHOUT_CACHE, Step
from kvaudit.targets import TargetSpec, profile_named

FINE, WRONG, BROKEN = "fine", "wrong", "broken"
"""The verdicts; their exit codes are 0, 1 and 2."""


class Exchange(msgspec.Struct, frozen=True):
    """A question and its answer, as lines of the protocol.

    step: what it is for. wrong: what is wrong with the answer. notes: what may not be meant so.
    """

    step: str
    question: str
    answer: str
    wrong: str = ""
    notes: tuple[str, ...] = ()


class Smoke(msgspec.Struct, frozen=True, tag_field="format", tag="kvaudit-smoke/1"):
    """What the conversation came to.

    verdict: `fine`, `wrong` (the implementation) or `broken` (the harness). stderr: the last that the program wrote
    there, if it is not fine. paste: a line for a shell that asks the same again; empty for what is no program.
    """

    target: str
    verdict: str
    reason: str
    exchanges: tuple[Exchange, ...]
    stderr: tuple[str, ...]
    paste: str

    @property
    def exit_code(self) -> int:
        """0 the harness is fine, 1 the implementation is wrong, 2 the harness is broken."""
        return {FINE: 0, WRONG: 1, BROKEN: 2}[self.verdict]


class _Ended(Exception):
    """The conversation is over: the verdict and its reason."""

    def __init__(self, verdict: str, reason: str) -> None:
        self.verdict, self.reason = verdict, reason


def smoke(
    spec: TargetSpec, profile: str | None = None, on_exchange: Callable[[Exchange], None] = lambda _: None
) -> Smoke:
    """Hold the conversation with a target; every exchange is handed on as it is over.

    Raises UsageError where there is no such target, and TargetError if one of ours (a class, an engine) does not
    start: that is no harness's fault.
    """
    return _Conversation(spec, profile, on_exchange).hold()


class _Conversation:
    def __init__(self, spec: TargetSpec, profile: str | None, on_exchange: Callable[[Exchange], None]) -> None:
        self._spec = spec
        self._asked_for = profile
        self._profile: Profile = profile_named(profile or "seed")
        self._on_exchange = on_exchange
        self._exchanges: list[Exchange] = []
        self._step = "start: who are you, and what do you offer?"
        self._heard: tuple[Question, bytes, bytes] | None = None
        self._target: ProcessTarget | None = None
        self._first: list[Outcome] = []  # to the steps on the first pool

    def hold(self) -> Smoke:
        verdict, reason, stderr = FINE, "", list[str]()
        try:
            self._talk()
        except _Ended as ended:
            verdict, reason = ended.verdict, ended.reason
            if self._target is not None:
                stderr = self._target.last_words()
        except TargetError as error:
            if not self._exchanges and (self._heard is None or not self._spec.is_program):
                raise
            verdict, reason = BROKEN, str(error)
            if isinstance(error, BrokenProtocol):
                reason, stderr = error.what, list(error.stderr)
            self._tell(reason)
        finally:
            if self._target is not None:
                self._target.close()
        return Smoke(self._spec.text, verdict, reason, tuple(self._exchanges), tuple(stderr), self._paste())

    def _talk(self) -> None:
        self._target = target = self._spec.start_process(self._hear)
        if target.level == SCHEDULER:
            raise UsageError(
                f"{self._spec.text} is a scheduler, and the steps of smoke are for block managers; kvaudit run audits "
                "both"
            )
        if self._asked_for is None:
            self._take_profile(target.profile)
        if self._profile.chooses or self._profile.limits != ANY_POOL:
            raise UsageError(
                f"the steps of smoke are for managers that cache as the seed does, on any pool; the profile is "
                f"{self._profile.name}. kvaudit run {self._spec.text} audits it"
            )
        self._tell()
        self._open(POOL, f"open: {_words(POOL)}")
        self._first = self._play(POOL, STEPS)
        self._open(POOL, "open: a second pool; the first is forgotten", again=True)
        self._play(POOL, TWICE, again=True)
        self._repeat()
        self._open(POOL_WITHOUT_CACHE, f"open: {_words(POOL_WITHOUT_CACHE)}")
        self._play(POOL_WITHOUT_CACHE, WITHOUT_CACHE)
        if not self._spec.adapted:
            self._misuse()
        self._step = "stop: the program ends"
        wrong = target.stop()
        self._tell(wrong)
        if wrong:
            raise _Ended(BROKEN, wrong)

    def _take_profile(self, name: str) -> None:
        """The rules to which the target wants to be held."""
        try:
            self._profile = profile_named(name)
        except UsageError as error:
            self._end(f"profile: {error}", BROKEN)

    # --- the steps -----------------------------------------------------------------------------------------

    def _open(self, pool: Pool, step: str, *, again: bool = False) -> None:
        assert self._target is not None
        self._step = step
        failed = self._target.open(pool)
        if failed is None:
            return self._tell()
        said = f"{failed.error}: {failed.message}" if failed.message else failed.error
        self._end(f"the pool could not be made: {said}", BROKEN if again or self._spec.is_program else WRONG)

    def _play(self, pool: Pool, steps: Sequence[Step], *, again: bool = False) -> list[Outcome]:
        """The answers to the steps, each with all its reads, held to the specification."""
        assert self._target is not None
        oracle = Oracle(pool, self._profile, self._target.capabilities)
        answers = []
        for step, operation in steps:
            program = oracle.ask(operation)
            outcomes = self._run(step, program, pool)
            judgement = oracle.judge(operation, outcomes)
            if judgement.breaches:
                what = "; ".join(f"{breach.obligation}: {breach.detail}" for breach in judgement.breaches[:3])
                if again:
                    self._end(f"{what}. The first pool was answered well: 'open' has to make a new manager", BROKEN)
                self._end(what, WRONG)
            self._tell()
            answers.append(outcomes[0])
        return answers

    def _repeat(self) -> None:
        """The first pool's program in one message: a list is executed to its end, and gives the same answers."""
        self._open(POOL, "open: a third pool", again=True)
        step = "the steps of the first pool in one message: the same answers, also after a refusal"
        again = self._run(step, [operation for _, operation in STEPS], POOL)
        for i, (one, other) in enumerate(zip(self._first, again, strict=True)):
            if one != other:
                what = f"outcomes[{i}]: {_json(other)}, but in messages of its own and with reads it was {_json(one)}"
                self._end(what, BROKEN if self._spec.is_program else WRONG)
        self._tell()

    def _misuse(self) -> None:
        step = "misuse: free of a sequence that is not live"
        [outcome] = self._run(step, [MISUSE], POOL)
        if isinstance(outcome, Raised) and outcome.named:
            self._tell()
        elif isinstance(outcome, Unsupported):
            self._tell(note="the harness does not make this call: whether misuse is refused (O10) cannot be seen")
        elif isinstance(outcome, Returned):
            self._tell(note="it gets through: a caller's mistake goes unnoticed (O10)")
        else:
            self._tell(note=f"{_json(outcome)}: a caller is not told what was wrong (O10)")

    def _run(self, step: str, program: list[Operation], pool: Pool) -> list[Outcome]:
        assert self._target is not None
        self._step = step
        outcomes = self._target.run(program)
        wrong = misshapen(program, outcomes, pool.num_blocks)
        if wrong:
            self._end(wrong, BROKEN if self._spec.is_program else WRONG)
        return outcomes

    # --- what is told --------------------------------------------------------------------------------------

    def _hear(self, question: Question, asked: bytes, answered: bytes) -> None:
        self._heard = question, asked, answered

    def _tell(self, wrong: str = "", note: str = "") -> None:
        """Hand on the exchange that was heard last."""
        if self._heard is None:
            return
        _, asked, answered = self._heard
        notes = [note] if note else []
        if answered and not wrong:
            notes += [f"the field {field!r} is not of the protocol, and not read" for field in unknown_fields(answered)]
        exchange = Exchange(self._step, _text(asked), _text(answered), wrong, tuple(notes))
        self._heard = None
        self._exchanges.append(exchange)
        self._on_exchange(exchange)

    def _end(self, wrong: str, verdict: str) -> None:
        self._tell(wrong)
        raise _Ended(verdict, wrong)

    def _paste(self) -> str:
        """A line for a shell that says the same to the program again."""
        if not self._spec.is_program:
            return ""
        questions = " ".join(shlex.quote(exchange.question) for exchange in self._exchanges)
        return f"printf '%s\\n' {questions} | {self._spec.text.removeprefix('cmd:')}"


def _text(line: bytes) -> str:
    return without_controls(line.decode(errors="backslashreplace").rstrip("\r\n"))


def _json(outcome: Outcome) -> str:
    return msgspec.json.encode(outcome).decode()


def _words(pool: Pool) -> str:
    cache = "on" if pool.enable_prefix_cache else "off"
    return f"a pool of {pool.num_blocks} blocks of {pool.block_size} tokens, prefix cache {cache}"
