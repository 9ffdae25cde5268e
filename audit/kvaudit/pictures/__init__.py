"""Pictures of the pool over time, from a finding alone: on the terminal and as a page."""

from __future__ import annotations
