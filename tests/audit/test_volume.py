"""-j and --cluster: the same audit on many workers, whoever of them is killed."""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from distributed import LocalCluster

from audit.auditing import ROOT, environment_with_mark, kvaudit, left
from kvaudit.errors import TargetError, UsageError
from kvaudit.report import CONFORMS, VIOLATION, Event, Progress, Report
from kvaudit.runner import Audit, Options
from kvaudit.targets import TargetSpec, profile_named
from kvaudit.volume import shards
from kvaudit.volume.shards import plan
from kvaudit.volume.workers import LocalPool

PLANTED = TargetSpec(f"{ROOT / 'tests/mutants/pool.py'}:KeepsMappingOnEviction")
STEPS = 6_000
KILL_AFTER_STEPS = 1_500


@pytest.fixture
def small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    """A dozen shards instead of one or two."""
    monkeypatch.setattr(shards, "_FIRST_SWARM_STEPS", 500)
    monkeypatch.setattr(shards, "_LARGEST_SWARM_STEPS", 500)


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    start: Any = LocalCluster
    with start(n_workers=3, threads_per_worker=1, dashboard_address=":0", silence_logs=logging.CRITICAL) as started:
        yield started


def audited(spec: TargetSpec, kill: Callable[[], None] | None = None, **options: Any) -> Report:
    """An audit of generated examples; `kill` is called once, in the middle of them."""
    kills = [kill] if kill is not None else []

    def emit(event: Event) -> None:
        if kills and isinstance(event, Progress) and event.phase == "generated" and event.steps > KILL_AFTER_STEPS:
            kills.pop()()

    target = spec.start()
    try:
        chosen = Options(**{"max_steps": STEPS, "engine": "swarm", **options})
        report = Audit(target, spec, profile_named(target.profile), chosen, emit).run()
    finally:
        target.close()
    assert not kills or kill is None, "nobody was killed"
    return report


def same(report: Report) -> Report:
    """The report without what may depend on who played."""
    return msgspec.structs.replace(report, seconds=0.0, header=msgspec.structs.replace(report.header, workers=""))


def kill_a_process() -> None:
    process = multiprocessing.active_children()[0]
    assert process.pid is not None
    os.kill(process.pid, signal.SIGKILL)


# --- the same, whoever plays ---------------------------------------------------------------------------------


@pytest.mark.usefixtures("small_shards")
def test_nothing_is_lost_or_counted_twice_where_workers_are_killed(cluster: LocalCluster) -> None:
    alone = audited(PLANTED, processes=1)
    assert alone.exit_code == VIOLATION
    assert alone.header.workers == "1 process"
    assert LocalPool(2).name == "2 processes"
    assert alone.findings[0].obligation == "I3"
    assert len({finding.id for finding in alone.findings}) == len(alone.findings)
    assert STEPS <= alone.steps < STEPS + 100
    assert same(audited(PLANTED, kill_a_process, processes=2)) == same(alone)

    def kill_a_worker() -> None:
        worker: Any = next(iter(cluster.workers.values()))
        os.kill(worker.pid, signal.SIGKILL)

    assert same(audited(PLANTED, kill_a_worker, cluster=cluster.scheduler_address)) == same(alone)


def test_a_good_manager_conforms() -> None:
    report = audited(TargetSpec("kvblocks"), engine="both", max_steps=3_000, processes=2)
    assert report.exit_code == CONFORMS
    assert report.header.engine == "both"


def test_a_planted_bug_is_one_group(tmp_path: Path) -> None:
    target = f"{ROOT / 'tests/mutants/seed.py'}:FreesInForwardOrder"
    flags = ("--engine", "swarm", "--max-steps", "12000", "--json", "r.json")
    said = kvaudit("run", target, "-j", "2", *flags, cwd=tmp_path)
    assert said.code == VIOLATION
    report = msgspec.json.decode((tmp_path / "r.json").read_bytes(), type=Report)
    [finding] = report.findings
    assert finding.count > 1
    assert said.out.count(f"reproduce: {finding.reproduce}") == 1


def test_the_run_goes_on_after_a_failure_but_with_x() -> None:
    report = audited(PLANTED, processes=2, stop_at_first=True, max_steps=None, max_time_s=30.0)
    assert report.cut_short == "ended at the first finding"
    assert len(report.findings) == 1


