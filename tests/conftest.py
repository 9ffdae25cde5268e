"""Hypothesis draws the same examples on every machine; `--hypothesis-profile=default` draws fresh ones."""

import signal

from hypothesis import HealthCheck, settings

# A job in the background of a shell ignores Ctrl-C, and so would every process that a test starts and interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile(
    "ci", derandomize=True, deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("ci")
