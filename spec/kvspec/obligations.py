"""The registry: every obligation with its statement, its symptom, what must be observable, and its clauses.

The command line, the reports, the documentation and the assurance matrix are generated from `OBLIGATIONS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from kvspec import invariants as inv
from kvspec import postconditions as post
from kvspec.logic import Claim, Logic, Transition, View

StateClause = Callable[[Logic, View], Claim]
StepClause = Callable[[Logic, Transition], Claim]

LEDGER = "ledger"
"""Observable where the target has `observe()`."""


@dataclass(frozen=True)
class Obligation:
    """Something that a block manager owes to those who use it.

    id         its name, for ever
    title      what it is about, in a few words
    statement  what must hold
    symptom    what a user sees when it does not
    needs      what must be observable to check the statement in full: methods of the target, or "ledger"
    weaker     the form that is checked through the public API alone, where that is less than the statement
    state      clauses over one state
    steps      for each operation, clauses over the state before and after it
    """

    id: str
    title: str
    statement: str
    symptom: str
    needs: frozenset[str]
    weaker: str = ""
    state: tuple[StateClause, ...] = ()
    steps: Mapping[str, tuple[StepClause, ...]] = field(default_factory=lambda: MappingProxyType({}))


def _obligation(
    id: str,
    title: str,
    statement: str,
    symptom: str,
    *needs: str,
    weaker: str = "",
    state: tuple[StateClause, ...] = (),
    allocate: tuple[StepClause, ...] = (),
    append: tuple[StepClause, ...] = (),
    free: tuple[StepClause, ...] = (),
) -> Obligation:
    steps = {"allocate": allocate, "append": append, "free": free}
    return Obligation(id, title, statement, symptom, frozenset(needs), weaker, state, MappingProxyType(steps))


_ALL: tuple[Obligation, ...] = (
    _obligation(
        "I1",
        "free blocks add up",
        "num_free_blocks == len(free list) + len(evictable pool); the two are disjoint, and their blocks have ref 0",
        "one block is given to two sequences, which overwrite each other's KV",
        LEDGER,
        weaker="num_free_blocks in lockstep with the specification",
        state=(inv.i1_free_blocks_add_up,),
    ),
    _obligation(
        "I2",
        "evictable blocks are idle and have an identity",
        "a block is in the evictable pool exactly if its ref is 0 and it carries an identity",
        "a block in use is evicted as a spare, or a cached block is never given back",
        LEDGER,
        state=(inv.i2_evictable_is_idle_with_identity,),
    ),
    _obligation(
        "I3",
        "mappings point at their content",
        "hash_to_block[h] == b implies block_hash[b] == h",
        "an old prefix 'hits' a block that has been overwritten: a request is served another's KV",
        LEDGER,
        state=(inv.i3_mapping_points_at_its_content,),
    ),
    _obligation(
        "I4",
        "references count holders, and nothing leaks",
        "ref[b] is the number of block tables that contain b; after freeing all, num_free_blocks == num_blocks",
        "blocks leak: the server runs for a while, then everything is OutOfBlocks",
        LEDGER,
        weaker="after freeing all, num_free_blocks == num_blocks",
        state=(inv.i4_ref_counts_holders,),
        allocate=(post.allocate_counts,),
        append=(post.append_counts,),
        free=(post.free_counts,),
    ),
    _obligation(
        "I5",
        "one token at least is left to compute",
        "num_cached_tokens(seq) is a multiple of block_size and less than the length of the prompt",
        "everything is hit, so the model has no token to run and cannot sample the next one",
        "num_cached_tokens",
        state=(inv.i5_cached_is_whole_blocks_and_not_all,),
    ),
    _obligation(
        "I6",
        "a partial block is private",
        "the last block of a live sequence whose length is not a multiple of block_size has ref 1 and no identity",
        "a half-full block is shared, and one sequence writes its tokens into another's",
        LEDGER,
        state=(inv.i6_partial_block_is_private,),
    ),
    _obligation(
        "I7",
        "full blocks carry their chain",
        "with the cache on every full block of a live sequence carries exactly its entry of the chain; "
        "a block stands at the same place in every table, and at most once in each",
        "content is registered under a wrong prefix, so a later request is served the wrong KV",
        LEDGER,
        state=(inv.i7_full_blocks_carry_their_chain,),
    ),
    _obligation(
        "I8",
        "each block is in exactly one place",
        "every block is in exactly one place, once: the free list, the evictable pool, or live tables",
        "a block is lost to the pool for ever, or handed out twice",
        LEDGER,
        weaker="num_free_blocks in lockstep, and no new block is one in use",
        state=(inv.i8_each_block_in_one_place,),
    ),
    _obligation(
        "O1",
        "a refusal changes nothing",
        "a refused operation changes nothing at all",
        "a request that is refused and retried leaves pins, tokens or evictions behind: leaks and lost cache",
        LEDGER,
        weaker="num_free_blocks, tables and cached counts at once, the rest by all later behaviour",
        allocate=(post.refusal_changes_nothing,),
        append=(post.refusal_changes_nothing,),
        free=(post.refusal_changes_nothing,),
    ),
    _obligation(
        "O2",
        "an operation succeeds exactly if it fits",
        "allocate succeeds exactly if new blocks needed <= num_free - idle hits, append exactly if it needs no "
        "block or one is free; free never refuses, and a legal call raises nothing but a refusal",
        "requests that fit are refused, or an operation fails half-way and leaves the state broken",
        allocate=(post.allocate_completes_exactly_if_it_fits,),
        append=(post.append_completes_exactly_if_it_fits,),
        free=(post.free_never_refuses,),
    ),
    _obligation(
        "O3",
        "can_allocate is the coarse check",
        "can_allocate(n) says whether ceil(n / block_size) <= num_free: True means that allocate succeeds",
        "the scheduler admits a request that is then refused, or starves one that fits",
        "can_allocate",
    ),
    _obligation(
        "O4",
        "the longest cached run is hit",
        "the hit is the longest run of blocks that can be hit, from the start, within (len-1)//block_size; "
        "num_cached_tokens counts it and never changes afterwards",
        "prefixes are computed again though they are cached, or tokens are skipped that nobody computed",
        "num_cached_tokens",
        allocate=(post.allocate_hits_longest_run, post.cached_never_changes),
        append=(post.append_keeps_cached,),
    ),
    _obligation(
        "O5",
        "tables and slots are right",
        "slot(seq, pos) == table[pos // bs] * bs + pos % bs; the table covers exactly ceil(len / bs) blocks",
        "the kernel reads or writes K/V at a wrong address",
        "slot",
        weaker="tables and the slots that append_slot returns",
        state=(post.table_covers_tokens,),
        allocate=(post.allocate_table_covers,),
        append=(post.append_extends,),
    ),
    _obligation(
        "O6",
        "the right block is taken, and only its identity forgotten",
        "a new block is the head of the free list, else the oldest evictable; evicting b clears its identity and "
        "the mapping of it exactly if it points at b, and no other mapping",
        "hot prefixes are evicted before cold ones, or valid cache entries are lost",
        LEDGER,
        weaker="which blocks are taken, and what can be hit afterwards",
        allocate=(post.allocate_takes_in_order, post.allocate_evicts),
        append=(post.append_takes_in_order, post.append_evicts),
    ),
    _obligation(
        "O7",
        "free gives back deepest first",
        "after free the blocks that became evictable are the newest, deepest first, older entries in unchanged "
        "order; those without identity are at the tail of the free list; the sequence's records are gone",
        "the first block of a prefix, which most requests share, dies before its tail",
        LEDGER,
        weaker="the order in which cached blocks are evicted later",
        free=(post.free_returns_deepest_first, post.free_ends_records, post.free_keeps_identities),
    ),
    _obligation(
        "O8",
        "full blocks are registered, on one chain",
        "only full blocks get an identity, by allocate and append alike, on one chain; allocate takes all its new "
        "blocks before it registers any; registering keeps an older mapping",
        "what decode generated is never hit in the next turn, or a prompt evicts its own first blocks",
        LEDGER,
        weaker="what can be hit afterwards",
        allocate=(post.allocate_registers,),
        append=(post.append_registers,),
    ),
    _obligation(
        "O9",
        "nothing is cached with the cache off",
        "with the prefix cache off nothing is registered, nothing is cached, freed blocks go to the free list",
        "KV is shared between requests although sharing was switched off",
        LEDGER,
        weaker="num_cached_tokens is 0 and no table shares a block",
        state=(post.nothing_cached,),
    ),
    _obligation(
        "O10",
        "misuse is refused cleanly",
        "misuse raises a named error and changes nothing",
        "a caller's mistake corrupts the pool, and shows much later as somebody else's fault",
    ),
    _obligation(
        "O11",
        "reads change nothing",
        "reads change nothing; a returned list is not the manager's own, and the caller's list is not kept",
        "looking at the manager, for metrics say, changes what it does next",
        LEDGER,
        weaker="num_free_blocks, tables and cached counts, read again after all reads",
    ),
    _obligation(
        "K1",
        "every sequence reads its own KV",
        "what a live sequence reads through its table is the KV of its own prefix at every position",
        "a request is served another's KV: no error, and the model quietly talks nonsense",
        "num_cached_tokens",
        state=(post.memory_is_faithful,),
    ),
    _obligation(
        "K2",
        "nobody writes what another reads",
        "what an operation makes the caller write lies in blocks that no other table holds, that are no hits, and "
        "that carry no identity from before it",
        "a request overwrites the KV that another one is reading",
        "num_cached_tokens",
        allocate=(post.allocate_writes_own_blocks,),
        append=(post.append_writes_own_block,),
    ),
)

OBLIGATIONS: Mapping[str, Obligation] = MappingProxyType({o.id: o for o in _ALL})
"""All obligations by id, in the order of reports."""


def broken_by_state(q: Logic, s: View) -> list[str]:
    """The obligations that a state breaks. Cost: O(pool + tokens), quadratic in the length of tables."""
    return [o.id for o in _ALL if not all(clause(q, s) for clause in o.state)]


def broken_by_step(operation: str, q: Logic, x: Transition) -> list[str]:
    """The obligations that an operation ("allocate", "append" or "free") breaks. Cost as of `broken_by_state`.

    A refused operation is held to O1 and O2 only; the other clauses speak of completed ones.
    """
    relevant = ("O1", "O2") if x.refused else tuple(OBLIGATIONS)
    return [o.id for o in _ALL if o.id in relevant and not all(clause(q, x) for clause in o.steps.get(operation, ()))]
