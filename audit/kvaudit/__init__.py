"""kvaudit: holds any paged KV-cache block manager to the specification in `kvspec`."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kvaudit.guarding import ContractViolation, ContractWarning, guard, record

__version__ = "0.1.0"

__all__ = ["ContractViolation", "ContractWarning", "__version__", "guard", "record"]


def __getattr__(name: str) -> Any:
    """What a server uses is loaded when it is asked for: the command line does not need it."""
    if name in ("ContractViolation", "ContractWarning", "guard", "record"):
        from kvaudit import guarding

        return getattr(guarding, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
