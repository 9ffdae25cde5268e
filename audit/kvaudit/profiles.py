"""Profiles: the rules to which a target is held, and what is assumed about its caller."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, get_args, get_type_hints

import msgspec

from kvaudit.errors import UsageError
from kvaudit.excuses import Excuse
from kvaudit.limits import ANY_POOL, Limits
from kvaudit.protocol import MANAGER, SCHEDULER, LevelName
from kvspec.variants import SEED_VARIANTS, Variants

COMPUTED = "the KV that an operation makes the caller compute is written before the next operation"
ONE_THREAD = "one operation at a time"


@dataclass(frozen=True)
class Profile:
    """A choice among the named variants of the specification.

    notes: what differs by design, with the place in the engine's source that says so. limits: the pools that a target
    can make. beyond: the reach goals that it cannot meet, each with the reason. excuses: what differs by design and no
    variant expresses. level: whom it is for.
    """

    name: str
    summary: str
    variants: Variants
    assumptions: tuple[str, ...] = (COMPUTED, ONE_THREAD)
    notes: tuple[str, ...] = ()
    limits: Limits = ANY_POOL
    beyond: Mapping[str, str] = field(default_factory=dict)
    excuses: tuple[Excuse, ...] = ()
    level: LevelName = MANAGER

    @property
    def chooses(self) -> bool:
        """What is cached is the target's choice, and read off what it shows."""
        return self.variants.cache == "its own"


STRICT = Profile(
    "strict",
    "free blocks first in, first out, then the longest idle; block numbers to the letter",
    SEED_VARIANTS,
)
SEED = Profile(
    "seed",
    "free blocks first, then the longest idle; block numbers up to renaming",
    Variants(free_list="any order"),
)
OWN_CACHE = Profile(
    "own-cache",
    "what is cached is the target's choice, and read off observe()",
    Variants(free_list="any order", cache="its own"),
)
_VLLM_NOTES = (
    "block 0 of the engine's pool is its null block: it is left out, and the others are renumbered from 0",
    "full blocks are registered when their slots are allocated, before they are computed",
)
_VLLM_BEYOND: dict[str, str] = dict.fromkeys(
    ("gap in the cache", "evicted its own"),
    "a copy of the block before is still there, and can be hit, where every copy can",
)
VLLM = Profile(
    "vllm",
    "every copy of equal content can be hit, and blocks without content are taken first",
    Variants(free_list="any order", duplicates="keep all"),
    notes=_VLLM_NOTES,
    beyond=_VLLM_BEYOND,
)
VLLM_ONE_QUEUE = Profile(
    "vllm-one-queue",
    "every copy of equal content can be hit, and free and cached blocks wait in one queue",
    Variants(free_list="any order", take_from="one queue", duplicates="keep all"),
    notes=_VLLM_NOTES,
    beyond=_VLLM_BEYOND,
)

NANO_VLLM = Profile(
    "nano-vllm",
    "the newest copy of equal content can be hit, and free and cached blocks wait in one queue",
    Variants(free_list="any order", take_from="one queue", duplicates="keep new"),
    notes=(
        "full blocks are registered once computed, and a copy takes over the mapping (block_manager.py:110-120)",
        "one queue, from whose head blocks are taken, whether they have content or not (block_manager.py:43-56)",
        "blocks of 1 token cannot be: a new block is taken where len % block_size == 1 (block_manager.py:106-108)",
    ),
    limits=Limits(least_block_size=2, cache_switch=False),
    beyond={
        **dict.fromkeys(
            ("gap in the cache", "evicted its own"),
            "their programs rest on the mapping staying with the older copy",
        ),
        "cache off": "there is no switch for the prefix cache",
    },
)

