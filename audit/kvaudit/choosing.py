"""Who decides what a rule of generated programs leaves open."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

T = TypeVar("T")


class Choices(Protocol):
    """Makes the choices, at random or otherwise."""

    def number(self, most: int) -> int:
        """An integer from 0 to `most`."""
        ...

    def one_of(self, items: Sequence[T]) -> T:
        """One of the items, of which there is one at least."""
        ...

    def some_of(self, items: Sequence[T], most: int) -> list[T]:
        """Up to `most` of the items, in any order, any of them more than once."""
        ...
