"""The violations of docs/trophies.md: each still shows on its version. One that fails says that upstream mended it."""

from __future__ import annotations

import functools
import json
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from engines.controls import checkout, fetched, needs_torch
from kvaudit import words
from kvaudit.breach import gravest
from kvaudit.levels import play
from kvaudit.profiles import PROFILES
from kvaudit.protocol import Allocate, Observe, Observed, Pool, Returned
from kvaudit.scenario import Scenario
from kvaudit.targets import Target, TargetSpec
from kvaudit.trace import TraceHeader, TraceLine, read_lines

DOCS = Path(__file__).parents[2] / "docs"
TRACES = sorted((DOCS / "trophies").glob("*.jsonl"))
WITHOUT_TORCH = ("vllm-mlx",)
MINI_SGLANG = ("KVAUDIT_MINI_SGLANG", "20fcd7f")
VLLM_MLX = "KVAUDIT_VLLM_MLX"


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Target]]:
    """Gives the engine at the version of a trophy, from the cache or from a checkout; started once."""
    with ExitStack() as running:

        @functools.cache
        def started(text: str) -> Target:
            source = None
            if "==" in text:
                fetched(text)
            else:
                source = checkout(*MINI_SGLANG, tmp_path_factory.mktemp("checkouts"))
            target = TargetSpec(text, source).start()
            running.callback(target.close)
            return target

        yield started


def read(trace: Path) -> tuple[TraceHeader, list[TraceLine]]:
    header, lines = read_lines(trace)
    return header, list(lines)


def marked() -> list[Any]:
    """The traces; those of engines that need torch are skipped where there is none."""
    light = [trace for trace in TRACES if trace.name.startswith(WITHOUT_TORCH)]
    marks = {True: (), False: (needs_torch,)}
    return [pytest.param(trace, id=trace.stem, marks=marks[trace in light]) for trace in TRACES]


@pytest.mark.parametrize("trace", marked())
def test_it_is_still_violated_at_the_last_operation(trace: Path, start: Callable[[str], Target]) -> None:
    header, lines = read(trace)
    scenario = Scenario(header.pool, tuple(line.operation for line in lines))
    execution = play(start(header.target), scenario, PROFILES[header.profile])
    assert execution.breaches, f"{header.obligation} is no longer violated: say so in docs/trophies.md"
    assert gravest(execution.breaches).obligation == header.obligation
    assert len(execution.played) == len(lines)


@pytest.mark.parametrize("trace", TRACES, ids=lambda trace: trace.stem)
def test_the_page_shows_it(trace: Path) -> None:
    header, lines = read(trace)
    page = (DOCS / "trophies.md").read_text(encoding="utf-8")
    assert f"trophies/{trace.name}" in page
    calls = [words.call(line.operation) for line in lines]
    section = next(part for part in page.split("\n## ") if f"trophies/{trace.name}" in part)
    assert all(call in section for call in calls)
    assert header.obligation in section.splitlines()[0]


@needs_torch
def test_a_page_that_a_row_of_mini_sglang_names_is_given_to_another_request(start: Callable[[str], Target]) -> None:
    """What I8 leads to: the next request that needs a page overwrites what 'b' goes on reading."""
    target = start("mini-sglang")
    target.open(Pool(2, 1))
    *_, c, seen = target.run([Allocate("a", (0,)), Allocate("b", (0,)), Allocate("c", (7,)), Observe()])
    assert isinstance(c, Returned) and isinstance(seen, Observed) and seen.tables is not None
    assert seen.tables["b"] == c.value


# --- vllm-mlx behind its scheduler, with a model --------------------------------------------------------------


@functools.cache
def served() -> dict[str, Any]:
    """What the requests to a real vllm-mlx got; the environment names a Python that has it."""
    python = os.environ.get(VLLM_MLX)
    if not python:
        pytest.skip(f"{VLLM_MLX}=PYTHON names a Python that has vllm-mlx and MLX; docs/trophies.md says how to make it")
    script = Path(__file__).with_name("vllm_mlx_server.py")
    done = subprocess.run([python, str(script)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def test_vllm_mlx_answers_as_ever_where_the_prefix_is_the_same() -> None:
    assert served()["shared prefix"] == {"cached": 4, "same_output": True}


def test_vllm_mlx_answers_otherwise_where_a_block_stood_behind_another_prefix() -> None:
    assert served()["block under another prefix"] == {"cached": 8, "same_output": False}


def test_vllm_mlx_computes_the_last_token_of_a_cached_prompt_twice() -> None:
    assert served()["whole prompt cached"] == {"cached": 8, "same_output": False}


def test_vllm_mlx_gives_no_block_back() -> None:
    assert served()["free blocks"] == 0
    assert served()["once the pool is full"] == {"cached": 0, "same_output": True}
