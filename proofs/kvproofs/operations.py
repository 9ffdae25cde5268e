"""The operations by name: how each is proved."""

from __future__ import annotations

from kvproofs.append import append
from kvproofs.free import free

OPERATIONS = {"append": append, "free": free}
