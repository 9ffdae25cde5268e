"""append_slots and extend are proved, and wrong texts of them are not."""

from __future__ import annotations

import pytest

from kvproofs import sources
from kvproofs.operations import OPERATIONS
from kvproofs.theorems import DECLARED, theorems

RLIMIT = 1_000_000  # enough for the text as it is


@pytest.mark.parametrize("operation", ["append_slots", "extend"])
def test_a_batch_is_proved(operation: str) -> None:
    found = theorems(operation, OPERATIONS[operation](sources.manager_class(), {"rlimit": RLIMIT}))
    assert {t.name for t in found} == DECLARED[operation]
    assert [(t.name, t.open) for t in found if not t.proved] == []


COUNTED = "if len(self._live(ids[i]).tokens) % self.block_size == 0:"
DISTINCT = " or len(set(ids)) != len(ids)"
NEEDED = "needed = blocks_for(len(seq.tokens) + len(tokens), self.block_size) - len(seq.table)"
APPENDS = "        return [self.append_slot(ids[i], tokens[i]) for i in range(len(ids))]\n"


@pytest.mark.parametrize(
    ("operation", "old", "new"),
    [
        ("append_slots", DISTINCT, ""),
        ("append_slots", "len(ids) != len(tokens) or ", ""),
        ("append_slots", COUNTED, "if len(self._live(ids[0]).tokens) % self.block_size == 0:"),
        ("append_slots", COUNTED, "if (len(self._live(ids[i]).tokens) + 1) % self.block_size == 0:"),
        ("append_slots", "                needed += 1\n", "                needed += 2\n"),
        ("append_slots", "            check_token(tokens[i])\n            if", "            if"),
        ("append_slots", '        self._check_room("append_slots", needed)\n', ""),
        ("append_slots", APPENDS, APPENDS.replace("ids[i]", "ids[0]")),
        ("extend", NEEDED, f"{NEEDED} - 1"),
        ("extend", NEEDED, "needed = blocks_for(len(tokens), self.block_size)"),
        ("extend", '        self._check_room("extend", needed)\n', ""),
    ],
)
def test_a_wrong_text_is_not_proved(operation: str, old: str, new: str) -> None:
    goals = OPERATIONS[operation](sources.variant((old, new)), {"rlimit": RLIMIT, "stop_at_open": True})
    assert any(not goal.proved for goal in goals)
