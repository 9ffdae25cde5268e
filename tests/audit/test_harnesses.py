"""Programs that misbehave, by kind: a clear message each, no hang past its limit, and no process that is left.

Each is a script that speaks the protocol well up to some point. An audit of it ends in a TargetError, and
`kvaudit smoke` says that it is the harness that is broken.
"""

from __future__ import annotations

import os
import shlex
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from audit.auditing import MARK, audited, kvaudit, left
from kvaudit import child
from kvaudit.errors import TargetError
from kvaudit.process import ProcessTarget
from kvaudit.protocol import Allocate, Pool
from kvaudit.smoke import BROKEN, FINE, smoke
from kvaudit.targets import TargetSpec

PRELUDE = """
import json, os, signal, subprocess, sys, time

OFFERS = ["allocate", "append_slot", "free", "num_free_blocks", "num_cached_tokens"]

def hear():
    return json.loads(sys.stdin.readline())

def write(text):
    os.write(1, text.encode() if type(text) is str else text)

def say(**message):
    write(json.dumps(message) + "\\n")

def start(**changed):
    hear()
    say(**{"type": "started", "name": "x", "capabilities": OFFERS, **changed})

def open_pool(**changed):
    start(**changed)
    hear()
    say(type="opened")

def run(*outcomes, **changed):
    open_pool(**changed)
    hear()
    say(type="ran", outcomes=list(outcomes))

TABLE = {"outcome": "returned", "value": [0, 1]}
NOTHING = {"outcome": "returned"}
SEEN = {"outcome": "observed", "num_free_blocks": 2, "cached": {"a": 0}}
"""

SERVE = "import sys; from kvaudit import serve; sys.argv[1:] = ['kvblocks']; serve.main()"
"""A harness in which everything is right, up to its end."""


class Kind(NamedTuple):
    """code: what it does. said: part of the message. timeout: seconds that an answer may take."""

    code: str
    said: str
    timeout: float = 30.0


