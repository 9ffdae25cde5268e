"""ExLlamaV3's `Generator` at scheduler level: its own `iterate()`, with the auditor where the model would be.

The real `Generator`, `Job` and `PageTable` run. Replaced are the model, the cache tensors, and four functions of the
compiled extension. It has no manager level: half of the protocol by which pages are used is that of `Job`.
"""

from __future__ import annotations

import importlib
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

from kvaudit.engines.adapting import OutOfBlocks, need, tried_scheduler, version_of
from kvaudit.engines.exllamav3_stand_ins import Tokenizer, WithoutCuda, count_match_tensor, generator_stage_decode
from kvaudit.engines.lite import Engine, Loaded, Recipe, install

_GENERATOR = "exllamav3/generator"

RECIPE = Recipe(
    package="exllamav3",
    real=(
        "exllamav3/constants.py",
        "exllamav3/tokenizer/mm_embedding.py",
        "exllamav3/util/tensor.py",
        "exllamav3/version.py",
        f"{_GENERATOR}/generator.py",
        f"{_GENERATOR}/job.py",
        f"{_GENERATOR}/pagetable.py",
    ),
    needs=("torch", "numpy"),
)


class Scheduler:
    """One generator; `load_scheduler` makes the subclass that is bound to a version.

    Settings that the engine counts in tokens, and wants to be multiples of its page size, are in pages here.
    """

    SETTINGS: ClassVar[dict[str, tuple[Any, ...]]] = {
        "max_batch_size": (1, 2, 256),
        "max_chunk_pages": (1, 2, 8),
        "shared_chunk_pages": (1, 4, 8),
        "prefill_cooldown": (0, 1, 4),
        "max_skips": (0, 4),
        "max_rq_pages": (1, 2, None),
        "enable_defrag": (True, False),
    }
    _api: ClassVar[_Api]

    def __init__(
        self,
        num_blocks: int,
        block_size: int,
        enable_prefix_cache: bool = True,
        *,
        max_batch_size: int = 256,
        max_chunk_pages: int = 8,
        shared_chunk_pages: int = 4,
        prefill_cooldown: int = 4,
        max_skips: int = 4,
        max_rq_pages: int | None = None,
        enable_defrag: bool = True,
    ) -> None:
        """max_rq_pages: after so many pages of new tokens a job gives all pages back and is queued again."""
        if not enable_prefix_cache:
            raise ValueError("ExLlamaV3 has no switch for its prefix cache")
        api = self._api
        api.set_page_size(block_size)
        api.extension.cache_rotate = self._rotate
        self._size, self._max_skips = block_size, max_skips
        self._max_rq_tokens = max_rq_pages * block_size if max_rq_pages is not None else None
        self._blocks = list(range(num_blocks))
        self._passes: list[list[dict[str, Any]]] = []
        self._live: dict[Hashable, Any] = {}
        self._requeued: list[Hashable] = []
        self._token = 0
        self._sampler = SimpleNamespace(reqs_past_ids=False, forward=self._sample)
        model = SimpleNamespace(
            config=SimpleNamespace(vocab_size=32, infer_params=None),
            caps={},
            loaded_tp=False,
            output_device="cpu",
            get_cache_layers=tuple,
            prefill=self._prefill,
            forward=self._decode,
            prefetch_tokens=lambda _: None,
        )
        cache = SimpleNamespace(
            max_num_tokens=num_blocks * block_size,
            initialized=True,
            model=model,
            copy_page=self._copy,
            get_all_tensors=lambda: [api.torch.zeros((num_blocks, 1))],
        )
        self._generator = api.generator(
            model,
            cache,
            Tokenizer(),
            max_batch_size=max_batch_size,
            max_chunk_size=max_chunk_pages * block_size,
            shared_chunk_size=min(shared_chunk_pages, max_chunk_pages) * block_size,
            prefill_cooldown=prefill_cooldown,
            enable_defrag=enable_defrag,
            recurrent_checkpoint_interval=block_size,  # of other models; asserted to be multiples of the page size
            recurrent_checkpoint_interval_pp=block_size,
        )

    # What the auditor calls.

    def submit(self, seq_id: Hashable, token_ids: Iterable[int], max_new_tokens: int) -> None:
        """Queue a job. Raises `OutOfBlocks` if the engine would refuse it, or cut it short (job.py:1287-1292)."""
        tokens = list(token_ids)
        most = self._generator.max_total_tokens - 1
        if len(tokens) + max_new_tokens > most:
            raise OutOfBlocks(f"{len(tokens)} + {max_new_tokens} tokens are more than the {most} of the cache")
        job = self._api.job(
            input_ids=self._api.torch.tensor([tokens], dtype=self._api.torch.long),
            max_new_tokens=max_new_tokens,
            max_skips=self._max_skips,
            sampler=self._sampler,
            identifier=seq_id,
            max_rq_tokens=self._max_rq_tokens,
        )
        self._generator.enqueue(job)
        self._live[seq_id] = job

    def step(self, token: int, cancel: Sequence[Hashable] = ()) -> dict[str, Any]:
        """One iteration. Requests come and go between iterations only (async_generator.py:52-57)."""
        self._token, self._passes = token, []
        finished: list[Hashable] = []
        preempted, self._requeued = self._requeued, []
        for result in self._generator.iterate():
            if result["stage"] == "error":
                raise result["error"]
            if result["eos"]:
                finished.append(result["identifier"])
                del self._live[result["identifier"]]
            elif result.get("requeue"):
                self._requeued.append(result["identifier"])  # after this step's work: told with the next one's
        for seq_id in cancel:
            if seq_id in self._live:
                self.cancel(seq_id)
        return {"passes": self._passes, "finished": finished, "preempted": preempted}

    def cancel(self, seq_id: Hashable) -> None:
        """Cancel its job."""
        self._generator.cancel(self._live.pop(seq_id))
        self._requeued = [requeued for requeued in self._requeued if requeued != seq_id]

    @property
    def num_free_blocks(self) -> int:
        """Pages that no job holds, empty or not."""
        return int(self._generator.pagetable.num_unreferenced_pages())

    def observe(self) -> dict[str, Any]:
        """The state by pages."""
        pagetable = self._generator.pagetable
        ref = [0] * len(self._blocks)
        for page in pagetable.all_pages:
            ref[self._blocks[page.page_index]] = page.ref_count
        return {
            "free": sorted(self._blocks[page.page_index] for page in pagetable.unreferenced_pages.values()),
            "ref": ref,
            "tables": {job.identifier: self._table(job) for job in self._generator.active_jobs},
        }

    # What the engine calls: the auditor is its model, its cache and its extension.

    def _prefill(self, input_ids: Any, params: dict[str, Any]) -> None:
        (job,) = (j for j in self._generator.active_jobs if j.sequences[0].block_index_tensor is params["block_table"])
        start = int(params["cache_seqlens"][0])
        self._passes.append([self._item(job, start, start + input_ids.shape[-1], params["block_table"][0])])

    def _decode(self, input_ids: Any, params: dict[str, Any]) -> Any:
        jobs = [job for job in self._generator.active_jobs if job.is_prefill_done()]  # as generator.py:1650-1652
        starts, tables = params["cache_seqlens"].tolist(), params["block_table"]
        rows = zip(jobs, starts, tables, strict=True)
        self._passes.append([self._item(job, start, start + 1, table) for job, start, table in rows])
        return self._api.torch.zeros((len(jobs), 1, 1))

    def _item(self, job: Any, start: int, end: int, table: Any) -> dict[str, Any]:
        pages = table[: len(job.sequences[0].allocated_pages)].tolist()
        return {"seq": job.identifier, "start": start, "end": end, "table": [self._blocks[p] for p in pages]}

    def _copy(self, _cache: Any, source: int, target: int, tokens: int) -> None:
        self._passes.append([{"source": self._blocks[source], "target": self._blocks[target], "tokens": tokens}])

    def _rotate(self, _cache: Any, order: Any, _buffer: Any) -> None:
        """Pages change places. Each keeps the number under which it is reported, so this is no copy to the auditor."""
        at = dict(enumerate(self._blocks))
        for target, source in order.view(-1, 2).tolist():
            at[target] = at[source]
        self._blocks = [at[page] for page in range(len(self._blocks))]

    def _sample(self, *_: Any, **__: Any) -> Any:
        return self._api.torch.tensor([[self._token]], dtype=self._api.torch.long)

    def _table(self, job: Any) -> list[int]:
        return [self._blocks[page.page_index] for page in job.sequences[0].allocated_pages]


