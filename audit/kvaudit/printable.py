"""Text of a stranger's, made fit for a terminal and for JSON."""

import re


def printable(text: str) -> str:
    """The text without what no encoding has: lone surrogates are written as escapes."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def without_controls(text: str) -> str:
    """The text of one line, in which control characters, which a terminal would obey, are written as escapes."""
    return re.sub(r"[\x00-\x08\x0a-\x1f\x7f-\x9f]", lambda found: f"\\x{ord(found[0]):02x}", text)