SILENT = 0.2
KINDS = {
    # it ends
    "ends at once": Kind("", "ended where an answer to 'start' was due (exit status 0)"),
    "ends with a word": Kind("sys.exit('no such device')", "(exit status 1) its stderr ends: no such device"),
    "ends with a traceback": Kind("hear(); 1 / 0", "its stderr ends: Traceback (most recent call last):"),
    "ends by a signal": Kind("start(); os.kill(os.getpid(), signal.SIGSEGV)", "'open' was due (killed by SIGSEGV)"),
    "ends in the middle of a program": Kind("open_pool(); hear(); sys.exit(7)", "to 'run' was due (exit status 7)"),
    "ends after half a line": Kind("start(); hear(); write('{\"type\":')", """after half a line: {"type": (exit"""),
    "says that it cannot start": Kind("hear(); say(type='failed', error='E', message='no disk')", "started: no disk"),
    "says that it cannot run": Kind("open_pool(); hear(); say(type='failed', error='E', message='lost')", "lost"),
    "says it in colours": Kind(
        "hear(); say(type='failed', error='E', message='\\x1b[31mno disk' + 'x' * 5000)", r"\x1b[31mno disk"
    ),
    "daemonises": Kind(
        "start()\nif os.fork(): os._exit(0)\nos.setsid(); time.sleep(1)", "within 0.2 s (exit status 0)", 0.2
    ),
    "starts many": Kind(
        "start()\nfor _ in range(30): subprocess.Popen(['sleep', '97'])\nwait = subprocess.run(['sleep', '97'])",
        "gave no answer to 'open'",
        0.2,
    ),
    "is late by one answer": Kind(
        "open_pool(); late = [NOTHING]\nwhile True:\n    asked = hear()['program']\n"
        "    say(type='ran', outcomes=late); late = [NOTHING] * len(asked)",
        "operations with 1 outcomes",
    ),
    # it does not answer
    "is silent": Kind("start(); time.sleep(60)", "gave no answer to 'open' within 0.2 s", SILENT),
    "forgets the end of the line": Kind(
        """start(); hear(); write('{"type":"opened"}'); time.sleep(60)""",
        "within 0.2 s, only 17 bytes without an end of line",
        SILENT,
    ),
    "drips": Kind(
        "start(); hear()\nwhile True: write('{'); time.sleep(0.02)", "gave no answer to 'open' within 0.2", SILENT
    ),
    "stops itself": Kind("start(); os.kill(os.getpid(), signal.SIGSTOP)", "gave no answer to 'open'", SILENT),
    "will not be ended": Kind(
        "signal.signal(signal.SIGTERM, signal.SIG_IGN); start(); time.sleep(60)", "gave no answer to 'open'", SILENT
    ),
    "closes its standard output": Kind(
        "start(); os.close(1); time.sleep(60)", "closed its standard output where an answer to 'open' was due"
    ),
    "leaves a child behind that holds its streams": Kind(
        "start(); subprocess.Popen(['sleep', '97'])", "gave no answer to 'open' within 0.2 s (exit status 0)", SILENT
    ),
    "waits for a child": Kind("start(); subprocess.run(['sleep', '97'])", "gave no answer to 'open'", SILENT),
    # it talks too much
    "floods standard output": Kind("start(); hear()\nwhile True: write('x' * 65536)", "more than 1 MiB without an end"),
    "floods standard output with lines": Kind(
        "start(); hear()\nwhile True: write('x' * 100 + '\\n')", "sent a line that is no answer"
    ),
    "floods standard error": Kind(
        "start()\nwhile True: os.write(2, b'x' * 65536)", "gave no answer to 'open' within 0.2 s", SILENT
    ),
    "greets": Kind("print('harness 1.0 is ready', flush=True); start()", "carries the protocol and nothing else"),
    "prints for people": Kind("open_pool(); hear(); write('allocating a\\n')", "answered: allocating a"),
    "sends an empty line": Kind("start(); hear(); write('\\n')", "sent an empty line: one line is due"),
    "answers twice": Kind(
        """start(); hear(); write('{"type":"opened"}\\n{"type":"opened"}\\n'); hear(); time.sleep(1)""",
        """said more than the one line that was due, before 'run': {"type":"opened"}""",
    ),
    # it is no JSON
    "no UTF-8": Kind('hear(); write(b\'{"type":"st\\xff"}\\n\')', "Invalid UTF-8"),
    "UTF-16": Kind("hear(); write('{\"type\":1}\\n'.encode('utf-16'))", "malformed: invalid character (byte 0)"),
    "not a number": Kind(
        "run({'outcome': 'returned', 'value': float('nan')}, NOTHING, SEEN)", "JSON is malformed: invalid character"
    ),
    "nested without end": Kind("hear(); write('[' * 100_000 + '\\n')", "its JSON is nested too deeply"),
    "two objects in a line": Kind("hear(); write('{} {}\\n')", "JSON is malformed: trailing characters"),
    # it is no answer
    "a list": Kind("hear(); write('[1]\\n')", "an object with the type started or failed is due, not [1]"),
    "no type": Kind("hear(); write('{}\\n')", "type: expected started or failed, got no such field"),
    "an unknown type": Kind("hear(); say(type='ready')", 'type: expected started or failed, got "ready"'),
    "a misspelt field": Kind(
        "hear(); say(type='started', name='x', capabilites=[])", "Object missing required field `capabilities`"
    ),
    "a field of another type": Kind(
        "start(capabilities='all')", 'capabilities: Expected `array`, got `str`, the value is "all"'
    ),
    "another protocol": Kind("start(protocol=9)", "speaks protocol 9, this kvaudit speaks 1"),
    "offers nothing": Kind("start(capabilities=[])", "lacks allocate, append_slot, free, num_cached_tokens"),
    "does not say what is cached": Kind("start(capabilities=OFFERS[:4])", "lacks num_cached_tokens: nothing can be"),
    "an answer to another question": Kind(
        "start(); hear(); say(type='ran', outcomes=[])", "answered open with ran, due is opened or failed"
    ),
    "too few outcomes": Kind("run(TABLE)", "answered 3 operations with 1 outcomes"),
    "too many outcomes": Kind("run(TABLE, NOTHING, SEEN, SEEN)", "answered 3 operations with 4 outcomes"),
    "an unknown outcome": Kind(
        "run(TABLE, {'outcome': 'done'}, SEEN)",
        'outcomes[1].outcome: expected returned, refused, raised, observed or unsupported, the value is "done"',
    ),
    "no outcome of that operation": Kind(
        "run(SEEN, NOTHING, SEEN)", "outcomes[0]: allocate came to observed, due is returned, refused or raised"
    ),
    "an exception without a name": Kind("run({'outcome': 'raised'}, NOTHING, SEEN)", "missing required field `error`"),
    "cached is no object": Kind(
        "run(TABLE, NOTHING, {**SEEN, 'cached': 5})",
        "outcomes[2].cached: Expected `object | null`, got `int`, the value is 5",
    ),
    "no number in a table of many": Kind(
        "run(TABLE, NOTHING, {**SEEN, 'state': {'tables': {'a': [0], 'b': [0, 'x'], 'c': []}}})",
        'outcomes[2].state.tables["b"][1]: Expected `int`, got `str`, the value is "x"',
    ),
    # what it offers and does not give would not be checked
    "offers observe and gives no state": Kind(
        "run(TABLE, NOTHING, SEEN, capabilities=[*OFFERS, 'observe'])",
        "outcomes[2].state is missing or null, though 'started' offers 'observe'",
    ),
    "offers tables and gives none": Kind(
        "run(TABLE, NOTHING, SEEN, capabilities=[*OFFERS, 'block_table'])", "outcomes[2].tables is missing or null"
    ),
    "offers num_cached_tokens and gives none": Kind(
        "run(TABLE, NOTHING, {'outcome': 'observed', 'num_free_blocks': 2})", "outcomes[2].cached is missing or null"
    ),
}

