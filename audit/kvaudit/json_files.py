"""Reading a JSON file of one of our formats."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

import msgspec

from kvaudit.errors import UsageError

T = TypeVar("T")


def read_json(path: Path, decoder: msgspec.json.Decoder[T], what: str, hint: str) -> T:
    """What is in the file. Raises UsageError if it is not: `what` it should be, and as a hint how one is made."""
    try:
        return decoder.decode(path.read_bytes())
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"{path} is no {what} that this version knows ({error}); {hint}") from None