_TREE_BEYOND: dict[str, str] = dict.fromkeys(
    ("duplicated", "original evicted", "gap in the cache", "evicted its own"),
    "a tree holds each content once, and gives up what is deepest",
)
MINI_SGLANG = Profile(
    "mini-sglang",
    "a radix tree: what is cached is read off the tree, and whole leaves are given up",
    Variants(free_list="any order", cache="its own"),
    notes=(
        "a prompt enters the tree when it is computed, what decode filled at the end (scheduler/scheduler.py:159-164)",
        "the tree keeps the older page, and the row of the request is to name it (scheduler/cache.py:55-79)",
        "whole leaves are given up, oldest first (kvcache/radix_cache.py:148-175)",
    ),
    limits=Limits(most_token=2**31 - 1),
    beyond=_TREE_BEYOND,
)
SGLANG = Profile(
    "sglang",
    "a radix tree: what is cached is read off the tree, and whole leaves are given up",
    Variants(free_list="any order", cache="its own"),
    notes=(
        "a prompt enters the tree once computed, what decode filled at the end (mem_cache/common.py:271, :425-430)",
        "the tree keeps the older page, and the row is rewritten to it (mem_cache/radix_cache.py:500-540, "
        "mem_cache/unified_radix_cache.py:1295-1298)",
        "whole leaves are given up, before an allocation that may need a page more (mem_cache/allocation.py:186, :583)",
        "page 0 of the engine's pool is written by padding: it is left out (mem_cache/allocator/token.py:43)",
    ),
    beyond=_TREE_BEYOND,
)
_ONE_COPY_BEYOND: dict[str, str] = dict.fromkeys(_TREE_BEYOND, "each content is held once")
TRANSFORMERS = Profile(
    "transformers",
    "a request adopts the older copy of its content, and all that is cached is given up at once",
    Variants(free_list="any order", cache="its own"),
    notes=(
        "blocks are registered when they are computed; a request swaps a duplicate for the block that was there before "
        "(generation/continuous_batching/cache_allocators/cache_allocator.py:289-312)",
        "where room is short, all that is cached and idle is given up at once (cache.py:362, scheduler.py:188)",
        "two blocks at the start take what padding writes and reads: they are left out (cache.py:209-212)",
    ),
    limits=Limits(most_token=2**31 - 1),
    beyond={
        **_ONE_COPY_BEYOND,
        "evicted in order": "all that is cached and idle is given up at once",
    },
)
TRANSFORMERS_5_5 = Profile(
    "transformers-5.5",
    "a request adopts the older copy of its content; what is cached is read off what it shows",
    Variants(free_list="any order", cache="its own"),
    notes=(
        "blocks are registered when they are computed; a request swaps a duplicate for the block that was there before "
        "(generation/continuous_batching/cache_manager.py:239-288)",
        "of what is cached and idle, the newest is given up first (cache_manager.py:102-107)",
        "as many blocks are asked for as the tokens need: the scheduler may ask for one more (scheduler.py:122)",
    ),
    beyond=_ONE_COPY_BEYOND,
)

LMDEPLOY = Profile(
    "lmdeploy",
    "a trie of blocks: what is cached is read off the trie, and its oldest leaves are given up",
    Variants(free_list="any order", cache="its own"),
    notes=(
        "full blocks enter the trie when scheduled, before they are computed (paging/prefill_scheduler.py:691-693)",
        "what decode filled enters it when the sequence takes its next block (paging/scheduler.py:352-358)",
        "of a duplicate the block of the trie is used (paging/block_trie/trie.py:616-623)",
    ),
    beyond=_TREE_BEYOND,
)
VLLM_MLX = Profile(
    "vllm-mlx",
    "a cache of finished requests: what is cached is read off what it shows",
    Variants(free_list="any order", cache="its own"),
    notes=(
        "a sequence is a whole request, which generates nothing: KV is copied out of the cache when it is admitted "
        "(scheduler.py:2131), and into it when it ends (scheduler.py:2992)",
        "free does what the server never does (scheduler.py:3005), release_cache; else the pool would stay full",
        "only blocks that a request holds are hit, and so none that is idle (paged_cache.py:847-851)",
    ),
    limits=Limits(cache_switch=False, appends=False),
    beyond={
        **_TREE_BEYOND,
        **dict.fromkeys(
            ("append refused", "crossed a boundary", "filled by append", "twins"), "a sequence does not grow"
        ),
        **dict.fromkeys(
            (
                *("evicted", "evicted in order", "revived", "naive check refuted", "coarse check surpassed"),
                *("refused with room", "many live", "cached further", "whole prompt cached"),
            ),
            "what is idle is never hit",
        ),
        "cache off": "there is no switch for the prefix cache",
    },
)

WRITES_FIRST = "within a pass all KV is written before any is read, and copies come before both"
SCHEDULER_RULES = Profile(
    "scheduler",
    "a whole scheduler: its own decisions, judged by what its passes write and read",
    SEED_VARIANTS,
    assumptions=(WRITES_FIRST, ONE_THREAD),
    level=SCHEDULER,
)

VLLM_SCHEDULER = Profile(
    "vllm-scheduler",
    "vLLM's scheduler: its own decisions, judged by what a worker writes and reads",
    SEED_VARIANTS,
    assumptions=(WRITES_FIRST, ONE_THREAD),
    notes=(
        "in each layer the KV of the whole batch is written before attention reads any (model_executor/layers/"
        "attention/attention.py:553-563; v1/attention/backends/flash_attn.py:1457)",
        "batches are computed in the order in which they were scheduled, one after the other, as they are queued on "
        "one stream (v1/engine/core.py:733-751)",
        "block 0 of the engine's pool is its null block: it is left out, and the others are renumbered from 0",
        "a request has an id of its own, as the front end gives it (v1/engine/input_processor.py:354)",
    ),
    level=SCHEDULER,
)

