"""Text of a stranger's, made fit for a terminal and for JSON."""

import re


def printable(text: str) -> str:
    """The text without what no encoding has: lone surrogates are written as escapes."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def one_line(text: str, most: int = 500) -> str:
    """The text on one line of at most so many characters, without what a terminal would obey."""
    text = without_controls(printable(" ".join(text.split())))
    return text if len(text) <= most else f"{text[:most]}... ({len(text):,} characters)"


def plain(text: str) -> str:
    """The text, on its lines, without what a terminal would obey."""
    return "\n".join(map(without_controls, printable(text).splitlines()))


def without_controls(text: str) -> str:
    """The text of one line, in which control characters, which a terminal would obey, are written as escapes."""
    return re.sub(r"[\x00-\x08\x0a-\x1f\x7f-\x9f]", lambda found: f"\\x{ord(found[0]):02x}", text)
