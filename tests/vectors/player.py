"""Plays a vector on a manager: what an implementer writes in his own language."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]


def first_difference(make: Any, vector: Json, *, renamed: bool = False) -> str:
    """Where a manager departs from a vector; empty if nowhere. `renamed`: blocks may have other numbers."""
    pool, names = vector["pool"], dict[int, int]()
    size = pool["block_size"]
    manager = make(pool["num_blocks"], size, pool["enable_prefix_cache"])
    for number, step in enumerate(vector["steps"], start=1):
        operation, expected, reads = step["operation"], step["expected"], step["reads"]
        try:
            came = perform(manager, operation)
            if renamed:
                learn(names, expected, came, size)
            seen = [came, read(manager, reads), read(manager, reads)]  # looking changes nothing
        except Exception as error:
            seen = [{"raised": f"{type(error).__name__}: {error}"}]
        due = [in_names(names, answer, size) for answer in (expected, reads, reads)]
        if seen != due:
            return f"step {number}, {operation}: {due} was due, {seen} came"
    return ""


def perform(manager: Any, operation: Json) -> Json:
    """The answer to an operation, after which a careless caller overwrites the lists that he has."""
    answer: Json = {"outcome": "completed"}
    try:
        if operation["op"] == "allocate":
            tokens = list(operation["tokens"])
            table = manager.allocate(operation["seq"], tokens)
            answer |= {"table": list(table), "num_cached_tokens": manager.num_cached_tokens(operation["seq"])}
            tokens[:], table[:] = [7] * 9, [7] * 9
        elif operation["op"] == "append":
            answer["slot"] = manager.append_slot(operation["seq"], operation["token"])
        else:
            manager.free(operation["seq"])
    except Exception as error:
        if type(error).__name__ != "OutOfBlocks":
            raise
        answer = {"outcome": "refused"}
    return answer | {"num_free_blocks": manager.num_free_blocks}


def read(manager: Any, reads: Json) -> Json:
    """Everything that can be read, as `reads` has it."""
    live, fits = list(reads["tables"]), reads["can_allocate"]
    tables = {seq: manager.block_table(seq) for seq in live}
    seen = {
        "num_free_blocks": manager.num_free_blocks,
        "can_allocate": fits if not manager.can_allocate(fits + 1) and (not fits or manager.can_allocate(fits)) else -1,
        "tables": {seq: list(table) for seq, table in tables.items()},
        "slots": {seq: [manager.slot(seq, pos) for pos in range(len(reads["slots"][seq]))] for seq in live},
        "num_cached_tokens": {seq: manager.num_cached_tokens(seq) for seq in live},
    }
    for table in tables.values():
        table[:] = [7] * 9
    return seen


def learn(names: dict[int, int], expected: Json, came: Json, size: int) -> None:
    """A block that is taken anew may have another number; one that is hit keeps the one it has."""
    if "table" in expected and "table" in came:
        start = expected["num_cached_tokens"] // size
        names.update(zip(expected["table"][start:], came["table"][start:], strict=False))
    elif "slot" in expected and "slot" in came and expected["slot"] % size == 0:
        names[expected["slot"] // size] = came["slot"] // size


def in_names(names: dict[int, int], due: Json, size: int) -> Json:
    """What is due, with the numbers that the manager gives its blocks."""

    def table(blocks: list[int]) -> list[int]:
        return [names.get(block, block) for block in blocks]

    def slot(number: int) -> int:
        return names.get(number // size, number // size) * size + number % size

    renamed = dict(due)
    if "table" in due:
        renamed["table"] = table(due["table"])
    if "slot" in due:
        renamed["slot"] = slot(due["slot"])
    if "tables" in due:
        renamed["tables"] = {seq: table(blocks) for seq, blocks in due["tables"].items()}
        renamed["slots"] = {seq: list(map(slot, slots)) for seq, slots in due["slots"].items()}
    return renamed
