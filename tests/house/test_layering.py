"""kvspec and kvblocks need the standard library and nothing else.

The import contracts in pyproject.toml name the packages that they forbid. Here nothing is named: an import
that is not in the standard library is a third party.
"""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
PURE = {"kvspec": REPOSITORY / "spec", "kvblocks": REPOSITORY / "impl"}
OPTIONAL = {("kvblocks", "xxhash")}  # may be imported inside a function

IMPORT_EVERYTHING = """
import importlib, pkgutil, sys
root, name = sys.argv[1:]
sys.path.insert(0, root)
package = importlib.import_module(name)
for module in pkgutil.walk_packages(package.__path__, name + "."):
    importlib.import_module(module.name)
"""


def imports(node: ast.AST, in_function: bool = False) -> Iterator[tuple[str, bool]]:
    """The top-level name of each absolute import below `node`, and whether it stands inside a function."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            yield from ((alias.name.partition(".")[0], in_function) for alias in child.names)
        elif isinstance(child, ast.ImportFrom) and child.level == 0 and child.module:
            yield child.module.partition(".")[0], in_function
        else:
            inside = in_function or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
            yield from imports(child, inside)


@pytest.mark.parametrize("name", PURE)
def test_imports_only_itself_and_the_standard_library(name: str) -> None:
    files = sorted((PURE[name] / name).rglob("*.py"))
    assert files
    strangers = [
        f"{file.relative_to(REPOSITORY)}: {module}"
        for file in files
        for module, in_function in imports(ast.parse(file.read_text(encoding="utf-8")))
        if module != name and module not in sys.stdlib_module_names and not (in_function and (name, module) in OPTIONAL)
    ]
    assert strangers == []


@pytest.mark.parametrize("name", PURE)
def test_imports_in_an_interpreter_without_installed_packages(name: str) -> None:
    """Every module of the package, under -I -S: no site-packages, none of our other source roots."""
    command = [sys.executable, "-I", "-S", "-c", IMPORT_EVERYTHING, str(PURE[name]), name]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_every_console_shows_text_as_it_is() -> None:
    """Rich's own makes a picture of `:name:`, which may be part of a path, an id, or a target."""
    made = [
        file.relative_to(REPOSITORY).as_posix()
        for room in ("audit/kvaudit", "proofs/kvproofs", "bench")
        for file in sorted((REPOSITORY / room).rglob("*.py"))
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Console"
    ]
    assert made == []
