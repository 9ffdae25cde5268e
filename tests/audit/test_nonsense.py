"""A target that answers nonsense is found out, in words that show it; the auditor never breaks down over it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from audit.auditing import audit, target_of
from audit.miniatures import Array, Good, Int64, answering
from kvaudit.errors import TargetError
from kvaudit.report import CONFORMS, VIOLATION

Case = tuple[str, Callable[[Any], Any], str, str]
CASES: list[Case] = [
    ("allocate", lambda table: None, "O5", "a list of block numbers, 0 .. "),
    ("allocate", lambda table: "0 1", "O5", "not '0 1'"),
    ("allocate", lambda table: list(map(str, table)), "O5", "not ['0'"),
    ("allocate", lambda table: [block == 0 for block in table], "O5", "not [True"),
    ("allocate", lambda table: [-1 - block for block in table], "O5", "not [-1"),
    ("allocate", lambda table: [block + 100 for block in table], "O5", "not [100"),
    ("allocate", lambda table: [2**70], "O5", "1180591620717411303424"),
    ("allocate", lambda table: table[:-1], "O5", "need"),
    ("allocate", lambda table: [*table, table[0]], "O5", "the table has"),
    ("allocate", lambda table: [table], "O5", "not [[0"),
    ("allocate", lambda table: {0: table}, "O5", "not '{0: [0"),
    ("allocate", lambda table: Array(table), "O5", "not 'array([0"),
    ("allocate", lambda table: [float(block) for block in table], "O5", "not [0.0"),
    ("allocate", lambda table: [float("nan")], "O5", "not ['nan'"),
    ("append_slot", lambda slot: None, "O5", "not None"),
    ("append_slot", lambda slot: float(slot), "O5", ".0"),
    ("append_slot", lambda slot: -slot - 1, "O5", "not -"),
    ("append_slot", lambda slot: str(slot), "O5", "not '"),
    ("append_slot", lambda slot: slot + 1_000, "O5", "not 1"),
    ("append_slot", lambda slot: [slot], "O5", "not ["),
    ("append_slot", lambda slot: Array([slot]), "O5", "not 'array(["),
    ("slot", lambda slot: None, "O5", "not None"),
    ("slot", lambda slot: float(slot), "O5", ".0"),
    ("slot", lambda slot: Array([slot]), "O5", "not 'array(["),
    ("can_allocate", lambda fits: None, "O3", "not None"),
    ("can_allocate", lambda fits: 2 + int(fits), "O3", "to be False, not 2"),
    ("can_allocate", lambda fits: "yes", "O3", "not 'yes'"),
    ("can_allocate", lambda fits: Array([fits]), "O3", "not 'array("),
    ("num_free_blocks", lambda count: None, "I8", "not None"),
    ("num_free_blocks", lambda count: str(count), "I8", "not '"),
    ("num_free_blocks", lambda count: float(count), "I8", ".0"),
    ("num_free_blocks", lambda count: -1, "I8", "not -1"),
    ("num_free_blocks", lambda count: Array([count]), "I8", "not 'array(["),
    ("num_cached_tokens", lambda count: None, "O4", "not None"),
    ("num_cached_tokens", lambda count: float(count), "O4", "not 0.0"),
    ("num_cached_tokens", lambda count: False, "O4", "not False"),
    ("num_cached_tokens", lambda count: Array([count]), "O4", "not 'array(["),
    ("block_table", lambda table: None, "O5", "not None"),
    ("block_table", lambda table: "01", "O5", "not '01'"),
    ("block_table", lambda table: table[:-1], "O5", "the table of 'a' is to be [0"),
    ("block_table", lambda table: [2**70], "O5", "1180591620717411303424"),
    ("block_table", lambda table: Array(table), "O5", "not 'array(["),
]


def said(cls: type[Good], *, black_box: bool) -> tuple[set[str], str]:
    report = audit(target_of(cls, black_box=black_box), max_steps=400, stop_at_first=True)
    assert report.exit_code == VIOLATION
    [finding] = report.findings
    assert len(finding.steps) <= 4
    return {finding.obligation, *finding.also}, " ".join(finding.details)


@pytest.mark.parametrize("black_box", [False, True], ids=["observe", "black box"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]} {case[3]}")
def test_nonsense_is_named(case: Case, black_box: bool) -> None:
    method, changed, obligation, fragment = case
    names, details = said(answering(method, changed), black_box=black_box)
    assert obligation in names, details
    assert fragment in details


NUMBERS: list[tuple[str, Callable[[Any], Any]]] = [
    ("allocate", tuple),
    ("allocate", lambda table: [Int64(block) for block in table]),
    ("block_table", tuple),
    ("block_table", lambda table: [Int64(block) for block in table]),
    ("append_slot", Int64),
    ("slot", Int64),
    ("num_free_blocks", Int64),
    ("num_cached_tokens", Int64),
    ("can_allocate", int),
]


@pytest.mark.parametrize("case", NUMBERS, ids=lambda case: f"{case[0]} {getattr(case[1], '__name__', '')}")
def test_integers_of_another_library_are_integers(case: tuple[str, Callable[[Any], Any]]) -> None:
    assert audit(target_of(answering(*case)), max_steps=800).exit_code == CONFORMS


def changing(name: str, value: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda seen: {**seen._asdict(), name: value(seen._asdict()[name])}


NOT_AN_OBSERVATION: list[tuple[Callable[[Any], Any], str]] = [
    (lambda seen: None, "observe() gives None"),
    (lambda seen: {}, "observe() gives {}"),
    (lambda seen: 5, "observe() gives 5"),
    (lambda seen: {"blocks": 5}, "in which none of free, evictable, ref"),
    (changing("free", lambda free: 3), "observe() gives 3 for 'free'"),
    (changing("free", lambda free: [None, *free]), "observe() gives None in 'free'"),
    (changing("free", lambda free: "012"), "observe() gives '0' in 'free'"),
    (changing("evictable", lambda blocks: [object(), *blocks]), "in 'evictable', where a number is due"),
    (changing("ref", lambda ref: [Array([count]) for count in ref]), "array([1]) in 'ref'"),
    (changing("ref", lambda ref: [str(count) for count in ref]), "in 'ref', where a number is due"),
    (changing("ref", lambda ref: ref[1:]), "entries in 'ref', where 6 blocks are"),
    (changing("ref", lambda ref: []), "0 entries in 'ref'"),
    (changing("block_hash", lambda keys: []), "0 entries in 'block_hash'"),
    (changing("block_hash", lambda keys: [*keys, "one more"]), "7 entries in 'block_hash', where 6"),
    (changing("block_hash", lambda keys: [["a list"] for _ in keys]), "in 'block_hash': keys are to be hashable"),
    (changing("block_hash", lambda keys: [("in", ["a", "tuple"]) for _ in keys]), "keys are to be hashable"),
    (changing("hash_to_block", lambda mapping: {0: "zero"}), "'zero' in 'hash_to_block'"),
    (changing("hash_to_block", lambda mapping: [1, 2]), "observe() gives [1, 2] for 'hash_to_block'"),
    (changing("tables", lambda tables: [1, 2]), "observe() gives [1, 2] for 'tables'"),
    (changing("tables", lambda tables: dict.fromkeys(tables, 5)), "for 'tables'"),
    (changing("tables", lambda tables: dict.fromkeys(tables, "xy")), "'x' in 'tables'"),
    (changing("tokens", lambda tokens: {key: [1.5] for key in tokens}), "1.5 in 'tokens'"),
    (changing("hashes", lambda hashes: {key: [{}] for key in hashes}), "{} as a key in 'hashes'"),
    (changing("cached", lambda cached: dict.fromkeys(cached, "none")), "'none' in 'cached'"),
]


@pytest.mark.parametrize("case", NOT_AN_OBSERVATION, ids=lambda case: case[1])
def test_an_observe_that_makes_no_sense_is_no_verdict(case: tuple[Callable[[Any], Any], str]) -> None:
    target = target_of(answering("observe", case[0]))
    with pytest.raises(TargetError) as error:
        audit(target, max_steps=400)
    assert case[1] in str(error.value)


WRONG_OBSERVATIONS: list[Callable[[Any], Any]] = [
    changing("free", lambda free: [*free, 99]),
    changing("free", lambda free: free[1:]),
    changing("free", lambda free: [*free, *free]),
    changing("hash_to_block", lambda mapping: {**mapping, "ghost": 77}),
    changing("tables", lambda tables: {**tables, "ghost": [0]}),
    changing("tables", lambda tables: {}),
    changing("tokens", lambda tokens: {**tokens, 7: [1]}),
    changing("cached", lambda cached: {}),
    changing("hashes", lambda hashes: {}),
    changing("hashes", lambda hashes: {seq: [*keys, None] for seq, keys in hashes.items()}),
    changing("hashes", lambda hashes: {seq: [*keys, "new"] for seq, keys in hashes.items()}),
    changing("hash_to_block", lambda mapping: {**mapping, None: 0}),
    changing("evictable", lambda blocks: [*blocks, 0]),
    changing("free", lambda free: [*free, -1]),
    changing("ref", lambda ref: [count + 1 for count in ref]),
    changing("block_hash", lambda keys: ["same" for _ in keys]),
    changing("block_hash", lambda keys: [None for _ in keys]),
    changing("tables", lambda tables: {seq: [] for seq in tables}),
    changing("tokens", lambda tokens: {seq: [] for seq in tokens}),
]


@pytest.mark.parametrize("changed", WRONG_OBSERVATIONS)
def test_an_observe_that_makes_sense_and_is_wrong_is_a_finding(changed: Callable[[Any], Any]) -> None:
    said(answering("observe", changed), black_box=False)


@pytest.mark.parametrize("names", [("free",), ("ref", "tables"), ("block_hash", "hash_to_block"), ("cached", "tokens")])
def test_an_observe_may_leave_out_what_it_cannot_see(names: tuple[str, ...]) -> None:
    target = target_of(answering("observe", lambda seen: {name: getattr(seen, name) for name in names}))
    assert audit(target, max_steps=800).exit_code == CONFORMS
