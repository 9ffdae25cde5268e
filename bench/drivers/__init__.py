"""Each engine, driven by its own methods as its scheduler does it: request set-up included, no adapter in between.

A driver reaches under the adapter of `kvaudit.engines` on purpose. The adapter finds out how a version wants to be
called; what it does around the calls, for the audit, is not to be measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from bench.workloads import Tokens


class Driver(Protocol):
    """What is measured is `start`, `step` and `free`; all else happens between the measurements."""

    hash: str
    version: str

    def pool(self, num_blocks: int, block_size: int, longest: int) -> None:
        """A new pool, and nothing is live. longest: no request gets longer than that."""

    def prepared(self, tokens: Tokens) -> Any:
        """A prompt in the form in which it is handed over."""

    def start(self, name: str, prompt: Any) -> Any:
        """Place a whole prompt, and register what it computes. None if there is no room."""

    def step(self, live: Sequence[Any], token: int) -> None:
        """Place one more token for each live request. The pool has room for it."""

    def free(self, request: Any) -> None:
        """End a request."""

    def hit_tokens(self, request: Any) -> int:
        """The tokens of its prompt that were cached."""
        ...
