"""Two targets on the same programs: what differs is found, made small, and can be played on either."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import msgspec
import pytest

from audit.auditing import MINIATURES, kvaudit, target_of
from audit.miniatures import Good, HangsInAppend, RefusesEverything
from engines.controls import fetched
from kvaudit.api import ApiTarget
from kvaudit.cli.diff import _are_files_apart
from kvaudit.diffing.compared import KINDS
from kvaudit.diffing.findings import Party
from kvaudit.diffing.pair import play
from kvaudit.diffing.report import DIFFERENT, INCONCLUSIVE, SAME, Diff
from kvaudit.diffing.runner import Comparison, Options
from kvaudit.protocol import Allocate, Append, Free, Pool
from kvaudit.scenario import Scenario
from kvaudit.session import Budget
from kvaudit.targets import TargetSpec
from kvblocks import BlockManager
from mutants import MUTANTS, Mutant, capacity, identity, pool, records
from second.manager import LifoManager, SecondManager

BROKEN = f"{pool.__file__}:{pool.EvictsNewest.__name__}"


def party(cls: type[Any], text: str = "x:y", **options: Any) -> Party:
    return Party(target_of(cls, **options), TargetSpec(text))


def compared(a: Party, b: Party, max_steps: int = 2_000, *, first: bool = True, **options: Any) -> Diff:
    return Comparison(a, b, Options(budget=Budget(max_steps, None, first), **options)).run()


@pytest.mark.parametrize("manager", [BlockManager, SecondManager, LifoManager])
def test_what_behaves_the_same_is_the_same(manager: type[Any]) -> None:
    diff = compared(party(BlockManager), party(manager))
    assert (diff.exit_code, diff.found, diff.reasons) == (SAME, [], [])
    assert all(diff.met.values())


def test_block_numbers_count_only_if_asked_for() -> None:
    diff = compared(party(BlockManager), party(LifoManager), strict=True)
    assert diff.exit_code == DIFFERENT
    [found] = diff.found
    assert (found.kind, len(found.steps)) == ("tables", 1)
    assert compared(party(BlockManager), party(SecondManager), strict=True).exit_code == SAME


@pytest.mark.parametrize("mutant", [m for m in MUTANTS if not m.misuse][::5], ids=lambda mutant: mutant.cls.__name__)
def test_a_planted_bug_is_a_difference(mutant: Mutant) -> None:
    diff = compared(party(BlockManager), party(mutant.cls), max_steps=20_000)  # it ends at the first difference
    assert diff.exit_code == DIFFERENT
    [found] = diff.found
    assert found.repeats
    assert len(found.steps) <= 12


def test_each_kind_is_found() -> None:
    kinds: dict[str, type[Any]] = {
        "answer": capacity.RefusesLastBlock,
        "cached": identity.NewestMappingWins,
        "can_allocate": capacity.CanAllocateRoundsDown,
        "kept": pool.EvictsNewest,
    }
    found_in = {kind: compared(party(BlockManager), party(cls), 1_200, first=False) for kind, cls in kinds.items()}
    for kind, diff in found_in.items():
        assert kind in {found.kind for found in diff.found}, (kind, diff)
        for found in diff.found:
            assert found.kind in KINDS and found.detail
    assert "kept" in found_in["kept"].muted


def test_without_observe_it_shows_in_the_answers() -> None:
    diff = compared(party(BlockManager), party(pool.EvictsNewest, black_box=True))
    assert [found.kind for found in diff.found] == ["cached"]
    assert diff.not_compared == {"kept": "x:y offers no observe"}


def test_tables_are_equal_up_to_one_renaming_of_the_blocks_that_are_held() -> None:
    program = (Allocate("a", (0, 1)), Append("a", 2), Free("a"), Allocate("b", (0, 1)))
    pair, difference = play(
        target_of(BlockManager), target_of(LifoManager), Scenario(Pool(4, 1), program), list(KINDS), strict=False
    )
    assert difference is None
    assert [step.a.tables for step in pair.steps] != [step.b.tables for step in pair.steps]


def test_a_target_that_hangs_ends_it() -> None:
    hanging = ApiTarget(HangsInAppend, name="hangs", timeout=0.2)
    diff = compared(party(Good), Party(hanging, TargetSpec("x:y")), first=False)
    assert diff.exit_code == DIFFERENT
    assert diff.cut_short == "ended because a target hangs"
    assert "B hangs" in diff.found[0].detail


def test_little_compared_is_inconclusive() -> None:
    short = compared(party(BlockManager), party(BlockManager), max_steps=3)
    assert short.exit_code == INCONCLUSIVE
    assert any(reason.startswith("never met: ") for reason in short.reasons)
    nothing = compared(party(RefusesEverything), party(RefusesEverything))
    assert nothing.exit_code == INCONCLUSIVE
    assert "never met: cached tokens were hit" in nothing.reasons


def test_the_same_seed_finds_the_same() -> None:
    one, other = (compared(party(BlockManager), party(pool.EvictsNewest), first=False) for _ in range(2))
    assert msgspec.structs.replace(one, seconds=0, date="") == msgspec.structs.replace(other, seconds=0, date="")


def test_the_command_shows_both_and_either_can_be_replayed(tmp_path: Path) -> None:
    said = kvaudit("diff", "kvblocks", BROKEN, "--max-steps", "400", "--json", "d.json", cwd=tmp_path)
    assert said.code == DIFFERENT
    assert "≠ kept" in said.out and "A: kvblocks" in said.out and f"B: {BROKEN}" in said.out
    diff = msgspec.json.decode((tmp_path / "d.json").read_bytes(), type=Diff)
    ours, theirs = diff.found[0].replay
    assert kvaudit(*shlex.split(ours)[1:], cwd=tmp_path).code == 0
    assert kvaudit(*shlex.split(theirs)[1:], cwd=tmp_path).code == 1


def test_exit_codes_of_the_command(tmp_path: Path) -> None:
    same = kvaudit("diff", "kvblocks", "kvblocks", "--max-steps", "800", cwd=tmp_path)
    assert same.code == SAME and "kvblocks and kvblocks: no difference" in same.out
    assert kvaudit("diff", "kvblocks", "kvblocks", "--max-steps", "2", cwd=tmp_path).code == INCONCLUSIVE
    program = f"cmd:{Path(__file__).parent / 'none'}"
    assert kvaudit("diff", "kvblocks", program, cwd=tmp_path).code == 2
    assert "no target 'nothing'" in kvaudit("diff", "kvblocks", "nothing", cwd=tmp_path).all
    wrong = kvaudit("diff", "kvblocks", "kvblocks", "--set", "tree=radix", cwd=tmp_path)
    assert wrong.code == 2 and "--set is for engines" in wrong.all
    wrong = kvaudit("diff", "kvblocks", "kvblocks", "--source-b", ".", cwd=tmp_path)
    assert wrong.code == 2 and "--source is for engines" in wrong.all


def test_two_files_of_one_name_do_not_share_their_modules(tmp_path: Path) -> None:
    for name, cached in (("one", "0"), ("two", "1")):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "helper.py").write_text(f"EXTRA = {cached}\n")
        (folder / "blocks.py").write_text(
            "from helper import EXTRA\nfrom kvblocks import BlockManager\n\n\nclass Blocks(BlockManager):\n"
            "    def num_cached_tokens(self, seq_id):\n        return super().num_cached_tokens(seq_id) + EXTRA\n"
        )
    said = kvaudit("diff", "one/blocks.py:Blocks", "two/blocks.py:Blocks", "--max-steps", "100", "-x", cwd=tmp_path)
    assert said.code == DIFFERENT and "≠ cached" in said.out
    assert _are_files_apart("one/blocks.py:Blocks", "two/blocks.py:Blocks")
    assert not _are_files_apart("one/blocks.py:A", "one/blocks.py:B")
    assert not _are_files_apart("kvblocks", f"{MINIATURES}:Good")


def test_old_and_new_vllm_differ_in_what_they_evict(tmp_path: Path) -> None:
    for version in ("0.11.2", "0.28.0", "0.33.0"):
        fetched(f"vllm=={version}")
    steps = ("--max-steps", "300", "--engine", "swarm")
    said = kvaudit("diff", "vllm==0.11.2", "vllm==0.33.0", *steps, "-x", cwd=tmp_path)
    assert said.code == DIFFERENT and "≠ kept" in said.out
    assert kvaudit("diff", "vllm==0.28.0", "vllm==0.33.0", "--max-steps", "900", cwd=tmp_path).code == SAME


def test_what_one_keeps_of_a_list_shows() -> None:
    assert compared(party(BlockManager), party(records.KeepsCallersList)).exit_code == DIFFERENT
