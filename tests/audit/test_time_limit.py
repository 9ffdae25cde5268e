"""One alarm serves all limits, and rings for the block that is open."""

from __future__ import annotations

import time

import pytest

from kvaudit.time_limit import Hang, TimeLimit

LONG_S, SHORT_S = 5.0, 0.05


@pytest.mark.parametrize("before_s", [LONG_S, SHORT_S / 2], ids=["would ring too late", "rings too early"])
def test_what_hangs_is_ended_whatever_was_set_before(before_s: float) -> None:
    before, limit = TimeLimit(before_s), TimeLimit(SHORT_S)
    limit.arm()
    with before:
        pass
    with pytest.raises(Hang), limit:
        time.sleep(LONG_S)
    limit.disarm()


def test_the_alarm_rings_for_nobody_between_blocks() -> None:
    limit = TimeLimit(SHORT_S)
    limit.arm()
    with limit:
        pass
    time.sleep(2 * SHORT_S)
    with pytest.raises(Hang), limit:
        time.sleep(LONG_S)
    limit.disarm()
