"""The state machine that drives a target: a Hypothesis `RuleBasedStateMachine`.

What it generates is meant to hurt: tiny pools, blocks of 1 to 4 tokens, two or three symbols on adversarial token
ids, prompts grown from prefixes seen before, duplicates, ids used again, the cache on and off. Hypothesis enables
a random subset of the rules in each example (swarm testing). Half of the examples start with a part of a scripted
witness, so that every situation that a witness reaches is also met with variations.
"""

from __future__ import annotations

import hypothesis
from hypothesis import HealthCheck, Phase, Verbosity, reject, settings
from hypothesis import strategies as st
from hypothesis.errors import FlakyStrategyDefinition, Unsatisfiable
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from kvaudit.goals import GOALS, Goal
from kvaudit.protocol import Allocate, Append, Free, Mutation, Pool

STEPS_PER_EXAMPLE = 50
EXAMPLES_PER_BATCH = 100

ALPHABETS: tuple[tuple[int, ...], ...] = (
    (0, 1, 2, 3, 4, 5, 6, 7, 8),
    (1, 65537, 131073, 0, 65536, 255, 256, 511, 512),
    (255, 256, 0, 65535, 65536, 1, 257, 65791, 2),
    (2**31 - 1, 2**31, 2**32 - 1, 0, 2**16 - 1, 2**24, 2**30, 3, 1),
)
"""Symbol 0, 1, 2, ... as token ids: small ones, pairs equal modulo 2^8 and 2^16, and ids at the edges of types."""


class Book:
    """What a caller knows: which sequences are live or ended, and which prompts it has used."""

    def __init__(self) -> None:
        self.live: list[str] = []
        self.ended: list[str] = []
        self.prompts: list[tuple[int, ...]] = []
        self._tokens: dict[str, tuple[int, ...]] = {}
        self._count = 0

    def fresh_id(self) -> str:
        """An id that was never used."""
        self._count += 1
        return f"s{self._count}"

    def tokens(self, seq: str) -> tuple[int, ...]:
        """All tokens of a live sequence."""
        return self._tokens[seq]

    def note(self, operation: Mutation, refused: bool) -> None:
        """Take down what came of an operation."""
        if isinstance(operation, Free):
            self.live.remove(operation.seq)
            self.ended.append(operation.seq)
            self.prompts.append(self._tokens.pop(operation.seq))
        elif refused:
            return
        elif isinstance(operation, Allocate):
            self.live.append(operation.seq)
            self._tokens[operation.seq] = operation.tokens
            self.prompts.append(operation.tokens)
        else:
            self._tokens[operation.seq] += (operation.token,)


class EndExample(Exception):
    """Raised by a driver to end the example quietly."""


class Driver:
    """What the machine drives: one object for a whole batch, told of each example's begin, steps and end."""

    def begin(self, pool: Pool) -> None:
        """A fresh pool."""
        raise NotImplementedError

    def apply(self, operation: Mutation) -> bool:
        """Play a legal operation; True if it was refused. May raise EndExample, or anything else to end the batch."""
        raise NotImplementedError

    def end(self) -> None:
        """The example is over."""
        raise NotImplementedError


def run_batch(driver: Driver, seed: int) -> None:
    """Drive one batch of examples; what `driver` raises ends it."""
    machine = hypothesis.seed(seed)(_machine(driver))
    try:
        run_state_machine_as_test(machine, settings=_SETTINGS)
    except Unsatisfiable:
        pass  # every example of the batch was cut short, each by a breach that is known already
    except FlakyStrategyDefinition as flaky:
        # Hypothesis says this over whatever ended an example where an equal one had gone on: that is what counts.
        raise flaky.__context__ or flaky from None


_SETTINGS = settings(
    max_examples=EXAMPLES_PER_BATCH,
    stateful_step_count=STEPS_PER_EXAMPLE,
    phases=(Phase.generate,),  # `kvaudit.shrink` makes findings small, wherever they come from
    deadline=None,
    database=None,
    verbosity=Verbosity.quiet,
    suppress_health_check=list(HealthCheck),
)

_index = st.integers(0, 2**16)
_pools = st.builds(
    Pool,
    num_blocks=st.sampled_from((1, 2, 3, 3, 4, 4, 5, 6, 6, 8)),
    block_size=st.sampled_from((1, 2, 1, 2, 3, 4)),
    enable_prefix_cache=st.sampled_from((True,) * 7 + (False,)),
)
_text = st.tuples(st.integers(0, 2**8 - 1), st.integers(0, 2**16 - 1))
"""A length (modulo two blocks) and bits, of which each pair picks one of three symbols, the first twice as often."""


