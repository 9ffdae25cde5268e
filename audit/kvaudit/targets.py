"""From the name of a target on the command line to something that can be driven.

kvblocks                the manager of this distribution
pkg.module:Class        a class on the Python path
path/to/file.py:Class   a class in a file
path/to/file.py         an adapter in a file, of an engine that has none here (docs/adapters.md)
vllm, vllm==0.33.0      an engine: the installed one, or a version brought by `kvaudit fetch`
cmd:PROGRAM ARGS        any program that speaks the protocol
"""

from __future__ import annotations

import ast
import importlib
import importlib.machinery
import importlib.util
import inspect
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType
from typing import Any, Protocol

from kvaudit.api import ApiTarget
from kvaudit.errors import TargetError, UsageError
from kvaudit.in_process import InProcessTarget
from kvaudit.limits import Limits
from kvaudit.process import ProcessTarget, Tap
from kvaudit.profiles import PROFILES, Profile, adopt
from kvaudit.protocol import MANAGER, SCHEDULER, Failed, LevelName, Operation, Outcome, Pool, Setting
from kvaudit.refusals import REFUSALS, refusal_names
from kvaudit.scheduling.api import SchedulerTarget

DEFAULT_TIMEOUT_S = 10.0

_START_FACTOR = 6
"""How much longer than others the first answer of a program may take: it has to load first."""

_PROGRAM = "cmd:"

_NO_SETTINGS: Mapping[str, str] = {}

ENGINES = ("vllm", "sglang", "transformers", "vllm-mlx", "lmdeploy", "exllamav3", "nano-vllm", "mini-sglang")
"""Engines with an adapter: `kvaudit.engines` has a module of that name, with _ for -."""


class Target(Protocol):
    """What the auditor drives: one pool at a time, one program after the other."""

    name: str
    version: str
    profile: str
    stubs: tuple[str, ...]
    notes: tuple[str, ...]
    capabilities: frozenset[str]
    settings: Mapping[str, tuple[Setting, ...]]
    level: LevelName

    def open(self, pool: Pool) -> Failed | None:
        """Make a fresh manager; Failed if it could not be made."""

    def run(self, program: Sequence[Operation]) -> list[Outcome]:
        """Execute operations on the open pool, one outcome for each."""
        ...

    def close(self) -> None:
        """End the target and everything that belongs to it."""


