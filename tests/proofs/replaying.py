"""Which symbolic path a concrete call follows, and whether all that the proof says on that path is true of the call.

The call is executed three times: on kvblocks itself; on symbolic values with loops that really iterate (`Playing`),
where each condition is decided by its value; and by the rule that the proof uses, where a loop stands for one
arbitrary iteration: once for each iteration that there really was, and once for what comes after the loops. What the
rule forgets gets the value that it really had there. So all facts of a path must be true - hypotheses, axioms, loop
invariants, definitions of ghosts - and all goals, and the last state must be the one of kvblocks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from kvblocks.extra import Extra
from kvblocks.manager import Observation
from kvproofs.operations import OPERATIONS
from proofs.calls import Call, Place, manager_at
from proofs.evaluating import Array, Model
from proofs.following import Following, Head, Playing, Standing, Stop, rewritten
from proofs.paths import Decisions, end_of, listing
from proofs.standard import NOWHERE, array, chain, domains, ghosts, state_constants, structure


def model_of(place: Place, call: Call, seen: Observation) -> Model:
    """The values of all symbols of the hypotheses and of the arguments."""
    ledger, size = place.ledger, place.ledger.block_size
    plain = tuple(map(_plain, call.prompt))
    text = plain if call.operation == "allocate" else (*seen.tokens.get(call.seq, ()), _plain(call.argument))
    beside = call.beside()
    extra = (beside or ()) if call.operation == "allocate" else seen.extra.get(call.seq, ())
    model = Model(
        {"block_size": size, "no_key": (), "seq_id": call.seq, "nothing_beside": (), "no_parts": ()}
        | {"empty_Int": Array(-1), "empty_Key": Array(())}
        | state_constants(seen, ledger.num_blocks, size, ledger.enable_prefix_cache)
        | _arguments(call, plain)
        | {"extra_given": beside or (), "is_extra": beside is not None},
        structure(size) | ghosts(seen, place.memory),
        domains(seen, ledger.num_blocks, size, text, extra, call.seq or NOWHERE),
    )
    _define_hits(model, plain, beside or (), size)
    return model


def _plain(value: Any) -> int:
    """The integer that is given; 0 for what is none."""
    return int(value) if isinstance(value, int) else 0


def _arguments(call: Call, plain: tuple[int, ...]) -> dict[str, Any]:
    given, found = call.argument, dict[str, Any]()
    for name in ("token", "argument"):
        found |= {name: _plain(given), f"{name}_is_int": isinstance(given, int), f"{name}_is_bool": given is True}
        found |= {f"{name}_is_plain": type(given) is int}
    return found | {
        "pos": _plain(given),
        "prompt": array(plain, -1),
        "prompt_len": len(plain),
        "prompt_is_int": array([isinstance(t, int) for t in call.prompt], False),
        "prompt_is_bool": array([isinstance(t, bool) for t in call.prompt], False),
    }


def _define_hits(model: Model, plain: tuple[int, ...], extra: Extra, size: int) -> None:
    """RUN and `idle` of allocate, by their definitions."""
    value, keys, run = model.constants, chain(plain, size, extra), 0
    while value["cache_on"] and run < (len(plain) - 1) // size and value["map_has"][keys[run]]:
        run += 1
    value["run_of_hits"] = run

    def idle(k: int) -> int:
        prefix = model.functions["prefix"]
        blocks = [value["map_block"][prefix(value["prompt"], extra, j + 1)] for j in range(k)]
        return sum(value["ref"][b] == 0 for b in blocks)

    model.functions["idle_hits_below"] = idle


@dataclass(frozen=True)
class Followed:
    """A call and the paths that it took. `wrong`: what is not as the proof says."""

    call: Call
    paths: dict[Decisions, str]
    wrong: list[str]
    facts: int
    claims: int


def follow(place: Place, call: Call, is_new: Callable[[Decisions], bool] = lambda _: True) -> Followed:
    """Follow a call. Facts and goals are evaluated on those of its paths that are new."""
    real = manager_at(place, call)
    seen = real.observe()
    end, answer = real_end(real, call)
    after = real.observe()
    run = partial(_run, place, call, seen)
    played = run(Playing, {}, None)
    wrong = [*played.false, *_differences(played, end, answer, after, "played")]
    found: dict[Decisions, str] = {}
    facts = claims = 0
    stops: list[Stop] = [(site, head.index) for site, heads in played.heads.items() for head in heads[:-1]]
    for stop in [*stops, None]:
        stood = run(Standing, played.heads, stop)
        decisions, outcome = stood.result()[:2]
        if decisions not in found and is_new(decisions):
            stood = run(Standing, played.heads, stop, is_checked=True)
        found[decisions] = end_of(outcome)
        if stop is None:
            wrong += _differences(stood, end, answer, after, "by the rule")
        elif not outcome.ended:
            wrong.append(f"{stop}: the iteration does not end")
        else:
            wrong += _next_head(stood, played.heads[stop[0]][stop[1] + 1])
        wrong += stood.false
        facts, claims = facts + stood.facts, claims + stood.claims
    return Followed(call, found, wrong, facts, claims)


def real_end(manager: Any, call: Call) -> tuple[str, Any]:
    """How a call ends on a manager, in the words of `end_of`, and its answer."""
    try:
        return "answer", call.on(manager)
    except Exception as error:
        return type(error).__name__, None


def _run(
    place: Place,
    call: Call,
    seen: Observation,
    loop: Any,
    heads: dict[str, list[Head]],
    stop: Stop,
    is_checked: bool = False,
) -> Following:
    kind = partial(
        Following,
        model=model_of(place, call, seen),
        call=call,
        heads=heads,
        stop_in=stop,
        is_checked=is_checked,
        changed=listing(call.operation).changed,
    )
    made: list[Following] = []

    def executor(**given: Any) -> Following:
        made.append(kind(**given))
        return made[0]

    for _ in OPERATIONS[call.operation](rewritten(loop), {"executor": executor}):
        pass
    return made[0]


def _differences(run: Following, end: str, answer: Any, after: Observation, how: str) -> Iterator[str]:
    _, outcome, value, state = run.result()
    if end_of(outcome) != end:
        reasons = [goal.reason for goal in run.goals if not goal.proved]
        yield f"{how}: it ends with {end_of(outcome)}, not {end} {reasons}"
    elif value != answer:
        yield f"{how}: the answer is {value}, not {answer}"
    elif state != after:
        yield f"{how}: the state after it is {state}, not {after}"


def _next_head(run: Following, head: Head) -> Iterator[str]:
    """The symbolic iteration ends where the real one did."""
    manager = run.objects[0]
    for name, parts in head.attributes.items():
        if run.parts_of(getattr(manager, name)) != parts:
            yield f"iteration {head.index - 1} of a loop leaves another {name}"
