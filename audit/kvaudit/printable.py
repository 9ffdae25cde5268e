"""Text of a stranger's, made fit for a terminal and for JSON."""


def printable(text: str) -> str:
    """The text without what no encoding has: lone surrogates are written as escapes."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
