"""Reach goals of the scheduler level, each with a witness.

A witness is played under the scheduler's defaults, and where that does not meet its goal also with each setting at its
first value: the tightest.
"""

from __future__ import annotations

from kvaudit.goal import Goal
from kvaudit.protocol import Cancel, Pool, Request, Step, Submit
from kvaudit.scenario import Scenario


def _scenario(num_blocks: int, block_size: int, *program: Request, cache: bool = True) -> Scenario:
    return Scenario(Pool(num_blocks, block_size, cache), program)


def _submit(seq: str, tokens: tuple[int, ...], max_new_tokens: int = 1) -> Submit:
    return Submit(seq, tokens, max_new_tokens)


def _steps(number: int, token: int = 1) -> tuple[Step, ...]:
    return (Step(token),) * number


GOALS: tuple[Goal, ...] = (
    Goal(
        "hit",
        "a request started behind cached tokens",
        ("K1", "O4", "I5"),
        _scenario(6, 2, _submit("a", (0, 1, 2, 3, 4)), *_steps(4), _submit("b", (0, 1, 2, 3, 5)), *_steps(4)),
    ),
    Goal(
        "burst",
        "requests with equal prompts were computed for the first time in one step",
        ("K1", "K2", "I8"),
        _scenario(12, 2, *(_submit(seq, (0, 1, 2)) for seq in "abc"), *_steps(6)),
    ),
    Goal(
        "shared three ways",
        "three live requests shared a block",
        ("I4", "K2"),
        _scenario(
            12,
            1,
            _submit("z", (0, 1)),
            *_steps(4),
            *(_submit(seq, (0, 1, 2 + i), 2) for i, seq in enumerate("abc")),
            *_steps(8),
        ),
    ),
    Goal(
        "whole blocks",
        "a prompt that fills its blocks was computed before, and started behind cached tokens",
        ("I5", "K1", "K2"),
        _scenario(8, 2, _submit("a", (0, 1, 2, 3, 4, 5)), *_steps(5), _submit("b", (0, 1, 2, 3, 4, 5), 2), *_steps(6)),
    ),
    Goal(
        "whole blocks and one",
        "all but the last token of a prompt were hit, and that one begins a block",
        ("I5", "K1"),
        _scenario(8, 2, _submit("a", (0, 1, 2, 3, 4)), *_steps(5), _submit("b", (0, 1, 2, 3, 5), 2), *_steps(5)),
    ),
    Goal(
        "chunked prefill",
        "a prompt was computed in several steps",
        ("O4", "K1"),
        _scenario(8, 2, _submit("a", (0, 1, 2, 3, 4, 5, 6, 7, 8), 2), *_steps(12)),
    ),
    Goal(
        "preempted and resumed",
        "a request was preempted, and computed again",
        ("O2", "K1", "I4", "O5"),
        _scenario(4, 1, _submit("a", (0,), 3), _submit("b", (1,), 3), *_steps(14)),
    ),
    Goal(
        "cancelled while waiting",
        "a request was cancelled before its first work",
        ("I4",),
        _scenario(4, 1, _submit("a", (0, 1)), Cancel("a"), _submit("b", (0, 1)), *_steps(4)),
    ),
    Goal(
        "cancelled between chunks",
        "a request was cancelled between the chunks of its prompt",
        ("I4", "I8"),
        _scenario(
            8,
            2,
            _submit("a", (0, 1, 2, 3, 4, 5, 6, 7, 8)),
            *_steps(1),
            Cancel("a"),
            _submit("b", (0, 1, 2, 3, 4, 5, 6, 7, 8)),
            *_steps(12),
        ),
    ),
    Goal(
        "cancelled during compute",
        "a request was cancelled while a step computed it",
        ("I4", "I8", "K2"),
        _scenario(
            6,
            2,
            _submit("a", (0, 1, 2), 4),
            Step(1, ("a",)),
            Step(1),
            _submit("b", (0, 1, 2), 4),
            *_steps(3),
            Step(1, ("b",)),
            *_steps(2),
            _submit("c", (0, 1, 1, 1)),
            *_steps(4),
        ),
    ),
    Goal(
        "second turn",
        "a request hit what an earlier one had generated",
        ("K1", "O4"),
        _scenario(
            12,
            2,
            _submit("a", (0, 1), 6),
            *_steps(9),
            _submit("b", (0, 1, 1, 1, 1, 1, 2), 2),
            *_steps(8),
        ),
    ),
    Goal(
        "output continued",
        "a prompt began with all that an earlier request had, whose last token fills a block and was never computed",
        ("K1", "O4"),
        _scenario(8, 2, _submit("a", (0, 1), 2), *_steps(4), _submit("b", (0, 1, 1, 1, 2)), *_steps(5)),
    ),
    Goal(
        "id used again",
        "the id of a request that had ended was used again",
        ("K1", "O4"),
        _scenario(6, 2, _submit("a", (0, 1, 2)), *_steps(4), _submit("a", (3,), 2), *_steps(5)),
    ),
    Goal(
        "cache off",
        "a prompt was computed again with the prefix cache off",
        ("O9",),
        _scenario(
            8,
            1,
            _submit("a", (0, 1, 2)),
            *_steps(4),
            _submit("b", (0, 1, 2)),
            _submit("c", (0, 1, 2)),
            *_steps(5),
            cache=False,
        ),
    ),
    Goal(
        "forgotten",
        "a prefix was asked for whose blocks had been overwritten",
        ("K1", "K2", "I8"),
        _scenario(
            2,
            2,
            _submit("a", (0, 1, 2)),
            *_steps(4),
            _submit("b", (3, 4, 5)),
            *_steps(4),
            _submit("c", (0, 1, 2)),
            *_steps(4),
        ),
    ),
    Goal(
        "pool full",
        "live requests held every block",
        ("O2", "I8", "O5"),
        _scenario(4, 1, _submit("a", (0, 1), 2), _submit("b", (3, 4), 2), *_steps(12)),
    ),
)
