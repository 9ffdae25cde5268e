"""The settings of vLLM's scheduler: the values among which they are drawn, and the configuration that they make."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kvaudit.engines.vllm import Unset

VALUES: dict[str, tuple[Any, ...]] = {
    "max_num_batched_tokens": (3, 4, 7, 16),
    "max_num_seqs": (2, 1, 3, 8),
    "max_num_active_seqs": (1, 2),
    "enable_chunked_prefill": (False, True),
    "long_prefill_token_threshold": (2, 1, 4),
    "long_prefill_token_threshold_adaptive": (True, False),
    "policy": ("priority", "fcfs"),
    "scheduler_reserve_full_isl": (False, True),
    "watermark": (0.3, 0.1, 0.01),
    "prefill_schedule_interval": (2, 3),
    "async_scheduling": (False, True),
    "use_v2_model_runner": (False, True),
}
"""Of each public setting that touches blocks; the tightest first."""

_MOST_SEQS, _MOST_TOKENS = 128, 2048
"""`SchedulerConfig.DEFAULT_MAX_NUM_SEQS` and `DEFAULT_MAX_NUM_BATCHED_TOKENS`."""

BATCHES_AHEAD = 2
"""`VllmConfig.max_concurrent_batches` under async scheduling, without pipeline parallelism."""


@dataclass(frozen=True)
class Settings:
    """The public settings, with the engine's defaults, and brought together as its own checks demand."""

    max_num_batched_tokens: int = _MOST_TOKENS
    max_num_seqs: int = _MOST_SEQS
    max_num_active_seqs: int | None = None
    enable_chunked_prefill: bool = True
    long_prefill_token_threshold: int = 0
    long_prefill_token_threshold_adaptive: bool = False
    policy: str = "fcfs"
    scheduler_reserve_full_isl: bool = True
    watermark: float = 0.0
    prefill_schedule_interval: int = 1
    async_scheduling: bool = True
    use_v2_model_runner: bool = True

    def tokens(self, max_model_len: int) -> int:
        """At least one a sequence, and without chunks a whole prompt (`SchedulerConfig.verify_max_model_len`)."""
        least = self.seqs if self.enable_chunked_prefill else max(self.seqs, max_model_len)
        return max(self.max_num_batched_tokens, least)

    @property
    def seqs(self) -> int:
        """As many as there may be tokens, unless it is asked for more."""
        asked = self.max_num_seqs
        return min(asked, self.max_num_batched_tokens) if asked == _MOST_SEQS else asked


class Config(Unset):
    """Some options of the engine; all others are as if they were not given."""

    max_concurrent_batches: int

    def __init__(self, **options: Any) -> None:
        vars(self).update(options)


def config_of(num_blocks: int, block_size: int, caching: bool, max_model_len: int, chosen: Settings) -> Config:
    """What a `VllmConfig` says, as far as the scheduler reads it."""
    tokens, batches = chosen.tokens(max_model_len), BATCHES_AHEAD if chosen.async_scheduling else 1
    active = min(chosen.max_num_active_seqs, chosen.seqs) if chosen.max_num_active_seqs is not None else None
    scheduler = Config(
        max_num_batched_tokens=tokens,
        max_num_scheduled_tokens=None,
        max_num_seqs=chosen.seqs,
        max_num_active_seqs=active,
        enable_chunked_prefill=chosen.enable_chunked_prefill,
        long_prefill_token_threshold=min(chosen.long_prefill_token_threshold, max_model_len),
        long_prefill_token_threshold_adaptive=chosen.long_prefill_token_threshold_adaptive,
        policy=chosen.policy,
        scheduler_reserve_full_isl=chosen.scheduler_reserve_full_isl,
        watermark=chosen.watermark,
        prefill_schedule_interval=chosen.prefill_schedule_interval,
        async_scheduling=chosen.async_scheduling,
    )
    one = {
        "data_parallel_size": 1,
        "data_parallel_index": 0,
        "pipeline_parallel_size": 1,
        "decode_context_parallel_size": 1,
        "prefill_context_parallel_size": 1,
    }
    return Config(
        scheduler_config=scheduler,
        cache_config=Config(num_gpu_blocks=num_blocks, block_size=block_size, enable_prefix_caching=caching),
        model_config=Config(max_model_len=max_model_len, runner_type="generate"),
        parallel_config=Config(**one),
        observability_config=Config(per_request_spec_decode_metrics="none"),
        ec_manager_config=Config(get_encoder_cache_manager_obj=lambda: None),
        aux_output_config=Config(),
        max_concurrent_batches=batches,
        max_in_flight_tokens=batches * tokens,
        num_speculative_tokens=0,
        num_lookahead_tokens=0,
        num_prefill_lookahead_tokens=0,
        num_hash_lookahead_tokens=0,
        use_v2_model_runner=chosen.use_v2_model_runner,
    )
