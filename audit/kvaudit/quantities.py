"""Amounts as people write them: bytes with a unit, numbers with k or m. Exact: no float is in between."""

from __future__ import annotations

import re
from fractions import Fraction

from kvaudit.errors import UsageError

_AMOUNT = re.compile(r"(\d{1,30}(?:\.\d{1,30})?)\s*([a-z]*)", re.IGNORECASE)
_LETTERS = "kmgt"
_BYTES = (
    {"": 1, "b": 1}
    | {f"{letter}{b}": 1000**n for n, letter in enumerate(_LETTERS, 1) for b in ("", "b")}
    | {f"{letter}i{b}": 1024**n for n, letter in enumerate(_LETTERS, 1) for b in ("", "b")}
)
_COUNTS = {"": 1, "k": 1000, "m": 1000**2}


def bytes_of(option: str, text: str) -> int:
    """80GiB, 80Gi, 80GB, 1.5g, or a number of bytes. Raises UsageError, which names the option."""
    return _amount(option, text, _BYTES, "80GiB (2**30 bytes), 80GB (10**9 bytes), or a number of bytes")


def count_of(option: str, text: str) -> int:
    """64k, 1.5m, or a number. Raises UsageError, which names the option."""
    return _amount(option, text, _COUNTS, "8192, 64k (64,000) or 1m (1,000,000)")


def fraction_of(option: str, text: str) -> Fraction:
    """0.9, 90%, or 9/10: above 0 and not above 1. Raises UsageError, which names the option."""
    try:
        found = Fraction(text[:-1]) / 100 if text.endswith("%") else Fraction(text)
    except (ValueError, ZeroDivisionError):
        found = Fraction(0)
    if not 0 < found <= 1:
        raise UsageError(f"{option} {text}: say it as 0.9, 90% or 9/10; it is above 0 and not above 1")
    return found


def _amount(option: str, text: str, units: dict[str, int], examples: str) -> int:
    match = _AMOUNT.fullmatch(text.strip())
    if match is None or match[2].lower() not in units:
        raise UsageError(f"{option} {text}: say it as {examples}")
    amount = Fraction(match[1]) * units[match[2].lower()]
    if amount != int(amount):
        raise UsageError(f"{option} {text} is no whole number")
    return int(amount)


def bytes_shown(amount: int) -> str:
    """The amount in the binary unit that suits it: 1.50 GiB."""
    size, unit = Fraction(amount), "B"
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if size < 1024 or unit == "TiB":
            break
        size /= 1024
    whole, hundredths = divmod(round(size * 100), 100)
    return f"{amount} B" if unit == "B" else f"{whole:,}.{hundredths:02} {unit}"
