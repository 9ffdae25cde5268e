"""The pages on pytest and CI say what is so: their examples are run."""

from __future__ import annotations

import inspect
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from audit.auditing import environment_with_mark, kvaudit
from house.harness_page import is_shown
from kvaudit.pytest import conformance

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PYTEST = (DOCS / "pytest.md").read_text(encoding="utf-8")
CI = (DOCS / "ci.md").read_text(encoding="utf-8")


def block(page: str, start: str) -> str:
    """The code block of a page that begins so."""
    blocks: list[str] = re.findall(r"```\w*\n(.*?)```", page, re.DOTALL)
    return next(text for text in blocks if text.startswith(start))


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The quickstart's class, and the three lines."""
    folder = tmp_path_factory.mktemp("project")
    quickstart = (DOCS / "quickstart.md").read_text(encoding="utf-8")
    (folder / "blocks.py").write_text(re.findall(r"```python\n(.*?)```", quickstart, re.DOTALL)[0], encoding="utf-8")
    lines = block(PYTEST, "from blocks import")
    for page in (quickstart, (ROOT / "README.md").read_text(encoding="utf-8")):
        assert block(page, "from blocks import").replace("  # a test an obligation", "") == lines
    (folder / "test_blocks.py").write_text(lines, encoding="utf-8")
    return folder


def run_pytest(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments]
    environment = {**environment_with_mark(), "COLUMNS": "80"}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=60)


def test_pytest_shows_what_the_page_shows(project: Path) -> None:
    shown = block(PYTEST, "$ pytest").partition("\n")[2]
    done = run_pytest(project, "-q", "--kvaudit-steps", "3000")
    assert is_shown(shown.rstrip() + "\n[...]", done.stdout), done.stdout
    folder = project / ".kvaudit/failures/K1-292a88a5"
    names = [line.split()[0] for line in block(PYTEST, ".kvaudit").splitlines()[1:]]
    assert sorted(names) == sorted(path.name for path in folder.iterdir())
    assert block(PYTEST, "def test_k1") in (folder / "test_repro.py").read_text(encoding="utf-8")


def test_the_page_has_every_argument_and_option() -> None:
    arguments = {name for name in inspect.signature(conformance).parameters if name != "target"}
    assert set(re.findall(r"^\| `(\w+)=", PYTEST, re.MULTILINE)) == arguments
    helped = run_pytest(ROOT, "--help").stdout
    assert set(re.findall(r"--kvaudit-[\w-]+", PYTEST)) == set(re.findall(r"--kvaudit-[\w-]+", helped))


def test_the_page_has_every_input_of_the_action() -> None:
    action = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
    rows = re.findall(r"^\| `([\w-]+)` \| .* \| (.*?) ?\|$", CI, re.MULTILINE)
    due = {
        name: "required" if about.get("required") else about["default"] and f"`{about['default']}`"
        for name, about in action["inputs"].items()
    }
    assert dict(rows) == due
    assert set(re.findall(r"The output `([\w-]+)`", CI)) == set(action["outputs"])


@pytest.mark.parametrize("page", ["docs/ci.md", "README.md"])
def test_the_workflow_gives_the_action_inputs_that_it_has(page: str) -> None:
    action = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
    text = (ROOT / page).read_text(encoding="utf-8")
    found = yaml.safe_load(re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)[0])
    steps = found if isinstance(found, list) else found["jobs"]["kvaudit"]["steps"]
    [step] = [step for step in steps if step.get("uses") == "./kvaudit"]
    given = set(step["with"])
    assert "target" in given and given <= set(action["inputs"])


def test_the_command_writes_what_the_page_says(project: Path) -> None:
    _, *arguments = shlex.split(block(CI, "kvaudit run"))
    assert kvaudit(*arguments, "-x", cwd=project).code == 1
    for name in ("junit.xml", "kvaudit.sarif", "summary.md", "kvaudit.json", ".kvaudit/report.html"):
        assert (project / name).stat().st_size
