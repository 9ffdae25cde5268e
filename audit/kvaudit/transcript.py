"""What was expected and what came, as a trace has it; and a recorded answer as the outcome that an oracle judges."""

from __future__ import annotations

from typing import Any

from kvaudit import words
from kvaudit.choices import block_list
from kvaudit.oracle import Judgement
from kvaudit.printable import one_line
from kvaudit.protocol import Allocate, Append, Free, Mutation, Outcome, Raised, Refused, Returned
from kvaudit.rulings import own_step
from kvaudit.trace import Answer
from kvspec.ledger import Ledger
from kvspec.operations import OutOfBlocks, Step


def answers(operation: Mutation, judgement: Judgement) -> tuple[Answer, Answer]:
    """What was expected of an operation, and what came."""
    return _expected(operation, judgement), _came(operation, judgement)


def due(ledger: Ledger, operation: Mutation) -> Answer:
    """What the specification, left to its own choices, answers. `ledger` is an immutable one."""
    try:
        return _completed(operation, own_step(ledger, operation))
    except OutOfBlocks:
        return Answer("refused", num_free_blocks=ledger.num_free_blocks)


def outcome_of(answer: Answer) -> Outcome:
    """A recorded answer, as an oracle judges it."""
    if answer.outcome == "refused":
        return Refused(answer.error or "OutOfBlocks")
    if answer.outcome == "raised":
        return Raised(answer.error or "an exception", answer.other)
    if answer.other:
        return Returned(answer.other)
    return Returned(list(answer.table) if answer.table is not None else answer.slot)


def said(answer: Answer) -> str:
    """An answer in words."""
    if answer.outcome != "completed":
        return f"{answer.outcome} ({one_line(answer.error)})" if answer.error else answer.outcome
    value = list(answer.table) if answer.table is not None else answer.slot
    cached = f", {answer.num_cached_tokens} cached" if answer.num_cached_tokens is not None else ""
    told = one_line(answer.other) or ("completed" if value is None else words.short(value))
    return f"{told}{cached}"


def _expected(operation: Mutation, judgement: Judgement) -> Answer:
    """Where both agree, the choices are those of the target."""
    if judgement.step is not None:
        return _completed(operation, judgement.step)
    return due(judgement.before, operation)


def _completed(operation: Mutation, step: Step) -> Answer:
    table = step.result if isinstance(step.result, tuple) else None
    slot = step.result if isinstance(step.result, int) else None
    cached = step.after.sequences[operation.seq].num_cached_tokens if isinstance(operation, Allocate) else None
    return Answer("completed", table, slot, cached, step.after.num_free_blocks)


def _came(operation: Mutation, judgement: Judgement) -> Answer:
    answer, free = judgement.answer, _number(judgement.num_free_blocks)
    if isinstance(answer, Refused):
        return Answer("refused", num_free_blocks=free, error=answer.error)
    if isinstance(answer, Raised):
        return Answer("raised", num_free_blocks=free, error=answer.error, other=answer.message)
    value = words.value(answer)
    cached = _number(judgement.cached) if isinstance(operation, Allocate) else None
    table = block_list(value, judgement.before.num_blocks) if isinstance(operation, Allocate) else None
    slot = _number(value) if isinstance(operation, Append) else None
    strange = table is None and slot is None and not isinstance(operation, Free)  # nobody reads what a free returns
    return Answer(
        "completed",
        table=tuple(table) if table is not None else None,
        slot=slot,
        num_cached_tokens=cached,
        num_free_blocks=free,
        other=words.short(value) if strange else "",
    )


def _number(value: Any) -> int | None:
    return value if type(value) is int else None
