"""What differs by design: excused only where seen, only as narrowly as said, and never where KV is at stake."""

from __future__ import annotations

import dataclasses
import io
from pathlib import Path
from typing import Any

import msgspec
import pytest
from rich.console import Console

from audit.auditing import row, target_of
from kvaudit.errors import UsageError
from kvaudit.excuses import Excuse
from kvaudit.explore.exploration import explore
from kvaudit.explore.job import Job
from kvaudit.explore.job import Options as SearchOptions
from kvaudit.levels import play
from kvaudit.outcomes import outcome_of
from kvaudit.profiles import SEED, Profile, brought
from kvaudit.programs import of_manager
from kvaudit.protocol import Allocate, Free, Pool
from kvaudit.replay import replay
from kvaudit.report import BY_DESIGN, CONFORMS, HOLDS, INCONCLUSIVE, NOT_REACHED, VIOLATED, VIOLATION, Report
from kvaudit.runner import Audit, Options
from kvaudit.scenario import Scenario
from kvaudit.session import Tally
from kvaudit.targets import TargetSpec
from kvaudit.trace import FORMAT, TraceHeader, lines_of
from kvblocks import BlockManager
from mutants import identity, pool

OLDER = r"block \d+ is evicted though block \d+ is older"
ON_ALLOCATE = Excuse("O6", "allocate", OLDER, "what was used last is evicted first", "cache.py:7")
ON_APPEND = dataclasses.replace(ON_ALLOCATE, on="append")
_GOALS = ("evicted in order", "gap in the cache", "evicted its own", "many live")
BEYOND = dict.fromkeys(_GOALS, "their programs rest on the order")


def profile(*excuses: Excuse) -> Profile:
    return dataclasses.replace(SEED, name="x", beyond=BEYOND, excuses=excuses)


def held_to(rules: Profile, manager: type[BlockManager], max_steps: int = 4_000) -> Report:
    options = Options(max_steps=max_steps)
    return Audit(target_of(manager), TargetSpec("x:y"), rules, options, lambda event: None).run()


def test_what_differs_by_design_is_a_verdict_of_its_own() -> None:
    report = held_to(profile(ON_ALLOCATE, ON_APPEND), pool.EvictsNewest)
    assert (report.exit_code, report.reasons, report.findings) == (CONFORMS, [], [])
    told = row(report, "O6")
    assert told.verdict == BY_DESIGN
    assert "what was used last is evicted first (cache.py:7); met " in told.detail
    assert "is older" in told.detail
    assert {found.verdict for found in report.rows if found is not told} == {HOLDS}
    assert any("O6 differs: what was used last" in note for note in report.header.notes)
    outcome = outcome_of(told, report)
    assert outcome.kind == "skipped" and "differs by design" in outcome.told


def test_an_excuse_is_as_narrow_as_it_says() -> None:
    assert held_to(profile(), pool.EvictsNewest).exit_code == VIOLATION
    only_append = held_to(profile(ON_APPEND), pool.EvictsNewest)
    assert row(only_append, "O6").verdict == VIOLATED
    other_words = dataclasses.replace(ON_ALLOCATE, seen="block 0 is evicted though block 1 is older, and more")
    assert row(held_to(profile(other_words, ON_APPEND), pool.EvictsNewest), "O6").verdict == VIOLATED


def test_a_step_that_breaks_more_is_not_excused() -> None:
    scenario = Scenario(Pool(2, 1), (Allocate("a", (0,)), Free("a"), Allocate("b", (1, 0))))
    [breach, *more] = play(target_of(pool.KeepsMappingOnEviction), scenario, SEED).breaches
    assert more
    excuse = Excuse("O6", "allocate", ".*(mapped|evicted).*", "it is so", "cache.py:7")
    assert excuse.covers(of_manager(scenario.program)[-1], breach._replace(obligation="O6"))
    assert play(target_of(pool.KeepsMappingOnEviction), scenario, profile(excuse)).breaches