AT_THE_END = {
    "does not end": Kind(f"{SERVE}; time.sleep(60)", "does not end within 1 s of 'stop'"),
    "ends with an error": Kind(f"{SERVE}; sys.exit(3)", "ends with exit status 3 after 'stop'"),
    "answers stop": Kind(f"import os; out = os.dup(1); {SERVE}; os.write(out, b'bye')", "answers 'stop', to which no"),
}
"""An audit ends these without a word, since it has its verdict by then."""


@pytest.fixture(autouse=True)
def nothing_is_left(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    mark = uuid.uuid4().hex
    monkeypatch.setenv(MARK, mark)
    monkeypatch.setattr(child, "_MAX_LINE_BYTES", 2**20)
    yield
    deadline = time.monotonic() + 5  # a process that was killed takes a moment to be gone
    while left({MARK: mark}) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not left({MARK: mark})


def spec_of(code: str, folder: Path, timeout: float = 30.0) -> TargetSpec:
    (folder / "peer.py").write_text(f"{PRELUDE}\n{code}\n", encoding="utf-8")
    return TargetSpec(f"cmd:{shlex.join([sys.executable, str(folder / 'peer.py')])}", timeout=timeout)


@pytest.mark.parametrize("name", KINDS)
def test_a_harness_that_misbehaves(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child, "_GRACE_S", 0.05)
    kind = KINDS[name]
    spec = spec_of(kind.code, tmp_path, kind.timeout)
    with pytest.raises(TargetError) as error:
        audited(spec, max_steps=50)
    assert kind.said in " ".join(str(error.value).split())
    assert len(str(error.value)) < 20_000 and "\x1b" not in str(error.value)
    result = smoke(spec)
    assert (result.verdict, result.exit_code) == (BROKEN, 2)
    assert result.reason[:25] in str(error.value)
    assert result.exchanges[-1].wrong == result.reason


@pytest.mark.parametrize("name", AT_THE_END)
def test_a_harness_that_misbehaves_at_its_end(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child, "_GRACE_S", 1.0)
    kind = AT_THE_END[name]
    result = smoke(spec_of(kind.code, tmp_path))
    assert result.verdict == BROKEN
    assert kind.said in result.reason


def test_a_profile_that_there_is_not(tmp_path: Path) -> None:
    spec = spec_of("start(profile='own'); hear()", tmp_path)
    said = kvaudit("run", spec.text, cwd=tmp_path)
    assert (said.code, said.out) == (2, "")
    assert "error: no profile 'own': there are seed, strict" in said.all
    result = smoke(spec)
    assert result.verdict == BROKEN
    assert result.reason.startswith("profile: no profile 'own'")


def test_the_command_says_how_to_see_more(tmp_path: Path) -> None:
    said = kvaudit("run", spec_of(KINDS["too few outcomes"].code, tmp_path).text, cwd=tmp_path)
    assert said.code == 2
    assert "error: " in said.err and "answered 3 operations with 1 outcomes" in said.err
    assert 'asked: {"type":"run"' in said.all and 'answered: {"type": "ran"' in said.all
    assert "note: kvaudit smoke TARGET shows every line" in said.all


def test_what_a_terminal_would_obey_is_not_shown_to_it(tmp_path: Path) -> None:
    spec = spec_of("hear(); os.write(2, b'\\x1b[31mred'); write('\\x1b]0;title\\x07 hello\\n')", tmp_path)
    said = kvaudit("smoke", spec.text, cwd=tmp_path)
    assert "\x1b" not in said.all
    assert r"< \x1b]0;title\x07 hello" in said.out
    assert r"\x1b[31mred" in said.out


def test_there_are_thirty_kinds_at_least() -> None:
    assert len(KINDS) + len(AT_THE_END) >= 30


def test_what_it_says_to_people_is_its_own(tmp_path: Path) -> None:
    """A pipe holds 64 KiB: unless somebody reads it, a harness that says more waits for ever."""
    chatty = SERVE.replace("serve.main()", "os.write(2, b'x' * 2**20); serve.main(); os.write(2, b'x' * 2**20)")
    result = smoke(spec_of(f"import os; {chatty}", tmp_path))
    assert (result.verdict, result.stderr) == (FINE, ())


def test_a_long_question_that_is_not_read_ends_in_time() -> None:
    listens_once = f"{PRELUDE}\nopen_pool(); time.sleep(60)"
    target = ProcessTarget([sys.executable, "-c", listens_once], timeout=SILENT, label="peer")
    try:
        assert target.open(Pool(2, 2)) is None
        with pytest.raises(TargetError, match=r"peer gave no answer to 'run' within 0.2 s"):
            target.run([Allocate("a", (1,) * 2**18)])
    finally:
        target.close()


def test_an_answer_to_half_a_question_is_none() -> None:
    hasty = f"{PRELUDE}\nopen_pool(); say(type='ran', outcomes=[NOTHING]); time.sleep(60)"
    target = ProcessTarget([sys.executable, "-c", hasty], label="peer")
    try:
        assert target.open(Pool(2, 2)) is None
        with pytest.raises(TargetError, match=r"said more than the one line|answered before it had read 'run'"):
            target.run([Allocate("a", (1,) * 2**18)])
    finally:
        target.close()


@pytest.mark.parametrize(
    ("name", "mode", "said"),
    [
        ("harness", 0o755, "The file is here: write ./harness"),
        ("./harness", 0o644, "Is it executable? chmod +x ./harness"),
        ("./harness", 0o755, "A script begins with #! and its interpreter"),
    ],
)
def test_a_program_that_cannot_be_started(
    name: str, mode: int, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("harness").write_text("print('no interpreter')\n", encoding="utf-8")
    os.chmod("harness", mode)
    with pytest.raises(TargetError) as error:
        TargetSpec(f"cmd:{name}").start()
    assert said in str(error.value)
