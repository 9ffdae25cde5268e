"""Why kvblocks meets kvspec for every size: its source, executed on Z3 terms, against the text of the obligations.

`python -m kvproofs` proves every theorem and prints the table. See docs/proofs.md for what is assumed.
"""
