"""`kvaudit smoke` tells a broken harness from a wrong implementation, and shows every line that was said."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

import jsonschema
import msgspec
import pytest

from audit.auditing import MINIATURES, kvaudit
from kvaudit import protocol
from kvaudit.errors import TargetError
from kvaudit.smoke import BROKEN, FINE, WRONG, Smoke, smoke
from kvaudit.targets import TargetSpec
from mutants import pool, records

SERVE = shlex.join([sys.executable, "-m", "kvaudit.serve"])


def served(target: str) -> TargetSpec:
    """The target as a program of somebody else's."""
    return TargetSpec(f"cmd:{SERVE} {target}")


def patched(change: str, folder: Path, target: str = "kvblocks") -> TargetSpec:
    """A program in which `change` has been made to the harness that kvaudit itself uses."""
    script = f"""
import sys
from kvaudit import serve
from kvaudit.api import ApiTarget
from kvaudit.protocol import *
import msgspec
{change}
sys.argv[1:] = [{target!r}]
serve.main()
"""
    (folder / "harness.py").write_text(script, encoding="utf-8")
    return TargetSpec(f"cmd:{shlex.join([sys.executable, str(folder / 'harness.py')])}")


def test_a_good_target_is_fine() -> None:
    for spec in (served("kvblocks"), TargetSpec("kvblocks", isolate=True), served(f"{MINIATURES}:Good")):
        result = smoke(spec)
        assert (result.verdict, result.reason, result.exit_code) == (FINE, "", 0)
        assert not any(exchange.wrong or exchange.notes for exchange in result.exchanges)


def test_every_step_of_the_protocol_is_in_it() -> None:
    exchanges = smoke(served("kvblocks")).exchanges
    questions = [msgspec.json.decode(exchange.question, type=protocol.Question) for exchange in exchanges]
    assert {type(question) for question in questions} == {protocol.Start, protocol.Open, protocol.Run, protocol.Stop}
    asked = {type(op) for question in questions if isinstance(question, protocol.Run) for op in question.program}
    assert asked == set(protocol.Operation.__args__) - set(protocol.Request.__args__)
    answers = [msgspec.json.decode(exchange.answer, type=protocol.Answer) for exchange in exchanges[:-1]]
    came_to = {type(outcome) for answer in answers if isinstance(answer, protocol.Ran) for outcome in answer.outcomes}
    assert came_to == {protocol.Returned, protocol.Refused, protocol.Raised, protocol.Observed}


@pytest.mark.parametrize("bug", [pool.LeaksSharedBlock, records.SlotOffsetOffByOne])
def test_a_wrong_implementation_is_no_broken_harness(bug: type) -> None:
    text = f"{sys.modules[bug.__module__].__file__}:{bug.__name__}"
    for spec in (served(text), TargetSpec(text, isolate=True)):
        result = smoke(spec)
        assert (result.verdict, result.exit_code) == (WRONG, 1)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("RefusesEverything", "O2: refused, with"),
        ("RefusesFree", "O2: free was refused"),
        ("Exits", "O2: a legal call raised SystemExit: no block"),
        ("ReadsRaise", "O2: a legal call raised ZeroDivisionError"),
    ],
)
def test_a_manager_that_misbehaves_is_a_wrong_implementation(name: str, said: str) -> None:
    result = smoke(served(f"{MINIATURES}:{name}"))
    assert (result.verdict, result.exit_code) == (WRONG, 1)
    assert said in result.reason


HARNESS_FAULTS = {
    "the pool is not made anew": (
        "opened = ApiTarget.open\n"
        "ApiTarget.open = lambda self, pool: None if self._manager and pool.enable_prefix_cache"
        " else opened(self, pool)",
        "The first pool was answered well: 'open' has to make a new manager",
    ),
    "a program ends at a refusal": (
        "run = ApiTarget.run\n"
        "def stop_at_refusal(self, program):\n"
        "    outcomes = run(self, program)\n"
        "    refused = [i for i, outcome in enumerate(outcomes) if isinstance(outcome, Refused)]\n"
        "    return outcomes[: refused[0] + 1] if refused else outcomes\n"
        "ApiTarget.run = stop_at_refusal",
        "answered 5 operations with 1 outcomes",
    ),
    "a slot for a table": (
        "ApiTarget._allocate = lambda self, op: Returned(self._manager.allocate(op.seq, op.tokens)[0])",
        "outcomes[0].value: allocate returns the block table, a list of block numbers, not 0",
    ),
    "a pair for a slot": (
        "ApiTarget._append = lambda self, op: Returned([0, self._manager.append_slot(op.seq, op.token)])",
        "outcomes[0].value: append returns the slot, block * block_size + offset, not [0,3]",
    ),
    "a number for a truth": (
        "ApiTarget._can_allocate = lambda self, op: Returned(1)",
        "can_allocate returns true or false, not 1",
    ),
    "a list for the counts": (
        "observe = ApiTarget._observe\n"
        "ApiTarget._observe = lambda self, op:"
        " msgspec.structs.replace(observe(self, op), cached={'a': 'none'})",
        'outcomes[3].cached: an object with a number for each live sequence is due, not {"a":"none"}',
    ),
    "one reference count too few": (
        "observe = ApiTarget._observe\n"
        "def short(self, op):\n"
        "    seen = observe(self, op)\n"
        "    return msgspec.structs.replace(seen, state=msgspec.structs.replace(seen.state, ref=seen.state.ref[1:]))\n"
        "ApiTarget._observe = short",
        "outcomes[3].state.ref: 4 entries are due, one for each block, not 3",
    ),
    "a program of many operations is answered otherwise": (
        "run = ApiTarget.run\n"
        "ApiTarget.run = lambda self, program: [\n"
        "    Returned(0) if isinstance(op, Append) and isinstance(program[-1], Free) else outcome\n"
        "    for op, outcome in zip(program, run(self, program))\n"
        "]",
        'outcomes[1]: {"outcome":"returned","value":0}, but in messages of its own and with reads it was',
    ),
}