@dataclass(frozen=True)
class TargetSpec:
    """What was asked for on the command line.

    source: the checkout of an engine. refusals: further names of exceptions that are refusals. isolate: run a
    Python class in a child process. black_box: do not use observe(). timeout: seconds that one step may take.
    settings: of an engine, NAME=VALUE each. level: at which level it is driven, if it offers both.
    """

    text: str
    source: str | None = None
    refusals: tuple[str, ...] = ()
    isolate: bool = False
    black_box: bool = False
    timeout: float = DEFAULT_TIMEOUT_S
    settings: tuple[str, ...] = ()
    level: LevelName | None = None

    def __post_init__(self) -> None:
        refusal_names(self.refusals)  # a mistake is told before anything is started

    def flags(self) -> list[str]:
        """The options that say the same on a command line."""
        flags = ["--source", self.source] if self.source is not None else []
        for refusal in self.refusals:
            flags += ["--refusal", refusal]
        for setting in self.settings:
            flags += ["--set", setting]
        flags += ["--isolate"] if self.isolate else []
        flags += ["--black-box"] if self.black_box else []
        return flags + (["--timeout", f"{self.timeout:g}"] if self.timeout != DEFAULT_TIMEOUT_S else [])

    @property
    def engine(self) -> str | None:
        """The engine's name, if the target is one."""
        name = self.text.partition("==")[0]
        return name if name in ENGINES else None

    @property
    def is_program(self) -> bool:
        """Any program that speaks the protocol: its harness is somebody else's, that of a class is ours."""
        return self.text.startswith(_PROGRAM)

    @property
    def adapted(self) -> bool:
        """An adapter stands between: misuse would audit the adapter and not the engine."""
        return self.engine is not None or _is_adapter(self.text)

    def start(self) -> Target:
        """Start the target. Raises UsageError (nothing of that name) or TargetError (it does not start)."""
        if self.is_program or self.adapted or self.isolate:
            return self.start_process()
        self._check_source()
        target = load_in_process(self.text, refusals=frozenset(self.refusals), timeout=self.timeout, level=self.level)
        target.capabilities -= self._hidden()
        return target

    def start_class(self, cls: type[Any]) -> Target:
        """Start a class that is at hand, instead of the one that is found by name. Raises TargetError."""
        version = str(getattr(sys.modules.get(cls.__module__.partition(".")[0]), "__version__", ""))
        refusals = frozenset(self.refusals) | REFUSALS
        kind = _kind_of(cls, self.level)
        target = kind(cls, name=self.text, version=version, refusals=refusals, timeout=self.timeout)
        target.capabilities -= self._hidden()
        return target

    def _hidden(self) -> frozenset[str]:
        return frozenset({"observe"} if self.black_box else ())

    def start_process(self, tap: Tap | None = None) -> ProcessTarget:
        """Start it as a process that speaks the protocol, whatever it is. Raises UsageError or TargetError."""
        self._check_source()
        if self.is_program:
            command = _split(self.text.removeprefix(_PROGRAM))
            return ProcessTarget(
                command,
                timeout=self.timeout,
                start_timeout=_START_FACTOR * self.timeout,
                label=shlex.join(command),
                hidden=self._hidden(),
                tap=tap,
                level=self.level,
            )
        text, source = self.text, self.source
        if self.engine is not None and source is None and "==" in text:
            source = str(_fetched(text, self.level))
        command = [sys.executable, "-m", "kvaudit.serve", text, "--timeout", str(self.timeout)]
        if source is not None:
            command += ["--source", source]
        for setting in self.settings:
            command += ["--set", setting]
        for refusal in self.refusals:
            command += ["--refusal", refusal]
        if self.level is not None:
            command += ["--level", self.level]
        # The child's own limit rings first; ours is for a child that cannot even ring.
        label = text or repr(text)
        return ProcessTarget(command, timeout=self.timeout + 5, label=label, hidden=self._hidden(), tap=tap)

    def _check_source(self) -> None:
        if self.source is not None and not self.adapted and self.text.endswith(".py") and Path(self.text).is_file():
            raise UsageError(f"{self.text} is no adapter: it is to define RECIPE and load(root), see docs/adapters.md")
        if self.source is not None and not self.adapted:
            raise UsageError(f"--source is for engines ({', '.join(ENGINES)}) and adapters, not for {self.text}")
        if self.settings and not self.adapted:
            raise UsageError(f"--set is for engines ({', '.join(ENGINES)}) and adapters, not for {self.text}")
        for setting in self.settings:
            if not all(setting.partition("=")):
                raise UsageError(f"--set {setting}: it is to be NAME=VALUE")


def load_in_process(
    text: str,
    *,
    source: str | None = None,
    refusals: frozenset[str] = frozenset(),
    timeout: float = 10.0,
    settings: Mapping[str, str] = _NO_SETTINGS,
    level: LevelName | None = None,
) -> InProcessTarget:
    """Load a class or an engine into this process. Raises UsageError or TargetError."""
    refusals = refusals | REFUSALS
    name = text.partition("==")[0]
    if name in ENGINES or _is_adapter(text):
        return _load_engine(name, source, refusals, timeout, settings, level)
    path = "kvblocks:BlockManager" if text == "kvblocks" else text
    module_name, colon, class_name = path.rpartition(":")
    if text.endswith(".py"):
        classes = ", ".join(f"{text}:{name}" for name in _candidates(_import_file(text)))
        raise UsageError(
            f"{text} is a file: name its class, too ({classes or 'it has none'}). A file that is an adapter has RECIPE "
            "and load (docs/adapters.md)"
        )
    if not colon or not module_name or not class_name:
        raise UsageError(
            f"no target {text!r}. A target is kvblocks, an engine ({', '.join(ENGINES)}, with ==VERSION or without), "
            "pkg.module:Class, path/to/file.py:Class, or cmd:PROGRAM ARGS."
        )
    module = _import_file(module_name) if module_name.endswith(".py") else _import_module(module_name)
    manager = module
    for part in class_name.split("."):
        manager = getattr(manager, part, None)
    if manager is None:
        classes = ", ".join(_candidates(module))
        raise UsageError(f"{module_name} has no {class_name}; its classes are: {classes or 'none'}")
    if not callable(manager) or inspect.isroutine(manager):
        raise UsageError(f"{path} is no class but {manager!r:.60}")
    version = str(getattr(sys.modules.get(module_name.partition(".")[0]), "__version__", ""))
    profile = "strict" if text == "kvblocks" else ""
    kind = _kind_of(manager, level)
    return kind(manager, name=text, version=version, profile=profile, refusals=refusals, timeout=timeout)