def _machine(driver: Driver) -> type[RuleBasedStateMachine]:
    class AuditMachine(RuleBasedStateMachine):
        def __init__(self) -> None:
            super().__init__()
            self.book = Book()
            self.alphabet = ALPHABETS[0]
            self.is_open = False

        @initialize(
            pool=_pools,
            alphabet=st.sampled_from(ALPHABETS),
            goal=st.sampled_from(GOALS),
            length=st.sampled_from((0, 0, 0, 0, 3, 5, 99, 99)),
            left_out=st.integers(0, 12),
        )
        def start(self, pool: Pool, alphabet: tuple[int, ...], goal: Goal, length: int, left_out: int) -> None:
            self.alphabet = alphabet
            self.pool = goal.witness.pool if length else pool
            driver.begin(self.pool)
            self.is_open = True
            for index, operation in enumerate(goal.witness.program[:length]):
                if index != left_out:
                    self.play(_with_symbols(operation, alphabet))

        def play(self, operation: Mutation) -> None:
            legal = bool(operation.tokens) if isinstance(operation, Allocate) else True
            if (operation.seq in self.book.live) != isinstance(operation, Allocate) and legal:
                try:
                    refused = driver.apply(operation)
                except EndExample:
                    reject()
                self.book.note(operation, refused)

        def symbols(self, text: tuple[int, int]) -> tuple[int, ...]:
            length, bits = text
            count = length % (2 * self.pool.block_size + 1)
            return tuple(self.alphabet[max((bits >> 2 * i & 3) - 1, 0)] for i in range(count))

        def prompt(self, tokens: tuple[int, ...], reuse: int) -> None:
            most = self.pool.num_blocks * self.pool.block_size + 1
            ended = [seq for seq in self.book.ended if seq not in self.book.live]
            seq = ended[reuse % len(ended)] if ended and reuse % 3 == 0 else self.book.fresh_id()
            self.play(Allocate(seq, (tokens or (self.alphabet[0],))[:most]))

        @rule(text=_text, reuse=_index)
        def allocate(self, text: tuple[int, int], reuse: int) -> None:
            self.prompt(self.symbols(text), reuse)

        @rule(text=_text, repeat=st.integers(1, 4), reuse=_index)
        def allocate_long(self, text: tuple[int, int], repeat: int, reuse: int) -> None:
            self.prompt(self.symbols(text) * repeat, reuse)

        @precondition(lambda self: self.book.prompts)
        @rule(which=_index, cut=st.integers(0, 8), text=_text, reuse=_index)
        def allocate_grown(self, which: int, cut: int, text: tuple[int, int], reuse: int) -> None:
            known = self.book.prompts[-1 - which % min(len(self.book.prompts), 8)]
            self.prompt(known[: len(known) - cut] + self.symbols(text), reuse)

        @precondition(lambda self: self.book.prompts)
        @rule(which=_index, reuse=_index)
        def allocate_again(self, which: int, reuse: int) -> None:
            self.prompt(self.book.prompts[-1 - which % min(len(self.book.prompts), 8)], reuse)

        @precondition(lambda self: self.book.live)
        @rule(which=_index, symbol=st.integers(0, 2))
        def append(self, which: int, symbol: int) -> None:
            self.play(Append(self.book.live[which % len(self.book.live)], self.alphabet[symbol]))

        @precondition(lambda self: self.book.live)
        @rule(which=_index, text=_text)
        def append_some(self, which: int, text: tuple[int, int]) -> None:
            seq = self.book.live[which % len(self.book.live)]
            for token in self.symbols(text):
                self.play(Append(seq, token))

        @precondition(lambda self: self.book.live)
        @rule(which=_index)
        def free(self, which: int) -> None:
            self.play(Free(self.book.live[which % len(self.book.live)]))

        @precondition(lambda self: self.book.live)
        @rule()
        def free_oldest(self) -> None:
            self.play(Free(self.book.live[0]))

        @precondition(lambda self: self.book.live)
        @rule(which=_index, text=_text, reuse=_index)
        def next_turn(self, which: int, text: tuple[int, int], reuse: int) -> None:
            seq = self.book.live[which % len(self.book.live)]
            tokens = self.book.tokens(seq)
            self.play(Free(seq))
            self.prompt(tokens + self.symbols(text), reuse)

        def teardown(self) -> None:
            if self.is_open:
                try:
                    driver.end()
                except EndExample:
                    reject()

    return AuditMachine


def _with_symbols(operation: Mutation, alphabet: tuple[int, ...]) -> Mutation:
    if isinstance(operation, Allocate):
        return Allocate(operation.seq, tuple(alphabet[token] for token in operation.tokens))
    if isinstance(operation, Append):
        return Append(operation.seq, alphabet[operation.token])
    return operation