def test_an_excuse_hides_no_other_bug() -> None:
    class Two(pool.EvictsNewest, identity.NewestMappingWins):
        """The second one is not excused."""

    report = held_to(profile(ON_ALLOCATE, ON_APPEND), Two)
    assert report.exit_code == VIOLATION
    assert row(report, "O8").verdict == VIOLATED
    assert row(report, "O6").verdict in (BY_DESIGN, VIOLATED)


def test_a_stale_excuse_is_an_error_of_the_report() -> None:
    report = held_to(profile(ON_ALLOCATE, ON_APPEND), BlockManager)
    assert (report.exit_code, row(report, "O6").verdict) == (INCONCLUSIVE, NOT_REACHED)
    assert outcome_of(row(report, "O6"), report).kind == "inconclusive"
    assert len(report.reasons) == 2
    assert all(reason.startswith("stale excuse of O6: what it is to excuse was not seen") for reason in report.reasons)
    too_short = held_to(profile(ON_ALLOCATE), BlockManager, max_steps=50)
    assert too_short.exit_code == INCONCLUSIVE
    assert not any("stale" in reason for reason in too_short.reasons)


def test_what_others_have_seen_counts() -> None:
    mine, theirs = Tally(), Tally()
    theirs.differs(1, "first", 2)
    mine.add(theirs)
    mine.add(theirs)
    assert (mine.excused[1].times, mine.excused[1].first) == (4, "first")


def test_a_search_goes_round_what_differs_by_design(tmp_path: Path) -> None:
    def search(rules: Profile) -> Any:
        options = SearchOptions(depth=3, failures=tmp_path)
        return explore(Job(target_of(pool.EvictsNewest), TargetSpec("x:y"), rules, options), [Pool(2, 1)])

    assert search(profile()).exit_code == VIOLATION
    assert not search(profile(ON_ALLOCATE, ON_APPEND)).findings


def test_a_replay_says_so() -> None:
    program = (Allocate("a", (0,)), Allocate("b", (1,)), Free("a"), Free("b"), Allocate("c", (2,)), Free("c"))
    header = TraceHeader(FORMAT, Pool(2, 1), "x:y", "x", "O6")
    lines = lines_of(Scenario(header.pool, program))
    console = Console(file=io.StringIO(), width=200)
    assert replay(target_of(pool.EvictsNewest), header, lines, profile(ON_ALLOCATE), console) == CONFORMS
    assert isinstance(console.file, io.StringIO)
    said = console.file.getvalue()
    assert "differs by design: the profile x excuses it" in said
    assert "what was used last is evicted first (cache.py:7)" in said
    assert "free('c')" not in said  # behind the difference nothing is judged


def test_a_target_may_bring_an_excuse() -> None:
    said = msgspec.json.decode(msgspec.json.encode(profile(ON_ALLOCATE)))
    assert brought(said) == profile(ON_ALLOCATE)
    said["excuses"][0]["obligation"] = "K1"
    with pytest.raises(UsageError, match="K1 cannot be excused"):
        brought(said)


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"obligation": "K1"}, "K1 cannot be excused"),
        ({"obligation": "I4"}, "I4 cannot be excused"),
        ({"obligation": "I8"}, "I8 cannot be excused"),
        ({"obligation": "O10"}, "O10 cannot be excused: misuse has a verdict of its own"),
        ({"obligation": "O99"}, "there is no such obligation"),
        ({"on": "append_slot"}, "it is to be allocate, append or free"),
        ({"reason": " "}, "gives no reason"),
        ({"source": ""}, "gives no source"),
        ({"seen": ".*"}, "matches anything"),
        ({"seen": "block ("}, "is no regular expression"),
    ],
)
def test_what_is_no_excuse_is_refused(changed: dict[str, str], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        dataclasses.replace(ON_ALLOCATE, **changed)  # type: ignore[arg-type]
