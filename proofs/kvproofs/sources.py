"""The classes of kvblocks, compiled for symbolic values from the source that ships."""

from __future__ import annotations

import inspect
from types import ModuleType
from typing import Any

import z3

import kvblocks.arithmetic
import kvblocks.manager
from kvblocks import errors
from kvproofs import prompt
from kvproofs.allocate_prompt import checked, extra_checked
from kvproofs.constructors import deque, ordered_dict
from kvproofs.executor import executing
from kvproofs.rewriting import load, load_source
from kvproofs.state import parts_of_block, symbolic_hasher

_ARITHMETIC = ("blocks_for", "match_limit", "check_size", "check_token", "check_tokens")

UNUSABLE = z3.Bool("hasher_is_unusable")


def arithmetic(text: str | None = None) -> dict[str, Any]:
    """The functions of kvblocks.arithmetic, or of another text for it."""
    source = text or inspect.getsource(kvblocks.arithmetic)
    names = load_source(source, kvblocks.arithmetic.__name__, {"array": prompt.array})
    return {name: names[name] for name in _ARITHMETIC}


def strategy(hasher: Any) -> Any:
    """`kvblocks.hashing.strategy` of anything: any strategy, or that there is none."""
    if executing().fork(UNUSABLE):
        raise errors.InvalidArgument("no hash strategy")
    return symbolic_hasher


def imported() -> dict[str, Any]:
    """What stands for the names that kvblocks' manager imports."""
    return {
        **arithmetic(),
        "check_tokens": checked,
        "check_extra": extra_checked,
        "parts_of_block": parts_of_block,
        "deque": deque,
        "OrderedDict": ordered_dict,
        "strategy": strategy,
    }


def manager_class() -> Any:
    """kvblocks.BlockManager."""
    return class_of(inspect.getsource(kvblocks.manager))


def variant(*edits: tuple[str, str]) -> Any:
    """kvblocks.BlockManager with pieces of its text replaced: for controls, and for what a check is needed for."""
    text = inspect.getsource(kvblocks.manager)
    for old, new in edits:
        if text.count(old) != 1:
            raise ValueError(f"the source of kvblocks has not exactly one {old!r}")
        text = text.replace(old, new)
    return class_of(text)


def class_of(text: str, helpers: str | None = None) -> Any:
    """BlockManager of a text, with the functions of kvblocks.arithmetic or of another text for it.

    `check_tokens` is proved by itself: it is an attribute of the class, and `checked` stands for it in `allocate`.
    """
    functions = arithmetic(helpers)
    replaced = {**imported(), **functions, "check_tokens": checked}
    made = load_source(text, "kvblocks.manager", replaced)["BlockManager"]
    made.check_tokens = staticmethod(functions["check_tokens"])
    return made


def subclass(module: ModuleType, name: str) -> Any:
    """A class of another module that derives from BlockManager."""
    return load(module, {**imported(), "BlockManager": manager_class()})[name]
