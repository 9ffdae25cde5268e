"""What a generated caller does: the rules by which programs are made, written once for both drivers.

`kvaudit.machine` (Hypothesis) and `kvaudit.swarm` (a random generator, for volume) choose among the rules and give
each the `Choices` that it asks for. What comes out is meant to hurt: tiny pools, blocks of 1 to 5 tokens, three
symbols on adversarial token ids, prompts grown from prefixes seen before, duplicates, ids used again, the cache on
and off. Half of the examples start with a part of a scripted witness, so that every situation that a witness reaches
is also met with variations.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

import msgspec

from kvaudit.choosing import Choices
from kvaudit.goals import GOALS
from kvaudit.limits import ANY_POOL, Limits
from kvaudit.programs import of_manager, with_tokens
from kvaudit.protocol import NOTHING, Allocate, Append, Extras, Free, Mutation, Pool, Setting
from kvaudit.workload_extras import some_extras

Engine = Literal["both", "hypothesis", "swarm"]
"""Who chooses among the rules."""

Tokens = tuple[int, ...]

ALPHABETS: tuple[Tokens, ...] = (
    (0, 1, 2, 3, 4, 5, 6, 7, 8),
    (1, 65537, 131073, 0, 65536, 255, 256, 511, 512),
    (255, 256, 0, 65535, 65536, 1, 257, 65791, 2),
    (2**31 - 1, 2**31, 2**32 - 1, 0, 2**16 - 1, 2**24, 2**30, 3, 1),
    (1, 11, 111, 0, 10, 101, 100, 110, 1111),
    (0, 1, 31, 2, 62, 961, 3, 32, 93),
    (0, 50257, 32000, 128256, 151936, 1, 50258, 32001, 100514),
)
"""Symbol 0, 1, 2, ... as token ids, each row meant to confuse some careless key.

