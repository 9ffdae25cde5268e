"""A model's `config.json`, as Hugging Face writes it: the file, the part that describes the text model, its fields."""

from __future__ import annotations

import reprlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from kvaudit.errors import UsageError

FILE = "config.json"
_NESTED = ("text_config", "llm_config", "language_config", "thinker_config")
_LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")

MOST = 1_000_000
"""No layers, heads or sizes of a model come near it; with more, the count would take long, or have no end."""


class Config:
    """One JSON object with its place, for messages: `model/config.json, text_config`."""

    def __init__(self, place: str, fields: dict[str, Any]) -> None:
        self.place = place
        self.fields = fields

    def get(self, *names: str) -> Any:
        """The first of these fields that is there and not null, else None."""
        return next((self.fields[name] for name in names if self.fields.get(name) is not None), None)

    def whole(self, *names: str, least: int = 1) -> int | None:
        """The first of these fields that is there: an integer from `least` to MOST. Raises UsageError for another."""
        found = self.get(*names)
        if found is None:
            return None
        if type(found) is not int or found < least:
            raise self.error(f"an integer >= {least}", *names)
        if found > MOST:
            raise self.error(f"an integer <= {MOST:,}", *names)
        return found

    def text(self, *names: str) -> str | None:
        """The first of these fields that is there: a text. Raises UsageError where it is none."""
        found = self.get(*names)
        if found is not None and not isinstance(found, str):
            raise self.error("a text", *names)
        return found

    def part(self, name: str) -> Config | None:
        """The object that is this field, if it is there. Raises UsageError where it is none."""
        found = self.get(name)
        if found is None:
            return None
        if not isinstance(found, dict):
            raise self.error("a JSON object", name)
        return Config(f"{self.place}, {name}", found)

    def error(self, due: str, *names: str) -> UsageError:
        """The error of the first of these fields that is there, which is not what is due."""
        name = next(name for name in names if self.fields.get(name) is not None)
        return UsageError(f"{self.place}: {name} is to be {due}, not {reprlib.repr(self.fields[name])}")

    def needed(self, *names: str) -> int:
        """The same of a field that cannot be done without."""
        found = self.whole(*names)
        if found is None:
            raise UsageError(
                f"{self.place} has no {names[0]}" + (f" (nor {', '.join(names[1:])})" if names[1:] else "") + ": "
                f"the model's code has a default for it that nobody can see here. Give it with --field {names[0]}=N"
            )
        return found

    def layers(self) -> int:
        """How many layers the model has."""
        return self.needed(*_LAYERS)


def read_config(path: Path, part: str | None, given: Sequence[str]) -> tuple[Config, Config]:
    """The part that describes the text model, and the whole.

    path: the file, or its folder. part: dotted, for example `talker_config.text_config`; else the whole, if it has
    layers, or the first of the usual parts that has. given: NAME=VALUE, JSON, instead of what the part says.
    Raises UsageError.
    """
    file = path / FILE if path.is_dir() else path
    try:
        fields = msgspec.json.decode(file.read_bytes())
    except OSError as error:
        hint = f"; name a {FILE} or its folder" if isinstance(error, FileNotFoundError) else ""
        raise UsageError(f"{file} cannot be read: {error.strerror}{hint}") from None
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise UsageError(f"{file} is no JSON: {error}") from None
    except RecursionError:
        raise UsageError(f"{file} is nested too deep to be read; name a {FILE}") from None
    whole = Config(str(file), _object(str(file), fields))
    chosen = _chosen(whole, part) if part is not None else _text_model(whole)
    return Config(chosen.place, chosen.fields | dict(map(_field, given))), whole


def _object(place: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise UsageError(f"{place} is to be a JSON object, as Hugging Face's {FILE} is, not {reprlib.repr(value)}")
    return value


def _chosen(config: Config, part: str) -> Config:
    for name in part.split("."):
        if name not in config.fields:
            parts = ", ".join(key for key, value in config.fields.items() if isinstance(value, dict))
            raise UsageError(f"--part {part}: {config.place} has no {name}; its parts are: {parts or 'none'}")
        config = Config(f"{config.place}, {name}", _object(f"{config.place}, {name}", config.fields[name]))
    return config


def _text_model(config: Config) -> Config:
    parts = [part for part in map(config.part, _NESTED) if part is not None]
    if config.get(*_LAYERS) is not None or not parts:
        return config  # if it has no layers, the error will say so
    return _text_model(parts[0])


def _field(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    try:
        if name and equals:
            return name, msgspec.json.decode(value.encode())
    except (msgspec.DecodeError, RecursionError):
        pass
    raise UsageError(f"--field {text}: it is to be NAME=VALUE, and the value JSON: a number, null, a list, ...")
