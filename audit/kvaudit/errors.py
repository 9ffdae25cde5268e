"""Errors that are the user's or the target's affair: shown as a message, never as a traceback of ours."""


class UsageError(Exception):
    """The command cannot be carried out as given. The message says what was wrong and what to do."""


class TargetError(Exception):
    """The target could not be started, or broke down in a way that is no verdict on its manager."""