Small ids; pairs equal modulo 2^8 and 2^16; ids at the edges of types; ids that run together when they are written one
after the other; sums and multiples of 31; ids equal modulo the sizes of well-known vocabularies.
"""

_NUM_BLOCKS = (1, 2, 3, 3, 4, 4, 5, 6, 6, 8, 12)
_BLOCK_SIZES = (1, 2, 1, 2, 1, 2, 3, 4, 5)
_CACHE = (True,) * 7 + (False,)
NAMES = ("a", "b", "c", "d", "e", "f", "g", "h", "s1", "s10", "s100", "S1")
SYMBOLS = (0, 0, 1, 2)
_LONGEST_TEXT = 8
WITNESS_LENGTHS = (0, 0, 0, 0, 3, 5, 99, 99)
LAST_LEFT_OUT = 12


class Rule(NamedTuple):
    """Something that may be done next in an example. can: whether there is what it needs."""

    play: Callable[[Any, Any], None]
    can: Callable[[Any], bool]

    @property
    def name(self) -> str:
        return self.play.__name__


class Rulebook(NamedTuple):
    """How examples are made.

    example: a new one, which has `start` and `new_prompt`. always: the rules without which a pool is idle or full for
    ever.
    """

    example: Callable[[Driver], Any]
    rules: tuple[Rule, ...]
    always: tuple[Rule, ...]


def always(example: object) -> bool:
    """Of a rule that needs nothing."""
    return True


class EndExample(Exception):
    """Raised by a driver to end the example quietly."""


class Driver:
    """What the rules drive: one object for many examples, told of each example's begin, steps and end.

    limits: the pools that it can be given. rulebook: how examples are made. settings: of a scheduler, the values that
    each can have. extras: what a sequence may depend on beside its tokens.
    """

    limits: Limits = ANY_POOL
    rulebook: Rulebook
    settings: Mapping[str, tuple[Setting, ...]] = MappingProxyType({})
    extras: frozenset[str] = frozenset()

    @property
    def live(self) -> Mapping[Any, Sequence[int]]:
        """The tokens of each live sequence."""
        raise NotImplementedError

    def is_legal(self, operation: Any) -> bool:
        """Whether the operation may be played now."""
        raise NotImplementedError

    def begin(self, pool: Pool) -> None:
        """A fresh pool."""
        raise NotImplementedError

    def apply(self, operation: Any) -> bool:
        """Play a legal operation; True if it was refused. May raise EndExample, or anything else to end it all."""
        raise NotImplementedError

    def end(self) -> None:
        """The example is over."""
        raise NotImplementedError


class Workload:
    """One example: a pool, the prompts made so far, and the live sequences."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._pool = Pool(1, 1)
        self._alphabet = ALPHABETS[0]
        self.prompts: list[Tokens] = []
        self.live: dict[str, Tokens] = {}
        self._extras: tuple[Extras, ...] = (NOTHING,)
        self._witnesses = [goal.witness for goal in GOALS if driver.extras.issuperset(goal.needs)]

    def start(self, choices: Choices) -> None:
        """A fresh pool; and a part of a witness, its symbols on other token ids, one operation left out."""
        if self._driver.extras:
            self._extras = some_extras(choices, self._driver.extras)
        most = self._driver.limits.most_token
        self._alphabet = choices.one_of([row for row in ALPHABETS if max(row) <= most])
        length = choices.one_of(WITNESS_LENGTHS)
        if not length:
            drawn = Pool(choices.one_of(_NUM_BLOCKS), choices.one_of(_BLOCK_SIZES), choices.one_of(_CACHE))
            self._pool = self._driver.limits.nearest(drawn)
            self._driver.begin(self._pool)
            return
        witness = choices.one_of(self._witnesses)
        pool, program = self._driver.limits.scaled(witness.pool, witness.program[:length])
        renamed = tuple(with_tokens(operation, self._alphabet.__getitem__) for operation in program)
        left_out = choices.number(LAST_LEFT_OUT)
        self._pool = pool
        self._driver.begin(pool)
        for index, operation in enumerate(of_manager(renamed)):
            is_legal = (operation.seq in self.live) != isinstance(operation, Allocate)
            if index != left_out and is_legal:
                self._play(operation)

    # --- rules ---------------------------------------------------------------------------------------------
    # Prompts are made and grown on their own; an allocate takes any of them, so the same one comes often.

    def new_prompt(self, choices: Choices) -> None:
        self.prompts.append(self._text(choices) or self._alphabet[:1])

    def grow_prompt(self, choices: Choices) -> None:
        known, cut = choices.one_of(self.prompts), choices.number(4)
        self.prompts.append(known[: max(1, len(known) - cut)] + self._text(choices))

    def next_turn(self, choices: Choices) -> None:
        self.prompts.append(self.live[self._one_live(choices)] + self._text(choices))

    def allocate(self, choices: Choices) -> None:
        name, prompt = choices.one_of(NAMES), choices.one_of(self.prompts)
        if name not in self.live:
            tokens = prompt[: self._pool.num_blocks * self._pool.block_size + 1]
            self._play(Allocate(name, tokens, self._extra(choices, len(tokens))))

    def append(self, choices: Choices) -> None:
        if self._driver.limits.appends:
            self._play(Append(self._one_live(choices), self._alphabet[choices.one_of(SYMBOLS)]))

    def append_all(self, choices: Choices) -> None:
        seq = self._one_live(choices)
        for token in self._text(choices) if self._driver.limits.appends else ():
            if self._play(Append(seq, token)):
                break  # so it would be again

    def free(self, choices: Choices) -> None:
        self._play(Free(self._one_live(choices)))

    # --- what the rules share ------------------------------------------------------------------------------

    def _extra(self, choices: Choices, num_tokens: int) -> Extras:
        """One of the few of this example, so that the same one comes often; without the images that do not fit."""
        if len(self._extras) == 1:
            return NOTHING
        extra = choices.one_of(self._extras)
        if not extra.images:
            return extra
        return msgspec.structs.replace(extra, images=tuple(i for i in extra.images if i.end <= num_tokens))

    def _one_live(self, choices: Choices) -> str:
        return choices.one_of(tuple(self.live))

    def _text(self, choices: Choices) -> Tokens:
        """Some symbols as token ids, at most two blocks of them."""
        text = choices.some_of(SYMBOLS, _LONGEST_TEXT)[: 2 * self._pool.block_size]
        return tuple([self._alphabet[symbol] for symbol in text])

    def _play(self, operation: Mutation) -> bool:
        """Play a legal operation, and take down what came of it; True if it was refused."""
        refused = self._driver.apply(operation)
        if isinstance(operation, Free):
            del self.live[operation.seq]
        elif refused:
            return True
        elif isinstance(operation, Allocate):
            self.live[operation.seq] = operation.tokens
        else:
            self.live[operation.seq] += (operation.token,)
        return False


def _has_prompts(workload: Workload) -> bool:
    return bool(workload.prompts)


def _has_live(workload: Workload) -> bool:
    return bool(workload.live)


_ALLOCATE = Rule(Workload.allocate, _has_prompts)
_FREE = Rule(Workload.free, _has_live)

RULES = (
    Rule(Workload.new_prompt, always),
    Rule(Workload.grow_prompt, _has_prompts),
    Rule(Workload.next_turn, _has_live),
    _ALLOCATE,
    Rule(Workload.append, _has_live),
    Rule(Workload.append_all, _has_live),
    _FREE,
)
RULEBOOK = Rulebook(Workload, RULES, always=(_ALLOCATE, _FREE))
