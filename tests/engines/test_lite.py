"""The lite loader on a tiny engine made for it: what is real, what is stubbed, and that nothing else is touched."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent
from typing import Any, Optional, Union

import pytest

import kvaudit
from kvaudit.engines.lite import LoadError, Recipe, Stub, install

RECIPE = Recipe("toyengine", ("toyengine/core/*.py", "toyengine/settings.py"), optional=("toyfast",))

FILES = {
    "toyengine/__init__.py": "raise RuntimeError('the model stack')",
    "toyengine/settings.py": "ANSWER = 42",
    "toyengine/models.py": "raise RuntimeError('not listed')",
    "toyengine/core/__init__.py": "",
    "toyengine/core/deep/hidden.py": "raise RuntimeError('a star stops at a slash')",
    "toyengine/core/base.py": """
        import json
        import toytensor
        import toytensor.nn.functional as F
        from toytensor.nn import Module, Parameter
        from toytensor import ToyError, kernel, float16
        from toyengine import settings                  # a real module of a stubbed package
        from toyengine.models import Llama, build
        from toyengine.core import deep
        try:
            import toyfast
        except ImportError:
            toyfast = None

        class Layer(Module, Llama, dtype=float16):
            weight: Parameter | None = None

        @kernel
        def plain(x: "toytensor.Tensor") -> int:
            return x + 1

        @toytensor.jit(fast=True)
        def configured(x):
            return x + 2

        toytensor.cuda.set_stream = plain               # an engine may patch what it imports

        def careful():
            try:
                raise ToyError("caught")
            except ToyError:
                return "caught"
    """,
}

CHILD = """
import importlib.util, json, sys
from pathlib import Path
sys.path.insert(0, {here!r})
from test_lite import RECIPE
from kvaudit.engines import lite

loaded = lite.install(RECIPE, {root})
base = loaded.module("toyengine.core.base")
assert base.settings.ANSWER == 42
assert base.plain(1) == 2 and base.configured(1) == 3 and base.careful() == "caught"
assert isinstance(base.Layer(), base.Layer) and not isinstance(1, base.Llama)
assert base.json is json and base.toyfast is None
assert base.toytensor.cuda.set_stream is base.plain
assert not base.toytensor.cuda.is_available()
assert base.F.softmax is base.F.softmax
assert importlib.util.find_spec("toyabsent") is None, "only the engine's own imports are stubbed"
try:
    import toyabsent
except ImportError:
    pass
else:
    raise AssertionError("a stub for somebody else's import")
try:
    loaded.module("toyengine.models")
except lite.LoadError as error:
    assert "toyengine.models is not in" in str(error)
else:
    raise AssertionError("not listed, and yet loaded")
print(*loaded.stubs)
"""


@pytest.fixture
def toy(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        file = tmp_path / "toy" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(dedent(text))
    return tmp_path / "toy"


def child(script: str, *more_path: str) -> subprocess.CompletedProcess[str]:
    source = str(Path(kvaudit.__path__[0]).parent)
    path = os.pathsep.join([source, *more_path, *filter(None, sys.path)])
    environment = os.environ | {"PYTHONPATH": path}
    return subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("installed", [False, True])
def test_the_listed_files_are_real_and_the_rest_is_stubbed(toy: Path, installed: bool) -> None:
    script = CHILD.format(here=str(Path(__file__).parent), root="None" if installed else f"Path({str(toy)!r})")
    done = child(script, *([str(toy)] if installed else []))
    assert done.returncode == 0, done.stderr
    stubs = done.stdout.split()
    assert stubs == sorted(stubs)
    assert {"toytensor", "toytensor.nn", "toytensor.nn.functional", "toyengine", "toyengine.models"} <= set(stubs)
    assert not {"json", "toyfast", "toyengine.settings", "toyengine.core", "toyengine.core.base"} & set(stubs)


def test_a_file_that_does_not_import_is_named(toy: Path) -> None:
    (toy / "toyengine/core/base.py").write_text("1 / 0")
    script = CHILD.format(here=str(Path(__file__).parent), root=f"Path({str(toy)!r})")
    done = child(script)
    assert "toyengine.core.base of" in done.stderr and "ZeroDivisionError" in done.stderr


def test_a_folder_without_the_package_is_named(tmp_path: Path) -> None:
    with pytest.raises(LoadError, match="holds no folder toyengine/"):
        install(RECIPE, tmp_path)
    with pytest.raises(LoadError, match="toyengine is not installed"):
        install(RECIPE, None)


def test_an_imported_package_is_not_loaded_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "toyengine", sys)
    with pytest.raises(LoadError, match="fresh child process"):
        install(RECIPE, tmp_path)


def test_a_star_stops_at_a_slash() -> None:
    assert RECIPE.wants("toyengine/core/base.py")
    assert not RECIPE.wants("toyengine/core/deep/hidden.py")
    assert not RECIPE.wants("other/toyengine/settings.py")


def test_a_stub_serves_as_whatever_it_is_used_for() -> None:
    stub: Any = Stub("toy")

    class Child(stub.Base, stub.Other, option=1):  # type: ignore[misc, call-arg]
        def __init__(self) -> None:
            super().__init__("any", argument=1)

    def function() -> None: ...

    assert isinstance(Child(), Child) and len(Child.__mro__) == 3
    assert stub.deco(function) is function and stub.deco(option=1)(function) is function
    assert stub.Enum.MEMBER is stub.Enum.MEMBER and {stub.Enum.MEMBER: 1}[stub.Enum.MEMBER] == 1
    assert stub.Enum.MEMBER != stub.Enum.OTHER
    for annotation in (Optional[stub.Tensor], Union[stub.Tensor, int], list[stub.Tensor]):  # noqa: UP007, UP045
        assert annotation is not None
    assert isinstance(1, int | stub.Tensor) and not isinstance("1", stub.Tensor | int)
    assert not stub.Tensor and list(stub) == [] and 1 not in stub and stub["x"] is stub
    with stub.context():
        pass
    with pytest.raises(stub.SomeError):
        raise stub.SomeError
    assert not hasattr(stub, "__array__"), "no protocol by accident"
    assert repr(stub.a.b) == "<stub toy.a.b>"
