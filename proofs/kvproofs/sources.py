"""The classes of kvblocks, compiled for symbolic values from the source that ships."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import kvblocks.arithmetic
import kvblocks.manager

from kvproofs.rewriting import load

_ARITHMETIC = ("blocks_for", "match_limit", "check_size", "check_token", "check_tokens")


def arithmetic() -> dict[str, Any]:
    names = load(kvblocks.arithmetic)
    return {name: names[name] for name in _ARITHMETIC}


def manager_class() -> Any:
    """kvblocks.BlockManager."""
    return load(kvblocks.manager, arithmetic())["BlockManager"]


def subclass(module: ModuleType, name: str) -> Any:
    """A class of another module that derives from BlockManager."""
    return load(module, {**arithmetic(), "BlockManager": manager_class()})[name]
