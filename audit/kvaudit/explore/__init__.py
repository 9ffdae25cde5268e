"""`kvaudit explore`: breadth-first search over every operation sequence on small pools.

Read in this order: `moves` (what can be done next), `canonical` (which states are the same up to names), `subject` (a
target that can be put into any state), `probes` (reads and misuse), `expand` (everything that can be tried at a state),
`search` (level by level), `pool` (which kind of search can be had, and what it may be called), `exploration` (one pool
after the other).
"""
