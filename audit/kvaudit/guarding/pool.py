"""The pool of a manager that serves."""

from __future__ import annotations

from typing import Any

from kvaudit.errors import UsageError
from kvaudit.protocol import Pool


def pool_of(manager: Any, num_blocks: int | None, block_size: int | None, enable_prefix_cache: bool | None) -> Pool:
    """The pool of the manager: what is given, else its attributes. Raises UsageError, naming all that is missing."""
    given = {"num_blocks": num_blocks, "block_size": block_size, "enable_prefix_cache": enable_prefix_cache}
    values: dict[str, Any] = {
        name: getattr(manager, name, None) if value is None else value for name, value in given.items()
    }
    missing = [name for name, value in values.items() if value is None]
    if missing:
        names = ", ".join(missing)
        give = ", ".join(f"{name}={'True' if name == 'enable_prefix_cache' else '...'}" for name in missing)
        raise UsageError(f"{type(manager).__name__} has no attribute {names}: give what is missing, {give}")
    return Pool(values["num_blocks"], values["block_size"], bool(values["enable_prefix_cache"]))
