"""Writes the pages that repeat a registry, the command line or what was found.

    python docs/generate.py

`tests/house/test_docs.py` checks that what is committed is current.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from typer.main import get_command

from kvaudit import words
from kvaudit.cli.main import app
from kvaudit.conformance.entries import read_table
from kvaudit.conformance.shown import markdown as conformance_table
from kvaudit.evidence import read_matrix
from kvaudit.goal import Goal
from kvaudit.goals import GOALS
from kvaudit.matrix import markdown
from kvaudit.profiles import PROFILES
from kvaudit.protocol import MANAGER, SCHEDULER, LevelName, Program
from kvaudit.scheduling.goals import GOALS as SCHEDULER_GOALS
from kvspec import SPEC_VERSION
from kvspec.obligations import LEDGER, OBLIGATIONS, Obligation
from kvspec.variants import AFFECTS

_OBLIGATIONS = """\
# Obligations

What a block manager owes to those who use it; version {version} of the specification. This page is written by
`docs/generate.py` from [`kvspec.obligations`](../spec/kvspec/obligations.py).

*I* are invariants: they hold between any two operations. *O* are what operations do, frame included. *K* speak of the
KV cache itself. `bs` is the block size; an *identity* stands for a whole prefix that ends with a full block.
"""

_GOALS = """\
# Reach goals

Situations that an audit has to have met before its verdict means anything: where one of them was never met, the
obligations that rest on it are `not reached` and the audit is inconclusive. Each has a *witness*, a program that meets
it on every manager that follows the specification. Witnesses are played first, then varied. This page is written by
`docs/generate.py` from [`kvaudit.goals`](../audit/kvaudit/goals.py).
"""

_SCHEDULER_GOALS = """\
## Scheduler level

Those of [schedulers](scheduling.md), from [`kvaudit.scheduling.goals`](../audit/kvaudit/scheduling/goals.py). A witness
is played under the scheduler's defaults, and where that does not meet its goal also with each setting at its tightest
value.
"""

_ASSURANCE = """\
# Assurance

What supports each obligation of kvblocks. Each cell is a figure of a run, or a blank with its reason. The results are
in [`assurance.json`](assurance.json), and this page is written from them by `docs/generate.py`; `./check.sh matrix`
runs every kind of evidence and shows the matrix of today.

- *fuzz*: steps of `kvaudit run` with every obligation checked after each; and how often the rarest
  [reach goal](goals.md) was met on which the obligation rests.
- *exhaustive*: what `kvaudit explore` went through on small pools, all of it. See [Exhaustive search](explore.md).
- *proof*: goals that Z3 proved, for pools of every size, and the operations that they are of. See [Proofs](proofs.md).
- *CrossHair*: contracts on kvblocks' functions that CrossHair confirmed.
- *planted bugs*: wrong managers that break the obligation, and how many of them fall to each of the others alone.
"""

_TABLE_BEGINS = "<!-- written by docs/generate.py from conformance.json -->"
_TABLE_ENDS = "<!-- the end of what is written by docs/generate.py -->"

_CLI = """\
# Command line

