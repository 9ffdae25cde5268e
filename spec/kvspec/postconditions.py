"""What each operation does: complete two-state postconditions, frames included, clause by clause.

`x.before` is the ledger before, `x.after` the one after. The clauses of one operation leave the state after it
no freedom: whatever is not said to change is said to stay. Each clause belongs to one obligation.
"""

from __future__ import annotations

from typing import Any

from kvspec.logic import Claim, Logic, Number, Transition, View

# --- what several clauses speak of -------------------------------------------------------------------------


def nothing_changed(q: Logic, s: View, t: View) -> Claim:
    """The two states agree in everything: lists and their orders, counts, identities, mappings, records."""
    return q.all(
        t.num_free_blocks == s.num_free_blocks,
        same_free_list(q, s, t),
        same_evictable_pool(q, s, t),
        q.every_block(lambda b: q.all(t.ref(b) == s.ref(b), same_hash(q, s, t, b))),
        q.every_identity(lambda h: same_mapping(q, s, t, h)),
        q.every_sequence(lambda p: same_records(q, s, t, p)),
    )


def same_free_list(q: Logic, s: View, t: View) -> Claim:
    return q.all(
        q.every_block(lambda b: t.times_free(b) == s.times_free(b)),
        q.every_block(lambda b: q.every_block(lambda c: q.iff(t.ahead_in_free(b, c), s.ahead_in_free(b, c)))),
    )


def same_evictable_pool(q: Logic, s: View, t: View) -> Claim:
    return q.all(
        q.every_block(lambda b: t.times_evictable(b) == s.times_evictable(b)),
        q.every_block(lambda b: q.every_block(lambda c: q.iff(t.older(b, c), s.older(b, c)))),
    )


def same_hash(q: Logic, s: View, t: View, b: Any) -> Claim:
    return q.all(q.iff(t.has_hash(b), s.has_hash(b)), q.implies(s.has_hash(b), t.hash_of(b) == s.hash_of(b)))


def same_mapping(q: Logic, s: View, t: View, h: Any) -> Claim:
    return q.all(q.iff(t.mapped(h), s.mapped(h)), q.implies(s.mapped(h), t.block_of(h) == s.block_of(h)))


def same_table(q: Logic, s: View, t: View, p: Any) -> Claim:
    return q.all(
        t.table_len(p) == s.table_len(p),
        q.every_below(s.table_len(p), lambda i: t.table(p, i) == s.table(p, i)),
    )


def same_tokens(q: Logic, s: View, t: View, p: Any) -> Claim:
    return q.all(
        t.num_tokens(p) == s.num_tokens(p),
        q.every_below(s.num_tokens(p), lambda i: t.token(p, i) == s.token(p, i)),
    )


def same_chain(q: Logic, s: View, t: View, p: Any) -> Claim:
    return q.all(
        t.chain_len(p) == s.chain_len(p),
        q.every_below(s.chain_len(p), lambda i: t.chain(p, i) == s.chain(p, i)),
    )


def same_records(q: Logic, s: View, t: View, p: Any) -> Claim:
    return q.all(
        q.iff(t.live(p), s.live(p)),
        same_table(q, s, t, p),
        same_tokens(q, s, t, p),
        same_chain(q, s, t, p),
        t.cached(p) == s.cached(p),
        t.extra(p) == s.extra(p),
    )


def others_unchanged(q: Logic, x: Transition) -> Claim:
    return q.every_sequence(
        lambda p: q.implies(
            p != x.seq_id,
            q.all(
                q.iff(x.after.live(p), x.before.live(p)),
                same_table(q, x.before, x.after, p),
                same_tokens(q, x.before, x.after, p),
                x.after.extra(p) == x.before.extra(p),
            ),
        )
    )


def idle(q: Logic, s: View, b: Any) -> Claim:
    return q.any(s.times_free(b) > 0, s.times_evictable(b) > 0)


def must_go_before(q: Logic, x: Transition, b: Any, c: Any) -> Claim:
    """Of two idle blocks, b has to be taken before c. The seed: free before evictable, FIFO, oldest first."""
    s = x.before
    return q.any(
        s.older(b, c),
        q.all(x.variants.free_list == "fifo", s.ahead_in_free(b, c)),
        q.all(x.variants.take_from == "free first", s.times_free(b) > 0, s.times_evictable(c) > 0),
    )


