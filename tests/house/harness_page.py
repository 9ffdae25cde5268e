"""docs/harness.md as a reader follows it: its blocks of code change the program, its commands are run."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

LEFT_OUT = "[...]"


class Ran(NamedTuple):
    """A command of the page, what the page says that it prints, and what it prints."""

    command: str
    shown: str
    printed: str


def follow(page: str, blocks: str, folder: Path, run: Callable[[str], str]) -> tuple[list[Ran], str]:
    """Do what the page says in that folder. `run` runs a command line. Returns what was run, and the last program.

    blocks: the manager, as the quickstart has it.
    """
    (folder / "blocks.py").write_text(blocks, encoding="utf-8")
    program, ran = "", []
    for language, text in re.findall(r"^```(\w*)\n(.*?)^```", page, re.DOTALL | re.MULTILINE):
        if language == "python" and text.startswith(" "):  # the first lines of a method of the manager's
            signature, change = text.splitlines()
            before, _, rest = blocks.partition(f"{signature}\n")
            blocks = f"{before}{signature}\n{change}\n{rest.partition(chr(10))[2]}"
            (folder / "blocks.py").write_text(blocks, encoding="utf-8")
        elif language == "python":
            program = merged(program, text)
            (folder / "harness.py").write_text(program, encoding="utf-8")
        elif text.startswith("$ kvaudit smoke "):
            command, _, shown = text[2:].partition("\n")
            ran.append(Ran(command, shown, run(command)))
    return ran, program


def merged(program: str, block: str) -> str:
    """The program with the definitions of a block: in place of those of the same name, or before the loop."""
    old, new = _parts(program), _parts(block)
    if "loop" in new and len(new) > 1:
        return block  # a whole program
    loop = old.pop("loop", "")
    parts = {**old, **new}
    loop = parts.pop("loop", loop)
    return "\n\n\n".join([*parts.values(), loop]) + "\n"


def _parts(program: str) -> dict[str, str]:
    """The top-level statements, by what they define."""
    parts = {}
    for node in ast.parse(program).body:
        source = ast.get_source_segment(program, node) or ""
        name = "loop" if isinstance(node, (ast.For, ast.Expr)) else getattr(node, "name", source.partition("=")[0])
        parts[name] = source
    return parts


def is_shown(shown: str, printed: str) -> bool:
    """Whether the page shows what was printed, but for what it leaves out."""
    pattern = ".*?".join(re.escape(part.strip("\n")) for part in shown.strip().split(LEFT_OUT))
    return re.fullmatch(pattern, printed.strip(), re.DOTALL) is not None
