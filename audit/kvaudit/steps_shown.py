"""A step of a block manager as a finding shows it: in words, with the pool after it."""

from __future__ import annotations

from kvaudit import words
from kvaudit.breach import concerned_by, gravity
from kvaudit.execution import Played
from kvaudit.oracle import Judgement
from kvaudit.protocol import Mutation
from kvaudit.report import StepShown
from kvaudit.snapshots import due_after, of_ledger, of_observed


def step_shown(played: Played[Mutation, Judgement]) -> StepShown:
    """A step in words, and the pool after it."""
    judgement = played.judgement
    breaches = sorted(judgement.breaches, key=gravity)
    return StepShown(
        call=words.call(played.operation),
        expected=words.expected(played.operation, judgement),
        got=words.came(judgement),
        broken=[breach.obligation for breach in breaches],
        due=of_ledger(due_after(played.operation, judgement)),
        seen=of_observed(judgement.seen, judgement.before.num_blocks) if judgement.seen is not None else None,
        blocks=concerned_by(breaches),
    )