def in_table(q: Logic, t: View, p: Any, start: Number, b: Any) -> Claim:
    """b stands in the table of p, at `start` or later."""
    return q.no(q.every_below(t.table_len(p), lambda i: q.no(q.all(i >= start, t.table(p, i) == b))))


def taken_in_order(q: Logic, x: Transition, first: Number) -> Claim:
    """The blocks of the table from `first` on were idle, distinct, and taken in the order of the policy."""
    s, t, p = x.before, x.after, x.seq_id

    def new(i: Any) -> Claim:
        return t.table(p, i)

    return q.every_below(
        t.table_len(p),
        lambda i: q.implies(
            i >= first,
            q.all(
                idle(q, s, new(i)),
                q.every_below(
                    t.table_len(p),
                    lambda j: q.implies(j > i, q.all(new(j) != new(i), q.no(must_go_before(q, x, new(j), new(i))))),
                ),
                q.every_block(
                    lambda c: q.implies(
                        q.all(idle(q, s, c), q.no(in_table(q, t, p, 0, c))),
                        q.no(must_go_before(q, x, c, new(i))),
                    )
                ),
            ),
        ),
    )


def pools_lose_only_the_table(q: Logic, x: Transition) -> Claim:
    """Blocks of the table left the two pools; all others stay, in unchanged order."""
    s, t, p = x.before, x.after, x.seq_id

    def kept(b: Any) -> Claim:
        return q.no(in_table(q, t, p, 0, b))

    def order(b: Any, c: Any) -> Claim:
        return q.implies(
            q.all(kept(b), kept(c)),
            q.all(
                q.any(
                    x.variants.free_list == "any order",
                    q.iff(t.ahead_in_free(b, c), s.ahead_in_free(b, c)),
                ),
                q.iff(t.older(b, c), s.older(b, c)),
            ),
        )

    return q.all(
        q.every_block(
            lambda b: q.all(
                q.implies(kept(b), t.times_free(b) == s.times_free(b)),
                q.implies(kept(b), t.times_evictable(b) == s.times_evictable(b)),
                q.implies(q.no(kept(b)), q.all(t.times_free(b) == 0, t.times_evictable(b) == 0)),
            )
        ),
        q.every_block(lambda b: q.every_block(lambda c: order(b, c))),
    )


def mappings(q: Logic, x: Transition, first_new: Number, registers: Any) -> tuple[Claim, Claim]:
    """The mapping after an operation that takes the blocks of the table from `first_new` on.

    `registers(i, h)`: the operation gives block i of the table the identity h.
    Two claims: of the identities that it does not register, and of those that it does.
    """
    s, t, p = x.before, x.after, x.seq_id

    def taken(b: Any) -> Claim:
        return in_table(q, t, p, first_new, b)

    def survives(h: Any) -> Claim:
        return q.all(s.mapped(h), q.no(taken(s.block_of(h))))

    def registered(h: Any) -> Claim:
        return q.no(q.every_below(t.table_len(p), lambda i: q.no(registers(i, h))))

    def carried(h: Any) -> Claim:
        return q.no(q.every_block(lambda b: q.no(q.all(t.has_hash(b), t.hash_of(b) == h))))

    def points_at_carrier(h: Any) -> Claim:
        return q.all(
            q.iff(t.mapped(h), carried(h)),
            q.implies(t.mapped(h), q.all(t.has_hash(t.block_of(h)), t.hash_of(t.block_of(h)) == h)),
        )

    keep_all = x.variants.duplicates == "keep all"
    keep_new = x.variants.duplicates == "keep new"
    removed = q.every_identity(
        lambda h: q.implies(
            q.no(registered(h)),
            q.any(
                q.all(keep_all, points_at_carrier(h)),
                q.all(
                    q.no(keep_all),
                    q.iff(t.mapped(h), survives(h)),
                    q.implies(survives(h), t.block_of(h) == s.block_of(h)),
                ),
            ),
        )
    )
    added = q.every_identity(
        lambda h: q.implies(
            registered(h),
            q.any(
                q.all(keep_all, points_at_carrier(h)),
                q.all(
                    q.no(keep_all),
                    t.mapped(h),
                    q.implies(q.all(survives(h), q.no(keep_new)), t.block_of(h) == s.block_of(h)),
                    q.every_below(
                        t.table_len(p),
                        lambda i: q.implies(
                            q.all(registers(i, h), q.any(keep_new, q.no(survives(h)))), t.block_of(h) == t.table(p, i)
                        ),
                    ),
                ),
            ),
        )
    )
    return removed, added


