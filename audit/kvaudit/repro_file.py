"""`test_repro.py`: a finding as a test that pytest runs, and Python alone."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path

from kvaudit.printable import printable, without_controls
from kvaudit.protocol import MANAGER, SCHEDULER, Allocate, AnyMutation, Append, Cancel, Request, Step, Submit
from kvaudit.report import Finding
from kvaudit.targets import DEFAULT_TIMEOUT_S, TargetSpec
from kvspec.obligations import OBLIGATIONS

NAME = "test_repro.py"
_WIDTH = 116


def repro_file(
    finding: Finding, program: Sequence[AnyMutation], spec: TargetSpec, profile: str, folder: Path, *, hidden: bool
) -> str:
    """The text of the file.

    folder: where it will be; the target is looked for from the current folder of now. hidden: the answers alone do
    not show what is broken.
    """
    options = [
        f"num_blocks={finding.num_blocks}",
        f"block_size={finding.block_size}",
        f"enable_prefix_cache={finding.enable_prefix_cache}",
        *([f"configuration={finding.settings!r}"] if finding.settings else []),
        "root=ROOT",
        f"profile={_literal(profile)}",
        *_options(spec),
        *([f"hidden={_literal(finding.obligation)}"] if hidden else []),
    ]
    name = finding.id.lower().replace("-", "_")
    kind = SCHEDULER if any(isinstance(operation, Request) for operation in program) else MANAGER
    lines = [
        *_comment(f"{finding.obligation}: {OBLIGATIONS[finding.obligation].title}."),
        *_comment(f"In production: {finding.symptom}."),
        "#",
        *_comment(f"pytest {NAME}, or python {NAME} [TARGET]. It fails as long as the target is wrong."),
        "# It may be moved among the tests of a project; ROOT is the folder from which TARGET is found.",
        "",
        "import sys",
        "from pathlib import Path",
        "",
        "from kvaudit.reproduce import audited",
        "",
        f"ROOT = {_root(folder)}",
        f"TARGET = {_literal(spec.text)}",
        "",
        "",
        f"def test_{name}(target: str = TARGET) -> None:",
        "    with audited(",
        "        target,",
        *[f"        {option}," for option in options],
        f"    ) as {kind}:",
        *_calls(program, finding, kind),
        "",
        "",
        'if __name__ == "__main__":',
        f"    test_{name}(*sys.argv[1:])",
        f'    print("passed: {finding.obligation} is not violated here")',
    ]
    return "\n".join(lines) + "\n"


def _calls(program: Sequence[AnyMutation], finding: Finding, kind: str) -> list[str]:
    """A call a line, with what is due behind it; below the last one, what came and what is wrong with it."""
    lines = [
        f"        {kind}.{_call(operation)}  # {_line(step.expected)}"
        for operation, step in zip(program, finding.steps, strict=True)
    ]
    wrong = [f"came: {finding.steps[-1].got}", *finding.details]
    return lines + [f"        # {_line(text)}" for text in wrong]


def _call(operation: AnyMutation) -> str:
    """The operation as a call."""
    if isinstance(operation, Step):
        cancel = f", cancel={_option(list(operation.cancel))}" if operation.cancel else ""
        return f"step({operation.token}{cancel})"
    seq = _literal(operation.seq)
    if isinstance(operation, Submit):
        return f"submit({seq}, {list(operation.tokens)}, {operation.max_new_tokens})"
    if isinstance(operation, Cancel):
        return f"cancel({seq})"
    if isinstance(operation, Allocate):
        named = "".join(f", {name}={_literal(value)}" for name, value in operation.extra.named().items())
        return f"allocate({seq}, {list(operation.tokens)}{named})"
    return f"append_slot({seq}, {operation.token})" if isinstance(operation, Append) else f"free({seq})"


def _literal(value: object) -> str:
    """A value as a program has it, with the quotes that formatters prefer."""
    is_plain = isinstance(value, str) and value.isascii() and value.isprintable() and not set(value) & set('"\\')
    return f'"{value}"' if is_plain else repr(value)


def _option(value: object) -> str:
    return f"[{', '.join(map(_literal, value))}]" if isinstance(value, list) else _literal(value)


def _options(spec: TargetSpec) -> list[str]:
    """The options of the target that are not the usual ones."""
    named = {
        "level": spec.level,
        "source": spec.source,
        "settings": list(spec.settings),
        "refusals": list(spec.refusals),
        "isolate": spec.isolate,
        "black_box": spec.black_box,
    }
    told = [f"{name}={_option(value)}" for name, value in named.items() if value]
    return told + ([f"timeout={spec.timeout!r}"] if spec.timeout != DEFAULT_TIMEOUT_S else [])


def _root(folder: Path) -> str:
    """The current folder, as seen from the file."""
    here, folder = Path.cwd(), folder.resolve()
    if not folder.is_relative_to(here):
        return f"Path({_literal(str(here))})"
    return f"Path(__file__).resolve().parents[{len(folder.relative_to(here).parts)}]"


def _comment(text: str) -> list[str]:
    return [f"# {line}" for line in textwrap.wrap(_line(text), _WIDTH)]


def _line(text: str) -> str:
    return without_controls(printable(" ".join(text.split())))
