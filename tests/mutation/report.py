"""What a campaign came to: the table by kind, what is left alive and why, and what is not as it was said to be."""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from mutation.generator import SOURCES, UNCHANGED
from mutation.operators import KINDS
from mutation.planted import KIND as PLANTED
from mutation.verdict import KILLED, SURVIVED, Mutant, Verdict

RESULTS = Path(__file__).with_name("results.json")
REASONS = Path(__file__).with_name("reasons.toml")
BAR = 0.9
"""The proof alone has to kill that much of what is not equivalent."""


class Result(msgspec.Struct, frozen=True):
    """What became of one mutant, by killer."""

    id: str
    kind: str
    verdicts: dict[str, Verdict]

    def is_killed_by(self, *killers: str) -> bool:
        return any(self.verdicts[killer].outcome == KILLED for killer in killers)


class Campaign(msgspec.Struct, frozen=True):
    """All results. `text`: the digest of the text of kvblocks that was mutated."""

    text: str
    results: list[Result]


class Reasons(NamedTuple):
    """Why a mutant is alive, by id.

    equivalent: no call tells it from kvblocks, as far as the specification speaks. proof_alone: the proof kills it,
    and what can be seen from outside does not tell. not_by_the_proof: it is wrong, and yet every theorem is proved.
    """

    equivalent: Mapping[str, str]
    proof_alone: Mapping[str, str]
    not_by_the_proof: Mapping[str, str]


class Row(NamedTuple):
    """The mutants of one kind: how many, how many of them equivalent, and how many of the others are killed."""

    kind: str
    mutants: int
    equivalent: int
    proof: int
    search: int
    tests: int
    together: int


def campaign_of(mutants: Iterable[Mutant], verdicts: Mapping[tuple[str, str], Verdict]) -> Campaign:
    """The results of all pairs (killer, id), with seconds as they are worth showing."""
    return Campaign(
        digest_of_text(),
        [
            Result(
                mutant.id,
                mutant.kind,
                {
                    killer: msgspec.structs.replace(verdict, seconds=round(verdict.seconds, 1))
                    for (killer, name), verdict in verdicts.items()
                    if name == mutant.id
                },
            )
            for mutant in mutants
        ],
    )


def digest_of_text() -> str:
    return hashlib.sha256("\0".join(SOURCES.values()).encode()).hexdigest()[:32]


def committed() -> Campaign:
    return msgspec.json.decode(RESULTS.read_bytes(), type=Campaign)


def reasons() -> Reasons:
    with REASONS.open("rb") as file:
        found = tomllib.load(file)
    return Reasons(found["equivalent"], found["proof alone"], found["not by the proof"])


def rows(campaign: Campaign, why: Reasons) -> list[Row]:
    """A row a kind, generated before planted, and one for all that are generated."""
    by_kind = {kind: [r for r in campaign.results if r.kind == kind] for kind in (*KINDS, PLANTED)}
    every = [r for r in campaign.results if r.kind in KINDS]
    named = [*((kind, by_kind[kind]) for kind in KINDS), ("all generated", every), (PLANTED, by_kind[PLANTED])]
    return [_row(kind, results, why) for kind, results in named]


def _row(kind: str, results: list[Result], why: Reasons) -> Row:
    killable = [r for r in results if r.id not in why.equivalent]

    def killed(*killers: str) -> int:
        return sum(r.is_killed_by(*killers) for r in killable)

    by = (killed("proof"), killed("search"), killed("tests"), killed("proof", "search", "tests"))
    return Row(kind, len(results), len(results) - len(killable), *by)


def complaints(campaign: Campaign, why: Reasons) -> list[str]:
    """What is not as `reasons.toml` and the bar say. Empty if all is well."""
    found = []
    for result in campaign.results:
        is_seen = result.is_killed_by("search", "tests")
        is_proved = result.verdicts["proof"].outcome == SURVIVED
        found += [f"{result.id}: {what}" for what in _complaints(result, why, is_seen, is_proved)]
    listed = {*why.equivalent, *why.proof_alone, *why.not_by_the_proof}
    found += [f"{name} is listed, but there is no such mutant" for name in listed - {r.id for r in campaign.results}]
    for row in rows(campaign, why):
        if row.kind == "all generated" and row.proof < BAR * (row.mutants - row.equivalent):
            found.append(f"the proof kills {row.proof} of {row.mutants - row.equivalent}, less than {BAR:.0%}")
    return found


def _complaints(result: Result, why: Reasons, is_seen: bool, is_proved: bool) -> list[str]:
    is_killed = result.is_killed_by("proof")
    if result.id == UNCHANGED.id:
        return [] if is_proved and not is_seen else ["what is right must survive everything"]
    found = []
    if result.id in why.equivalent and is_seen:
        found.append("is said to be equivalent, but is killed")
    if result.id in why.proof_alone and (is_seen or not is_killed):
        found.append("is said to be killed by the proof alone, but is not")
    if result.id in why.not_by_the_proof and not (is_seen and is_proved):
        found.append("is said to be proved although it is wrong, but is not")
    if not is_seen and result.id not in {*why.equivalent, *why.proof_alone}:
        found.append("survives search and tests, and nothing says why")
    if is_seen and is_proved and result.id not in why.not_by_the_proof:
        found.append("is wrong and yet proved, and nothing says why")
    return found
