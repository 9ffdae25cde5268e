"""Whatever is wrong with a command or a target is said in a message that a stranger understands.

Programs that misbehave have a list of their own, in test_harnesses.py.
Never a traceback, and no process is left: `audit.auditing.kvaudit` checks both of every command.
"""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

import pytest

from audit.auditing import MINIATURES, kvaudit
from kvaudit.api import ApiTarget
from kvaudit.errors import TargetError
from kvaudit.process import ProcessTarget
from kvaudit.protocol import Allocate, Append, Pool
from kvaudit.targets import TargetSpec

FEW = ("--max-steps", "150", "-x")

NOT_LOADED = {
    "syntax": ("def allocate(:\n", "could not be imported: SyntaxError"),
    "missing module": ("import no_such_module\n", "No module named 'no_such_module'. Is it installed"),
    "sys.exit": ("import sys\nsys.exit(3)\n", "could not be imported: SystemExit: 3"),
    "exception": ("raise ValueError('boo')\n", "could not be imported: ValueError: boo"),
    "empty": ("", "has no Manager; its classes are: none"),
    "another name": ("class Blocks: pass\n", "has no Manager; its classes are: Blocks"),
    "no class": ("Manager = 5\n", "is no class but 5"),
    "a function": ("def Manager(num_blocks): ...\n", "is no class but <function Manager"),
    "coroutines": (
        "from kvblocks import BlockManager\nclass Manager(BlockManager):\n    async def free(self, seq): ...\n",
        "has coroutines for free",
    ),
}
ISOLATED = pytest.mark.parametrize("flags", [(), ("--isolate",)], ids=["in process", "isolated"])


@pytest.mark.parametrize("name", NOT_LOADED)
def test_a_file_that_is_no_target(name: str, tmp_path: Path) -> None:
    text, fragment = NOT_LOADED[name]
    (tmp_path / "blocks.py").write_text(text, encoding="utf-8")
    for flags in ((), ("--isolate",)):
        said = kvaudit("run", "blocks.py:Manager", *flags, cwd=tmp_path)
        assert (said.code, said.out) == (2, "")
        assert fragment in said.all


@pytest.mark.parametrize(
    ("arguments", "fragment"),
    [
        ("run nowhere.py:Manager", "no file nowhere.py"),
        ("run nowhere", "no target 'nowhere'. A target is kvblocks, an engine"),
        ("run ''", "no target ''"),
        ("run '' --isolate", "no target ''"),
        ("run no.such.module:Manager", "No module named 'no'"),
        ("run kvblocks:Nobody", "kvblocks has no Nobody; its classes are: BlockManager"),
        ("run kvblocks:BlockManager.nobody", "has no BlockManager.nobody"),
        ("run MINI:Lacking", "lacks append_slot, free, num_free_blocks, num_cached_tokens"),
        ("run MINI:RaisesInConstructor", "could not make a pool of 6 blocks of 2 tokens (prefix cache on): Run"),
        ("run MINI:TakesOneArgument", "called with num_blocks, block_size and enable_prefix_cache, in this order"),
        ("run MINI:RaisesInConstructor --isolate", "RuntimeError: no GPU found"),
        ("run MINI:HangsInConstructor --timeout 0.3", "the constructor did not return within 0.3 s"),
        ("run MINI:HangsInConstructor --timeout 0.3 --isolate", "the constructor did not return within 0.3 s"),
        ("run MINI:Dies --isolate --max-steps 150", "(exit status 7) its stderr ends: about to die"),
        ("run MINI:ObservesNothing", "observe() gives {}"),
        ("run MINI:ObservesNothing --isolate", "Run with --black-box"),
        ("run MINI", "miniatures.py is a file: name its class, too ("),
        ("run ''.py", "no file .py"),
        ("run blocks:Manager", "A class in a file is path/to/file.py:Class"),
        ("run kvblocks --refusal ''", "a refusal is an exception class, or the name of one, not ''"),
        ("run kvblocks --refusal mine.NoRoom", "the name of one, not 'mine.NoRoom'"),
        ("run kvblocks --json - --sarif -", "--json and --sarif cannot both be standard output"),
        ("run kvblocks --profile sturdy", "no profile 'sturdy': there are seed, strict"),
        ("run kvblocks --max-steps 0", "Invalid value for '--max-steps'"),
        ("run kvblocks --max-steps many", "Invalid value for '--max-steps'"),
        ("run kvblocks --max-time -1", "Invalid value for '--max-time'"),
        ("run kvblocks --timeout 0", "Invalid value for '--timeout'"),
        ("run kvblocks --json no/such/folder/report.json", "--json no/such/folder/report.json: No such file"),
        ("run kvblocks --source .", "--source is for engines"),
        ("run kvblocks --set policy=lru", "--set is for engines"),
        ("run vllm==0.33.0 --set policy", "--set policy: it is to be NAME=VALUE"),
        ("run nano-vllm==1.0", "nano-vllm is on no package index: kvaudit run nano-vllm --source DIR"),
        ("run nano-vllm", "nano-vllm could not be loaded: it is on no package index: --source DIR names a checkout"),
        ("run nano-vllm --source .", ". holds no folder nanovllm/"),
        ("run nano-vllm --source . --set policy=lru", "it has no setting 'policy'; there are: none"),
        ("run sglang --source . --set policy=oldest", "policy is one of lru, lfu, fifo, mru, filo"),
        ("run kvblocks --profile own-cache --black-box", "leave out --black-box"),
        ("smoke kvblocks --profile own-cache", "kvaudit run kvblocks audits it"),
        ("explore kvblocks --profile nano-vllm --blocks 2 --block-size 1", "makes blocks of 2 tokens at least"),
        ("run kvblocks --no-such-option", "No such option: --no-such-option"),
        ("run vllm==9.9.9", "vllm==9.9.9 has not been fetched: kvaudit fetch vllm==9.9.9"),
        ("run cmd:", "cmd: is followed by a program and its arguments"),
        ("""run "cmd:'" """, "is no command line: No closing quotation"),
        ("run cmd:no-such-program", "no-such-program could not be started: No such file"),
        ("run cmd:true", "true ended where an answer to 'start' was due (exit status 0)"),
        ("run 'cmd:echo hello'", "echo hello sent a line that is no answer: JSON is malformed"),
        ("run cmd:cat", 'cat sent a line that is no answer: type: expected started or failed, got "start"'),
        ("replay nowhere.jsonl", "nowhere.jsonl cannot be read: No such file"),
        ("replay .", "cannot be read: Is a directory"),
        ("obligations Z9", "no obligation 'Z9': there are I1, I2"),
        ("fetch vllm", "'vllm' names no version: for example kvaudit fetch vllm==0.33.0"),
        ("audit kvblocks", "No such command 'audit'"),
    ],
)
def test_what_cannot_be_done(arguments: str, fragment: str, tmp_path: Path) -> None:
    said = kvaudit(*shlex.split(arguments.replace("MINI", str(MINIATURES))), cwd=tmp_path)
    assert said.code == 2, said
    assert fragment in said.all


