"""The curve that says how large a pool pays: hits over the size of the pool."""

from __future__ import annotations

from pathlib import Path

from kvaudit.errors import UsageError
from kvaudit.simulate.report import Simulated

FORMATS = (".png", ".svg", ".pdf")


def check(path: Path) -> None:
    """Raises UsageError if no plot can be made there: it is to be told before the work begins."""
    if path.suffix not in FORMATS:
        raise UsageError(f"--plot {path}: the name is to end in {', '.join(FORMATS)}")
    if not path.absolute().parent.is_dir():
        raise UsageError(f"--plot {path}: there is no such folder")
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise UsageError("--plot needs matplotlib: pip install 'kvaudit[plot]'") from None


def plot(result: Simulated, path: Path) -> None:
    """Write the plot. Raises UsageError where the file cannot be written."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import EngFormatter

    figure = Figure(figsize=(7.2, 4.2), layout="constrained")
    axes = figure.add_subplot()
    sizes = [pool.num_blocks for pool in result.pools]
    best = 100 * result.reusable_blocks / result.prompt_blocks
    axes.axhline(best, color="0.5", linestyle="--", linewidth=1, label=f"at best {best:.1f} %")
    crowded = [pool.num_blocks for pool in result.pools if pool.waited or pool.unserved]
    if crowded:
        axes.axvspan(min(sizes), max(crowded), color="0.93", label="requests waited for room")
    axes.plot(sizes, [100 * pool.hit_rate for pool in result.pools], marker="o", color="tab:blue", label="hits")
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.set_ylim(bottom=0)
    axes.set_xlabel(f"blocks of the pool, {result.block_size} tokens each")
    axes.set_ylabel("blocks in prompts that are hits, %")
    axes.set_title(f"{Path(result.trace).name}\n{result.model}", fontsize=10)
    axes.grid(True, which="major", color="0.9")
    axes.set_axisbelow(True)
    axes.legend(loc="lower right", frameon=False)
    try:
        figure.savefig(path, dpi=150)
    except OSError as error:
        raise UsageError(f"--plot {path} cannot be written: {error.strerror}") from None
