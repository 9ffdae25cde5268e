"""(E) is proved of the text of `encode`, and of no text that forgets what tells two inputs apart."""

from __future__ import annotations

import pytest
import z3

from kvblocks import hashing
from kvproofs import encoding, encoding_injective
from kvproofs.encoding import SOURCE
from kvproofs.encoding_values import Extra
from kvproofs.proving import prove
from kvproofs.terms import lift
from kvproofs.theorems import DECLARED


def test_the_encoding_determines_its_input() -> None:
    found = prove("encode")
    assert {t.name for t in found} == DECLARED["encode"]
    assert [t for t in found if not t.proved] == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("_LENGTH[len(parent)] + parent", "parent"),
        ("_LENGTH[len(parent)] + parent", "_LENGTH[len(tokens)] + parent"),
        ("_NO_PARENT + tokens if", "tokens if"),
        ("        return block\n", "        return tokens\n"),
        ("parts.append(block)", "parts.append(tokens)"),
        ("parts = [_EXTRA +", "parts = [_NO_PARENT +"),
        ('struct.pack("<I", len(raw)) + raw', "raw"),
        ('b"s", item.encode("utf-8", "surrogatepass")', 'b"b", item.encode("utf-8", "surrogatepass")'),
        ('item.encode("utf-8", "surrogatepass")', 'item.encode("utf-8", "replace")'),
        (" and not isinstance(item, bool)", ""),
        ("for item in extra:", "for item in ():"),
        ('b"".join(parts)', 'b"".join(parts[1:])'),
        ('_EXTRA + struct.pack("<I", len(extra))', "_EXTRA"),
    ],
)
def test_another_text_is_not_proved(old: str, new: str) -> None:
    assert SOURCE.count(old) == 1
    goals = encoding.encode(SOURCE.replace(old, new), {"rlimit": 300_000, "stop_at_open": True})
    assert any(not goal.proved for goal in goals)


def test_an_extra_key_without_its_length_does_not_say_where_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_length(x: Extra) -> object:
        return z3.Concat(lift(b"x"), encoding.raw(x))

    monkeypatch.setattr(encoding, "item", no_length)
    monkeypatch.setattr(encoding_injective, "item", no_length)
    monkeypatch.setattr("kvproofs.lemmas.RLIMIT", 300_000)
    assert {goal.label for goal in encoding_injective.injective() if not goal.proved} >= {
        "an extra key says where it ends"
    }


def test_a_byte_that_means_no_parent_must_be_no_length(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoding_injective, "octets", lambda: z3.BoolVal(True))
    monkeypatch.setattr("kvproofs.lemmas.RLIMIT", 300_000)
    assert {goal.label for goal in encoding_injective.injective() if not goal.proved} >= {
        "equal blocks, equal parents and tokens",
        "with extra keys, and without: never equal",
    }


def test_each_length_is_its_byte() -> None:
    """What `encoding_values.byte` takes for true."""
    assert all(ord(byte) == size for size, byte in enumerate(hashing._LENGTH))
    others = {*hashing._NO_PARENT, *hashing._EXTRA}
    assert len(others) == 2 and min(others) == len(hashing._LENGTH)
