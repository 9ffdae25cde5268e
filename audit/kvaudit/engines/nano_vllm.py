"""nano-vllm's `BlockManager` behind the seed's API, driven the way its scheduler drives it. From a checkout only."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from kvaudit.engines.adapting import OutOfBlocks, class_of, need, tried, version_of
from kvaudit.engines.lite import Engine, LoadError, Recipe, install

RECIPE = Recipe(
    package="nanovllm",
    real=("nanovllm/engine/block_manager.py", "nanovllm/engine/sequence.py", "nanovllm/sampling_params.py"),
    needs=("numpy", "xxhash"),
)


@dataclass(frozen=True, slots=True)
class _Api:
    """One revision. claims: a prompt asks for its blocks; None if there is no room. registers: after the forward."""

    manager: type[Any]
    sequence: type[Any]
    claims: Callable[[Any, Any], None]
    registers: Callable[[Any, Any], None]


class Manager:
    """The seed's API over one real `BlockManager`; `load` makes the subclass that is bound to a revision.

    The KV of a token counts as computed when the call that placed it returns: one call is one step of the scheduler,
    its forward and its postprocessing. The real scheduler answers a refusal by preempting; here it is the answer.
    """

    _api: ClassVar[_Api]

    def __init__(self, num_blocks: int, block_size: int, enable_prefix_cache: bool = True) -> None:
        if block_size < 2:
            raise ValueError(
                "nano-vllm takes a new block where len % block_size == 1, which blocks of 1 token never meet"
            )
        if not enable_prefix_cache:
            raise ValueError("nano-vllm has no switch for its prefix cache")
        self._size = block_size
        self._api.sequence.block_size = block_size
        self._manager = self._api.manager(num_blocks, block_size)
        self._live: dict[Hashable, _Sequence] = {}

    def allocate(self, seq_id: Hashable, token_ids: Iterable[int]) -> list[int]:
        """Schedule and compute a prompt. Raises `OutOfBlocks`."""
        sequence = self._api.sequence(list(token_ids))
        self._api.claims(self._manager, sequence)
        self._live[seq_id] = _Sequence(sequence, sequence.num_cached_tokens)
        sequence.num_scheduled_tokens = sequence.num_tokens - sequence.num_cached_tokens
        self._api.registers(self._manager, sequence)
        return list(sequence.block_table)

    def append_slot(self, seq_id: Hashable, token_id: int) -> int:
        """Add a sampled token, then schedule and compute it. Raises `OutOfBlocks`; the token is then taken back."""
        sequence = self._live[seq_id].sequence
        position: int = sequence.num_tokens
        last = sequence.last_token
        sequence.append_token(token_id)
        if not self._manager.can_append(sequence):
            del sequence.token_ids[position:]
            sequence.num_tokens, sequence.last_token = position, last
            raise OutOfBlocks("can_append is false")
        self._manager.may_append(sequence)
        sequence.num_scheduled_tokens = 1
        self._api.registers(self._manager, sequence)
        return int(sequence.block_table[position // self._size] * self._size + position % self._size)

    def free(self, seq_id: Hashable) -> None:
        """Finish the sequence."""
        self._manager.deallocate(self._live.pop(seq_id).sequence)

    @property
    def num_free_blocks(self) -> int:
        """Blocks that no sequence holds, cached or not."""
        return len(self._manager.free_block_ids)

    def num_cached_tokens(self, seq_id: Hashable) -> int:
        """Number of prompt tokens that were hit."""
        return self._live[seq_id].cached

    def block_table(self, seq_id: Hashable) -> list[int]:
        """Block ids, in order of the tokens; a new list."""
        return list(self._live[seq_id].sequence.block_table)

    def observe(self) -> dict[str, Any]:
        """The whole state in the seed's words. One queue holds what is idle, with content or without."""
        m = self._manager
        hashes = [None if b.hash == -1 else str(b.hash) for b in m.blocks]
        return {
            "free": [b for b in m.free_block_ids if hashes[b] is None],
            "evictable": [b for b in m.free_block_ids if hashes[b] is not None],
            "ref": [b.ref_count for b in m.blocks],
            "block_hash": hashes,
            "hash_to_block": {str(h): b for h, b in m.hash_to_block_id.items()},
            "tables": {i: self.block_table(i) for i in self._live},
            "tokens": {i: list(s.sequence.token_ids) for i, s in self._live.items()},
            "cached": {i: s.cached for i, s in self._live.items()},
        }


@dataclass(slots=True)
class _Sequence:
    sequence: Any
    cached: int


def load(root: Path | None) -> Engine:
    """Load nano-vllm from a checkout, whichever revision. Raises `LoadError`."""
    if root is None:
        raise LoadError("it is on no package index: --source DIR names a checkout (the folder that holds nanovllm/)")
    loaded = install(RECIPE, root)
    manager = class_of(loaded, "nanovllm.engine.block_manager", "BlockManager")
    for name in ("can_allocate", "allocate", "can_append", "may_append", "deallocate"):
        need(manager, name)
    api = _Api(
        manager=manager,
        sequence=class_of(loaded, "nanovllm.engine.sequence", "Sequence"),
        claims=_claim(manager),
        registers=_register if hasattr(manager, "hash_blocks") else lambda m, sequence: None,
    )
    bound = type("Manager", (Manager,), {"_api": api, "__module__": __name__, "__doc__": Manager.__doc__})
    tried("nano-vllm", bound)
    return Engine("nano-vllm", version_of("nano-vllm", root, loaded), bound, loaded.stubs, "nano-vllm")


def _claim(manager: type[Any]) -> Callable[[Any, Any], None]:
    """Older revisions find the hits while they allocate, newer ones when they are asked whether there is room."""
    if "num_cached_blocks" in inspect.signature(manager.allocate).parameters:

        def counted(m: Any, sequence: Any) -> None:
            hits = m.can_allocate(sequence)
            if hits == -1:
                raise OutOfBlocks("can_allocate is -1")
            m.allocate(sequence, hits)

        return counted

    def uncounted(m: Any, sequence: Any) -> None:
        if not m.can_allocate(sequence):
            raise OutOfBlocks("can_allocate is false")
        m.allocate(sequence)

    return uncounted


def _register(m: Any, sequence: Any) -> None:
    """What postprocessing does with the blocks that a step has filled."""
    m.hash_blocks(sequence)
    sequence.num_cached_tokens += sequence.num_scheduled_tokens
    sequence.num_scheduled_tokens = 0
