"""No manager at all: the hash chain of each prompt from its list of tokens, in a loop. The floor under all others."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence
from typing import Any

from bench.workloads import Tokens


class BareDriver:
    """Hashes and nothing else: `step` and `free` do nothing."""

    version = ""

    def __init__(self, hasher: str) -> None:
        self.hash = hasher
        self._chain = {"sha256": _sha256, "builtin": _builtin}[hasher]

    def pool(self, num_blocks: int, block_size: int, longest: int) -> None:
        self._size = block_size

    def prepared(self, tokens: Tokens) -> Any:
        return tokens

    def start(self, name: str, prompt: Any) -> Any:
        self._chain(prompt, self._size)
        return name

    def step(self, live: Sequence[Any], token: int) -> None:
        pass

    def free(self, request: Any) -> None:
        pass

    def hit_tokens(self, request: Any) -> int:
        return 0


def _sha256(tokens: Tokens, size: int) -> None:
    pack, sha256, parent = struct.Struct(f"<{size}I").pack, hashlib.sha256, b""
    for start in range(0, len(tokens) - size + 1, size):
        parent = sha256(parent + pack(*tokens[start : start + size])).digest()


def _builtin(tokens: Tokens, size: int) -> None:
    parent = 0
    for start in range(0, len(tokens) - size + 1, size):
        parent = hash((parent, tuple(tokens[start : start + size])))
