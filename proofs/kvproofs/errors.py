"""How a symbolic run ends early. None derives from Exception: no `except Exception` of the program hides it."""


class Unsupported(BaseException):
    """The program does what the executor has no exact model of. Whatever depends on it is not proved."""


class EndOfPath(BaseException):
    """This path is finished: an arbitrary iteration of a loop has ended, or its condition cannot be met."""


class Restart(BaseException):
    """A loop changes more than was known; exploring starts again with that in mind."""


class FirstOpen(BaseException):
    """A goal did not close, and one is all that was asked for."""
