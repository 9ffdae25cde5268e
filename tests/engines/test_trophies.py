"""The violations of docs/trophies.md: each still shows on its version. One that fails says that upstream mended it."""

from __future__ import annotations

import functools
import json
import os
import random
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from engines.controls import checkout, fetched, needs_torch
from kvaudit import words
from kvaudit.breach import gravest
from kvaudit.execution import Execution
from kvaudit.levels import play
from kvaudit.profiles import PROFILES
from kvaudit.protocol import (
    MANAGER,
    SCHEDULER,
    Allocate,
    Cancel,
    LevelName,
    Observe,
    Observed,
    Pool,
    Request,
    Returned,
    Step,
    Submit,
)
from kvaudit.scenario import Scenario
from kvaudit.targets import Target, TargetSpec
from kvaudit.trace import TraceHeader, TraceLine, read_lines

DOCS = Path(__file__).parents[2] / "docs"
TRACES = sorted((DOCS / "trophies").glob("*.jsonl"))
WITHOUT_TORCH = ("vllm-mlx",)
MINI_SGLANG = ("KVAUDIT_MINI_SGLANG", "20fcd7f")
VLLM_MLX = "KVAUDIT_VLLM_MLX"
Start = Callable[..., Target]


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Start]:
    """Gives the engine at the version of a trophy, from the cache or from a checkout; started once."""
    with ExitStack() as running:

        @functools.cache
        def started(text: str, level: LevelName = MANAGER) -> Target:
            source = None
            if "==" in text:
                fetched(text, level)
            else:
                source = checkout(*MINI_SGLANG, tmp_path_factory.mktemp("checkouts"))
            target = TargetSpec(text, source, level=level).start()
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
def test_it_is_still_violated_at_the_last_operation(trace: Path, start: Start) -> None:
    header, lines = read(trace)
    scenario = Scenario(header.pool, tuple(line.operation for line in lines))
    execution = play(start(header.target, header.level), scenario, PROFILES[header.profile])
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
def test_a_page_that_a_row_of_mini_sglang_names_is_given_to_another_request(start: Start) -> None:
    """What I8 leads to: the next request that needs a page overwrites what 'b' goes on reading."""
    target = start("mini-sglang")
    target.open(Pool(2, 1))
    *_, c, seen = target.run([Allocate("a", (0,)), Allocate("b", (0,)), Allocate("c", (7,)), Observe()])
    assert isinstance(c, Returned) and isinstance(seen, Observed) and seen.tables is not None
    assert seen.tables["b"] == c.value


# --- schedulers at the sizes that are their engines' defaults -------------------------------------------------


def played(target: Target, pool: Pool, *program: Request) -> Execution[Any, Any]:
    return play(target, Scenario(pool, program), PROFILES[target.profile])


def texts(*lengths: int) -> list[tuple[int, ...]]:
    """Prompts of these lengths, of ten symbols at random."""
    rng = random.Random(1)
    return [tuple(rng.choices(range(10), k=length)) for length in lengths]


@needs_torch
def test_lmdeploy_shifts_the_table_of_whoever_comes_back_with_blocks_of_64(start: Start) -> None:
    (prompt,) = texts(242)
    pool = Pool(8, 64, settings={"prefill_interval": 16})
    two = (Submit("a", prompt, 100), Submit("b", prompt, 120))
    execution = played(start("lmdeploy==0.18.0", SCHEDULER), pool, *two, *[Step(k % 10) for k in range(90)])
    assert {breach.obligation for breach in execution.breaches} == {"K1", "K2"}
    assert len(execution.played) == 84


@needs_torch
def test_lmdeploy_computes_a_request_twice_with_chunks_of_8192(start: Start) -> None:
    target = start("lmdeploy==0.18.0", SCHEDULER)
    target.open(Pool(300, 64, enable_prefix_cache=False, settings={"prefill_interval": 16}))
    first, second = texts(9_000, 17_000)
    target.run([Submit("a", first, 2_600), *[Step(k % 7) for k in range(20)], Submit("b", second, 100)])
    steps: list[Any] = []
    while not steps or not steps[-1]["preempted"]:
        assert len(steps) < 2_200
        steps += [outcome.value for outcome in target.run([Step(1)]) if isinstance(outcome, Returned)]
    last = [outcome.value for outcome in target.run([Cancel("b"), *[Step(1)] * 3])[1:] if isinstance(outcome, Returned)]
    rows = [[item["seq"] for item in step["passes"][0]] for step in last]
    assert rows == [["a"], ["a"], ["a", "a"]]


@needs_torch
def test_exllamav3_copies_a_page_of_256_to_where_it_does_not_belong(start: Start) -> None:
    (prompt,) = texts(513)
    twice = (Submit("a", prompt, 20), Submit("b", prompt, 20))
    third = Submit("c", (prompt[-1], *[k % 5 for k in range(12)], *[7] * 50), 5)
    steps = [Step(k % 5) for k in range(20)]
    execution = played(start("exllamav3==1.6.5", SCHEDULER), Pool(64, 256), *twice, *steps, third, Step(0))
    assert [breach.obligation for breach in execution.breaches] == ["K1"]
    assert execution.played[-2].operation == third


@needs_torch
@pytest.mark.parametrize(
    ("pool", "program"),
    [
        pytest.param(
            Pool(64, 256), [Submit("short", texts(6_000)[0][:2_304], 50), Submit("long", texts(6_000)[0], 50)]
        ),
        pytest.param(
            Pool(40, 2), [Submit("b", (1,), 3), Step(2), Submit("d", (7, 7, 7), 1), Submit("c", (1, 2, 3), 1)]
        ),
    ],
    ids=["pages of 256", "a prompt that is what another generates"],
)
def test_exllamav3_fails_for_everybody(pool: Pool, program: list[Request], start: Start) -> None:
    generating = (Submit("a", (4,), 40), Step(5), Step(5))
    execution = played(start("exllamav3==1.6.5", SCHEDULER), pool, *generating, *program, *[Step(2)] * 12)
    assert [breach.obligation for breach in execution.breaches] == ["O2"]
    assert "AssertionError" in execution.breaches[0].detail


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