# --- allocate ----------------------------------------------------------------------------------------------


def num_hits(x: Transition) -> Number:
    return x.after.cached(x.seq_id) // x.after.block_size


def num_full(x: Transition) -> Number:
    return x.num_tokens // x.before.block_size


def num_needed(x: Transition) -> Number:
    return (x.num_tokens + x.before.block_size - 1) // x.before.block_size


def hit_by(q: Logic, x: Transition, i: Any, b: Any) -> Claim:
    """b is a block that a hit on block i of the prompt may return."""
    s, h = x.before, x.identity(i)
    return q.all(
        s.cache_on,
        s.mapped(h),
        q.any(
            s.block_of(h) == b,
            q.all(x.variants.duplicates == "keep all", s.has_hash(b), s.hash_of(b) == h),
        ),
    )


def allocate_hits_longest_run(q: Logic, x: Transition) -> Claim:
    """O4. The run is as long as it can be, and cached counts it."""
    s, t, p, n = x.before, x.after, x.seq_id, num_hits(x)
    limit = (x.num_tokens - 1) // s.block_size
    return q.all(
        t.cached(p) == n * s.block_size,
        n <= limit,
        q.every_below(n, lambda i: hit_by(q, x, i, t.table(p, i))),
        q.any(n == limit, q.no(q.all(s.cache_on, s.mapped(x.identity(n))))),
    )


def cached_never_changes(q: Logic, x: Transition) -> Claim:
    """O4. The number of cached tokens of every other sequence stays as it was."""
    return q.every_sequence(lambda p: q.implies(p != x.seq_id, x.after.cached(p) == x.before.cached(p)))


def allocate_table_covers(q: Logic, x: Transition) -> Claim:
    """O5. The table covers exactly the tokens given, and is what was answered; other tables stay."""
    t, p = x.after, x.seq_id
    return q.all(
        t.live(p),
        t.num_tokens(p) == x.num_tokens,
        q.every_below(x.num_tokens, lambda i: t.token(p, i) == x.token(i)),
        t.extra(p) == x.extra,
        t.table_len(p) == num_needed(x),
        x.result_len == num_needed(x),
        q.every_below(num_needed(x), lambda i: t.table(p, i) == x.result(i)),
        others_unchanged(q, x),
    )


def allocate_counts(q: Logic, x: Transition) -> Claim:
    """I4. A hit has one holder more, a new block one, every other block as many as before."""
    s, t, p, n = x.before, x.after, x.seq_id, num_hits(x)
    return q.all(
        q.every_below(n, lambda i: t.ref(t.table(p, i)) == s.ref(t.table(p, i)) + 1),
        q.every_below(t.table_len(p), lambda i: q.implies(i >= n, t.ref(t.table(p, i)) == 1)),
        q.every_block(lambda b: q.implies(q.no(in_table(q, t, p, 0, b)), t.ref(b) == s.ref(b))),
    )


def allocate_takes_in_order(q: Logic, x: Transition) -> Claim:
    """O6. New blocks come from the free list, then from the oldest evictable; the rest of both stays."""
    return q.all(taken_in_order(q, x, num_hits(x)), pools_lose_only_the_table(q, x))


def allocate_registers_block(q: Logic, x: Transition, i: Any, h: Any) -> Claim:
    return q.all(x.before.cache_on, i >= num_hits(x), i < num_full(x), x.identity(i) == h)


def allocate_evicts(q: Logic, x: Transition) -> Claim:
    """O6. Exactly the mappings that point at an evicted block are gone."""
    removed, _ = mappings(q, x, num_hits(x), lambda i, h: allocate_registers_block(q, x, i, h))
    return removed


