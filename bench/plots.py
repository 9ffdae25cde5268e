"""Costs on log axes: what should not depend on the size is a flat line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, LogLocator, StrMethodFormatter

from bench.contestants import (
    ARRAY,
    BARE,
    BARE_BUILTIN,
    BATCHED,
    BUILTIN,
    COMPILED,
    COMPILED_BATCHED,
    KVBLOCKS,
    NANO,
    OLD_VLLM,
    SGLANG,
    VLLM,
)
from bench.playing import APPEND, PROMPT
from bench.results import Measured, Results

_COLOURS = {
    KVBLOCKS: "tab:blue",
    ARRAY: "tab:cyan",
    BUILTIN: "deepskyblue",
    BATCHED: "navy",
    COMPILED: "goldenrod",
    COMPILED_BATCHED: "saddlebrown",
    VLLM: "tab:red",
    OLD_VLLM: "tab:orange",
    NANO: "tab:green",
    SGLANG: "tab:purple",
}

_SWEEPS: dict[str, tuple[str, str, Callable[[Measured], int]]] = {
    "pools": (PROMPT, "blocks of the pool", lambda measured: measured.num_blocks),
    "lengths": (PROMPT, "tokens of a prompt", lambda measured: measured.prompt_tokens),
    "live": (APPEND, "live sequences", lambda measured: measured.live),
}


def write_plots(results: Results, folder: Path) -> None:
    """Write a plot for each sweep that was measured. Raises OSError."""
    for field, (kind, label, size) in _SWEEPS.items():
        sweep: list[Measured] = getattr(results, field)
        if sweep:
            _plot(sweep, kind, label, size).savefig(folder / f"performance-{field}.png", dpi=130)


def _plot(sweep: Sequence[Measured], kind: str, label: str, size: Callable[[Measured], int]) -> Figure:
    figure = Figure(figsize=(7.2, 4.2), layout="constrained")
    axes = figure.add_subplot()
    names = list(dict.fromkeys(name for measured in sweep for name in measured.costs.get(kind, {})))
    for name in names:
        if name.startswith("bare") and kind == APPEND:
            continue
        points = [(size(m), m.costs[kind][name].us) for m in sweep if name in m.costs.get(kind, {})]
        axes.errorbar(
            [x for x, _ in points],
            [us.median for _, us in points],
            yerr=[[us.median - us.low for _, us in points], [us.high - us.median for _, us in points]],
            label=name,
            color=_COLOURS.get(name, "0.5"),
            linestyle=":" if name in (BARE, BARE_BUILTIN) else "--" if name in (ARRAY, BUILTIN, BATCHED) else "-",
            marker="o" if name == KVBLOCKS else ".",
            capsize=2,
        )
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axes.yaxis.minorticks_off()
    axes.set_xlabel(label)
    axes.set_ylabel("us a prompt block" if kind == PROMPT else "us an append")
    axes.grid(True, which="major", color="0.9")
    axes.set_axisbelow(True)
    axes.legend(fontsize=8, ncols=2, frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.16))
    return figure
