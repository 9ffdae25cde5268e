"""No planted bug is equivalent to the manager: each deviates from it, seen through the public API alone.

Manager and mutant get the same calls. Blocks are compared up to renaming: which block of the *free list* is
taken is left open; that free ones go before evictable ones, and the oldest evictable one first, is not.
"""

import ast
import importlib.util
import inspect
import random
from collections.abc import Callable, Hashable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import mutants
from kvblocks import BlockManager, OutOfBlocks
from mutants import MUTANTS, Mutant

LEGAL = [mutant for mutant in MUTANTS if not mutant.misuse]
MISUSE = [mutant for mutant in MUTANTS if mutant.misuse]
ALPHABETS = [(0, 1), (1, 65537), (0, 65536, 7), (255, 256, 2**31 - 1), (65535, 2**32 - 1, 0)]
IDS = "abcd"
NOTHING: Mapping[str, Any] = {}
NO_TOKENS: Any = [-1, 2**32, "7", 7.0, None, True]


def outcome(call: Callable[[], object]) -> tuple[str, object]:
    """What a call comes to: a result, a refusal, or another error."""
    try:
        return "result", call()
    except OutOfBlocks:
        return "refusal", None
    except Exception:
        return "error", None


class Lockstep:
    """A manager and a mutant of it. Every method says whether the two still look alike."""

    def __init__(self, cls: type[BlockManager], num_blocks: int, block_size: int, cache: bool) -> None:
        self.manager = BlockManager(num_blocks, block_size, cache)
        self.mutant = cls(num_blocks, block_size, cache)
        self.names: dict[int, int] = {}  # the manager's block -> the mutant's

    def allocate(self, seq_id: Hashable, tokens: list[int], extra: Mapping[str, Any] = NOTHING) -> bool:
        ours, theirs = list(tokens), list(tokens)
        expected = outcome(lambda: self.manager.allocate(seq_id, ours, **extra))
        actual = outcome(lambda: self.mutant.allocate(seq_id, theirs, **extra))
        alike = expected[0] == actual[0] and self._same_blocks(expected[1], actual[1])
        for own in (theirs, actual[1]):  # lists of the caller: what becomes of them is the caller's affair
            if isinstance(own, list):
                own.append(3)
                own.reverse()
        return alike and self.alike()

    def append_slot(self, seq_id: Hashable, token: int) -> bool:
        expected = outcome(lambda: self.manager.append_slot(seq_id, token))
        actual = outcome(lambda: self.mutant.append_slot(seq_id, token))
        return self.alike() and expected[0] == actual[0] and self._same_slot(expected[1], actual[1])

    def free(self, seq_id: Hashable) -> bool:
        expected = outcome(lambda: self.manager.free(seq_id))
        return expected == outcome(lambda: self.mutant.free(seq_id)) and self.alike()

    def slot(self, seq_id: Hashable, pos: int) -> bool:
        expected = outcome(lambda: self.manager.slot(seq_id, pos))
        actual = outcome(lambda: self.mutant.slot(seq_id, pos))
        return expected[0] == actual[0] and self._same_slot(expected[1], actual[1])

    def alike(self) -> bool:
        """Every read, twice; and the names of the manager's free blocks are given up."""
        state = self.manager.observe()
        if not (self._same_counts(state.tables) and self._same_counts(state.tables)):
            return False
        for seq_id, tokens in state.tokens.items():
            _, table = outcome(partial(self.mutant.block_table, seq_id))
            if not (isinstance(table, list) and self._same_blocks(list(state.tables[seq_id]), table)):
                return False
            table.reverse()  # the caller's own, as above
            if not all(self.slot(seq_id, pos) for pos in range(len(tokens))):
                return False
        for block in state.free:
            self.names.pop(block, None)
        return True

    def _same_counts(self, live: Iterable[Hashable]) -> bool:
        lengths = range(self.manager.num_blocks * self.manager.block_size + 2)
        return (
            self.manager.num_free_blocks == self.mutant.num_free_blocks
            and all(self.manager.can_allocate(n) == self.mutant.can_allocate(n) for n in lengths)
            and all(
                outcome(partial(self.manager.num_cached_tokens, seq_id))
                == outcome(partial(self.mutant.num_cached_tokens, seq_id))
                for seq_id in live
            )
        )

    def _same_blocks(self, ours: object, theirs: object) -> bool:
        if not (isinstance(ours, list) and isinstance(theirs, list)):
            return ours is theirs
        return len(ours) == len(theirs) and all(map(self._same_block, ours, theirs))

    def _same_block(self, ours: int, theirs: int) -> bool:
        if ours not in self.names and theirs not in self.names.values():
            self.names[ours] = theirs
        return self.names.get(ours) == theirs

    def _same_slot(self, ours: object, theirs: object) -> bool:
        if not (isinstance(ours, int) and isinstance(theirs, int)):
            return ours is theirs
        size = self.manager.block_size
        return ours % size == theirs % size and self._same_block(ours // size, theirs // size)


def deviates(cls: type[BlockManager], seed: int, misuse: bool = False, steps: int = 40) -> bool:
    """Whether a random workload on a tiny pool, misused now and then or not at all, tells the two apart."""
    rng = random.Random(seed)
    pair = Lockstep(cls, rng.randint(1, 6), rng.choice([1, 1, 2, 2, 3]), cache=rng.random() < 0.9)
    symbols = rng.choice(ALPHABETS)
    prompts: list[list[int]] = [[]]
    for _ in range(steps):
        live = pair.manager.observe().tokens
        roll = rng.random()
        if misuse and roll < 0.3:
            alike = misused(pair, rng, list(live))
        elif not live or (roll < 0.55 and len(live) < len(IDS)):
            base = rng.choice(prompts)
            prompt = base[: rng.randint(0, len(base))] + rng.choices(symbols, k=rng.randint(0, 4))
            prompt = prompt or [symbols[0]]
            alike = pair.allocate(rng.choice([seq_id for seq_id in IDS if seq_id not in live]), prompt)
            prompts.append(prompt)
        elif roll < 0.8:
            seq_id = rng.choice(list(live))
            alike = pair.append_slot(seq_id, rng.choice(symbols))
            prompts.append(list(pair.manager.observe().tokens[seq_id]))
        else:
            alike = pair.free(rng.choice(list(live)))
        if not alike:
            return True
    return False


def misused(pair: Lockstep, rng: random.Random, live: list[Hashable]) -> bool:
    """One call that no caller may make."""
    seq_id = rng.choice([*live, *IDS])
    bad_token = rng.choice(NO_TOKENS)
    calls: list[Callable[[], bool]]
    if seq_id in live:
        length = len(pair.manager.observe().tokens[seq_id])
        calls = [
            lambda: pair.allocate(seq_id, [1]),
            lambda: pair.append_slot(seq_id, bad_token),
            lambda: pair.slot(seq_id, rng.choice([-1, -length, length, length + 1])),
        ]
    else:
        calls = [
            lambda: pair.free(seq_id),
            lambda: pair.append_slot(seq_id, 1),
            lambda: pair.slot(seq_id, 0),
            lambda: pair.allocate(seq_id, []),
            lambda: pair.allocate(seq_id, [1, bad_token]),
        ]
    return rng.choice(calls)()


# For what a random workload reaches too seldom: num_blocks, block_size and the calls.
SCRIPTS: dict[str, tuple[int, int, list[tuple[Any, ...]]]] = {
    "AppendDoesNotExtendChain": (
        6,
        1,
        [
            ("allocate", "a", [0]),
            ("append_slot", "a", 1),
            ("append_slot", "a", 0),
            ("allocate", "b", [0, 0, 1]),  # block 1 of "a" is [0, 1], and block 2 calls itself [0, 0]
        ],
    ),
    "SharesChainWithTwin": (
        6,
        1,
        [
            ("allocate", "a", [0]),
            ("allocate", "b", [0]),
            ("append_slot", "a", 1),
            ("append_slot", "b", 1),  # calls itself [0, 1, 1]
            ("allocate", "c", [0, 1, 1, 0]),
        ],
    ),
    "MatchesPastMiss": (
        5,
        1,
        [
            ("allocate", "a", [0]),
            ("free", "a"),
            ("allocate", "b", [0]),  # a duplicate: the mapping stays with the block of "a"
            ("append_slot", "b", 0),
            ("allocate", "c", [1, 1, 1]),  # evicts it, so [0] is not mapped and [0, 0] is
            ("free", "c"),
            ("allocate", "d", [0, 0, 1]),
        ],
    ),
    "TakesAndRegistersBlockByBlock": (
        4,
        1,
        [
            ("allocate", "a", [0]),
            ("free", "a"),
            ("allocate", "b", [0]),
            ("append_slot", "b", 0),
            ("allocate", "c", [1, 1]),  # as above: [0] is not mapped and [0, 0] is
            ("free", "c"),
            ("free", "b"),
            ("allocate", "d", [0, 0, 1]),  # its third block is the one that [0, 0] was mapped to
            ("free", "d"),
            ("allocate", "e", [0, 0, 1]),
        ],
    ),
    **{
        bug: (6, 1, [("allocate", "a", [0, 0, 0], one), ("allocate", "b", [0, 0, 0], other)])
        for bug, one, other in (
            ("SaltIsNoKey", {"salt": "x"}, {"salt": "y"}),
            ("LoraIsNoKey", {"lora": ("x", "1")}, {}),
            ("LoraVersionIsNoKey", {"lora": ("x", "1")}, {"lora": ("x", "2")}),
            ("LoraIsUntagged", {"salt": "x"}, {"lora": ("salt", "x")}),
            ("LoraRunsTogether", {"lora": ("x", "11")}, {"lora": ("x1", "1")}),
            ("ImageIsNoKey", {"images": [(b"one", 0, 1)]}, {"images": [(b"two", 0, 1)]}),
            ("ImageHashIsCutShort", {"images": [(b"12345678a", 0, 1)]}, {"images": [(b"12345678b", 0, 1)]}),
            ("ImageIsKeyedWhereItEnds", {"images": [(b"one", 0, 2)]}, {"images": [(b"two", 0, 2)]}),
        )
    },
    "ImagePlaceIsNoKey": (
        6,
        2,
        [
            ("allocate", "a", [0, 0, 0], {"images": [(b"one", 0, 1)]}),
            ("allocate", "b", [0, 0, 0], {"images": [(b"one", 1, 1)]}),
        ],
    ),
    "FilledBlockForgetsExtra": (
        6,
        2,
        [
            ("allocate", "a", [0, 0, 0], {"images": [(b"one", 2, 1)]}),
            ("append_slot", "a", 0),
            ("allocate", "b", [0, 0, 0, 0, 0]),
        ],
    ),
    "KeepsExtraAfterFree": (
        6,
        2,
        [
            ("allocate", "a", [0], {"salt": "x"}),
            ("free", "a"),
            ("allocate", "a", [0]),
            ("append_slot", "a", 0),
            ("allocate", "b", [0, 0, 0]),
        ],
    ),
}


def deviates_on_script(mutant: Mutant) -> bool:
    num_blocks, block_size, calls = SCRIPTS[name(mutant)]
    pair = Lockstep(mutant.cls, num_blocks, block_size, cache=True)
    alike = [getattr(pair, method)(*arguments) for method, *arguments in calls]
    return not alike[-1] and all(alike[:-1])


def name(mutant: Mutant) -> str:
    return mutant.cls.__name__


def each(chosen: list[Mutant]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("mutant", chosen, ids=name)


@each(LEGAL)
def test_deviates_on_legal_calls(mutant: Mutant) -> None:
    if name(mutant) in SCRIPTS:
        assert deviates_on_script(mutant)
    else:
        assert any(deviates(mutant.cls, seed) for seed in range(200))


@each(MISUSE)
def test_deviates_on_misuse_only(mutant: Mutant) -> None:
    assert not any(deviates(mutant.cls, seed) for seed in range(20))
    bad_size = outcome(lambda: mutant.cls(0, 1))[0] != "error"
    assert bad_size or any(deviates(mutant.cls, seed, misuse=True) for seed in range(200))


@each(list(MUTANTS))
def test_runs_example_1(mutant: Mutant) -> None:
    """Right or wrong, it runs: what is planted is not a crash."""
    manager = mutant.cls(6, 4, False)
    assert manager.allocate("x", [11, 12, 13, 14, 15, 16])[:2] == [0, 1]
    for token in 17, 18, 19:
        assert manager.append_slot("x", token) in range(24)
    manager.free("x")
    assert len(manager.allocate("y", [1, 2, 3])) == 1


def test_manager_does_not_deviate_from_itself() -> None:
    assert not any(deviates(BlockManager, seed, misuse) for seed in range(40) for misuse in (False, True))


@each(list(MUTANTS))
def test_its_file_loads_alone(mutant: Mutant) -> None:
    spec = importlib.util.spec_from_file_location("alone", inspect.getfile(mutant.cls))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert issubclass(getattr(module, name(mutant)), BlockManager)


def test_every_planted_class_is_listed_with_a_docstring_of_one_line() -> None:
    planted: list[str] = []
    for path in Path(mutants.__file__).parent.glob("*.py"):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and node.name not in ("Mutant", "Keyed"):
                assert len((ast.get_docstring(node) or "\n").splitlines()) == 1, node.name
                planted.append(node.name)
    assert sorted(planted) == sorted(map(name, MUTANTS))
    assert len(set(planted)) == len(planted)


@each(list(MUTANTS))
def test_obligations_are_well_formed(mutant: Mutant) -> None:
    known = [f"I{i}" for i in range(1, 9)] + [f"O{i}" for i in range(1, 12)] + ["K1", "K2"]
    assert 1 <= len(set(mutant.names)) == len(mutant.names) <= 5
    assert set(mutant.names) <= set(known)
    assert mutant.misuse == (mutant.names == ("O10",))