{help} This page is written by `docs/generate.py` from what `--help` shows. {epilog}
"""


def pages() -> dict[str, str]:
    """The generated pages by file name."""
    return {
        "obligations.md": obligations_page(),
        "goals.md": goals_page(),
        "assurance.md": assurance_page(),
        "mutation.md": mutation_page(),
        "performance.md": performance_page(),
        "cli.md": cli_page(),
        "engines.md": engines_page(),
    }


def mutation_page() -> str:
    """The results of the last mutation campaign, which lives among the tests."""
    sys.path.append(str(Path(__file__).parents[1] / "tests"))
    from mutation.page import page
    from mutation.report import committed, reasons

    return page(committed(), reasons())


def performance_page() -> str:
    """The results of the last run of `python -m bench --write docs`, and of that with --checks."""
    sys.path.append(str(Path(__file__).parents[1]))
    from bench.checks.page import section
    from bench.checks.results import read as read_checks
    from bench.page import page
    from bench.results import read

    folder = Path(__file__).parent
    return "\n".join([page(read(folder / "performance.json")), *section(read_checks(folder / "checks.json"))]) + "\n"


def obligations_page() -> str:
    """Every obligation: what must hold, what a user sees when it does not, and what must be observable."""
    rows = [f"| [{o.id}](#{o.id.lower()}) | {o.title} | {o.symptom} |" for o in OBLIGATIONS.values()]
    lines = [_OBLIGATIONS.format(version=SPEC_VERSION), "| id | in short | if broken |", "|---|---|---|", *rows]
    for obligation in OBLIGATIONS.values():
        lines += ["", *_obligation(obligation)]
    return "\n".join(lines) + "\n"


def _obligation(obligation: Obligation) -> list[str]:
    lines = [f"## {obligation.id}", "", f"**{_sentence(obligation.title)}** {_sentence(obligation.statement)}", ""]
    lines.append(f"- If broken: {obligation.symptom}.")
    lines.append(f"- Checked in full with: {_needs(obligation)}.")
    if obligation.weaker:
        lines.append(f"- Without it: {obligation.weaker}.")
    kinds = [kind for kind, affected in AFFECTS.items() if obligation.id in affected]
    if kinds:
        lines.append(f"- [Variants](profiles.md) that change the rule: {', '.join(f'`{kind}`' for kind in kinds)}.")
    goals = [goal.id for goal in GOALS if obligation.id in goal.supports]
    if goals:
        lines.append(f"- Rests on the [reach goals](goals.md): {', '.join(goals)}.")
    return lines


def _needs(obligation: Obligation) -> str:
    names = ["`observe()`" if need == LEDGER else f"`{need}`" for need in sorted(obligation.needs)]
    return " and ".join(names) or "the three operations alone"


def _sentence(text: str) -> str:
    """A statement as a sentence; the words of code that it begins with keep their letters."""
    first = text.partition(" ")[0]
    return (text if "_" in first or "[" in first or "(" in first else text[0].upper() + text[1:]) + "."


def goals_page() -> str:
    """Every reach goal with its witness, level by level."""
    lines = [_GOALS.rstrip()]
    for goal in GOALS:
        lines += ["", *_goal(goal, MANAGER, "##")]
    lines += ["", _SCHEDULER_GOALS.rstrip()]
    for goal in SCHEDULER_GOALS:
        lines += ["", *_goal(goal, SCHEDULER, "###")]
    return "\n".join(lines) + "\n"


def _goal(goal: Goal, level: LevelName, heading: str) -> list[str]:
    pool = goal.witness.pool
    blocks, tokens = words.count(pool.num_blocks, "block"), words.count(pool.block_size, "token")
    off = "" if pool.enable_prefix_cache else ", prefix cache off"
    profiles = [profile for profile in PROFILES.values() if profile.level == level]
    without = [f"`{profile.name}`" for profile in profiles if goal.id in profile.beyond]
    only = f" Not asked for under {', '.join(without)}." if without else ""
    needs = [f"`{kind}`" for kind in goal.needs]
    only += f" Asked for where `allocate` takes {' and '.join(needs)}." if needs else ""
    return [
        f"{heading} {goal.id}",
        "",
        f"{_sentence(goal.statement)} Supports {', '.join(goal.supports)}.{only}",
        "",
        "```",
        f"# {blocks} of {tokens}{off}",
        *_calls(goal.witness.program),
        "```",
    ]


def _calls(program: Program) -> Iterator[str]:
    """A call a line; calls that follow each other are counted."""
    for call, times in itertools.groupby(map(words.call, program)):
        number = len(list(times))
        yield call if number == 1 else f"{call}  # {number} times"


def assurance_page() -> str:
    """The assurance matrix of kvblocks, from the results in docs/assurance.json."""
    return "\n".join([_ASSURANCE, *markdown(read_matrix([Path(__file__).parent / "assurance.json"]))]) + "\n"


def engines_page() -> str:
    """The page on the engines, which is written by hand but for the table between two marks."""
    folder = Path(__file__).parent
    before, _, rest = (folder / "engines.md").read_text(encoding="utf-8").partition(_TABLE_BEGINS)
    _, _, after = rest.partition(_TABLE_ENDS)
    table = "\n".join(conformance_table(read_table([folder / "conformance.json"])))
    return f"{before}{_TABLE_BEGINS}\n{table}\n{_TABLE_ENDS}{after}"


def cli_page() -> str:
    """Every command with its arguments and options."""
    root: Any = get_command(app)
    commands = list(_commands(root, "kvaudit"))
    lines = [_CLI.format(help=root.help, epilog=root.epilog).rstrip(), "", "| command | |", "|---|---|"]
    lines += [f"| [`{name}`](#{name.replace(' ', '-')}) | {_cell(command.help)} |" for name, command in commands]
    for name, command in commands:
        lines += ["", *_command(name, command)]
    return "\n".join(lines) + "\n"


def _commands(group: Any, name: str) -> Iterator[tuple[str, Any]]:
    """The commands below a group, each with what one types."""
    for word, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from _commands(command, f"{name} {word}")
        else:
            yield f"{name} {word}", command


def _command(name: str, command: Any) -> list[str]:
    arguments = [parameter for parameter in command.params if parameter.param_type_name == "argument"]
    options = [parameter for parameter in command.params if parameter.param_type_name == "option"]
    words_used = [name, *(argument.metavar for argument in arguments), *(["[OPTIONS]"] if options else [])]
    lines = [f"## {name}", "", _cell(command.help), "", "```sh", " ".join(words_used), "```"]
    rows = [(argument.metavar, argument.help, "") for argument in arguments]
    rows += [(_spelt(option), option.help, _default(option)) for option in options]
    if rows:
        lines += ["", "| | | unless given |", "|---|---|---|"]
        lines += [f"| `{spelt}` | {_cell(told)} | {default} |" for spelt, told, default in rows]
    return lines


def _spelt(option: Any) -> str:
    return ", ".join(option.opts) + ("" if option.is_flag else f" {option.metavar or option.name.upper()}")


def _default(option: Any) -> str:
    if option.required:
        return "required"
    if option.is_flag or option.default in (None, [], ()) or not option.show_default:
        return ""
    return f"`{option.default}`"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def main() -> None:
    """Write the pages beside this file."""
    for name, text in pages().items():
        (Path(__file__).parent / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
