"""What allocate is given, and what the proof says of it: any prompt and any extra, and the longest run of hits."""

from __future__ import annotations

from typing import Any

import z3

from kvblocks import errors
from kvproofs import theory
from kvproofs.containers import Array
from kvproofs.errors import Unsupported
from kvproofs.executor import executing
from kvproofs.formulas import between, one
from kvproofs.state import State
from kvproofs.terms import BOOL, EXTRA, INT, Argument, ExtraTerm, div, number, require

PROMPT = z3.Array("prompt", INT, INT)
LENGTH = z3.Int("prompt_len")
RUN = z3.Int("run_of_hits")
idle = z3.Function("idle_hits_below", INT, INT)

EXTRA_GIVEN = z3.Const("extra_given", EXTRA)
SALT, LORA, IMAGES = object(), object(), object()
"""What allocate is given for its keyword arguments: `extra_checked` makes of it what it is to depend on."""

_IS_EXTRA = z3.Bool("is_extra")
_IS_INT, _IS_BOOL, _IS_PLAIN = (z3.Array(f"prompt_is_{kind}", INT, BOOL) for kind in ("int", "bool", "plain"))


class IterationError(Exception):
    """What iterating the caller's tokens may raise."""


def argument(i: Any) -> Argument:
    """What the caller gave at place i."""
    return Argument(PROMPT[i], _IS_INT[i], _IS_BOOL[i], _IS_PLAIN[i])


def tokens_below(count: Any) -> Any:
    """What the caller gave below `count` are token ids."""
    j = z3.Int("j")
    return between(j, 0, count, argument(j).is_token(), PROMPT[j], _IS_INT[j], _IS_BOOL[j])


def is_prompt() -> Any:
    """The caller gave a token at least, and token ids only."""
    return z3.And(LENGTH >= 1, tokens_below(LENGTH))


def is_extra() -> Any:
    """What the caller gave beside it can belong to that prompt."""
    return _IS_EXTRA


def checked(prompt: Any) -> Array:
    """`check_tokens` of the one prompt there is, as `prompt` proves it: it raises, or copies the prompt."""
    if executing().fork(executing().fresh(BOOL, "iterating_raises")):
        raise IterationError
    if not executing().fork(is_prompt()):
        raise errors.InvalidArgument("no prompt")
    return Array(PROMPT, LENGTH)


def extra_checked(salt: Any, lora: Any, images: Any, num_tokens: Any) -> ExtraTerm:
    """`check_extra` of what was given, each in its place: it raises, or says anything, the same for the same."""
    if (salt, lora, images) != (SALT, LORA, IMAGES):
        raise Unsupported("what was given is not what is checked")
    require(number(num_tokens) == LENGTH, "images are held to the length of the prompt")
    if executing().fork(executing().fresh(BOOL, "images_raise")):
        raise IterationError
    if not executing().fork(is_extra()):
        raise errors.InvalidArgument("no extra")
    return ExtraTerm(EXTRA_GIVEN)


def key(i: Any) -> Any:
    """The key of block i of the prompt."""
    return theory.prefix(PROMPT, EXTRA_GIVEN, i + 1)


def definitions(s: State) -> list[Any]:
    """RUN is the longest run of hits (O4); `idle(k)` counts those of the first k that no table holds."""
    j, k = z3.Ints("j k")
    limit = div(LENGTH - 1)
    return [
        LENGTH >= 0,
        theory.prefix(PROMPT, EXTRA_GIVEN, 0) == theory.NO_KEY,
        z3.Implies(
            LENGTH >= 1,
            z3.And(
                0 <= RUN,
                RUN <= limit,
                z3.Implies(z3.Not(s.cache_on), RUN == 0),
                z3.Or(RUN == limit, z3.Not(s.cache_on), z3.Not(s.map_has[key(RUN)])),
            ),
        ),
        between(j, 0, RUN, z3.And(s.cache_on, s.map_has[key(j)]), key(j)),
        idle(0) == 0,
        z3.ForAll(
            [j, k],
            z3.Implies(z3.And(0 <= j, k == j + 1), idle(k) == idle(j) + one(s.ref[s.map_block[key(j)]] == 0)),
            patterns=[z3.MultiPattern(idle(j), idle(k))],
        ),
        z3.ForAll([k], z3.Implies(k >= 0, z3.And(0 <= idle(k), idle(k) <= k)), patterns=[idle(k)]),
    ]