def _is_adapter(text: str) -> bool:
    """Whether it names a file with the two things that make an adapter; it is not imported for that."""
    if not text.endswith(".py"):
        return False
    try:
        body = ast.parse(Path(text).read_bytes()).body
    except (OSError, SyntaxError, ValueError):  # told by whoever imports it
        return False
    defined = {node.name for node in body if isinstance(node, ast.FunctionDef)}
    for node in body:
        for place in node.targets if isinstance(node, ast.Assign) else ():
            defined |= {place.id} if isinstance(place, ast.Name) else set()
    return {"RECIPE", "load"} <= defined


def _candidates(module: Any) -> list[str]:
    """The classes of a module that may be meant as a target: those that have the methods, or else all."""
    own = sorted(name for name, value in vars(module).items() if _is_candidate(value, module.__name__))
    return [name for name in own if any(_offers(getattr(module, name), kind) for kind in _KINDS.values())] or own


_KINDS: dict[LevelName, type[InProcessTarget]] = {MANAGER: ApiTarget, SCHEDULER: SchedulerTarget}


def _offers(cls: Any, kind: type[InProcessTarget]) -> bool:
    return all(hasattr(cls, method) for method in kind.required)


def _kind_of(cls: Any, level: LevelName | None) -> type[InProcessTarget]:
    """How a class is driven: at the level that was asked for, or else at that of its methods; manager where both."""
    if level is not None:
        return _KINDS[level]
    return SchedulerTarget if _offers(cls, SchedulerTarget) and not _offers(cls, ApiTarget) else ApiTarget


def _is_candidate(value: Any, module: str) -> bool:
    """A class of that module's package that may be meant as a target."""
    own = isinstance(value, type) and value.__module__.partition(".")[0] == module.partition(".")[0]
    return own and not issubclass(value, BaseException)


_LOADS: dict[LevelName, str] = {MANAGER: "load", SCHEDULER: "load_scheduler"}
"""How an adapter is loaded at each level; one at least is there."""


def _load_engine(
    name: str,
    source: str | None,
    refusals: frozenset[str],
    timeout: float,
    settings: Mapping[str, str],
    level: LevelName | None,
) -> InProcessTarget:
    from kvaudit.engines.fetch import packages
    from kvaudit.engines.lite import Engine, Recipe, UnknownVersion

    if name in ENGINES:
        adapter = importlib.import_module(f"kvaudit.engines.{name.replace('-', '_')}")
    else:
        adapter = _import_file(name)
    loads: dict[LevelName, Any] = {of: getattr(adapter, load) for of, load in _LOADS.items() if hasattr(adapter, load)}
    wanted = level if level is not None else next(iter(loads))
    if wanted not in loads:
        raise UsageError(f"{name} is driven at {next(iter(loads))} level: there is no adapter at {wanted} level")
    if not isinstance(adapter.RECIPE, Recipe):
        raise TargetError(f"{name}: RECIPE is to be a kvaudit.engines.lite.Recipe, not {adapter.RECIPE!r:.60}")
    try:
        chosen = adapter.RECIPE.chosen(settings)
        if adapter.RECIPE.needs:
            sys.path.append(str(packages()))  # at the end: what is installed goes first
        root = Path(source) if source is not None else None
        engine = loads[wanted](root, **chosen)
    except Exception as error:
        tried = ". docs/engines.md names the versions that were tried" if isinstance(error, UnknownVersion) else ""
        raise TargetError(f"{name} could not be loaded: {error}{tried if name in ENGINES else ''}") from error
    if not isinstance(engine, Engine):
        raise TargetError(f"{name}: {_LOADS[wanted]}() is to return a kvaudit.engines.lite.Engine, not {engine!r:.60}")
    return _kind_of(engine.manager, level)(
        engine.manager,
        name=engine.name,
        version=engine.version,
        profile=engine.profile if isinstance(engine.profile, str) else _adopted(name, engine.profile),
        stubs=engine.stubs,
        notes=[*engine.notes, *(f"{setting}: {value}" for setting, value in chosen.items())],
        refusals=refusals,
        timeout=timeout,
    )


