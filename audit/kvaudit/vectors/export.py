"""Writes the vectors: a file each, a README that says how to play them, and their schema."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

import msgspec

from kvaudit.errors import UsageError
from kvaudit.schemas import schema
from kvaudit.vectors.make import vector_of
from kvaudit.vectors.programs import PROGRAMS


def export(folder: Path) -> int:
    """Write everything; the number of vectors. Raises UsageError if the folder cannot be written, or holds others."""
    files = {f"{program.name}.json": _json(vector_of(*program)) for program in PROGRAMS}
    files["schema.json"] = _json(schema("vector"))
    files["README.md"] = resources.files("kvaudit.vectors").joinpath("README.md").read_bytes()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        others = sorted(path.name for path in folder.glob("*.json") if path.name not in files)
        if (folder / "README.md").exists() and not (folder / "schema.json").exists():
            others.append("README.md")  # of something else: that of an earlier export stands beside its schema
        if others:
            raise UsageError(f"{folder} holds other files ({', '.join(others[:3])}): give a folder of its own")
        for name, text in files.items():
            (folder / name).write_bytes(text)
    except OSError as error:
        raise UsageError(f"{error.filename or folder} cannot be written: {error.strerror}") from None
    return len(PROGRAMS)


def _json(value: object) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n"
