"""What the adapters share: the refusal, and how they ask an engine what it offers."""

from __future__ import annotations

import ast
import importlib.metadata
import inspect
import re
import subprocess
import traceback
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from kvaudit.engines.lite import Loaded, LoadError, UnknownVersion, hint_of_stubs


class OutOfBlocks(Exception):
    """The engine has no room now."""


def class_of(loaded: Loaded, module: str, name: str) -> type[Any]:
    """A class of one of the engine's modules. Raises `LoadError`."""
    found: type[Any] = need(loaded.module(module), name)
    return found


def need(owner: Any, name: str) -> Any:
    """An attribute. Raises `UnknownVersion` if it is not there."""
    if not hasattr(owner, name):
        raise UnknownVersion(f"{_label(owner)} has no {name}: not a version that this adapter knows")
    return getattr(owner, name)


def has_parameter(target: Callable[..., Any], name: str) -> bool:
    """Whether it can be called with an argument of that name."""
    return name in inspect.signature(target).parameters


def offering(target: Callable[..., Any], *names: str) -> Callable[..., Any]:
    """Wrap `target` to take all of `names` and pass on those that it has parameters for.

    Raises `UnknownVersion` if it requires a parameter that is not among them.
    """
    parameters = inspect.signature(target).parameters
    required = [p.name for p in parameters.values() if p.default is p.empty and p.kind in _NAMED]
    missing = [name for name in required if name not in names]
    if missing:
        raise UnknownVersion(f"{_label(target)} requires {', '.join(missing)}: not a version that this adapter knows")
    dropped = tuple(n for n in names if n not in parameters)

    def call(**values: Any) -> Any:
        for name in dropped:
            del values[name]
        return target(**values)

    return call if dropped else target


_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def tried(
    engine: str,
    manager: Callable[..., Any],
    *,
    block_size: int = 2,
    caches: tuple[bool, ...] = (True,),
    appends: bool = True,
) -> None:
    """Use each call once, to tell "the adapter does not fit" from "the engine is wrong". Raises `LoadError`.

    appends: whether a sequence can grow. It also triggers the imports that engines put off to the first call.
    """
    try:
        for caching in caches:
            m = manager(3, block_size, caching)
            m.allocate("a", [1] * (block_size + 1))
            if appends:
                m.append_slot("a", 4)
            m.observe()
            m.free("a")
            if m.num_free_blocks != 3:
                raise LoadError(f"{m.num_free_blocks} of 3 blocks are free at rest")
    except LoadError:
        raise
    except Exception as error:
        what = f"{type(error).__name__}: {error} ({_where(error)})"
        raise UnknownVersion(f"adapter and {engine} do not fit: {what}{hint_of_stubs(str(error))}") from error


def _where(error: Exception) -> str:
    """The line that raised, and where that is in the engine or in what it imports, the line of the adapter, too."""
    places = [f"{Path(frame.filename).name}:{frame.lineno} in {frame.name}" for frame in _frames(error)]
    return ", from ".join(dict.fromkeys((places[-1], places[0])))


def _frames(error: Exception) -> list[traceback.FrameSummary]:
    """Those below this module."""
    return [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename != __file__]


def tried_scheduler(engine: str, scheduler: Callable[..., Any]) -> None:
    """Serve two requests and cancel one, as `tried` does with a block manager. Raises `LoadError`."""
    try:
        s = scheduler(4, 2, True)
        s.submit("a", [1, 2, 3], 2)
        s.submit("b", [1, 2], 1)
        finished = [seq for _ in range(12) for seq in s.step(4)["finished"]]
        s.submit("a", [1, 2, 3], 2)
        s.step(4)
        s.observe()
        s.cancel("a")
        s.step(4)
        if sorted(finished) != ["a", "b"] or s.num_free_blocks != 4:
            raise LoadError(
                f"{finished} of a and b were finished, and {s.num_free_blocks} of 4 blocks are free at rest"
            )
    except LoadError:
        raise
    except Exception as error:
        raise LoadError(f"the API of this {engine} is not as expected: {type(error).__name__}: {error}") from error


def definitions_of(file: Path, names: Collection[str], namespace: dict[str, Any]) -> dict[str, Any]:
    """Functions and classes of a file that cannot be imported here, compiled by themselves. Raises `LoadError`.

    namespace: the global names that they use.
    """
    try:
        tree = ast.parse(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UnknownVersion(f"there is no file {file}: not a version that this adapter knows") from None
    except OSError as error:
        raise LoadError(f"{file} cannot be read: {error.strerror}") from error
    found = [node for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name in names]
    missing = set(names) - {node.name for node in found}
    if missing:
        raise UnknownVersion(f"{file} has no {', '.join(sorted(missing))}: not a version that this adapter knows")
    module = ast.Module([*_LATE_ANNOTATIONS, *found], type_ignores=[])
    namespace["__name__"] = __name__  # by which a dataclass finds its module
    exec(compile(ast.fix_missing_locations(module), str(file), "exec"), namespace)
    return {name: namespace[name] for name in names}


_LATE_ANNOTATIONS = ast.parse("from __future__ import annotations").body


def version_of(distribution: str, root: Path | None, loaded: Loaded) -> str:
    """The version, from what came with the files; of a checkout that was never built its revision, or "unknown"."""
    stem = distribution.replace("-", "_")
    for file in sorted(loaded.root.glob(f"{stem}-*.dist-info/METADATA")):
        found = re.search(r"^Version: *(\S+)", file.read_text(encoding="utf-8"), re.MULTILINE)
        if found:
            return found[1]
    file = loaded.root / stem / "_version.py"
    if file.is_file():
        text = file.read_text(encoding="utf-8")
        found = re.search(r"^__version__[^'\"\n]*['\"]([^'\"]+)['\"]", text, re.MULTILINE)
        if found:
            return found[1]
    return importlib.metadata.version(distribution) if root is None else _revision(root)


def _revision(root: Path) -> str:
    """The commit, with `-dirty` behind it if files were changed."""
    if not (root / ".git").exists():
        return "unknown"
    describe = ("describe", "--always", "--abbrev=7", "--dirty", "--exclude=*")
    command = ("git", "-C", str(root), *describe)
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return "unknown"


def _label(owner: Any) -> str:
    return str(getattr(owner, "__qualname__", getattr(owner, "__name__", owner)))