def _adopted(adapter: str, profile: Profile) -> str:
    """Its name. The profile is sent to the auditor field by field: what a subclass does would not get there."""
    if type(profile) is not Profile or type(profile.limits) is not Limits:
        raise TargetError(f"{adapter}: PROFILE is to be a Profile with Limits, and no subclass of either")
    return adopt(profile)


def _import_file(path: str) -> Any:
    file = Path(path)
    if not file.is_file():
        raise UsageError(f"no file {path} (the current folder is {Path.cwd()})")
    name = f"kvaudit_target_{file.stem}"
    spec = importlib.util.spec_from_file_location(name, file, loader=_FromSource(name, str(file)))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    sys.path.insert(0, str(file.resolve().parent))  # so that it finds the modules beside it
    _execute(lambda: spec.loader.exec_module(module) if spec.loader else None, path)
    return module


class _FromSource(importlib.machinery.SourceFileLoader):
    """Compiles the file as it is now: an edit within a second that keeps its length leaves a stale cache valid."""

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)


def _import_module(name: str) -> Any:
    sys.path.insert(0, str(Path.cwd()))
    return _execute(lambda: importlib.import_module(name), name)


def _execute(load: Any, what: str) -> Any:
    try:
        return load()
    except ModuleNotFoundError as error:
        hint = "Is it installed in this environment, or found from the current folder?"
        if f"{error.name}" == what.partition(".")[0]:
            hint += " A class in a file is path/to/file.py:Class."
        raise TargetError(f"{what} could not be imported: {error}. {hint}") from None
    except (Exception, SystemExit) as error:
        raise TargetError(f"{what} could not be imported: {type(error).__name__}: {error}") from None


def name_of_class(cls: type[Any]) -> str:
    """What the command line calls a class that is at hand: by its file if that is below the current folder.

    A module inside a package is called by its name, since it may import from its package; so is a script that runs.
    """
    module, name = cls.__module__, cls.__qualname__
    file = getattr(sys.modules.get(module), "__file__", None)
    if file is not None and "." not in module and module != "__main__":
        path = Path(file).resolve()
        if path.suffix == ".py" and path.is_relative_to(Path.cwd()):
            return f"{path.relative_to(Path.cwd())}:{name}"
    return f"{module}:{name}"


def _fetched(requirement: str, level: LevelName | None) -> Path:
    from kvaudit.engines.fetch import RECIPES, cached, lacking

    name, _, version = requirement.partition("==")
    if name not in RECIPES:
        raise UsageError(f"{name} is on no package index: kvaudit run {name} --source DIR audits a checkout")
    folder = cached(name, version, level=level)
    if folder is None:
        what = f"{requirement} at scheduler level" if level == SCHEDULER else requirement
        raise UsageError(
            f"{what} has not been fetched: kvaudit fetch {requirement} (it may have been by another version of "
            "kvaudit, or what was fetched is damaged)"
        )
    missing = lacking(RECIPES[name].needs)
    if missing:
        raise UsageError(f"{requirement} needs {' and '.join(missing)}, too: kvaudit fetch {requirement}")
    return folder


def _split(command: str) -> list[str]:
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise UsageError(f"cmd:{command} is no command line: {error}") from None
    if not words:
        raise UsageError("cmd: is followed by a program and its arguments")
    return words


def profile_named(name: str) -> Profile:
    """The profile of that name. Raises UsageError."""
    if name not in PROFILES:
        raise UsageError(f"no profile {name!r}: there are {', '.join(PROFILES)}")
    return PROFILES[name]
