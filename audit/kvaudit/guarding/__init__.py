"""Contracts at run time: a block manager that serves, held to the specification call by call.

`kvaudit.guard` is the way in.
"""

from kvaudit.guarding.violation import ContractViolation, ContractWarning
from kvaudit.guarding.wrapper import Guard, check_now, guard

__all__ = ["ContractViolation", "ContractWarning", "Guard", "check_now", "guard"]
