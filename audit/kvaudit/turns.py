"""Who makes the examples, and when: Hypothesis and the swarm driver in turns, or one of them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

from kvaudit.machine import run_batch
from kvaudit.swarm import run_swarm
from kvaudit.workload import Driver, Engine

_FIRST_SWARM, _LARGEST_SWARM = 200, 100_000


class Turn(NamedTuple):
    """A number of examples of one engine; what the driver raises ends a turn."""

    engine: Engine
    play: Callable[[], None]


def turns(driver: Driver, engine: Engine, seed: int) -> Iterator[Turn]:
    """Turns without end, each of which drives a number of examples.

    The turns of the swarm double, as volume is its part. The examples of a small budget are the first of a large one.
    """
    for number in itertools.count():
        seed_of_turn = seed * 1_000_003 + number + 1
        if engine != "swarm":
            yield Turn("hypothesis", partial(run_batch, driver, seed_of_turn))
        if engine != "hypothesis":
            examples = min(_FIRST_SWARM << number, _LARGEST_SWARM)
            yield Turn("swarm", partial(run_swarm, driver, seed_of_turn, examples))