@pytest.mark.usefixtures("small_shards")
def test_a_run_may_be_limited_in_time() -> None:
    report = audited(TargetSpec("kvblocks"), processes=2, max_steps=None, max_time_s=1.5)
    assert report.steps > 100
    assert report.cut_short == ""


@pytest.mark.parametrize("engine", ["both", "hypothesis", "swarm"])
@pytest.mark.parametrize("max_steps", [0, 1, 4_000, 100_001])
def test_a_plan_has_the_steps_that_it_is_to_have(engine: Any, max_steps: int) -> None:
    parts = list(plan(engine, 3, max_steps))
    assert sum(shard.max_steps for shard in parts) == max_steps
    assert [shard.id for shard in parts] == list(range(len(parts)))
    assert len({shard.seed for shard in parts}) == len(parts)
    assert {shard.engine for shard in parts} <= ({"hypothesis", "swarm"} if engine == "both" else {engine})


# --- what goes wrong -----------------------------------------------------------------------------------------

ENDS_ITS_PROCESS = """
import multiprocessing, os
from kvblocks import BlockManager, OutOfBlocks

class Ends(BlockManager):
    def free(self, seq_id):
        if multiprocessing.parent_process() is not None:
            os._exit(3)
        super().free(seq_id)
"""

DOES_NOT_START = """
import multiprocessing
from kvblocks import BlockManager

if multiprocessing.parent_process() is not None:
    raise ImportError("no such library on this machine")
"""


def test_a_target_that_ends_its_process_each_time(tmp_path: Path) -> None:
    (tmp_path / "ends.py").write_text(ENDS_ITS_PROCESS)
    with pytest.raises(TargetError, match="ended 3 times over the same part"):
        audited(TargetSpec(f"{tmp_path / 'ends.py'}:Ends"), processes=2)


def test_a_target_that_ends_the_workers_of_a_cluster(tmp_path: Path, cluster: LocalCluster) -> None:
    (tmp_path / "ends.py").write_text(ENDS_ITS_PROCESS)
    with pytest.raises(TargetError, match="have died over one part of the audit"):
        audited(TargetSpec(f"{tmp_path / 'ends.py'}:Ends"), cluster=cluster.scheduler_address, max_steps=2_000)


def test_a_target_that_does_not_start_there(tmp_path: Path, cluster: LocalCluster) -> None:
    (tmp_path / "missing.py").write_text(DOES_NOT_START)
    spec = TargetSpec(f"{tmp_path / 'missing.py'}:BlockManager")
    for where in ({"processes": 2}, {"cluster": cluster.scheduler_address}):
        with pytest.raises(TargetError, match="could not be imported: ImportError: no such library"):
            audited(spec, None, **where)


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:1", "nonsense://x", "127.0.0.1:notaport"])
def test_no_cluster_is_there(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kvaudit.volume.workers._CONNECT_S", 1.0)
    with pytest.raises(UsageError, match=f"--cluster {address}: no scheduler answers there"):
        audited(TargetSpec("kvblocks"), cluster=address)


def test_a_cluster_has_no_workers(cluster: LocalCluster) -> None:
    there: Any = cluster
    there.scale(0)
    wait_until(lambda: not there.scheduler_info["workers"])
    try:
        with pytest.raises(UsageError, match="has no workers: start some with"):
            audited(TargetSpec("kvblocks"), cluster=cluster.scheduler_address)
    finally:
        there.scale(3)
        there.wait_for_workers(3)


def test_one_of_the_two(tmp_path: Path) -> None:
    said = kvaudit("run", "kvblocks", "-j", "2", "--cluster", "tcp://127.0.0.1:1", cwd=tmp_path)
    assert said.code == 2
    assert "give one of them" in said.err


def test_processes_end_with_the_one_that_started_them(tmp_path: Path) -> None:
    environment = environment_with_mark()
    command = [sys.executable, "-m", "kvaudit", "run", "kvblocks", "--isolate", "-j", "2", "--max-time", "60"]
    with subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.DEVNULL) as process:
        try:
            wait_until(lambda: sum("kvaudit.serve" in line for line in left(environment)) == 3)
        finally:
            process.kill()
    wait_until(lambda: not left(environment))


def wait_until(what: Callable[[], bool]) -> None:
    for _ in range(600):
        if what():
            return
        time.sleep(0.05)
    raise AssertionError("it has not come about")
