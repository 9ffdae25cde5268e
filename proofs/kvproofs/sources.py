"""The classes of kvblocks, compiled for symbolic values from the source that ships."""

from __future__ import annotations

import inspect
from types import ModuleType
from typing import Any

import kvblocks.arithmetic
import kvblocks.manager
from kvproofs.rewriting import load, load_source

_ARITHMETIC = ("blocks_for", "match_limit", "check_size", "check_token", "check_tokens")


def arithmetic() -> dict[str, Any]:
    names = load(kvblocks.arithmetic)
    return {name: names[name] for name in _ARITHMETIC}


def manager_class() -> Any:
    """kvblocks.BlockManager."""
    return load(kvblocks.manager, arithmetic())["BlockManager"]


def variant(*edits: tuple[str, str]) -> Any:
    """kvblocks.BlockManager with pieces of its text replaced: for controls, and for what a check is needed for."""
    text = inspect.getsource(kvblocks.manager)
    for old, new in edits:
        if text.count(old) != 1:
            raise ValueError(f"the source of kvblocks has not exactly one {old!r}")
        text = text.replace(old, new)
    return load_source(text, "kvblocks.manager", arithmetic())["BlockManager"]


def subclass(module: ModuleType, name: str) -> Any:
    """A class of another module that derives from BlockManager."""
    return load(module, {**arithmetic(), "BlockManager": manager_class()})[name]
