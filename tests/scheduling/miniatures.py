"""Tiny schedulers whose answers are nonsense, one each; and one over the protocol, as a program in any language."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from typing import Any

from small_scheduler import Scheduler


def answering(change: Callable[[dict[str, Any]], Any]) -> type[Scheduler]:
    """A scheduler that does everything right, and answers each step with `change(what it should)`."""

    def step(self: Scheduler, token: int, cancel: Sequence[str] = ()) -> Any:
        return change(Scheduler.step(self, token, cancel))

    return type("Strange", (Scheduler,), {"step": step})


class HangsInStep(Scheduler):
    """A step that does not return."""

    def step(self, token: int, cancel: Sequence[str] = ()) -> Any:
        while True:
            pass


class SettingsAreNoMapping(Scheduler):
    """Its settings have no values."""

    SETTINGS = ("max_num_seqs",)  # type: ignore[assignment]


class SettingWithoutValues(Scheduler):
    """A setting may be anything."""

    SETTINGS = {"max_num_seqs": ()}


class SettingWithoutEnd(Scheduler):
    """A number that can hardly be written down."""

    SETTINGS = {"max_num_seqs": (10**5000,)}


class FreeIsNested(Scheduler):
    """A list stands where a block is due."""

    def observe(self) -> Any:
        return {**super().observe(), "free": [[1]]}


class CountsNothing(Scheduler):
    """It offers a number that it does not have."""

    num_free_blocks = None  # type: ignore[assignment]


class TakesNoSettings:
    """Its constructor does not know the settings that it names."""

    SETTINGS = {"max_num_seqs": (1, 2)}

    def __init__(self, num_blocks: int, block_size: int, enable_prefix_cache: bool = True) -> None: ...

    def submit(self, seq_id: str, token_ids: Sequence[int], max_new_tokens: int) -> None: ...

    def step(self, token: int, cancel: Sequence[str] = ()) -> Any: ...

    def cancel(self, seq_id: str) -> None: ...


def serve() -> None:
    """Speak the protocol over standard input and output."""
    scheduler: Any = None
    for line in sys.stdin:
        message = json.loads(line)
        if message["type"] == "stop":
            return
        if message["type"] == "start":
            offers = ["submit", "step", "cancel", "num_free_blocks"]
            answer: dict[str, Any] = {"type": "started", "name": "mini", "capabilities": offers}
            answer["settings"] = {name: list(values) for name, values in Scheduler.SETTINGS.items()}
        elif message["type"] == "open":
            pool = dict(message["pool"])
            settings = pool.pop("settings", {})
            scheduler = Scheduler(**pool, **settings)
            answer = {"type": "opened"}
        else:
            answer = {"type": "ran", "outcomes": [_outcome(scheduler, op) for op in message["program"]]}
        print(json.dumps(answer), flush=True)


def _outcome(scheduler: Scheduler, op: dict[str, Any]) -> dict[str, Any]:
    if op["op"] == "observe":
        return {"outcome": "observed", "num_free_blocks": scheduler.num_free_blocks}
    value = None
    if op["op"] == "submit":
        scheduler.submit(op["seq"], op["tokens"], op["max_new_tokens"])
    elif op["op"] == "cancel":
        scheduler.cancel(op["seq"])
    else:
        value = scheduler.step(op["token"], op["cancel"])
    return {"outcome": "returned", "value": value}


if __name__ == "__main__":
    serve()
