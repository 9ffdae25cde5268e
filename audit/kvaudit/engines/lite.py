"""Load a few files of an engine for real and stub what they import, so that it runs without torch or a GPU.

For a *child process only*: it changes `sys.meta_path` and leaves stubs in `sys.modules`, for good.

Two finders do the work. The first one answers for the engine's own package and nothing else: a module that
the recipe lists is loaded from its file, every other one is a stub, because a real `__init__` would drag in
the model stack. The last one is asked only when nothing else on this machine could be found, and answers only
if the engine's code is what imports it: so what can be imported is never stubbed, and the standard library's
own optional imports still fail.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

from kvaudit.profiles import Profile


class LoadError(Exception):
    """The engine could not be loaded; the message says which part and why."""


class UnknownVersion(LoadError):
    """The engine is there, and is not what the adapter drives: another version, most likely."""


@dataclass(frozen=True, slots=True)
class Engine:
    """A loaded engine, ready to be audited.

    `manager` is a class with the seed's API over the real thing; `stubs` names the modules that were
    replaced, `notes` say what a reader of the report should know about how the engine was set up, and
    `profile` names the rules of this version (`kvaudit.profiles`); an adapter in a file of its own may give a `Profile`
    of its own.
    """

    name: str
    version: str
    manager: type[Any]
    stubs: tuple[str, ...]
    profile: str | Profile
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Recipe:
    """What to load of one engine.

    `real` are glob patterns of files, relative to the folder that holds the package; `optional` are
    third-party modules whose absence the engine handles itself, so that they are left absent instead of being
    stubbed; `needs` are those for which no stub will do. `texts` are files that are brought and not loaded. `settings`
    are what can be chosen with --set, each with its values, the engine's default first.
    """

    package: str
    real: tuple[str, ...]
    optional: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    settings: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def wants(self, path: str) -> bool:
        """Say whether the file at `path` (relative, with slashes) is one to load for real.

        A star stops at a slash: patterns name files, and never a whole tree by accident.
        """
        depth = path.count("/")
        return any(depth == p.count("/") and fnmatchcase(path, p) for p in self.real)

    def chosen(self, given: Mapping[str, str]) -> dict[str, str]:
        """Every setting, as given or else the default. Raises `LoadError`."""
        for name, value in given.items():
            if name not in self.settings:
                raise LoadError(f"it has no setting {name!r}; there are: {', '.join(self.settings) or 'none'}")
            if value not in self.settings[name]:
                raise LoadError(f"{name} is one of {', '.join(self.settings[name])}, not {value!r}")
        return {name: given.get(name, values[0]) for name, values in self.settings.items()}


class _Base:
    """The class that a stub becomes when a real class inherits from it."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        pass

    def __init_subclass__(cls, **kwargs: object) -> None:
        pass


class Stub:
    """Stands for any attribute of a stubbed module: a class, function, constant, decorator or type.

    It can be called, subscripted, inherited from, iterated (empty), compared by identity, joined with `|` in
    an annotation and asked in `isinstance` (never). It is false, so that `if something_stubbed():` takes the
    branch of a machine that has none of it. Used as a decorator it returns what it decorates.
    """

    __slots__ = ("_children", "_name")
    _children: dict[str, object]
    _name: str

    def __init__(self, name: str) -> None:
        object.__setattr__(self, "_name", name)
        object.__setattr__(self, "_children", {})

    def __setattr__(self, name: str, value: object) -> None:
        self._children[name] = value  # an engine may patch what it imports

    def __getattr__(self, name: str) -> Any:
        if _is_dunder(name):  # no protocol by accident: copy, pickle, numpy, ...
            raise AttributeError(name)
        if name not in self._children:
            self._children[name] = _attribute(f"{self._name}.{name}")
        return self._children[name]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if len(args) == 1 and not kwargs and callable(args[0]) and not isinstance(args[0], Stub):
            return args[0]
        return self

    def __mro_entries__(self, bases: tuple[object, ...]) -> tuple[type, ...]:
        # A plain class without a metaclass of its own, named once even when several bases are stubs.
        first = next(b for b in bases if isinstance(b, Stub))
        return (_Base,) if first is self and _Base not in bases else ()

    def __instancecheck__(self, instance: object) -> bool:
        return False

    def __subclasscheck__(self, subclass: type) -> bool:
        return False

    def __getitem__(self, item: object) -> Stub:
        return self

    def __or__(self, other: Any) -> Any:
        return other | _Base if isinstance(other, type) else self

    def __ror__(self, other: Any) -> Any:
        return self.__or__(other)

    def __iter__(self) -> Iterator[object]:
        return iter(())

    def __contains__(self, item: object) -> bool:
        return False

    def __len__(self) -> int:
        return 0

    def __bool__(self) -> bool:
        return False

    def __enter__(self) -> Stub:
        return self

    def __exit__(self, *exc_info: object) -> None:
        return None

    def __repr__(self) -> str:
        return f"<stub {self._name}>"


