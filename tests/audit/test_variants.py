"""A rule other than the seed's is a rule: who follows it conforms, and who does not is found."""

from __future__ import annotations

from audit.auditing import target_of
from kvaudit.profiles import NANO_VLLM, Profile
from kvaudit.report import Report
from kvaudit.runner import Audit, Options
from kvaudit.targets import TargetSpec
from kvblocks import BlockManager
from kvspec.variants import Variants
from mutants.identity import NewestMappingWins
from mutants.pool import KeepsMappingOnEviction

KEEP_NEW = Profile("x", "the newest copy can be hit", Variants(duplicates="keep new"), beyond=NANO_VLLM.beyond)


def held_to(profile: Profile, manager: type[BlockManager], *, black_box: bool = False) -> Report:
    target = target_of(manager, black_box=black_box)
    return Audit(target, TargetSpec("x:y"), profile, Options(max_steps=1_000), lambda event: None).run()


def violated(report: Report) -> set[str]:
    return {row.obligation for row in report.rows if row.verdict == "violated"}


def test_the_newest_copy_is_hit() -> None:
    for black_box in (False, True):
        assert not violated(held_to(KEEP_NEW, NewestMappingWins, black_box=black_box))
    assert violated(held_to(KEEP_NEW, BlockManager)) == {"O8"}
    assert "O4" in violated(held_to(KEEP_NEW, BlockManager, black_box=True))
    assert {"I3", "O6"} <= violated(held_to(KEEP_NEW, KeepsMappingOnEviction))
