"""What a generated server does: requests that arrive, alone and in bursts, steps, and cancellations.

What comes out is meant to hurt: pools that are too small for what waits, prompts of exactly some blocks and of one
token more, equal prompts in one step, second turns, cancellations before and during compute, and settings at random.
"""

from __future__ import annotations

from kvaudit.choosing import Choices
from kvaudit.programs import of_scheduler, with_tokens
from kvaudit.protocol import Cancel, Pool, Request, Setting, Step, Submit
from kvaudit.scheduling.goals import GOALS
from kvaudit.workload import (
    ALPHABETS,
    LAST_LEFT_OUT,
    NAMES,
    SYMBOLS,
    WITNESS_LENGTHS,
    Driver,
    Rule,
    Rulebook,
    Tokens,
    always,
)

_NUM_BLOCKS = (2, 3, 3, 4, 4, 5, 6, 6, 8, 12)
_BLOCK_SIZES = (1, 2, 1, 2, 1, 2, 3, 4, 5)
_CACHE = (True,) * 7 + (False,)
_NEW_TOKENS = (1, 1, 2, 2, 3, 4, 6, 9)
_LONGEST_TEXT = 8
_MOST_STEPS = 6


class Workload:
    """One example: a pool with its settings, the prompts made so far, and the live requests."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._pool = Pool(2, 1)
        self._alphabet = ALPHABETS[0]
        self.prompts: list[Tokens] = []
        self.live: dict[str, Tokens] = {}

    def start(self, choices: Choices) -> None:
        """A fresh pool; and a part of a witness, its symbols on other token ids, one operation left out."""
        limits = self._driver.limits
        self._alphabet = choices.one_of([row for row in ALPHABETS if max(row) <= limits.most_token])
        length = choices.one_of(WITNESS_LENGTHS)
        witness = choices.one_of(GOALS).witness
        drawn = Pool(choices.one_of(_NUM_BLOCKS), choices.one_of(_BLOCK_SIZES), choices.one_of(_CACHE))
        pool, program = limits.scaled(witness.pool, witness.program[:length]) if length else (limits.nearest(drawn), ())
        left_out = choices.number(LAST_LEFT_OUT)
        self._pool = Pool(pool.num_blocks, pool.block_size, pool.enable_prefix_cache, self._settings(choices))
        self._driver.begin(self._pool)
        renamed = tuple(with_tokens(operation, self._alphabet.__getitem__) for operation in program)
        for index, operation in enumerate(of_scheduler(renamed)):
            if index != left_out:
                self._play(operation)

    def _settings(self, choices: Choices) -> dict[str, Setting]:
        """Some settings, each at one of its values; the others are left at the scheduler's defaults."""
        settings: dict[str, Setting] = {}
        for name, values in self._driver.settings.items():
            if choices.number(1):
                settings[name] = choices.one_of(values)
        return settings

    # --- rules ---------------------------------------------------------------------------------------------

    def new_prompt(self, choices: Choices) -> None:
        self.prompts.append(self._text(choices) or self._alphabet[:1])

    def grow_prompt(self, choices: Choices) -> None:
        known, cut = choices.one_of(self.prompts), choices.number(4)
        self.prompts.append(known[: max(1, len(known) - cut)] + self._text(choices))

    def whole_blocks(self, choices: Choices) -> None:
        """A prompt of exactly some blocks, or of one token more."""
        known, more = choices.one_of(self.prompts), choices.number(1)
        length = (1 + choices.number(2)) * self._pool.block_size + more
        self.prompts.append((known + self._alphabet[:1] * length)[:length])

    def next_turn(self, choices: Choices) -> None:
        """What a request has by now, its output included, and more."""
        self.prompts.append(self.live[self._one_live(choices)] + self._text(choices))

    def submit(self, choices: Choices) -> None:
        self._submit(choices, choices.one_of(self.prompts))

    def burst(self, choices: Choices) -> None:
        """Several requests before one step, with one prompt or with prompts that begin alike."""
        prompt, varies = choices.one_of(self.prompts), choices.number(2)
        for _ in range(2 + choices.number(2)):
            own = self._alphabet[choices.one_of(SYMBOLS)]
            self._submit(choices, (*prompt, own) if varies == 2 else prompt)
        self.step(choices)

    def step(self, choices: Choices) -> None:
        self._play(Step(self._alphabet[choices.one_of(SYMBOLS)]))

    def steps(self, choices: Choices) -> None:
        token = self._alphabet[choices.one_of(SYMBOLS)]
        for _ in range(2 + choices.number(_MOST_STEPS)):
            if not self.live:
                break
            self._play(Step(token))

    def step_with_cancel(self, choices: Choices) -> None:
        cancelled = choices.some_of(tuple(self.live), 2) or [self._one_live(choices)]
        self._play(Step(self._alphabet[choices.one_of(SYMBOLS)], tuple(dict.fromkeys(cancelled))))

    def cancel(self, choices: Choices) -> None:
        self._play(Cancel(self._one_live(choices)))

    # --- what the rules share ------------------------------------------------------------------------------

    def _submit(self, choices: Choices, prompt: Tokens) -> None:
        """A request, cut to what fits in the pool."""
        slots = self._driver.limits.longest(self._pool)
        name, wanted = choices.one_of(NAMES), choices.one_of(_NEW_TOKENS)
        tokens = prompt[: slots - 1]
        if name not in self.live and tokens:
            self._play(Submit(name, tokens, min(wanted, slots - len(tokens))))

    def _one_live(self, choices: Choices) -> str:
        return choices.one_of(tuple(self.live))

    def _text(self, choices: Choices) -> Tokens:
        """Some symbols as token ids, at most two blocks of them."""
        text = choices.some_of(SYMBOLS, _LONGEST_TEXT)[: 2 * self._pool.block_size]
        return tuple([self._alphabet[symbol] for symbol in text])

    def _play(self, operation: Request) -> None:
        """Play an operation if it is legal by now, and take down what came of it."""
        if not self._driver.is_legal(operation):
            return
        self._driver.apply(operation)
        before, self.live = self.live, {seq: tuple(tokens) for seq, tokens in self._driver.live.items()}
        for seq, tokens in before.items():
            if seq not in self.live:  # the last token comes with the end
                last = (operation.token,) if isinstance(operation, Step) and seq not in operation.cancel else ()
                self.prompts.append(tokens + last)


def _has_prompts(workload: Workload) -> bool:
    return bool(workload.prompts)


def _has_live(workload: Workload) -> bool:
    return bool(workload.live)


_SUBMIT = Rule(Workload.submit, _has_prompts)
_STEP = Rule(Workload.step, always)
_STEPS = Rule(Workload.steps, _has_live)

RULEBOOK = Rulebook(
    Workload,
    (
        Rule(Workload.new_prompt, always),
        Rule(Workload.grow_prompt, _has_prompts),
        Rule(Workload.whole_blocks, _has_prompts),
        Rule(Workload.next_turn, _has_live),
        _SUBMIT,
        Rule(Workload.burst, _has_prompts),
        _STEP,
        _STEPS,
        Rule(Workload.step_with_cancel, _has_live),
        Rule(Workload.cancel, _has_live),
    ),
    always=(_SUBMIT, _STEP, _STEPS),
)
