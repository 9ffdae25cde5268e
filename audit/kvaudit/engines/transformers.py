"""The paged cache of Hugging Face transformers behind the seed's API, driven as its scheduler does.

With `--set forks=on` a sequence may begin as a fork of a live one, as the further samples of one prompt do.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from kvaudit.engines.adapting import OutOfBlocks, need, tried, version_of
from kvaudit.engines.lite import Engine, Loaded, Recipe, install
from kvaudit.engines.transformers_caches import ManagedCache, Paged, SectorCache

_BATCHING = "transformers/generation/continuous_batching"

RECIPE = Recipe(
    package="transformers",
    real=(
        f"{_BATCHING}/cache.py",
        f"{_BATCHING}/cache_allocators/*.py",
        f"{_BATCHING}/cache_manager.py",
        f"{_BATCHING}/requests.py",
        f"{_BATCHING}/utils.py",
    ),
    needs=("torch",),
    settings={"forks": ("off", "on")},
)


class Manager:
    """The seed's API over one real `PagedAttentionCache`; `load` makes the subclass that is bound to a version.

    The KV of a token counts as computed when the call that placed it returns: then its full blocks are marked.
    """

    _api: ClassVar[_Api]

    def __init__(self, num_blocks: int, block_size: int, enable_prefix_cache: bool = True) -> None:
        self._size = block_size
        self._paged = self._api.paged(num_blocks, block_size, enable_prefix_cache)
        self._sharing = enable_prefix_cache
        self._live: dict[Hashable, _Sequence] = {}

    def allocate(self, seq_id: Hashable, token_ids: Iterable[int]) -> list[int]:
        """Match, schedule and compute a prompt, then mark its blocks. Gives the table before that: where it is written.

        Raises `OutOfBlocks`; then what was matched is given back.
        """
        tokens, name = list(token_ids), repr(seq_id)
        request, cached = self._forked(tokens, name) or self._matched(tokens, name)
        left = len(tokens) - request.position_offset
        if not self._paged.store(request, left):
            self._paged.free(request)
            raise OutOfBlocks("there is no room for its tokens")
        self._live[seq_id] = _Sequence(request, list(tokens), cached)
        written = self.block_table(seq_id)
        self._paged.computed(request, left)
        return written

    def _matched(self, tokens: list[int], name: str) -> tuple[Any, int]:
        request = self._api.request(request_id=name, initial_tokens=tokens)
        request.position_offset = self._paged.match(request)
        return request, request.position_offset

    def _forked(self, tokens: list[int], name: str) -> tuple[Any, int] | None:
        """A fork of a live sequence that has the same tokens, or all of them but the last.

        So the engine does it: of a prompt with further samples all but one token is computed, then it is forked, and
        each of them computes the last. What does not fit begins as a request of its own.
        """
        past = len(tokens) - 1
        parent = next((s.request for s in self._live.values() if self._is_parent(s.tokens, tokens)), None)
        if parent is None or not self._paged.fork(parent.request_id, past, name):
            return None
        request = self._api.request(request_id=name, initial_tokens=tokens)
        request.position_offset = past
        return request, past // self._size * self._size if self._sharing else 0

    def _is_parent(self, parent: list[int], child: list[int]) -> bool:
        """Not where the last token fills a block: a parent that has it is further than where the engine forks."""
        return self._api.forks and (parent == child[:-1] or (parent == child and len(child) % self._size != 0))

    def append_slot(self, seq_id: Hashable, token_id: int) -> int:
        """Schedule and compute a sampled token. Raises `OutOfBlocks`."""
        sequence = self._live[seq_id]
        request, position = sequence.request, len(sequence.tokens)
        if not self._paged.store(request, 1):
            raise OutOfBlocks("there is no room for a token")
        request.generated_tokens.append(token_id)
        sequence.tokens.append(token_id)
        slot = self.block_table(seq_id)[position // self._size] * self._size + position % self._size
        self._paged.computed(request, 1)
        return slot

    def free(self, seq_id: Hashable) -> None:
        """Finish the request."""
        self._paged.free(self._live.pop(seq_id).request)

    @property
    def num_free_blocks(self) -> int:
        """Blocks that no request holds: those of the pool, and those that are kept for their content."""
        return self._paged.unheld

    def num_cached_tokens(self, seq_id: Hashable) -> int:
        """Number of prompt tokens that were hit; of a fork, those in the blocks that it shares."""
        return self._live[seq_id].cached

    def block_table(self, seq_id: Hashable) -> list[int]:
        """Block ids, in order of the tokens."""
        return self._paged.table(self._live[seq_id].request)

    def observe(self) -> dict[str, Any]:
        """The whole state in the seed's words."""
        seen = self._paged.look()
        return {
            "free": seen.free,
            "evictable": seen.idle,
            "ref": seen.ref,
            "block_hash": seen.block_hash,
            "hash_to_block": seen.hash_to_block,
            "tables": {i: self.block_table(i) for i in self._live},
            "tokens": {i: list(s.tokens) for i, s in self._live.items()},
            "cached": {i: s.cached for i, s in self._live.items()},
        }


@dataclass(slots=True)
class _Sequence:
    request: Any
    tokens: list[int]
    cached: int


@dataclass(frozen=True, slots=True)
class _Api:
    paged: Callable[[int, int, bool], Paged]
    request: Any
    forks: bool
    profile: str


def load(root: Path | None, forks: str) -> Engine:
    """Load transformers from `root` (a cached engine or a checkout), or the installed one. Raises `LoadError`."""
    loaded = install(RECIPE, root / "src" if root is not None and (root / "src").is_dir() else root)
    api = _probe(loaded, forks == "on")
    manager = type("Manager", (Manager,), {"_api": api, "__module__": __name__, "__doc__": Manager.__doc__})
    tried("transformers", manager, caches=(True, False))
    notes = ("replaced: the look at the memory of the machine, from which the cache takes its size if it is not told",)
    return Engine("transformers", version_of("transformers", root, loaded), manager, loaded.stubs, api.profile, notes)


def _probe(loaded: Loaded, forks: bool) -> _Api:
    importlib.import_module("torch")
    module = loaded.module("transformers.generation.continuous_batching.cache")
    cache = need(module, "PagedAttentionCache")
    old = loaded.has("transformers.generation.continuous_batching.cache_manager")
    calls = ("mark_shareable_blocks_as_complete", "fork_request", "copy_cache") if old else _NEWER
    for name in ("search_prefix_match", "free_blocks", *calls):
        need(cache, name)
    vars(module)["get_device_and_memory_breakdown"] = lambda: (None, 2**40, 0, 0)
    requests = loaded.module("transformers.generation.continuous_batching.requests")
    paged = functools.partial(ManagedCache if old else SectorCache, cache)
    return _Api(paged, need(requests, "RequestState"), forks, "transformers-5.5" if old else "transformers")


_NEWER = (
    *("can_store_request_tokens", "mark_complete_blocks", "evict_cached_blocks"),
    *("prepare_fork_request", "perform_cache_copy"),
)