@dataclass(frozen=True)
class _Api:
    torch: Any
    generator: Any
    job: Any
    extension: Any
    sized: tuple[dict[str, Any], ...]

    def set_page_size(self, tokens: int) -> None:
        """It is a constant of the engine, which each module has imported."""
        for names in self.sized:
            names["PAGE_SIZE"] = tokens


def load_scheduler(root: Path | None) -> Engine:
    """Load ExLlamaV3 from `root` (a cached engine or a checkout), or the installed one if None. Raises `LoadError`."""
    loaded = install(RECIPE, root)
    scheduler = type("Scheduler", (Scheduler,), {"_api": _probe(loaded), "__module__": __name__})
    tried_scheduler("ExLlamaV3", scheduler)
    notes = (
        "replaced: the model and its cache (by the auditor), and of the extension count_match_tensor, "
        "generator_stage_decode and cache_rotate",
        "the page size is a constant of 256 in the engine, and is set to that of the pool",
    )
    return Engine("exllamav3", version_of("exllamav3", root, loaded), scheduler, loaded.stubs, "exllamav3", notes)


def _probe(loaded: Loaded) -> _Api:
    torch = importlib.import_module("torch")
    extension: Any = importlib.import_module("exllamav3.ext").exllamav3_ext
    extension.count_match_tensor = count_match_tensor
    extension.generator_stage_decode = generator_stage_decode
    pagetable = loaded.module("exllamav3.generator.pagetable")
    job = loaded.module("exllamav3.generator.job")
    generator = loaded.module("exllamav3.generator.generator")
    vars(generator)["torch"] = WithoutCuda(torch)
    return _Api(
        torch=torch,
        generator=need(generator, "Generator"),
        job=need(job, "Job"),
        extension=extension,
        sized=(vars(pagetable), vars(job), vars(generator)),
    )