def _is_dunder(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


def _attribute(name: str) -> object:
    module, _, last = name.rpartition(".")
    if last.endswith(("Error", "Exception")):  # must work in an `except` clause
        return type(last, (Exception,), {"__module__": module})
    return Stub(name)


class _StubModule(ModuleType):
    """A module in which every attribute exists: its real submodules, and stubs for the others."""

    def __getattr__(self, name: str) -> Any:
        if _is_dunder(name):
            raise AttributeError(name)
        child = f"{self.__name__}.{name}"
        # `from package import module` asks for the attribute before it imports: a real module must win.
        found = importlib.import_module(child) if _is_real(child) else _attribute(child)
        setattr(self, name, found)
        return found


class _StubLoader(Loader):
    def __init__(self, names: set[str]) -> None:
        self._names = names

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _StubModule(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        self._names.add(module.__name__)


class _PackageFinder:
    """Answers for the engine's package: listed files are loaded, everything else is a stub."""

    def __init__(self, root: Path, recipe: Recipe, loader: _StubLoader) -> None:
        self._root, self._recipe, self._loader = root, recipe, loader

    def path_of(self, name: str) -> Path | None:
        """Give the file of the module `name` if it is one to load for real and exists."""
        stem = name.replace(".", "/")
        for relative in (f"{stem}/__init__.py", f"{stem}.py"):
            if self._recipe.wants(relative) and (self._root / relative).is_file():
                return self._root / relative
        return None

    def find_spec(self, name: str, path: Sequence[str] | None, target: object = None) -> ModuleSpec | None:
        if name.partition(".")[0] != self._recipe.package:
            return None
        file = self.path_of(name)
        if file is None:
            return _stub_spec(name, self._loader)
        folders = [str(file.parent)] if file.name == "__init__.py" else None
        return importlib.util.spec_from_file_location(name, file, submodule_search_locations=folders)


class _LastFinder:
    """Answers when nothing else did: a stub for what the engine's code imports and this machine lacks."""

    def __init__(self, recipe: Recipe, loader: _StubLoader) -> None:
        self._recipe, self._loader = recipe, loader

    def find_spec(self, name: str, path: Sequence[str] | None, target: object = None) -> ModuleSpec | None:
        top, _, rest = name.partition(".")
        if top in self._recipe.optional:
            return None
        stubbed = rest != "" and isinstance(sys.modules.get(name.rpartition(".")[0]), _StubModule)
        return _stub_spec(name, self._loader) if stubbed or self._importer_is_engine() else None

    def _importer_is_engine(self) -> bool:
        frame = sys._getframe(2)  # the import machinery is between us and the import statement
        while frame.f_back is not None and "importlib._bootstrap" in frame.f_code.co_filename:
            frame = frame.f_back
        importer = str(frame.f_globals.get("__name__", ""))
        return importer.partition(".")[0] == self._recipe.package


def _stub_spec(name: str, loader: _StubLoader) -> ModuleSpec:
    return ModuleSpec(name, loader, is_package=True)


def _is_real(name: str) -> bool:
    return any(isinstance(f, _PackageFinder) and f.path_of(name) is not None for f in sys.meta_path)


class Loaded:
    """An engine whose files can now be imported by name; made by `install`."""

    def __init__(self, recipe: Recipe, root: Path) -> None:
        self.root = root
        self._names: set[str] = set()
        loader = _StubLoader(self._names)
        self._finder = _PackageFinder(root, recipe, loader)
        sys.meta_path.insert(0, self._finder)
        sys.meta_path.append(_LastFinder(recipe, loader))

    @property
    def stubs(self) -> tuple[str, ...]:
        """Names of the modules stubbed so far, sorted. It grows, as some imports happen at the first call."""
        return tuple(sorted(self._names))

    def has(self, name: str) -> bool:
        """Say whether the module `name` exists as a file to load for real."""
        return self._finder.path_of(name) is not None

    def module(self, name: str) -> ModuleType:
        """Import one of the listed modules for real.

        Raises `UnknownVersion` if it is not there, `LoadError` if its import fails.
        """
        if not self.has(name):
            raise UnknownVersion(f"{name} is not in {self.root}: not a version that this adapter knows")
        try:
            return importlib.import_module(name)
        except Exception as error:
            what = f"{type(error).__name__}: {error}{hint_of_stubs(str(error))}"
            raise LoadError(f"{name} of {self.root} does not import: {what}") from error


def hint_of_stubs(message: str) -> str:
    """What to look at where an error comes from a stub: those that there are. Empty where it does not look so."""
    if "Stub" not in message and "MRO" not in message and "<stub" not in message:
        return ""
    names = sorted(name for name, module in sys.modules.items() if isinstance(module, _StubModule))
    return f". Is something a stub that has to be real? Stubs: {', '.join(names)}"


def install(recipe: Recipe, root: Path | None) -> Loaded:
    """Make the engine's listed modules importable in this process; importing them is up to the caller.

    `root` is the folder that holds the package (a cached engine or a checkout), or None for the installed
    package. Raises `LoadError` if the package is not there or this process has imported it already.
    """
    package = recipe.package
    if package in sys.modules:
        raise LoadError(f"{package} is imported already: an engine is loaded once, in a fresh child process")
    if root is None:
        root = _installed_root(package)
    missing = [name for name in recipe.needs if importlib.util.find_spec(name) is None]
    if missing:
        raise LoadError(f"it needs {' and '.join(missing)}: {sys.executable} -m pip install {' '.join(missing)}")
    if not root.is_dir():
        raise LoadError(f"there is no folder {root}; --source wants the top folder of a checkout")
    if not (root / package).is_dir():
        raise LoadError(f"{root} holds no folder {package}/; --source wants the top folder of a checkout")
    return Loaded(recipe, root)


def _installed_root(package: str) -> Path:
    spec = importlib.util.find_spec(package)  # a top-level name: finding it imports nothing
    places = spec.submodule_search_locations if spec is not None else None
    if not places:
        raise LoadError(f"{package} is not installed in {sys.executable}; name a version, or --source DIR")
    return Path(next(iter(places))).parent