@ISOLATED
@pytest.mark.parametrize("name", ["HangsInAppend", "HangsInObserve"])
def test_a_target_that_hangs_is_at_fault(name: str, flags: tuple[str, ...], tmp_path: Path) -> None:
    said = kvaudit("run", f"{MINIATURES}:{name}", *FEW, "--timeout", "0.1", *flags, cwd=tmp_path)
    assert said.code == 1, said
    assert "O2 is violated" in said.all
    assert "a legal call hangs: no answer within 0.1 s" in said.all


@ISOLATED
@pytest.mark.parametrize(
    ("name", "fragment"),
    [
        ("Exits", "a legal call raised SystemExit: no block"),
        ("RefusesInItsOwnWords", "Is it meant as a refusal? --refusal PoolExhausted"),
        ("RefusesEverything", "refused, with"),
        ("RefusesFree", "free was refused"),
        ("ReadsRaise", "a legal call raised ZeroDivisionError: division by zero (miniatures.py:"),
    ],
)
def test_a_target_that_misbehaves_is_at_fault(name: str, fragment: str, flags: tuple[str, ...], tmp_path: Path) -> None:
    said = kvaudit("run", f"{MINIATURES}:{name}", *FEW, *flags, cwd=tmp_path)
    assert said.code == 1, said
    assert "O2 is violated" in said.all
    assert fragment in said.all


def test_a_refusal_of_another_name_can_be_named(tmp_path: Path) -> None:
    named = ("--refusal", "PoolExhausted")
    for flags in ((), ("--isolate",)):
        said = kvaudit("run", f"{MINIATURES}:RefusesInItsOwnWords", *named, *flags, "--max-steps", "800", cwd=tmp_path)
        assert said.code == 0, said


def test_a_call_that_hears_no_alarm_ends_with_its_process() -> None:
    command = [sys.executable, "-m", "kvaudit.serve", f"{MINIATURES}:CannotBeRung"]
    target = ProcessTarget(command, timeout=0.5, label="peer")
    try:
        assert target.open(Pool(2, 2)) is None
        with pytest.raises(TargetError, match=r"peer gave no answer to 'run' within 0.5 s"):
            target.run([Allocate("a", (1,)), Append("a", 2)])
    finally:
        target.close()


@ISOLATED
def test_a_target_that_prints(flags: tuple[str, ...], tmp_path: Path) -> None:
    said = kvaudit("run", f"{MINIATURES}:Prints", *flags, "--max-steps", "800", cwd=tmp_path)
    assert said.code == 0, said
    assert "allocating" not in said.out
    if not flags:
        assert "note: the target printed" in said.err
        assert "first: 'allocating" in said.err


def test_a_child_that_prints_below_python(tmp_path: Path) -> None:
    said = kvaudit("run", f"{MINIATURES}:PrintsBelow", "--isolate", "--max-steps", "800", cwd=tmp_path)
    assert (said.code, said.err) == (0, "")
    assert '"ran"' not in said.out


def test_a_file_is_read_as_it_is_now(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An edit that keeps second and length leaves a cached compilation valid for Python."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    file = tmp_path / "blocks.py"
    text = "from kvblocks import BlockManager\n\nclass Blocks(BlockManager):\n    __slots__ = ()\n    marker = 1\n"
    for code in (text, text.replace("marker = 1", "marker = 2")):
        file.write_text(code, encoding="utf-8")
        os.utime(file, (1_000_000_000, 1_000_000_000))
        target = TargetSpec(f"{file}:Blocks").start()
        assert isinstance(target, ApiTarget)
        target.open(Pool(1, 1))
        assert f"marker = {target.manager.marker}" in code
        target.close()
