"""The command that says how many blocks fit on a card."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from kvaudit.cli.console import JsonFile
from kvaudit.cli.options import Json
from kvaudit.errors import UsageError
from kvaudit.plain_console import PlainConsole
from kvaudit.quantities import bytes_of, fraction_of

T = TypeVar("T")

_EACH = "Once for all configs, or once for each"


def size(
    configs: Annotated[
        list[Path],
        typer.Argument(
            metavar="CONFIG...",
            help="A model's config.json, or its folder; all share the card.",
            show_default=False,
        ),
    ],
    memory: Annotated[
        str, typer.Option(metavar="BYTES", help="What the card has: 80GiB, 80GB, ...", show_default=False)
    ],
    utilization: Annotated[str, typer.Option(metavar="PART", help="What of it may be used.")] = "0.9",
    weights: Annotated[
        list[str] | None,
        typer.Option(
            metavar="BYTES",
            help=f"What the weights take on this card; else the *.safetensors beside the config. {_EACH}.",
            show_default=False,
        ),
    ] = None,
    activation: Annotated[
        list[str] | None,
        typer.Option(
            metavar="BYTES",
            help=f"The peak of activations and of whatever else is no KV cache. {_EACH}.",
            show_default=False,
        ),
    ] = None,
    share: Annotated[
        list[int] | None,
        typer.Option(min=1, metavar="N", help=f"The share of what is left. {_EACH}.", show_default=False),
    ] = None,
    kv_dtype: Annotated[
        list[str] | None,
        typer.Option(
            metavar="DTYPE",
            help=f"The type of the KV cache: auto (as the config says), bfloat16, fp8, int4, ... {_EACH}.",
            show_default=False,
        ),
    ] = None,
    block_size: Annotated[
        list[int] | None,
        typer.Option(min=1, metavar="B", help=f"The tokens of a block, 16 unless given. {_EACH}.", show_default=False),
    ] = None,
    tensor_parallel: Annotated[
        list[int] | None,
        typer.Option(
            min=1, metavar="N", help=f"The cards among which the KV heads are split. {_EACH}.", show_default=False
        ),
    ] = None,
    part: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help=f"The part of the config that is meant: talker_config.text_config. {_EACH}.",
            show_default=False,
        ),
    ] = None,
    field: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="A field that the config lacks, or another value for one; may be repeated.",
            show_default=False,
        ),
    ] = None,
    json: Json = None,
) -> None:
    """Say how many blocks fit on a card: from a model's config.json, or several that share the card."""
    from kvaudit.sizing.card import Asked, size_card
    from kvaudit.sizing.terminal import show

    number = len(configs)
    options = zip(
        _each("--weights", [bytes_of("--weights", text) for text in weights or ()], number, None),
        _each("--activation", [bytes_of("--activation", text) for text in activation or ()], number, 0),
        _each("--share", share, number, 1),
        _each("--kv-dtype", kv_dtype, number, "auto"),
        _each("--block-size", block_size, number, 16),
        _each("--tensor-parallel", tensor_parallel, number, 1),
        _each("--part", part, number, None),
        strict=True,
    )
    asked = [Asked(config, tuple(field or ()), *values) for config, values in zip(configs, options, strict=True)]
    card_bytes = bytes_of("--memory", memory)
    if card_bytes < 1:
        raise UsageError(f"--memory {memory}: a card has some")
    with JsonFile(json) as file:
        sized = size_card(card_bytes, fraction_of("--utilization", utilization), asked)
        file.write(sized)
        show(sized, PlainConsole(stderr=file.is_stdout))


def _each(option: str, given: Sequence[T] | None, number: int, otherwise: T) -> Sequence[T]:
    """One value for each config. Raises UsageError if so many were given that it is not clear whose they are."""
    if not given:
        return [otherwise] * number
    if len(given) not in (1, number):
        raise UsageError(f"{option} is given {len(given)} times for {number} configs: give it once, or once for each")
    return list(given) * (number if len(given) == 1 else 1)
