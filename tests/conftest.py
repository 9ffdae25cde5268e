"""Hypothesis draws the same examples on every machine; `--hypothesis-profile=default` draws fresh ones."""

from hypothesis import HealthCheck, settings

settings.register_profile(
    "ci", derandomize=True, deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("ci")
