"""kvaudit: holds any paged KV-cache block manager to the specification in `kvspec`."""

__version__ = "0.1.0"
