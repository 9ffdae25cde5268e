"""The bugs that `tests/mutants` plants by hand, as mutants of the campaign."""

from __future__ import annotations

import inspect
import sys
from dataclasses import dataclass
from typing import Any

from kvblocks import BlockManager
from kvproofs import sources
from mutants import MUTANTS

KIND = "planted"


@dataclass(frozen=True)
class Planted:
    """One planted bug: a subclass of BlockManager."""

    cls: type[BlockManager]

    @property
    def kind(self) -> str:
        return KIND

    @property
    def id(self) -> str:
        return f"{KIND}:{self.cls.__name__}"

    @property
    def functions(self) -> tuple[str, ...]:
        """The methods that it replaces."""
        return tuple(name for name, value in vars(self.cls).items() if callable(value) or isinstance(value, property))

    @property
    def diff(self) -> str:
        """Its text, whole."""
        return inspect.getsource(self.cls).rstrip()

    def build(self) -> type[BlockManager]:
        return self.cls

    def symbolic(self) -> Any:
        return sources.subclass(sys.modules[self.cls.__module__], self.cls.__name__)


def planted() -> tuple[Planted, ...]:
    return tuple(Planted(mutant.cls) for mutant in MUTANTS)
