"""What stands in for the parts of ExLlamaV3 that are compiled or need a GPU, for `kvaudit.engines.exllamav3`."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any


class Tokenizer:
    """Every token is one letter."""

    def get_id_to_piece_list(self, *_: Any) -> Tokenizer:
        return self

    def __getitem__(self, token: int) -> str:
        return "x"


class WithoutCuda:
    """torch, for a module that asks for pinned memory and waits for the device: neither is on this machine."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self.cuda = SimpleNamespace(synchronize=lambda *_: None)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._torch, name)

    def empty(self, *shape: Any, pin_memory: bool = False, **options: Any) -> Any:
        return self._torch.empty(*shape, **options)

    def zeros(self, *shape: Any, pin_memory: bool = False, **options: Any) -> Any:
        return self._torch.zeros(*shape, **options)


def count_match_tensor(page: Any, ids: Any, most: int) -> int:
    """How many tokens agree from the start (exllamav3_ext/generator/strings.cpp:65)."""
    most = min(most, page.numel(), ids.shape[1])
    differ = (page[0, :most] != ids[0, :most]).nonzero()
    return int(differ[0]) if len(differ) else most


def generator_stage_decode(
    arena: Any,
    width: int,
    tables: Sequence[Any],
    positions: Sequence[int],
    _rope: Sequence[int],
    batch_ids: Any,
    ids: Sequence[Any],
    pages: Sequence[Any],
    offsets: Sequence[int],
) -> None:
    """Lay out block tables and lengths, note each row's token in its page (exllamav3_ext/generator/staging.cpp:17)."""
    rows = len(tables)
    arena.zero_()
    for row, (table, position) in enumerate(zip(tables, positions, strict=True)):
        used = min(table.numel(), width)
        arena[row * width : row * width + used] = table[0, :used]
        arena[rows * width + row] = position
    for row, (tokens, page, offset) in enumerate(zip(ids, pages, offsets, strict=True)):
        batch_ids[row, 0] = page[0, offset] = tokens[0, positions[row]]
