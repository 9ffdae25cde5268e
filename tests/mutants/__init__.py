"""Planted bugs: each a small subclass of `kvblocks.BlockManager` that breaks the specification in one way.

A check that no mutant can fail is not a check. `MUTANTS` lists them all, each with the obligations of which
it can truthfully be said, from outside, that it breaks them: an audit must name at least one of these.
"""

from dataclasses import dataclass

from kvblocks import BlockManager
from mutants import capacity, extra, identity, matching, misuse, pool, records, seed


@dataclass(frozen=True)
class Mutant:
    """One planted bug. `misuse`: it answers every legal call as it should."""

    cls: type[BlockManager]
    names: tuple[str, ...]
    misuse: bool = False

    @property
    def by_extra(self) -> bool:
        """It shows only in sequences that depend on more than their tokens."""
        return self.cls.__module__ == extra.__name__


MUTANTS: tuple[Mutant, ...] = (
    Mutant(seed.HashesPartialBlock, ("O8", "O4", "K1", "O6", "O2")),
    Mutant(seed.MatchesWholePrompt, ("I5", "O4", "O2")),
    Mutant(seed.ChainStartsElsewhere, ("O8", "O4", "O2")),
    Mutant(seed.DeletesMappingUnconditionally, ("O6", "O4", "O2")),
    Mutant(seed.FreesInForwardOrder, ("O7", "O6")),
    Mutant(seed.AllocateUsesCoarseCheck, ("O2",)),
    Mutant(seed.CanAllocateCountsHits, ("O3",)),
    Mutant(seed.AllocateUsesNaiveCheck, ("O1",)),
    Mutant(seed.LeavesHitInPool, ("I1", "I8")),
    Mutant(seed.AppendsTokenBeforeTaking, ("O1", "O5", "O2", "K1", "K2")),
    Mutant(identity.IdentifiesBlockByItsTokensAlone, ("O4", "K1", "O2")),
    Mutant(identity.IgnoresTokenOrder, ("O4", "K1", "O2")),
    Mutant(identity.TruncatesTokenIds, ("O4", "K1", "O2")),
    Mutant(identity.ChainsThroughPartialBlock, ("O8", "O4", "O6", "O2")),
    Mutant(identity.FilledBlockHasOldWindow, ("O8", "O4", "K1", "O2")),
    Mutant(identity.FilledBlockIsNotRegistered, ("O8", "O4", "O6", "O2")),
    Mutant(identity.AppendDoesNotExtendChain, ("O8", "O4", "K1", "O2")),
    Mutant(identity.SharesChainWithTwin, ("O8", "O4", "K1", "O2")),
    Mutant(identity.NewestMappingWins, ("O8", "O4", "O2")),
    Mutant(identity.TakesAndRegistersBlockByBlock, ("O8", "O4", "O2")),
    Mutant(identity.RegistersOnlyWhenFreed, ("O8", "O4", "O2")),
    Mutant(identity.RegistersWithCacheOff, ("O9", "O2")),
    Mutant(extra.SaltIsNoKey, ("O4", "K1", "O2")),
    Mutant(extra.LoraIsNoKey, ("O4", "K1", "O2")),
    Mutant(extra.LoraVersionIsNoKey, ("O4", "K1", "O2")),
    Mutant(extra.LoraIsUntagged, ("O4", "K1", "O2")),
    Mutant(extra.LoraRunsTogether, ("O4", "K1", "O2")),
    Mutant(extra.ImageIsNoKey, ("O4", "K1", "O2")),
    Mutant(extra.ImageHashIsCutShort, ("O4", "K1", "O2")),
    Mutant(extra.ImagePlaceIsNoKey, ("O4", "K1", "O2")),
    Mutant(extra.ImageIsKeyedWhereItEnds, ("O4", "K1", "O2")),
    Mutant(extra.FilledBlockForgetsExtra, ("O8", "O4", "K1", "O2")),
    Mutant(extra.KeepsExtraAfterFree, ("O8", "O4", "K1", "O2")),
    Mutant(matching.MatchesPastMiss, ("O4", "K1", "O2")),
    Mutant(matching.MatchesOneBlockTooFew, ("O4", "O2")),
    Mutant(matching.TreatsBlockZeroAsMiss, ("O4", "O2")),
    Mutant(matching.NeverHitsIdleBlocks, ("O4", "O2")),
    Mutant(matching.SharesPartialBlock, ("I6", "K2", "I8")),
    Mutant(pool.KeepsMappingOnEviction, ("O6", "O4", "K1", "O2")),
    Mutant(pool.KeepsHashOnEviction, ("O6", "O7")),
    Mutant(pool.EvictsNewest, ("O6",)),
    Mutant(pool.EvictsBeforeFreeList, ("O6",)),
    Mutant(pool.EvictsOldestRegistered, ("O6",)),
    Mutant(pool.FreesDuplicateToFreeList, ("O7", "O6", "O8")),
    Mutant(pool.DropsCacheWhenIdle, ("O7", "O4", "O6", "O2")),
    Mutant(pool.RevivingDropsIdentity, ("O4", "O6", "O2")),
    Mutant(pool.SharesWithoutReference, ("I4", "I8")),
    Mutant(pool.ReleasesSharedBlockTwice, ("I4", "I8")),
    Mutant(pool.LeaksSharedBlock, ("I4", "I8")),
    Mutant(pool.ListsFreeBlockTwice, ("I1", "I8")),
    Mutant(capacity.RefusesLastBlock, ("O2",)),
    Mutant(capacity.AppendIgnoresEvictable, ("O2",)),
    Mutant(capacity.CountsOnlyFreeList, ("I1", "I8")),
    Mutant(capacity.CanAllocateIgnoresEvictable, ("O3",)),
    Mutant(capacity.CanAllocateRoundsDown, ("O3",)),
    Mutant(capacity.KeepsPinsAfterRefusal, ("O1", "I4", "I8")),
    Mutant(capacity.RefusalFlushesCache, ("O1", "O4", "O6", "O2")),
    Mutant(capacity.RefusedIdStaysLive, ("O1", "O2")),
    Mutant(records.SlotOffsetOffByOne, ("O5",)),
    Mutant(records.AppendReturnsSlotOfOldBlock, ("O5", "K2")),
    Mutant(records.TakesBlockForNextToken, ("O5", "I8")),
    Mutant(records.CountsFilledBlockAsCached, ("O4", "I5")),
    Mutant(records.CountsCachedInBlocks, ("O4", "I5")),
    Mutant(records.KeepsCachedCountAfterFree, ("O4", "I5")),
    Mutant(records.KeepsCallersList, ("O11", "O5", "O4", "O2")),
    Mutant(records.ReturnsOwnTable, ("O11", "O5")),
    Mutant(records.BlockTableIsNotACopy, ("O11", "O5")),
    Mutant(records.CanAllocateTouchesPool, ("O11", "O6")),
    Mutant(records.CanAllocateEvicts, ("O11", "O4", "O6", "O2")),
    Mutant(records.CachedCountIsReadOnce, ("O11", "O4")),
    Mutant(records.NextSlotIsNotAdvanced, ("O5", "K2")),
    Mutant(records.EndIsNotMoved, ("O5", "K2", "I8")),
    Mutant(records.RefusalMovesNextSlot, ("O5", "O1", "K2")),
    Mutant(records.SharesRecordWithTwin, ("I6", "K2", "I8")),
    Mutant(misuse.ReallocatesLiveId, ("O10",), misuse=True),
    Mutant(misuse.AcceptsEmptyPrompt, ("O10",), misuse=True),
    Mutant(misuse.AcceptsNegativePosition, ("O10",), misuse=True),
    Mutant(misuse.AcceptsPositionPastTheEnd, ("O10",), misuse=True),
    Mutant(misuse.WrapsTokenIds, ("O10",), misuse=True),
    Mutant(misuse.AppendTakesBeforeChecking, ("O10",), misuse=True),
    Mutant(misuse.FreesTwice, ("O10",), misuse=True),
    Mutant(misuse.RoundsSizesUp, ("O10",), misuse=True),
)
