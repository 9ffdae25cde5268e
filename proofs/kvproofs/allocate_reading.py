"""The loops of allocate that read: check the tokens, make the chain of keys, match it, count what is idle."""

from __future__ import annotations

from typing import Any

import z3

from kvproofs import theory
from kvproofs.allocate_prompt import EXTRA_GIVEN, PROMPT, RUN, idle, key
from kvproofs.formulas import between
from kvproofs.loops import Loop
from kvproofs.state import State
from kvproofs.terms import lift


def chain_loop(before: State, manager: Any, loop: Loop, local: dict[str, Any]) -> dict[str, Any]:
    hashes, j = local["hashes"], z3.Int("j")
    return {
        "one key a block": z3.And(hashes.length == loop.i, hashes.start == 0),
        "the keys of the prompt": between(j, 0, loop.i, hashes.array[j] == key(j), hashes.array[j]),
        "the last of them": lift(local["key"]) == theory.prefix(PROMPT, EXTRA_GIVEN, loop.i),
    }


def match_loop(before: State, manager: Any, loop: Loop, local: dict[str, Any]) -> dict[str, Any]:
    hits, j = local["hits"], z3.Int("j")
    found = z3.And(before.map_has[key(j)], hits.array[j] == before.map_block[key(j)])
    return {
        "one block a key": z3.And(hits.length == loop.i, hits.start == 0),
        "the mapped blocks": z3.And(between(j, 0, loop.i, found, hits.array[j]), between(j, 0, loop.i, found, key(j))),
    }


def idle_loop(before: State, manager: Any, loop: Loop, local: dict[str, Any]) -> dict[str, Any]:
    return {
        "the hits are the longest run": loop.count == RUN,
        "what is left": lift(local["available"]) == before.num_free_blocks - idle(loop.i),
    }


LOOPS = {
    "BlockManager._hash_chain#1": chain_loop,
    "BlockManager._match#1": match_loop,
    "BlockManager.allocate#1": idle_loop,
}
