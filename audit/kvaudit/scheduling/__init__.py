"""The scheduler level: a whole scheduler is the target, and reports the work of each step (docs/scheduling.md)."""