LMDEPLOY_ENGINE = Profile(
    "lmdeploy-engine",
    "LMDeploy's engine loop: its own decisions, judged by what a worker writes and reads",
    SEED_VARIANTS,
    assumptions=(WRITES_FIRST, ONE_THREAD),
    notes=(
        "in each layer the KV of the whole batch is written before attention reads any "
        "(pytorch/backends/cuda/attention/default.py:475-494)",
        "forwards are computed in the order in which they were sent, and the next one is sent before the output of the "
        "last is read (engine/engine_loop.py:510-511)",
        "the position that a decode writes is the worker's to keep (engine/model_agent/agent.py:830-847)",
        "of a sequence that is preempted while it is computed the output is dropped (strategies/ar/sequence.py:145)",
        "a session is a block shorter than the pool (engine/engine.py:331-336)",
        "block 0 is kept for dummy inputs (engine/config_builder.py:92): it is left out, and the others are renumbered",
    ),
    limits=Limits(most_token=2**31 - 1, spare_blocks=1),
    level=SCHEDULER,
)
EXLLAMAV3 = Profile(
    "exllamav3",
    "ExLlamaV3's generator: its own decisions, judged by what its model writes and reads",
    SEED_VARIANTS,
    assumptions=(WRITES_FIRST, ONE_THREAD),
    notes=(
        "in each layer the KV of the whole batch is written before attention reads any "
        "(modules/attention_fn/triton_paged.py:486, :619; modules/attention_fn/dispatch.py:130)",
        "a prompt's pages are claimed by hash before they are filled, and a job passes over those that another has "
        "filled meanwhile (generator/pagetable.py:591-632, generator/job.py:1425-1437)",
        "a page is begun with a copy of one that has the same parent and two tokens or more in common "
        "(generator/job.py:1459-1499)",
        "with max_rq_tokens a job gives all its pages back and is queued again: that is a preemption "
        "(generator/generator.py:2114-2128)",
        "when nothing is left to do pages change places: each is reported under the number that it had "
        "(generator/pagetable.py:863)",
        "a request is a token shorter than the pool (generator/job.py:1287-1292)",
    ),
    limits=Limits(cache_switch=False, most_token=10**9 - 1, spare_tokens=1),
    beyond={"cache off": "there is no switch for the prefix cache"},
    level=SCHEDULER,
)

_ENGINES = (VLLM, VLLM_ONE_QUEUE, SGLANG, TRANSFORMERS, TRANSFORMERS_5_5, VLLM_MLX, LMDEPLOY, NANO_VLLM, MINI_SGLANG)
_SCHEDULERS = (SCHEDULER_RULES, VLLM_SCHEDULER, LMDEPLOY_ENGINE, EXLLAMAV3)
PROFILES = {profile.name: profile for profile in (SEED, STRICT, OWN_CACHE, *_ENGINES, *_SCHEDULERS)}
"""By name: those that are shipped, and what the targets of this process have brought (`adopt`)."""

SHIPPED = frozenset(PROFILES)


def brought(said: Mapping[str, Any]) -> Profile:
    """The profile that a target has sent, field by field. Raises UsageError, naming what makes no sense."""
    try:
        profile = msgspec.convert(said, Profile)
    except msgspec.ValidationError as error:
        choices = "; ".join(f"{name}: {' | '.join(get_args(kind))}" for name, kind in get_type_hints(Variants).items())
        hint = f". The variants are {choices}" if "variants" in str(error) else ""
        raise UsageError(f"it makes no sense: {error}{hint}") from None
    known = msgspec.to_builtins(profile)
    for part, fields in (("", said), ("variants", said.get("variants", {})), ("limits", said.get("limits", {}))):
        unknown = sorted(set(fields) - set(known[part] if part else known))
        if unknown:
            raise UsageError(f"{part or 'it'} has no {', '.join(unknown)}")
    return profile


def adopt(profile: Profile) -> str:
    """Make the profile of a target known under its name, which is returned. Raises UsageError if that one is taken."""
    if profile.name in SHIPPED and profile != PROFILES[profile.name]:
        raise UsageError(f"the target brings a profile {profile.name!r}, and there is another of that name: rename it")
    PROFILES[profile.name] = profile
    return profile.name
