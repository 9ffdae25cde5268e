"""The vLLM adapter over the real manager: each check runs in a child, on each version that is in the cache."""

from __future__ import annotations

import functools
import json
import os
import random
import subprocess
import sys
import traceback
from collections import namedtuple
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import kvaudit
from kvaudit.engines import vllm
from kvaudit.engines.adapting import offering
from kvaudit.engines.fetch import cached
from kvaudit.engines.lite import LoadError

VERSIONS = ["0.33.0", "0.11.2", "0.8.5"]
# Fetched by whoever works on them; not asked for when absent.
OTHERS = [v for v in ["0.9.2", "0.10.2", "0.14.1", "0.18.1", "0.23.0", "0.28.0"] if cached("vllm", v)]

Check = Callable[[type[Any]], None]


# --- The checks, run in the child --------------------------------------------------------------------------


def refuses(call: Callable[[], object]) -> bool:
    try:
        call()
    except vllm.OutOfBlocks:
        return True
    return False


def check_example_1_without_the_cache(manager: type[Any]) -> None:
    m = manager(6, 4, False)
    assert sorted(m.allocate("x", [11, 12, 13, 14, 15, 16])) == sorted(m.block_table("x"))
    assert m.num_free_blocks == 4
    table = m.block_table("x")
    assert m.append_slot("x", 17) == table[1] * 4 + 2
    assert m.append_slot("x", 18) == table[1] * 4 + 3
    third = m.append_slot("x", 19)
    assert m.block_table("x") == [*table, third // 4] and third % 4 == 0
    assert m.num_free_blocks == 3
    state = m.observe()
    assert state["block_hash"] == [None] * 6 and state["hash_to_block"] == {} and state["evictable"] == []
    assert state["tokens"] == {"x": [11, 12, 13, 14, 15, 16, 17, 18, 19]} and state["hashes"] == {"x": []}
    m.free("x")
    assert m.num_free_blocks == 6 and len(m.allocate("y", [1, 2, 3])) == 1
    assert m.num_cached_tokens("y") == 0


def check_example_2_shares_a_prefix(manager: type[Any]) -> None:
    m = manager(8, 2)
    a = m.allocate("a", [1, 2, 3, 4, 5])
    assert m.num_cached_tokens("a") == 0
    b = m.allocate("b", [1, 2, 3, 4, 6])
    assert b[:2] == a[:2] and b[2] != a[2] and m.num_cached_tokens("b") == 4 and m.num_free_blocks == 4
    assert [m.observe()["ref"][i] for i in (*a, b[2])] == [2, 2, 1, 1]
    m.free("a")
    assert m.num_free_blocks == 5
    m.free("b")
    state = m.observe()
    assert state["evictable"] == [a[1], a[0]], "the deepest block is the oldest"
    assert len(state["free"]) == 6 and m.num_free_blocks == 8
    c = m.allocate("c", [1, 2, 3, 4])
    assert m.num_cached_tokens("c") == 2 and c[0] == a[0] and c[1] != a[1]


def check_example_3_counts_idle_hits(manager: type[Any]) -> None:
    m = manager(3, 2)
    m.allocate("a", [1, 2, 3, 4, 5])
    m.free("a")
    before = m.observe(), m.idle()
    assert refuses(lambda: m.allocate("b", [1, 2, 3, 4, 5, 6, 7]))
    assert (m.observe(), m.idle()) == before
    assert len(m.allocate("b", [1, 2, 3, 4, 5, 6])) == 3
    assert m.num_cached_tokens("b") == 4 and m.num_free_blocks == 0


def check_a_refused_append_changes_nothing(manager: type[Any]) -> None:
    for caching in (True, False):
        m = manager(2, 2, caching)
        m.allocate("a", [1, 2])
        m.allocate("b", [3])
        before = m.observe()
        assert refuses(functools.partial(m.append_slot, "a", 9))
        assert m.observe() == before
        m.append_slot("b", 4)
        m.free("b")
        m.append_slot("a", 7)
        assert m.observe()["tokens"] == {"a": [1, 2, 7]}


def check_a_refused_append_that_would_fill_a_block(manager: type[Any]) -> None:
    m = manager(1, 1)
    m.allocate("a", [1])
    before = m.observe()
    assert refuses(lambda: m.append_slot("a", 2)) and m.observe() == before
    assert len(before["hashes"]["a"]) == 1


def check_a_refused_prompt_may_be_tried_again_or_replaced(manager: type[Any]) -> None:
    m = manager(2, 2)
    m.allocate("a", [1, 2, 3])
    assert refuses(lambda: m.allocate("b", [5, 6, 7]))
    assert refuses(lambda: m.allocate("b", [5, 6, 7]))
    m.free("a")
    before = m.observe()
    m.allocate("b", [8, 8, 8])  # another prompt: its hashes must not be those of the refused one
    m.free("b")
    assert len(m.allocate("c", [5, 6, 1])) == 2 and m.num_cached_tokens("c") == 0
    assert before["tables"] == {}


def check_a_block_filled_by_append_is_hit(manager: type[Any]) -> None:
    m = manager(3, 2)
    m.allocate("a", [7, 8, 9])
    m.append_slot("a", 10)
    assert len(m.observe()["hash_to_block"]) == 2
    table = m.block_table("a")
    m.free("a")
    assert m.allocate("b", [7, 8, 9, 10, 11])[:2] == table and m.num_cached_tokens("b") == 4


def check_duplicates_and_the_block_that_is_hit(manager: type[Any]) -> None:
    m = manager(4, 2)
    (first,), (second,) = m.allocate("a", [1, 2]), m.allocate("b", [1, 2])
    assert first != second
    state = m.observe()
    (key,) = state["hash_to_block"]
    assert state["block_hash"][first] == state["block_hash"][second] == key
    assert m.allocate("c", [1, 2, 3])[0] == state["hash_to_block"][key] == first
    for name in "abc":
        m.free(name)
    # Take blocks until the copy that was hit is evicted: the other one, if it is still there, is hit then.
    for token in range(10, 15):
        if m.observe()["block_hash"][first] != key:
            break
        m.allocate(str(token), [token, token])
        if m.num_free_blocks == 0:
            m.free(str(token))
    state = m.observe()
    assert state["block_hash"][first] != key
    if state["block_hash"][second] == key:
        assert state["hash_to_block"][key] == second == m.allocate("d", [1, 2, 3])[0]
    else:
        assert key not in state["hash_to_block"]


def check_every_block_is_usable(manager: type[Any]) -> None:
    for size in (1, 2, 5):
        m = manager(size, 1)
        assert sorted(m.idle()) == sorted(m.observe()["free"]) == list(range(size))
        assert sorted(m.allocate("a", range(size))) == list(range(size)) and m.num_free_blocks == 0
        state = m.observe()
        assert state["ref"] == [1] * size and len(state["block_hash"]) == size and state["free"] == []
        assert refuses(functools.partial(m.allocate, "b", [1]))


def check_ids_of_all_kinds(manager: type[Any]) -> None:
    m = manager(4, 2)
    for name in (1, "1", ("a", 2)):
        m.allocate(name, [5])
    assert list(m.observe()["tables"]) == [1, "1", ("a", 2)]
    for call in (m.free, m.block_table, m.num_cached_tokens, lambda i: m.append_slot(i, 1)):
        try:
            call("nobody")
        except KeyError:
            continue
        raise AssertionError("an unknown id was accepted")


def check_nothing_is_shared_with_the_caller(manager: type[Any]) -> None:
    m = manager(4, 2)
    prompt = [1, 2, 3]
    table = m.allocate("a", prompt)
    prompt[0] = 9
    table.clear()
    m.block_table("a").clear()
    m.observe()["tokens"]["a"].clear()
    assert m.observe()["tokens"] == {"a": [1, 2, 3]} and len(m.block_table("a")) == 2


def check_random_walks_keep_the_invariants(manager: type[Any]) -> None:
    rng = random.Random(0)
    for _ in range(60):
        blocks, size, caching = rng.randint(1, 6), rng.randint(1, 4), rng.random() < 0.9
        m = manager(blocks, size, caching)
        tokens: dict[str, list[int]] = {}
        for _ in range(60):
            before = m.observe(), m.idle()
            kind, name = rng.random(), rng.choice("abcd")
            try:
                if name not in tokens:
                    prompt = [rng.randint(0, 1) for _ in range(rng.randint(1, 3 * size))]
                    m.allocate(name, prompt)
                    tokens[name] = prompt
                elif kind < 0.6:
                    token = rng.randint(0, 1)
                    slot = m.append_slot(name, token)
                    tokens[name].append(token)
                    index, offset = divmod(len(tokens[name]) - 1, size)
                    assert slot == m.block_table(name)[index] * size + offset
                else:
                    m.free(name)
                    del tokens[name]
            except vllm.OutOfBlocks:
                assert (m.observe(), m.idle()) == before
            _invariants(m, tokens, blocks, size, caching)
        for name in tokens:
            m.free(name)
        assert m.num_free_blocks == blocks


def _invariants(m: Any, tokens: dict[str, list[int]], blocks: int, size: int, caching: bool) -> None:
    s = m.observe()
    assert s["tokens"] == tokens and s["tables"].keys() == s["hashes"].keys() == s["cached"].keys() == tokens.keys()
    held = [b for table in s["tables"].values() for b in table]
    assert s["ref"] == [held.count(b) for b in range(blocks)]
    assert sorted(m.idle()) == sorted(s["free"] + s["evictable"]) == sorted(set(range(blocks)) - set(held))
    assert m.num_free_blocks == len(m.idle())
    assert all(s["block_hash"][b] is None for b in s["free"])
    assert all(s["block_hash"][b] is not None for b in s["evictable"])
    assert all(s["block_hash"][b] == h for h, b in s["hash_to_block"].items())
    for name, table in s["tables"].items():
        assert len(table) == -(-len(tokens[name]) // size)
        assert len(s["hashes"][name]) == (len(tokens[name]) // size if caching else 0)
        assert [s["block_hash"][b] for b in table[: len(s["hashes"][name])]] == s["hashes"][name]
        assert s["cached"][name] == m.num_cached_tokens(name) < len(tokens[name])


def key_of_a_first_block(manager: type[Any]) -> str:
    m = manager(2, 2)
    m.allocate("a", [1, 2])
    (key,) = m.observe()["hash_to_block"]
    return str(key)


CHECKS: dict[str, Check] = {k: v for k, v in globals().items() if k.startswith("check_")}


def main(root: str) -> None:
    """Run all checks on the engine in `root`; print what failed, and some facts, as JSON."""
    engine = vllm.load(Path(root))
    failures = {}
    for name, check in CHECKS.items():
        try:
            check(engine.manager)
        except Exception:
            failures[name] = traceback.format_exc()
    json.dump(
        {
            "failures": failures,
            "version": engine.version,
            "stubs": engine.stubs,
            "notes": engine.notes,
            "key": key_of_a_first_block(engine.manager),
        },
        sys.stdout,
    )


# --- The tests ---------------------------------------------------------------------------------------------


def in_child(root: Path, hash_seed: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(Path(kvaudit.__path__[0]).parent), *filter(None, sys.path)])
    environment = os.environ | {"PYTHONPATH": path, "PYTHONHASHSEED": hash_seed}
    command = [sys.executable, __file__, str(root)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=60)


@functools.cache
def outcome(version: str, hash_seed: str = "random") -> dict[str, Any]:
    root = cached("vllm", version)
    if root is None:
        pytest.skip(f"not in the cache; run: kvaudit fetch vllm=={version}")
    done = in_child(root, hash_seed)
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    return result


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("version", VERSIONS + OTHERS)
def test_real_engine(version: str, check: str) -> None:
    failure = outcome(version)["failures"].get(check)
    assert failure is None, failure


@pytest.mark.parametrize("version", VERSIONS + OTHERS)
def test_the_engine_says_what_it_is(version: str) -> None:
    found = outcome(version)
    assert found["version"] == version
    assert any("sha256" in note for note in found["notes"])
    assert "vllm" in found["stubs"] and "vllm.v1.core.block_pool" not in found["stubs"]
    assert not [name for name in found["stubs"] if name in sys.stdlib_module_names]


@pytest.mark.parametrize("version", VERSIONS + OTHERS)
def test_hashes_are_the_same_in_every_run(version: str) -> None:
    assert outcome(version)["key"] == outcome(version, "7")["key"]


def test_a_folder_that_holds_another_vllm_names_what_is_missing(tmp_path: Path) -> None:
    (tmp_path / "vllm" / "v1").mkdir(parents=True)
    done = in_child(tmp_path, "random")
    assert done.returncode != 0
    assert "vllm.v1.core.kv_cache_manager is not in" in done.stderr


def test_a_parameter_that_the_adapter_does_not_know_is_named() -> None:
    def later(num_blocks: int, *, shape: int) -> None: ...

    with pytest.raises(LoadError, match="later requires shape"):
        offering(later, "num_blocks", "block_size")


def test_only_known_parameters_are_passed_on() -> None:
    def earlier(num_blocks: int, group: str = "g") -> tuple[int, str]:
        return num_blocks, group

    assert offering(earlier, "num_blocks", "block_size")(num_blocks=3, block_size=2) == (3, "g")


def test_keys_of_all_versions_become_text_one_to_one() -> None:
    key = namedtuple("key", "hash_value token_ids extra_keys")
    texts = {vllm._text(k) for k in (b"\x01\x02", key(2**200, (1, 2), None), key(2**200, (12,), None), (b"\x01", 0))}
    assert len(texts) == 4 and "0102" in texts


if __name__ == "__main__":
    main(sys.argv[1])
