"""The operations by name: how each is proved."""

from __future__ import annotations

from kvproofs.allocate import allocate
from kvproofs.append import append
from kvproofs.free import free

OPERATIONS = {"allocate": allocate, "append": append, "free": free}
