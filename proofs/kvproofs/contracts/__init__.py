"""Contracts that CrossHair checks on the functions of kvblocks and kvspec themselves. `kvproofs.crosshair` runs them.

`formulas`: arithmetic, of any size. `pools`: whole operations on small pools. `undecided`: what CrossHair leaves open.
`declared` says what must come out of each, `planted` which bugs must be found.
"""
