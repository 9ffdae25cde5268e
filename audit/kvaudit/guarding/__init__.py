"""Contracts at run time: a block manager that serves, held to the specification call by call.

`kvaudit.guard` is the way in; `kvaudit.record` only writes down what it does.
"""

from kvaudit.guarding.recorder import Recorder, record
from kvaudit.guarding.violation import ContractViolation, ContractWarning
from kvaudit.guarding.wrapper import Guard, check_now, guard

__all__ = ["ContractViolation", "ContractWarning", "Guard", "Recorder", "check_now", "guard", "record"]
