"""The benchmark compares like with like: all drivers play the same workload to the same hits, in the same units."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

from audit.auditing import environment_with_mark, left
from bench.__main__ import app
from bench.contestants import (
    BARE,
    BUILTIN,
    COMPILED,
    CONTESTANTS,
    KVBLOCKS,
    NANO,
    VLLM,
    Absent,
    Contestant,
)
from bench.drivers.bare import BareDriver
from bench.drivers.kvblocks import KvblocksDriver
from bench.measuring import Plan, measure, run
from bench.page import page
from bench.playing import APPEND, FREE, PROMPT, REFUSAL, play
from bench.processes import started
from bench.results import Cost, Measured, Reading, Results, Spread, merged, read, write
from bench.shares import shares
from bench.targets import TARGETS, verdicts
from bench.workloads import LENGTHS, LIVE, MAIN, POOLS, Workload, traces
from kvblocks import BlockManager

ROOT = Path(__file__).parents[2]
SMALL = Workload("small", "for tests", 256, 30, prompt_tokens=64, shared=40, groups=3, live=4)
ENGINES = [contestant for contestant in CONTESTANTS if contestant.engine]


def kvblocks() -> KvblocksDriver:
    return KvblocksDriver("sha256", "list", batched=False)


# --- what is played -------------------------------------------------------------------------------------------


def test_units_are_counted() -> None:
    """30 prompts of 4 blocks; one token a step for each of at most 4; 26 are freed, with 4 more tokens each."""
    played = play(kvblocks(), SMALL)
    assert played.units == {PROMPT: 120, APPEND: 1 + 2 + 3 + 4 * 27, FREE: 26 * 5}
    assert (played.prompt_tokens, played.hit_tokens) == (30 * 64, 27 * 32)
    assert all(cost > 0 for cost in played.costs().values())


def test_every_way_of_kvblocks_plays_the_same() -> None:
    for hasher, form in (("sha256", "array"), ("builtin", "list")):
        other = play(KvblocksDriver(hasher, form, batched=False), SMALL)
        assert (other.units, other.hit_tokens) == (play(kvblocks(), SMALL).units, play(kvblocks(), SMALL).hit_tokens)


def test_a_full_pool_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[bool] = []
    take = BlockManager._take

    def watched(self: BlockManager) -> int:
        taken.append(not self._free)
        return take(self)

    full = replace(SMALL, full=True, shared=0)
    monkeypatch.setattr(BlockManager, "_take", watched)
    assert play(kvblocks(), full).hit_tokens == 0
    assert not any(taken[: full.num_blocks])
    assert taken.count(True) >= 100


def test_refusals_are_refused() -> None:
    workload = Workload("refusals", "", 8, 5, prompt_tokens=64, refused=True)
    assert play(kvblocks(), workload).units == {REFUSAL: 3 * 4}
    lax = kvblocks()
    lax.version = "1"
    lax.start = lambda name, prompt: name  # type: ignore[method-assign]
    with pytest.raises(RuntimeError, match="was not refused"):
        play(lax, workload)


def test_a_pool_that_is_too_small_is_told() -> None:
    with pytest.raises(RuntimeError, match="too small"):
        play(kvblocks(), replace(SMALL, num_blocks=3))


def test_the_bare_loop_hashes_the_same_blocks() -> None:
    played = play(BareDriver("sha256"), SMALL)
    assert played.units[PROMPT] == 120 and played.hit_tokens == 0


def test_workloads_fit_their_pools_and_are_the_same_each_time() -> None:
    for workload in (*MAIN, *POOLS, *LENGTHS, *LIVE):
        blocks = -(-(workload.prompt_tokens + max(workload.live, workload.decode)) // workload.block_size)
        assert workload.refused or workload.live * blocks <= workload.num_blocks, workload.name
    assert list(SMALL.prompts()) == list(SMALL.prompts())
    assert len({tuple(prompt[:40]) for prompt in SMALL.prompts()}) == 3


def test_traces_are_those_that_are_there(tmp_path: Path) -> None:
    assert traces(tmp_path) == []
    line = '{"timestamp": 0, "input_length": 513, "output_length": 1, "hash_ids": [0, 1]}\n'
    (tmp_path / "mooncake_synthetic_trace.jsonl").write_text(line * 3, encoding="utf-8")
    [workload] = traces(tmp_path)
    assert list(workload.prompts()) == [[0, 0, 1]] * 3


# --- who plays ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("contestant", ENGINES, ids=lambda contestant: contestant.name)
def test_an_engine_hits_what_kvblocks_hits(contestant: Contestant) -> None:
    """As nothing is evicted: what it is asked to do is the same work."""
    with started([contestant], {}) as (running, absent):
        if absent:
            pytest.skip(absent[contestant.name])
        played, ours = running[0].play(SMALL), play(kvblocks(), SMALL)
    assert (played.units, played.hit_tokens) == (ours.units, ours.hit_tokens)


class Failing(KvblocksDriver):
    def start(self, name: str, prompt: Any) -> Any:
        raise ValueError("no prompt is good enough")


def named(name: str) -> Contestant:
    return next(contestant for contestant in CONTESTANTS if contestant.name == name)


def make_failing(root: Path | None) -> Failing:
    return Failing("sha256", "list", batched=False)


def make_none(root: Path | None) -> Failing:
    raise Absent("it does not feel like it")


def test_who_cannot_take_part_is_named_and_the_others_go_on() -> None:
    own = CONTESTANTS[0]
    wrong = [Contestant("failing", make_failing), Contestant("absent", make_none)]
    fetched = Contestant("not fetched", make_none, "vllm==0.0.1")
    steps: list[str] = []
    results = run(Plan({"main": [SMALL]}, 2, memory=False), [own, *wrong, fetched, named(NANO)], {}, steps.append)
    assert [entrant.name for entrant in results.entrants] == [KVBLOCKS, "failing"]
    assert results.absent == {
        "absent": "it does not feel like it",
        "not fetched": "it has not been fetched: kvaudit fetch vllm==0.0.1",
        NANO: "it is on no package index: --nano-vllm DIR names a checkout",
    }
    [measured] = results.main
    assert measured.broken == {"failing": "ValueError: no prompt is good enough"}
    assert list(measured.costs[PROMPT]) == [KVBLOCKS]
    assert len(steps) == 4


def test_a_folder_without_the_compiled_build_is_named(tmp_path: Path) -> None:
    """Else the pure one would be measured under its name."""
    with started([named(COMPILED)], {"compiled": tmp_path}) as (running, absent):
        assert not running
    assert absent[COMPILED].startswith(f"{tmp_path} has no compiled kvblocks")


# --- a long run -----------------------------------------------------------------------------------------------

LEFT: list[object] = []
SHORT = Workload("short", "for tests", 64, 200, prompt_tokens=64, shared=32, live=4)


class LeavesNames(KvblocksDriver):
    """A small object stays behind for each request: nothing that the size of a process shows so soon."""

    def free(self, request: Any) -> None:
        LEFT.append([request])
        super().free(request)


class LeavesBuffers(KvblocksDriver):
    """Few objects stay behind, and large ones."""

    def free(self, request: Any) -> None:
        if request.endswith("00"):
            LEFT.append(b"x" * 2_000_000)
        super().free(request)


def make_names_stay(root: Path | None) -> LeavesNames:
    return LeavesNames("sha256", "list", batched=False)


def make_buffers_stay(root: Path | None) -> LeavesBuffers:
    return LeavesBuffers("sha256", "list", batched=False)


def grown(contestant: Contestant) -> tuple[str, bool | None]:
    with started([contestant], {}) as ([one], _):
        readings = [one.reading(number, replace(SHORT, requests=2_000)) for number in range(2)]
    assert readings[0].operations == 2_000 * 6 - 6 and readings[1].operations == 2 * readings[0].operations
    [verdict] = [row[2:] for row in verdicts(results_of({}, growth=readings)) if row[0].startswith("memory after")]
    return verdict


def test_kvblocks_does_not_grow_and_a_leak_of_either_kind_is_seen() -> None:
    assert grown(CONTESTANTS[0])[1] is True
    assert grown(Contestant("names stay", make_names_stay))[1] is False
    assert grown(Contestant("buffers stay", make_buffers_stay))[1] is False


def test_a_long_run_is_read_ten_times() -> None:
    results = run(Plan({}, 1, growth=SHORT), CONTESTANTS[:1], {}, lambda what: None)
    assert [one.operations for one in results.growth] == [1_194 * n for n in range(1, 11)]
    assert f"| 11,940 | {results.growth[-1].rss / 2**20:.2f} | " in page(results)


# --- what comes of it -----------------------------------------------------------------------------------------


def test_ratios_are_of_one_round() -> None:
    class Fake:
        """A running contestant with the costs that it is told."""

        def __init__(self, name: str, costs: Sequence[float]) -> None:
            self.contestant, self.costs = Contestant(name, make_failing), iter(costs)

        def play(self, workload: Workload) -> Any:
            cost = next(self.costs)
            played = play(BareDriver("sha256"), SMALL)
            played.seconds[PROMPT] = cost * played.units[PROMPT] / 1e6
            return played

    fakes: Any = [Fake(KVBLOCKS, [1, 2, 4]), Fake(VLLM, [4, 4, 20])]
    costs = measure(fakes, SMALL, 3, lambda what: None).costs[PROMPT]
    assert (costs[VLLM].us, costs[VLLM].ratio) == (Spread(4, 4, 20), Spread(4, 2, 5))
    assert costs[KVBLOCKS].ratio == Spread(1, 1, 1)


def results_of(
    costs: dict[str, dict[str, float]], memory: dict[str, float] | None = None, growth: Sequence[Reading] = ()
) -> Results:
    def cost(us: float) -> Cost:
        return Cost(Spread.of([us]), Spread.of([us]))

    of_kind = {kind: {name: cost(us) for name, us in named.items()} for kind, named in costs.items()}
    measured = Measured("a", "x", 8, 16, 1, 64, 1, of_kind, {KVBLOCKS: 0.5}, {})
    pools = [measured, measured]
    return Results("a machine", 1, [], {}, [measured], pools, [], [], [measured], memory or {}, list(growth))


def test_targets_are_met_or_not() -> None:
    costs = {PROMPT: {KVBLOCKS: 1.0, BUILTIN: 2.0, BARE: 0.8, VLLM: 4.0}, APPEND: {KVBLOCKS: 1.0, VLLM: 19.0}}
    found = {about: (shown, met) for about, _, shown, met in verdicts(results_of(costs, {KVBLOCKS: 251.0}))}
    assert len(found) == len(TARGETS)
    assert found["a prompt block, from a list: times as fast as vLLM 0.33.0"] == ("4", True)
    assert found["a prompt block, builtin hash: times as fast as vLLM 0.33.0"] == ("2", False)
    assert found["a prompt block, from a list: times the bare hashing"] == ("1.25", True)
    assert found["an append: times as fast as vLLM 0.33.0"] == ("19", False)
    assert found["an append: times as fast as nano-vllm"] == ("not measured", None)
    assert found["bytes a block, all cached"] == ("251", False)
    assert found["a prompt block on the largest pool: times the smallest"] == ("1", True)


def test_results_are_read_as_they_were_written(tmp_path: Path) -> None:
    results = results_of({PROMPT: {KVBLOCKS: 1.0, VLLM: 0.5}}, {KVBLOCKS: 100.0})
    write(tmp_path / "r.json", results)
    assert read(tmp_path / "r.json") == results
    assert merged(results, msgspec.structs.replace(results, machine="another", pools=[])).pools == results.pools
    text = page(results)
    assert "| vLLM 0.33.0 | 0.5 (0.5-0.5) | 0.5 (0.5-0.5) |" in text
    assert "| a prompt block, from a list: times as fast as vLLM 0.33.0 | at least 4 | 0.5 | **not met** |" in text


# --- Ctrl-C ---------------------------------------------------------------------------------------------------


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="nobody says which processes there are")
@pytest.mark.parametrize(("processes", "wait_s"), [(1, 0.2), (2, 0.5)], ids=["as it starts", "as it measures"])
def test_ctrl_c_ends_it_with_a_line_and_nothing_is_left(tmp_path: Path, processes: int, wait_s: float) -> None:
    """The terminal sends the signal to the processes of the contestants, too, be they ready for it or not."""
    environment = environment_with_mark()
    command = [sys.executable, "-m", "bench", "growth", "--only", KVBLOCKS, "--write", str(tmp_path)]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=pipe, stderr=pipe, text=True, start_new_session=True
    ) as bench:
        try:
            while sum("spawn_main" in line for line in left(environment)) < processes:
                assert bench.poll() is None
                time.sleep(0.01)
            time.sleep(wait_s)
            os.killpg(bench.pid, signal.SIGINT)
            said, errors = bench.communicate(timeout=20)
        finally:
            bench.kill()
    assert (bench.returncode, said, errors) == (130, "", "error: interrupted: nothing was written\n")
    assert not left(environment) and not list(tmp_path.iterdir())


def test_the_shares_name_every_part_of_the_cost() -> None:
    told: list[str] = []
    found = shares(2, told.append, num_prompts=3)
    assert [(share.operation, found.count(share)) for share in found] == [
        *[("a prompt block", 1)] * 4,
        *[("an append", 1)] * 3,
        *[("a freed block", 1)] * 2,
    ]
    assert told == ["shares: round 1", "shares: round 2"]
    results = msgspec.structs.replace(run(Plan({}, 1), CONTESTANTS[:1], {}, told.append), shares=found)
    assert all(share.about in page(results) for share in found)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["shares", "--write", "nowhere"], "--write names a folder, and nowhere is none"),
        (["shares", "--compiled", "nowhere"], "--compiled names a folder, and nowhere is none"),
        (["--checks", "--write", "nowhere"], "--write names a folder, and nowhere is none"),
        (["traces"], "--traces DIR, or $KVAUDIT_TRACES, names it"),
        (["shares", "--write", "."], "performance.json is no file of results"),
        (["shares", "--only", "nobody"], "'kvblocks, array', 'kvblocks, builtin hash'"),
    ],
)
def test_what_cannot_be_measured_or_written_is_said_before(
    options: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "performance.json").write_text("{}")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("KVAUDIT_TRACES", raising=False)
    monkeypatch.setenv("COLUMNS", "400")
    result = CliRunner().invoke(app, options)
    assert result.exit_code == 2
    assert said in " ".join(result.output.split())