def allocate_registers(q: Logic, x: Transition) -> Claim:
    """O8. The new full blocks carry the identities of one chain and can be hit; older mappings stay."""
    s, t, p, n = x.before, x.after, x.seq_id, num_hits(x)
    _, added = mappings(q, x, n, lambda i, h: allocate_registers_block(q, x, i, h))
    return q.all(
        q.implies(
            s.cache_on,
            q.all(
                t.chain_len(p) == num_full(x),
                q.every_below(num_full(x), lambda i: t.chain(p, i) == x.identity(i)),
            ),
        ),
        q.implies(q.no(s.cache_on), t.chain_len(p) == 0),
        q.every_below(
            t.table_len(p),
            lambda i: q.implies(
                i >= n,
                q.all(
                    q.iff(t.has_hash(t.table(p, i)), q.all(s.cache_on, i < num_full(x))),
                    q.implies(q.all(s.cache_on, i < num_full(x)), t.hash_of(t.table(p, i)) == x.identity(i)),
                ),
            ),
        ),
        q.every_block(lambda b: q.implies(q.no(in_table(q, t, p, n, b)), same_hash(q, s, t, b))),
        added,
        q.every_sequence(lambda r: q.implies(r != p, same_chain(q, s, t, r))),
    )


def allocate_completes_exactly_if_it_fits(q: Logic, x: Transition) -> Claim:
    """O2. What is needed beyond the hits is at most what is free, less the hits that were idle."""
    return q.iff(
        q.no(x.refused),
        num_needed(x) - x.run_of_hits <= x.before.num_free_blocks - x.idle_in_run,
    )


def allocate_writes_own_blocks(q: Logic, x: Transition) -> Claim:
    """K2. What the caller will write, the positions after the hits, lies in blocks that nobody held."""
    s, t, p, n = x.before, x.after, x.seq_id, num_hits(x)
    return q.every_below(
        t.table_len(p),
        lambda i: q.implies(
            i >= n,
            q.all(
                s.ref(t.table(p, i)) == 0,
                s.holders(t.table(p, i)) == 0,
                q.every_below(n, lambda j: t.table(p, j) != t.table(p, i)),
            ),
        ),
    )


# --- append_slot -------------------------------------------------------------------------------------------


def append_needs_block(x: Transition) -> Claim:
    s, p = x.before, x.seq_id
    return s.num_tokens(p) // s.block_size == s.table_len(p)


def append_first_new(x: Transition) -> Number:
    """Where new blocks begin in the table: at its old length."""
    return x.before.table_len(x.seq_id)


def append_fills(q: Logic, x: Transition) -> Claim:
    s, p = x.before, x.seq_id
    return q.all(s.cache_on, (s.num_tokens(p) + 1) % s.block_size == 0)


def append_completes_exactly_if_it_fits(q: Logic, x: Transition) -> Claim:
    """O2. It needs no block, or one is free."""
    return q.iff(q.no(x.refused), q.any(q.no(append_needs_block(x)), x.before.num_free_blocks >= 1))


