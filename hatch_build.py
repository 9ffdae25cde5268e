"""The optional compiled build: with KVBLOCKS_COMPILE=1 the wheel holds kvblocks compiled by mypyc as well.

What is compiled is the text that ships and that is proved. The build in place and the sdist stay as they are.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PACKAGE = "impl/kvblocks"
MODULES = ("arithmetic", "hashing", "manager")
"""What is called for each token or block. Exceptions cannot be compiled."""

_WANTED = os.environ.get("KVBLOCKS_COMPILE") == "1"


class CustomBuildHook(BuildHookInterface[Any]):
    def dependencies(self) -> list[str]:
        """What the build needs besides hatchling."""
        return ["mypy[mypyc]>=1.13"] if _WANTED else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile a copy of the package, and put the shared libraries beside its modules."""
        if not _WANTED or version == "editable":
            return
        self._folder = Path(tempfile.mkdtemp(prefix="kvblocks-"))
        package = self._folder / "kvblocks"
        shutil.copytree(Path(self.root, PACKAGE), package, ignore=shutil.ignore_patterns("__pycache__"))
        files = [f"kvblocks/{module}.py" for module in MODULES]
        command = [sys.executable, "-m", "mypyc", "--strict", "--ignore-missing-imports", *files]
        subprocess.run(command, cwd=self._folder, check=True)
        libraries = [
            *self._folder.glob("*__mypyc*"),
            *(f for m in MODULES for f in package.glob(f"{m}.*") if f.suffix != ".py"),
        ]
        build_data["force_include"].update({str(file): str(file.relative_to(self._folder)) for file in libraries})
        build_data["pure_python"] = False
        build_data["infer_tag"] = True

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the copy."""
        if _WANTED and version != "editable":
            shutil.rmtree(self._folder)
