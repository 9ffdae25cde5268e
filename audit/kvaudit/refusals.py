"""Which exceptions of a manager are refusals: by the names of their classes, bases included."""

from __future__ import annotations

from collections.abc import Iterable

from kvaudit.errors import UsageError

REFUSALS = frozenset({"OutOfBlocks"})
"""Exceptions that are refusals, whatever the target."""

Refusals = Iterable[str | type[BaseException]]
"""Further ones, as a program gives them: classes of exceptions, or their names."""


def refusal_names(refusals: Refusals) -> tuple[str, ...]:
    """The names of the classes. Raises UsageError for what is neither a class of exceptions nor a name."""
    if isinstance(refusals, (str, type)):
        raise UsageError(f"refusals is a list, of exception classes or their names: refusals=[{_shown(refusals)}]")
    names = []
    for refusal in refusals:
        if isinstance(refusal, type) and issubclass(refusal, BaseException):
            names.append(refusal.__name__)
        elif isinstance(refusal, str) and refusal.isidentifier():
            names.append(refusal)
        else:
            raise UsageError(f"a refusal is an exception class, or the name of one, not {refusal!r:.60}")
    return tuple(names)


def _shown(refusal: str | type) -> str:
    return repr(refusal) if isinstance(refusal, str) else refusal.__name__