def append_extends(q: Logic, x: Transition) -> Claim:
    """O5. One token more, one block more exactly if it was needed, and the answer is the token's slot."""
    s, t, p = x.before, x.after, x.seq_id
    pos = s.num_tokens(p)
    return q.all(
        t.live(p),
        t.num_tokens(p) == pos + 1,
        q.every_below(pos, lambda i: t.token(p, i) == s.token(p, i)),
        t.token(p, pos) == x.token(0),
        t.extra(p) == s.extra(p),
        q.implies(append_needs_block(x), t.table_len(p) == s.table_len(p) + 1),
        q.implies(q.no(append_needs_block(x)), t.table_len(p) == s.table_len(p)),
        q.every_below(s.table_len(p), lambda i: t.table(p, i) == s.table(p, i)),
        x.slot == t.table(p, pos // s.block_size) * s.block_size + pos % s.block_size,
        others_unchanged(q, x),
    )


def append_counts(q: Logic, x: Transition) -> Claim:
    """I4. A new block has one holder; every other block has as many as before."""
    s, t, p, first = x.before, x.after, x.seq_id, append_first_new(x)
    return q.all(
        q.every_below(t.table_len(p), lambda i: q.implies(i >= first, t.ref(t.table(p, i)) == 1)),
        q.every_block(lambda b: q.implies(q.no(in_table(q, t, p, first, b)), t.ref(b) == s.ref(b))),
    )


def append_takes_in_order(q: Logic, x: Transition) -> Claim:
    """O6. A new block is the head of the free list, else the oldest evictable; the rest of both stays."""
    return q.all(taken_in_order(q, x, append_first_new(x)), pools_lose_only_the_table(q, x))


def append_registers_block(q: Logic, x: Transition, i: Any, h: Any) -> Claim:
    t, p = x.after, x.seq_id
    return q.all(append_fills(q, x), i == t.table_len(p) - 1, t.prefix(p, i) == h)


def append_evicts(q: Logic, x: Transition) -> Claim:
    """O6. Exactly the mapping that points at the evicted block is gone."""
    removed, _ = mappings(q, x, append_first_new(x), lambda i, h: append_registers_block(q, x, i, h))
    return removed


def append_registers(q: Logic, x: Transition) -> Claim:
    """O8. A block that becomes full gets the next identity of the sequence's chain; an older mapping stays."""
    s, t, p, first = x.before, x.after, x.seq_id, append_first_new(x)
    last = t.table(p, t.table_len(p) - 1)
    filled = append_fills(q, x)
    _, added = mappings(q, x, first, lambda i, h: append_registers_block(q, x, i, h))
    return q.all(
        q.every_below(s.chain_len(p), lambda i: t.chain(p, i) == s.chain(p, i)),
        q.implies(
            filled,
            q.all(
                t.chain_len(p) == s.chain_len(p) + 1,
                t.chain(p, s.chain_len(p)) == t.prefix(p, s.chain_len(p)),
                t.has_hash(last),
                t.hash_of(last) == t.prefix(p, t.table_len(p) - 1),
            ),
        ),
        q.implies(
            q.no(filled),
            q.all(
                t.chain_len(p) == s.chain_len(p),
                q.implies(append_needs_block(x), q.no(t.has_hash(last))),
            ),
        ),
        q.every_block(
            lambda b: q.implies(
                q.no(q.any(in_table(q, t, p, first, b), q.all(filled, b == last))), same_hash(q, s, t, b)
            )
        ),
        added,
        q.every_sequence(lambda r: q.implies(r != p, same_chain(q, s, t, r))),
    )


def append_keeps_cached(q: Logic, x: Transition) -> Claim:
    """O4. Nothing changes the number of cached tokens of any sequence."""
    return q.every_sequence(lambda p: x.after.cached(p) == x.before.cached(p))


def append_writes_own_block(q: Logic, x: Transition) -> Claim:
    """K2. The block written is held by this sequence alone and carries no identity from before."""
    s, t, p = x.before, x.after, x.seq_id
    last = t.table(p, t.table_len(p) - 1)
    return q.all(
        t.holders(last) == 1,
        q.implies(append_needs_block(x), s.ref(last) == 0),
        q.implies(q.no(append_needs_block(x)), q.no(s.has_hash(last))),
    )


# --- free --------------------------------------------------------------------------------------------------


def free_never_refuses(q: Logic, x: Transition) -> Claim:
    """O2. There is always room to give something back."""
    return q.no(x.refused)


def free_counts(q: Logic, x: Transition) -> Claim:
    """I4. Each block of the table has one holder less, every other block as many as before."""
    s, t, p = x.before, x.after, x.seq_id
    return q.all(
        q.every_below(s.table_len(p), lambda i: t.ref(s.table(p, i)) == s.ref(s.table(p, i)) - 1),
        q.every_block(lambda b: q.implies(q.no(in_table(q, s, p, 0, b)), t.ref(b) == s.ref(b))),
    )


def free_ends_records(q: Logic, x: Transition) -> Claim:
    """O7. The sequence's records are gone, and nobody else's."""
    return q.all(
        q.no(x.after.live(x.seq_id)),
        q.every_sequence(lambda p: q.implies(p != x.seq_id, same_records(q, x.before, x.after, p))),
    )


def free_returns_deepest_first(q: Logic, x: Transition) -> Claim:
    """O7. Blocks without a holder join the newest end, deepest first; older entries keep their order."""
    s, t, p = x.before, x.after, x.seq_id

    def returned(b: Any) -> Claim:
        return q.all(in_table(q, s, p, 0, b), s.ref(b) == 1)

    def deeper(b: Any, c: Any) -> Claim:
        return q.no(
            q.every_below(
                s.table_len(p),
                lambda i: q.no(
                    q.all(s.table(p, i) == c, in_table(q, s, p, i + 1, b)),
                ),
            )
        )

    def ahead(b: Any, c: Any, was_ahead: Claim) -> Claim:
        return q.any(
            q.all(q.no(returned(b)), q.no(returned(c)), was_ahead),
            q.all(q.no(returned(b)), returned(c)),
            q.all(returned(b), returned(c), deeper(b, c)),
        )

    def order(b: Any, c: Any) -> Claim:
        return q.implies(
            b != c,
            q.all(
                q.implies(
                    q.all(t.times_evictable(b) > 0, t.times_evictable(c) > 0),
                    q.iff(t.older(b, c), ahead(b, c, s.older(b, c))),
                ),
                q.implies(
                    q.all(x.variants.free_list == "fifo", t.times_free(b) > 0, t.times_free(c) > 0),
                    q.iff(t.ahead_in_free(b, c), ahead(b, c, s.ahead_in_free(b, c))),
                ),
            ),
        )

    def gained(b: Any, to_evictable: Claim) -> Claim:
        return q.all(returned(b), to_evictable)

    return q.all(
        q.every_block(
            lambda b: q.all(
                q.implies(gained(b, s.has_hash(b)), q.all(t.times_evictable(b) == 1, t.times_free(b) == 0)),
                q.implies(gained(b, q.no(s.has_hash(b))), q.all(t.times_free(b) == 1, t.times_evictable(b) == 0)),
                q.implies(
                    q.no(returned(b)),
                    q.all(t.times_free(b) == s.times_free(b), t.times_evictable(b) == s.times_evictable(b)),
                ),
            )
        ),
        q.every_block(lambda b: q.every_block(lambda c: order(b, c))),
    )


def free_keeps_identities(q: Logic, x: Transition) -> Claim:
    """O7. What can be hit does not change: every identity and every mapping stays."""
    s, t = x.before, x.after
    return q.all(
        q.every_block(lambda b: same_hash(q, s, t, b)),
        q.every_identity(lambda h: same_mapping(q, s, t, h)),
    )


# --- refusals, reads, the cache switched off, the memory ------------------------------------------------------


def refusal_changes_nothing(q: Logic, x: Transition) -> Claim:
    """O1."""
    return q.implies(x.refused, nothing_changed(q, x.before, x.after))


def nothing_cached(q: Logic, s: View) -> Claim:
    """O9. With the prefix cache off nothing has an identity, nothing is mapped, nothing was hit."""
    return q.implies(
        q.no(s.cache_on),
        q.all(
            s.num_listed_evictable == 0,
            q.every_block(lambda b: q.no(s.has_hash(b))),
            q.every_identity(lambda h: q.no(s.mapped(h))),
            q.every_sequence(lambda p: q.all(s.cached(p) == 0, s.chain_len(p) == 0)),
        ),
    )


def table_covers_tokens(q: Logic, s: View) -> Claim:
    """O5. A live sequence has exactly the blocks that its tokens need."""
    return q.every_sequence(
        lambda p: q.implies(s.live(p), s.table_len(p) == (s.num_tokens(p) + s.block_size - 1) // s.block_size)
    )


def slot_is(q: Logic, s: View, p: Any, pos: Number, answer: Number) -> Claim:
    """O5. Where the K/V of token `pos` is."""
    return answer == s.table(p, pos // s.block_size) * s.block_size + pos % s.block_size


def can_allocate_is_coarse(q: Logic, s: View, num_tokens: Number, answer: Claim) -> Claim:
    """O3. Whether the prompt would fit if nothing were hit."""
    return q.iff(answer, (num_tokens + s.block_size - 1) // s.block_size <= s.num_free_blocks)


def memory_is_faithful(q: Logic, s: View) -> Claim:
    """K1. Whatever a live sequence reads through its table is the K/V of its own prefix."""
    return q.every_sequence(
        lambda p: q.implies(
            s.live(p),
            q.every_below(
                s.num_tokens(p),
                lambda i: s.cell(s.table(p, i // s.block_size), i % s.block_size) == s.prefix_of_token(p, i),
            ),
        )
    )