@pytest.mark.parametrize("name", HARNESS_FAULTS)
def test_a_fault_of_the_harness_is_told_from_one_of_the_manager(name: str, tmp_path: Path) -> None:
    change, said = HARNESS_FAULTS[name]
    result = smoke(patched(change, tmp_path))
    assert (result.verdict, result.exit_code) == (BROKEN, 2), result.reason
    assert said in result.reason


def test_of_a_class_the_kind_of_a_value_is_its_own_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "blocks.py").write_text(
        "from kvblocks import BlockManager\n\nclass Blocks(BlockManager):\n"
        "    def allocate(self, seq_id, token_ids):\n        return super().allocate(seq_id, token_ids)[0]\n",
        encoding="utf-8",
    )
    result = smoke(TargetSpec(f"{tmp_path / 'blocks.py'}:Blocks", isolate=True))
    assert result.verdict == WRONG


def test_a_misspelt_field_is_noted(tmp_path: Path) -> None:
    with_remark = "b'{\"remark\":1,' + msgspec.json.encode(message)[1:] + b'\\n'"
    change = f"serve.encode_line = lambda message: {with_remark}"
    result = smoke(patched(change, tmp_path))
    assert result.verdict == FINE
    assert result.exchanges[0].notes == ("the field 'remark' is not of the protocol, and not read",)


def test_misuse_that_gets_through_is_noted(tmp_path: Path) -> None:
    result = smoke(patched("ApiTarget._raw_call = lambda self, call: Returned()", tmp_path))
    assert result.verdict == FINE
    assert "a caller's mistake goes unnoticed (O10)" in result.exchanges[-2].notes[0]


def test_misuse_that_cannot_be_said_is_noted(tmp_path: Path) -> None:
    result = smoke(patched("ApiTarget._raw_call = lambda self, call: Unsupported()", tmp_path))
    assert result.verdict == FINE
    assert result.exchanges[-2].notes == (
        "the harness does not make this call: whether misuse is refused (O10) cannot be seen",
    )


def test_the_line_to_paste_asks_the_same_again(tmp_path: Path) -> None:
    result = smoke(patched("ApiTarget._can_allocate = lambda self, op: Returned(1)", tmp_path))
    said = subprocess.run(["sh", "-c", result.paste], capture_output=True, text=True, timeout=60, check=True)
    assert said.stdout.splitlines() == [exchange.answer for exchange in result.exchanges]


def test_the_command_shows_what_was_said(tmp_path: Path) -> None:
    said = kvaudit("smoke", served("kvblocks").text, "--json", "smoke.json", cwd=tmp_path)
    assert said.code == 0
    result = msgspec.json.decode((tmp_path / "smoke.json").read_bytes(), type=Smoke)
    lines = said.out.splitlines()
    for exchange in result.exchanges:
        assert f"✓ {exchange.step}" in lines
        assert f"> {exchange.question}" in lines
        assert f"< {exchange.answer}" in lines or len(exchange.answer) > 2_000 or not exchange.answer
    whole = protocol.schema()
    for exchange in result.exchanges[:-1]:
        jsonschema.validate(json.loads(exchange.answer), {**whole, "$ref": "#/$defs/Answer"})


def test_the_command_says_which_of_the_two_it_is(tmp_path: Path) -> None:
    wrong = kvaudit("smoke", f"{MINIATURES}:RefusesFree", cwd=tmp_path)
    assert wrong.code == 1
    assert "O2: free was refused" in wrong.all
    assert wrong.out.rstrip().endswith("the answer is not what is due")
    spec = patched("print('loading', file=sys.stderr); serve.encode_line = lambda message: b'hello\\n'", tmp_path)
    broken = kvaudit("smoke", spec.text, cwd=tmp_path)
    assert broken.code == 2
    assert "its stderr ends: loading" in broken.all
    assert "ask it the same again: printf '%s\\n'" in broken.all
    assert broken.out.rstrip().endswith("is broken: nothing can be said of the implementation")


def test_what_is_no_target_is_said_as_by_the_other_commands(tmp_path: Path) -> None:
    for text, said in (
        ("nowhere.py:Blocks", "error: no file nowhere.py"),
        ("cmd:", "error: cmd: is followed by a program"),
        ("cmd:no-such-program", "error: no-such-program could not be started: No such file"),
        (f"{MINIATURES}:Lacking", "lacks append_slot, free"),
    ):
        told = kvaudit("smoke", text, cwd=tmp_path)
        assert (told.code, told.out) == (2, "")
        assert said in told.all


def test_a_target_of_ours_that_does_not_start_is_no_harness() -> None:
    with pytest.raises(TargetError):
        smoke(TargetSpec(f"{MINIATURES}:Lacking", isolate=True))
