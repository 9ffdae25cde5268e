"""Appends that a manager makes in one call: `append_slots(seq_ids, token_ids)` and `extend(seq_id, token_ids)`.

No operation of the seed, and by their meaning several of them in turn: `append_slot` for each pair, or for none.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

from kvaudit.breach import Breach
from kvaudit.guarding.reads import in_order, number, numbers
from kvaudit.protocol import Append, Returned
from kvaudit.words import count

BATCHES = ("append_slots", "extend")


class Batch(NamedTuple):
    """One call. Iterators are read to their end before the manager is asked."""

    name: str
    first: Any
    tokens: list[Any]

    def appends(self, slots: Any) -> list[tuple[Append, Returned]]:
        """What it has done, append by append; empty if there is not a slot for each token."""
        seqs: list[Hashable] = self.first if self.name == "append_slots" else [self.first] * len(self.tokens)
        answers = numbers(slots)
        if not isinstance(answers, (list, tuple)) or not len(answers) == len(seqs) == len(self.tokens):
            return []
        return [
            (Append(seq, token), Returned(number(slot)))  # type: ignore[arg-type]
            for seq, token, slot in zip(seqs, self.tokens, answers, strict=True)
        ]

    def no_answer(self, slots: Any) -> Breach:
        """There is not a slot for each token."""
        return Breach("O5", f"{self.name} is to answer {count(len(self.tokens), 'slot')}, not {slots!r:.80}")


def followed(
    name: str,
    method: Callable[..., Any],
    raised: Callable[[Batch, BaseException], None],
    returned: Callable[[Batch, Any], None],
) -> Callable[..., Any]:
    """The method, each call of which is told of as it ends. What is no such call is the manager's to say."""

    def call(*args: Any, **named: Any) -> Any:
        given = in_order(method, args, named)
        if len(given) != 2:
            return method(*args, **named)
        first, tokens = given
        batch = Batch(name, list(first) if name == "append_slots" else first, list(tokens))
        try:
            slots = method(batch.first, batch.tokens)
        except BaseException as error:
            raised(batch, error)
            raise
        returned(batch, slots)
        return slots

    return call
