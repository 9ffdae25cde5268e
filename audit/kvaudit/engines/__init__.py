"""Real serving engines as targets: fetch the few files that matter, load them without torch, drive them.

`fetch` downloads and caches; `lite` loads (in a child process only); one module an engine adapts it to the
seed's API. Nothing of an engine is part of this package.
"""
