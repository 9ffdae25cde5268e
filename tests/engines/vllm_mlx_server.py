"""The scheduler of vllm-mlx with a model of two layers; run by a Python that has vllm-mlx, which this one has not.

It prints one JSON object: what each request was told to be cached, and whether it got the tokens that it gets from a
scheduler that has seen no other request. The weights are random and the sampling is greedy.
"""

from __future__ import annotations

import importlib
import itertools
import json
import sys
from collections.abc import Sequence
from typing import Any

BLOCK_SIZE, MAX_BLOCKS, VOCABULARY = 4, 16, 64
A, B, C, D = ([10 * i + 1, 10 * i + 2, 10 * i + 3, 10 * i + 4] for i in (1, 2, 3, 4))

names = itertools.count()


def module(name: str) -> Any:
    """A module that only the Python with vllm-mlx has."""
    return importlib.import_module(name)


class Tokenizer:
    """Tokens stand for themselves; the scheduler asks for their text."""

    eos_token_id = 0
    eos_token_ids = (0,)
    clean_up_tokenization_spaces = False

    def decode(self, tokens: Sequence[int], **_: Any) -> str:
        return "".join(chr(64 + token) for token in tokens)


def model() -> Any:
    """A Llama of two layers. The weights are enlarged, so that a changed past changes what comes next."""
    mx, llama = module("mlx.core"), module("mlx_lm.models.llama")
    mx.random.seed(0)
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2}
    arguments = llama.ModelArgs(
        model_type="llama", num_hidden_layers=2, rms_norm_eps=1e-5, vocab_size=VOCABULARY, **sizes
    )
    made = llama.Model(arguments)
    made.update(module("mlx.utils").tree_map(lambda p: 8 * p if p.ndim == 2 else p, made.parameters()))
    return made


class Server:
    """One scheduler; requests come one after the other."""

    def __init__(self, served: Any) -> None:
        scheduler = module("vllm_mlx.scheduler")
        self._served = served
        config = scheduler.SchedulerConfig(
            use_paged_cache=True, paged_cache_block_size=BLOCK_SIZE, max_cache_blocks=MAX_BLOCKS
        )
        self.scheduler = scheduler.Scheduler(served, Tokenizer(), config)

    def serve(self, prompt: Sequence[int]) -> Any:
        """The finished request."""
        requests = module("vllm_mlx.request")
        sampling = requests.SamplingParams(max_tokens=12, temperature=0.0)
        request = requests.Request(request_id=str(next(names)), prompt=list(prompt), sampling_params=sampling)
        self.scheduler.add_request(request)
        while self.scheduler.has_requests():
            self.scheduler.step()
        return request

    def compared(self, prompt: Sequence[int]) -> dict[str, Any]:
        """What this request gets here, beside what it gets from a scheduler of its own."""
        here, alone = self.serve(prompt), Server(self._served).serve(prompt)
        same = list(here.output_token_ids) == list(alone.output_token_ids)
        return {"cached": here.cached_tokens, "same_output": same}


def main() -> None:
    """Play each story on a scheduler of its own."""
    served = model()
    told: dict[str, Any] = {}

    server = Server(served)
    server.serve(A + B)
    told["shared prefix"] = server.compared([*A, 51])

    server = Server(served)
    server.serve(A + B)
    server.serve(C + D)
    told["block under another prefix"] = server.compared([*A, *D, 51])

    server = Server(served)
    server.serve(A + B)
    told["whole prompt cached"] = server.compared(A + B)

    server = Server(served)
    for first in range(MAX_BLOCKS):
        server.serve([first + 1, *A])
    server.serve(B + C)
    told["once the pool is full"] = server.compared([*B, *C, 51])
    told["free blocks"] = server.scheduler.paged_cache_manager.free_blocks
    json.dump(told, sys.stdout)


if __name__ == "__main__":
    main()
