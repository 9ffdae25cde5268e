"""What no line of a trace can say, whatever the target."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from kvaudit.errors import UsageError
from kvaudit.programs import names_of, tokens_of
from kvaudit.protocol import MAX_TOKEN, Allocate, AnyMutation, Step, Submit
from kvspec.extra import is_legal

if TYPE_CHECKING:
    from kvaudit.trace import Answer


def check_line(operation: AnyMutation, answers: Iterable[Answer | None], where: str) -> None:
    """Raises UsageError for an operation that no caller may make, and for an answer that it cannot get."""
    if not all(names_of(operation)):
        raise UsageError(f"{where}: the id of a sequence has at least one character")
    tokens = tokens_of(operation)
    if isinstance(operation, (Allocate, Submit)) and not tokens:
        raise UsageError(f"{where}: a prompt has at least one token")
    if isinstance(operation, Allocate) and not is_legal(operation.extra.items, len(tokens)):
        raise UsageError(
            f"{where}: this is no extra of a prompt of {len(tokens)} tokens: a salt, the id and the version of a LoRA "
            "have at least one character, images lie within the prompt and do not overlap"
        )
    if isinstance(operation, Submit) and operation.max_new_tokens < 1:
        raise UsageError(f"{where}: a request asks for at least one new token")
    if isinstance(operation, Step) and len(set(operation.cancel)) < len(operation.cancel):
        raise UsageError(f"{where}: a step cancels a request once at most")
    if tokens and (min(tokens) < 0 or max(tokens) > MAX_TOKEN):
        wrong = next(token for token in tokens if not 0 <= token <= MAX_TOKEN)
        raise UsageError(f"{where}: {wrong} is no token id: they are integers in 0 .. 2^32-1")
    for answer in answers:
        if answer is not None:
            _check_answer(operation, answer, where)


def _check_answer(operation: AnyMutation, answer: Answer, where: str) -> None:
    kind = type(operation).__name__.lower()
    completed = answer.outcome == "completed"
    possible = {"allocate": ("table", "num_cached_tokens"), "append": ("slot",)}.get(kind, ()) if completed else ()
    possible += ("work",) if kind == "step" and completed else ()
    for name in ("table", "slot", "num_cached_tokens", "work"):
        if name not in possible and getattr(answer, name) is not None:
            what = kind if completed else f"{kind} that was {answer.outcome}"
            raise UsageError(f"{where}: the answer to {what} has no {name}")
