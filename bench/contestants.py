"""Who takes part."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bench.drivers import Driver

KVBLOCKS, ARRAY, BUILTIN, BATCHED = "kvblocks", "kvblocks, array", "kvblocks, builtin hash", "kvblocks, append_slots"
COMPILED, COMPILED_BATCHED = "kvblocks, compiled", "kvblocks, compiled, append_slots"
BARE, BARE_BUILTIN = "bare sha256", "bare builtin hash"
VLLM, OLD_VLLM, NANO, SGLANG = "vLLM 0.33.0", "vLLM 0.11.2", "nano-vllm", "SGLang 0.5.23"


class Absent(Exception):
    """A contestant that cannot take part; the message says why, and what to do."""


FOLDERS = {
    "nano-vllm": "it is on no package index: --nano-vllm DIR names a checkout",
    "compiled": "--compiled DIR names a folder with that build; ./check.sh bench makes one where there is a compiler",
}
"""What is not fetched, and how a user says where it is."""


@dataclass(frozen=True)
class Contestant:
    """name: as tables have it. make: in a process of its own, the driver; it is told where the engine is.

    engine: as `kvaudit fetch` knows it, or one of `FOLDERS`.
    """

    name: str
    make: Callable[[Path | None], Driver]
    engine: str = ""

    def root(self, folders: Mapping[str, Path | None]) -> Path | None:
        """Where the engine is; None for what is ours. folders: those that the user names. Raises Absent."""
        if not self.engine:
            return None
        if self.engine in FOLDERS:
            folder = folders.get(self.engine)
            if folder is None:
                raise Absent(FOLDERS[self.engine])
            return folder.resolve()
        from kvaudit.engines.fetch import cached

        name, _, version = self.engine.partition("==")
        found = cached(name, version)
        if found is None:
            raise Absent(f"it has not been fetched: kvaudit fetch {self.engine}")
        return found


def _kvblocks(root: Path | None, hasher: str, form: str = "list", batched: bool = False) -> Driver:
    from bench.drivers.kvblocks import KvblocksDriver

    return KvblocksDriver(hasher, form, batched=batched)


def _compiled(root: Path | None, batched: bool = False) -> Driver:
    """In the place of kvblocks, before it is imported."""
    sys.path.insert(0, str(root))
    driver = _kvblocks(None, "sha256", batched=batched)
    from kvblocks import manager

    if str(manager.__file__).endswith(".py"):
        raise Absent(f"{root} has no compiled kvblocks: it would be that of {manager.__file__}")
    return driver


def _bare(root: Path | None, hasher: str) -> Driver:
    from bench.drivers.bare import BareDriver

    return BareDriver(hasher)


def _vllm(root: Path | None) -> Driver:
    from bench.drivers.vllm import VllmDriver

    return VllmDriver(root)


def _nano_vllm(root: Path | None) -> Driver:
    from bench.drivers.nano_vllm import NanoVllmDriver

    return NanoVllmDriver(root)


def _sglang(root: Path | None) -> Driver:
    from bench.drivers.sglang import SglangDriver
    from kvaudit.engines.fetch import packages

    sys.path.append(str(packages()))  # torch, unless it is installed
    return SglangDriver(root, "radix")


CONTESTANTS = (
    Contestant(KVBLOCKS, partial(_kvblocks, hasher="sha256")),
    Contestant(ARRAY, partial(_kvblocks, hasher="sha256", form="array")),
    Contestant(BUILTIN, partial(_kvblocks, hasher="builtin")),
    Contestant(BATCHED, partial(_kvblocks, hasher="sha256", batched=True)),
    Contestant(COMPILED, _compiled, "compiled"),
    Contestant(COMPILED_BATCHED, partial(_compiled, batched=True), "compiled"),
    Contestant(BARE, partial(_bare, hasher="sha256")),
    Contestant(BARE_BUILTIN, partial(_bare, hasher="builtin")),
    Contestant(VLLM, _vllm, "vllm==0.33.0"),
    Contestant(OLD_VLLM, _vllm, "vllm==0.11.2"),
    Contestant(NANO, _nano_vllm, "nano-vllm"),
    Contestant(SGLANG, _sglang, "sglang==0.5.23"),
)
"""kvblocks first: ratios are to it."""
