"""The campaign as a page of the documentation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from mutation.by_search import POOLS, SECONDS
from mutation.by_tests import STEPS
from mutation.generator import generated
from mutation.operators import KINDS
from mutation.planted import planted
from mutation.report import Campaign, Reasons, Result, digest_of_text, rows
from mutation.verdict import KILLED, SURVIVED, Mutant

_HEAD = """\
# Mutants

A check that cannot fail is no check. Here kvblocks is made wrong in every small way, and each time three kinds of
evidence are asked alone: does the *proof* still go through, does the *search* of small pools find nothing, do the
*tests* (the audit that `kvaudit run` makes) pass? This page is written by `docs/generate.py` from
[`tests/mutation/results.json`](../tests/mutation/results.json).

```
PYTHONPATH=tests python -m mutation -j 2
```

runs what is not known already (a verdict is kept as long as the mutant and all that the killer is made of stay the
same), writes the results, and ends with status 1 if they are not what
[`reasons.toml`](../tests/mutation/reasons.toml) says. `--only _take:` chooses mutants by the beginning of their ids,
`--killer proof` one of the three.

## What is changed, and what kills

Every statement of every function of kvblocks that an operation can reach is deleted; every operator, number and
condition in it is made another one. Left out are `append_slots` and `extend`: they call `append_slot`, and no audit
calls them; [`test_batches.py`](../tests/proofs/test_batches.py) changes them and asks the proof. Annotations and the
texts of messages are left alone. One change a mutant; no two are the same program. *planted* are the bugs that
`tests/mutants` makes by hand.

- The proof kills if a goal of an operation that can reach the change stays open. What the executor cannot run is no
  kill.
- The search kills if it finds a counterexample, or a misuse that is accepted, within {seconds:g} s of processor time on
  pools of up to {blocks} blocks.
- The tests kill if an audit of {steps:,} operations with the seed 0 reports a violation.

kvblocks itself, with nothing changed, goes the same way; it has to survive all three.

"""

_STALE = """\
**kvblocks has changed since.** The figures are those of the last campaign, on the text before; what it
left alive is not told apart here, equivalent or not, as those are not mutants of the text that is here.

"""

_EQUIVALENT = """\
## Equivalent

No call tells these from kvblocks, as far as the specification speaks. Where the last line says *proved*, every theorem
of kvblocks is proved of the mutant as well.
"""

_PROOF_ALONE = """\
## Killed by the proof alone
"""

_NOT_BY_THE_PROOF = """\
## Wrong, and yet proved
"""

_NOT_RUN = """\
## Not killed by the proof, for other reasons

The executor has no model of what they do, or the proof did not come to an end. Search and tests kill them all.
"""


def page(campaign: Campaign, why: Reasons) -> str:
    """The whole page; of a campaign on another text of kvblocks only the table."""
    mutants: list[Mutant] = [*generated(), *planted()]
    diffs = {mutant.id: mutant.diff for mutant in mutants}
    results = {result.id: result for result in campaign.results}
    head = _HEAD.format(seconds=SECONDS, steps=STEPS, blocks=max(pool.num_blocks for pool in POOLS))
    if campaign.text != digest_of_text():
        return "\n".join([*head.splitlines(), *_STALE.splitlines(), *_table(campaign, Reasons({}, {}, {}))]) + "\n"
    lines = [*head.splitlines(), *_table(campaign, why)]
    for intro, listed in (
        (_EQUIVALENT, why.equivalent),
        (_PROOF_ALONE, why.proof_alone),
        (_NOT_BY_THE_PROOF, why.not_by_the_proof),
    ):
        if listed:
            lines += ["", *intro.splitlines(), *_listed(listed, results, diffs)]
    others = [
        result
        for result in campaign.results
        if result.verdicts["proof"].outcome not in (KILLED, SURVIVED) and result.id not in why.equivalent
    ]
    if others:
        lines += ["", *_NOT_RUN.splitlines(), "", *_others(others)]
    return "\n".join(lines) + "\n"


def _table(campaign: Campaign, why: Reasons) -> list[str]:
    lines = [
        "| kind | | mutants | equivalent | killed by the proof | by the search | by the tests | by any |",
        "|---|---|--:|--:|--:|--:|--:|--:|",
    ]
    for row in rows(campaign, why):
        says = KINDS.get(row.kind, "")
        numbers = (row.mutants, row.equivalent, row.proof, row.search, row.tests, row.together)
        lines.append(f"| {row.kind} | {says} | {' | '.join(map(str, numbers))} |")
    return lines


def _listed(listed: Mapping[str, str], results: Mapping[str, Result], diffs: Mapping[str, str]) -> list[str]:
    lines = []
    for name, reason in listed.items():
        verdict = results[name].verdicts["proof"]
        lines += ["", f"**{name}**: {reason}", "", "```diff", *diffs[name].splitlines(), "```", ""]
        lines.append(
            f"The proof: {verdict.outcome if verdict.outcome != SURVIVED else ''} {verdict.how}.".replace("  ", " ")
        )
    return lines


def _others(results: Iterable[Result]) -> list[str]:
    lines = ["| mutant | why |", "|---|---|"]
    for result in results:
        how = result.verdicts["proof"].how.replace("|", "\\|")
        lines.append(f"| {result.id} | {result.verdicts['proof'].outcome}: {how} |")
    return lines
