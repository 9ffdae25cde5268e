"""I1 - I8: what holds between any two operations."""

from __future__ import annotations

from kvspec.logic import Claim, Logic, View


def i1_free_blocks_add_up(q: Logic, s: View) -> Claim:
    return q.all(
        s.num_free_blocks == s.num_listed_free + s.num_listed_evictable,
        q.every_block(lambda b: q.no(q.all(s.times_free(b) > 0, s.times_evictable(b) > 0))),
        q.every_block(lambda b: q.implies(q.any(s.times_free(b) > 0, s.times_evictable(b) > 0), s.ref(b) == 0)),
    )


def i2_evictable_is_idle_with_identity(q: Logic, s: View) -> Claim:
    return q.every_block(lambda b: q.iff(s.times_evictable(b) > 0, q.all(s.ref(b) == 0, s.has_hash(b))))


def i3_mapping_points_at_its_content(q: Logic, s: View) -> Claim:
    return q.every_identity(
        lambda h: q.implies(s.mapped(h), q.all(s.has_hash(s.block_of(h)), s.hash_of(s.block_of(h)) == h))
    )


def i4_ref_counts_holders(q: Logic, s: View) -> Claim:
    return q.every_block(lambda b: s.ref(b) == s.holders(b))


def i5_cached_is_whole_blocks_and_not_all(q: Logic, s: View) -> Claim:
    return q.every_sequence(
        lambda p: q.implies(
            s.live(p),
            q.all(s.cached(p) >= 0, s.cached(p) % s.block_size == 0, s.cached(p) < s.num_tokens(p)),
        )
    )


def i6_partial_block_is_private(q: Logic, s: View) -> Claim:
    def last(p: object) -> Claim:
        return s.table(p, s.table_len(p) - 1)

    return q.every_sequence(
        lambda p: q.implies(
            q.all(s.live(p), s.num_tokens(p) % s.block_size != 0),
            q.all(s.ref(last(p)) == 1, q.no(s.has_hash(last(p)))),
        )
    )


def i7_full_blocks_carry_their_chain(q: Logic, s: View) -> Claim:
    def full(p: object) -> Claim:
        return s.num_tokens(p) // s.block_size

    return q.every_sequence(
        lambda p: q.implies(
            s.live(p),
            q.all(
                q.implies(
                    s.cache_on,
                    q.every_below(
                        full(p),
                        lambda i: q.all(s.has_hash(s.table(p, i)), s.hash_of(s.table(p, i)) == s.chain(p, i)),
                    ),
                ),
                q.every_sequence(
                    lambda r: q.implies(
                        s.live(r),
                        q.every_below(
                            s.table_len(p),
                            lambda i: q.every_below(
                                s.table_len(r),
                                lambda j: q.implies(s.table(p, i) == s.table(r, j), i == j),
                            ),
                        ),
                    )
                ),
            ),
        )
    )


def i8_each_block_in_one_place(q: Logic, s: View) -> Claim:
    def once(b: object) -> Claim:
        free, evictable, held = s.times_free(b), s.times_evictable(b), s.holders(b)
        return q.any(
            q.all(free == 1, evictable == 0, held == 0),
            q.all(free == 0, evictable == 1, held == 0),
            q.all(free == 0, evictable == 0, held >= 1),
        )

    return q.all(q.every_block(once), s.num_free_blocks + s.num_held == s.num_blocks)
