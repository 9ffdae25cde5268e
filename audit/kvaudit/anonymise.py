"""Renames what a trace tells of users: token ids, the ids of sequences, salts, LoRAs and hashes of images.

The new names are numbers in the order of first appearance: equal stay equal, different stay different, and the
numbers say nothing else. So nobody goes back to the prompts who does not hold the trace itself, and the specification,
which knows ids and tokens only by equality, says the same of both traces.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from kvaudit import words
from kvaudit.programs import extra_of, with_extra, with_names, with_tokens
from kvaudit.protocol import AnyMutation, Extras
from kvaudit.saved_ledger import SavedLedger
from kvaudit.scheduling.work import Computed, Item, Work
from kvaudit.trace import Answer, TraceHeader, TraceLine
from kvspec.extra import Image, Lora

_LEFT_OUT = "(left out)"


class Names:
    """Numbers for the tokens and the sequences of one trace. Memory: what differs among them."""

    def __init__(self) -> None:
        self._tokens: dict[int, int] = {}
        self._seqs: dict[str, str] = {}
        self._names: dict[str, str] = {}
        self._hashes: dict[bytes, bytes] = {}

    def header(self, header: TraceHeader) -> TraceHeader:
        """The header with its ledger renamed. Take it first: its ids and tokens get the first numbers."""
        return msgspec.structs.replace(header, ledger=self._ledger(header.ledger) if header.ledger else None)

    def line(self, line: TraceLine) -> TraceLine:
        """The next line, renamed."""
        return msgspec.structs.replace(
            line,
            operation=self._operation(line.operation),
            expected=self._answer(line.expected),
            came=self._answer(line.came),
        )

    def _answer(self, answer: Answer | None) -> Answer | None:
        """The message of an exception and a strange answer may quote a prompt; the class of an exception does not."""
        if answer is None:
            return None
        other = _LEFT_OUT if answer.other else ""
        return msgspec.structs.replace(answer, other=other, work=self._work(answer.work))

    def _work(self, work: Work | None) -> Work | None:
        if work is None:
            return None
        passes = tuple(tuple(map(self._item, items)) for items in work.passes)
        return Work(passes, tuple(map(self._seq, work.finished)), tuple(map(self._seq, work.preempted)))

    def _item(self, item: Item) -> Item:
        return msgspec.structs.replace(item, seq=self._seq(item.seq)) if isinstance(item, Computed) else item

    @property
    def summary(self) -> str:
        """How much was renamed."""
        return f"{words.count(len(self._tokens), 'token')} and {words.count(len(self._seqs), 'sequence')} renamed"

    def _operation(self, operation: AnyMutation) -> AnyMutation:
        renamed = with_tokens(with_names(operation, self._seq), self._token)
        extra = extra_of(operation)
        return with_extra(renamed, self._extra(extra)) if extra.items else renamed

    def _ledger(self, saved: SavedLedger) -> SavedLedger:
        return msgspec.structs.replace(
            saved,
            contents=tuple(
                msgspec.structs.replace(content, tokens=self._all(content.tokens), extra=self._extra(content.extra))
                for content in saved.contents
            ),
            sequences={
                self._seq(seq): msgspec.structs.replace(
                    record, tokens=self._all(record.tokens), extra=self._extra(record.extra)
                )
                for seq, record in saved.sequences.items()
            },
        )

    def _extra(self, extra: Extras) -> Extras:
        """A salt or the id of a LoRA may name a customer, the hash of an image tells who has the same one."""
        lora = extra.lora
        return Extras(
            None if extra.salt is None else self._name(extra.salt),
            None if lora is None else Lora(self._name(lora.id), self._name(lora.version)),
            tuple(
                Image(self._hashes.setdefault(image.content_hash, _hash(len(self._hashes))), image.start, image.length)
                for image in extra.images
            ),
        )

    def _name(self, name: str) -> str:
        return self._names.setdefault(name, f"n{len(self._names)}")

    def _all(self, tokens: Iterable[int]) -> tuple[int, ...]:
        return tuple(map(self._token, tokens))

    def _token(self, token: int) -> int:
        return self._tokens.setdefault(token, len(self._tokens))

    def _seq(self, seq: str) -> str:
        return self._seqs.setdefault(seq, f"s{len(self._seqs)}")


def _hash(number: int) -> bytes:
    return number.to_bytes(4, "big")
