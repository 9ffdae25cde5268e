"""What is said between the auditor and a target, one JSON object a line.

The auditor speaks first and the target answers each line with one line, in order:

    start                       -> started    who the target is and what it offers
    open  {pool}                -> opened     a fresh pool; the one before is forgotten
                                or failed     the pool could not be made
    run   {program}             -> ran        a list of operations, and one outcome for each
    stop                        -> (the target exits)

The same types serve a target in this process, where they are passed as objects and never encoded.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from kvspec.extra import Extra, Image, Lora, Salt, extra_of

VERSION = 1
"""Version of the protocol. A target that speaks another one is not started."""

MAX_TOKEN = 2**32 - 1
"""The largest token id that a caller may give; the least is 0."""


LevelName = Literal["manager", "scheduler"]
MANAGER: LevelName = "manager"
SCHEDULER: LevelName = "scheduler"
"""At which level a target is driven: a block manager by the auditor as its scheduler, or a scheduler as a whole."""

DEFAULT_PROFILES: dict[LevelName, str] = {MANAGER: "seed", SCHEDULER: "scheduler"}
"""The rules of a target that names none."""

Setting = bool | int | float | str | None


class Pool(msgspec.Struct, frozen=True):
    """The pool that a manager is to manage: `num_blocks` blocks of `block_size` tokens each.

    settings: of a scheduler, those that are not left at its default.
    """

    num_blocks: int
    block_size: int
    enable_prefix_cache: bool = True
    settings: dict[str, Setting] | msgspec.UnsetType = msgspec.UNSET

    @property
    def configuration(self) -> dict[str, Setting]:
        """The settings; none at manager level."""
        return {} if self.settings is msgspec.UNSET else self.settings


class Extras(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the KV of a sequence depends on beside its tokens (`kvspec.extra`), as a caller says it."""

    salt: str | None = None
    lora: Lora | None = None
    images: tuple[Image, ...] = ()

    @classmethod
    def of(cls, extra: Extra) -> Extras:
        """The same, of what the specification makes of it."""
        if not extra:
            return NOTHING
        salt = next((item.value for item in extra if isinstance(item, Salt)), None)
        lora = next((item for item in extra if isinstance(item, Lora)), None)
        return cls(salt, lora, tuple(item for item in extra if isinstance(item, Image)))

    @property
    def items(self) -> Extra:
        """What the specification makes of it."""
        return () if self is NOTHING else extra_of(self.salt, self.lora, self.images)

    def named(self) -> dict[str, Any]:
        """The keyword arguments of a method that takes it: plain values, and only those that say something."""
        given: dict[str, Any] = {} if self.salt is None else {"salt": self.salt}
        if self.lora is not None:
            given["lora"] = (self.lora.id, self.lora.version)
        if self.images:
            given["images"] = [(image.content_hash, image.start, image.length) for image in self.images]
        return given


NOTHING = Extras()
"""It depends on its tokens alone."""

EXTRAS: tuple[str, ...] = Extras.__struct_fields__
"""The kinds of it: a target whose `allocate` takes an argument of that name is given it."""


# --- operations --------------------------------------------------------------------------------------------


class _Operation(msgspec.Struct, frozen=True, tag_field="op", tag=str.lower):
    pass


class Allocate(_Operation, frozen=True, omit_defaults=True):
    """Start sequence `seq` with a prompt. Returns its block table."""

    seq: str
    tokens: tuple[int, ...]
    extra: Extras = NOTHING

    def __post_init__(self) -> None:
        if self.extra is not NOTHING and self.extra == NOTHING:  # a copy, from another process say
            msgspec.structs.force_setattr(self, "extra", NOTHING)


class Append(_Operation, frozen=True):
    """Add a token to a live sequence. Returns its slot."""

    seq: str
    token: int


class Free(_Operation, frozen=True):
    """End a live sequence. Returns nothing."""

    seq: str


class Submit(_Operation, frozen=True):
    """A request arrives at a scheduler, and waits. Returns nothing."""

    seq: str
    tokens: tuple[int, ...]
    max_new_tokens: int


class Step(_Operation, frozen=True):
    """Schedule, compute, sample, update. Returns the work that was done (`kvaudit.scheduling.work`).

    Whoever samples gets `token`. cancel: requests whose cancellation arrives while the step computes.
    """

    token: int
    cancel: tuple[str, ...] = ()


class Cancel(_Operation, frozen=True):
    """A request that is not finished is given up, between two steps. Returns nothing."""

    seq: str


class Slot(_Operation, frozen=True):
    """Where the K/V of token `pos` is."""

    seq: str
    pos: int


class CanAllocate(_Operation, frozen=True, tag="can_allocate"):
    """The coarse check of a prompt's length."""

    num_tokens: int


class Observe(_Operation, frozen=True):
    """Everything that can be read: answered with `Observed`."""


class Scribble(_Operation, frozen=True):
    """Overwrite the lists that the last operation took and returned, as a careless caller might."""


class Call(_Operation, frozen=True):
    """A raw call, for misuse. With `fail_at`, iterating the last argument raises at that index.

    named: its keyword arguments.
    """

    method: str
    args: tuple[Any, ...]
    fail_at: int | None = None
    named: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET


Mutation = Allocate | Append | Free
"""What a caller does to a block manager."""

Request = Submit | Step | Cancel
"""What a server does to a scheduler."""

Operation = Mutation | Request | Slot | CanAllocate | Observe | Scribble | Call
AnyMutation = Mutation | Request
Program = tuple[AnyMutation, ...]
ManagerProgram = tuple[Mutation, ...]


# --- outcomes ----------------------------------------------------------------------------------------------


class _Outcome(msgspec.Struct, frozen=True, tag_field="outcome", tag=str.lower):
    pass


class Returned(_Outcome, frozen=True):
    """The operation completed."""

    value: Any = None


class Refused(_Outcome, frozen=True):
    """The operation was refused for want of blocks."""

    error: str = "OutOfBlocks"


HANG = "Hang"
"""The error of a call that did not return in time. It ends the program."""


class Raised(_Outcome, frozen=True):
    """The operation ended in an exception that is no refusal. `named`: its class says what was wrong."""

    error: str
    message: str = ""
    named: bool = True
    where: str = ""


def is_hang(outcome: Any) -> bool:
    """Whether this ended a program early: the target did not answer in time."""
    return isinstance(outcome, Raised) and outcome.error == HANG


class State(msgspec.Struct, frozen=True):
    """The manager's own structures, under the names of the seed; None where they cannot be seen.

    A key of `block_hash`, `hash_to_block` and `hashes` is opaque: it is only compared with other keys.
    """

    free: tuple[int, ...] | None = None
    evictable: tuple[int, ...] | None = None
    ref: tuple[int, ...] | None = None
    block_hash: tuple[Any, ...] | None = None
    hash_to_block: dict[Any, int] | None = None
    tables: dict[str, tuple[int, ...]] | None = None
    tokens: dict[str, tuple[int, ...]] | None = None
    hashes: dict[str, tuple[Any, ...]] | None = None
    cached: dict[str, int] | None = None


class Observed(_Outcome, frozen=True):
    """What the reads say; None where the target does not offer the read."""

    num_free_blocks: Any = None
    tables: dict[str, Any] | None = None
    cached: dict[str, Any] | None = None
    state: State | None = None


class Unsupported(_Outcome, frozen=True):
    """The answer to a raw call that the program cannot make: of this kind of misuse nothing is said."""


Outcome = Returned | Refused | Raised | Observed | Unsupported


# --- messages ----------------------------------------------------------------------------------------------


class _Message(msgspec.Struct, frozen=True, tag_field="type", tag=str.lower):
    pass


class Start(_Message, frozen=True):
    """The first message."""

    protocol: int = VERSION


class Open(_Message, frozen=True):
    """Make a fresh pool."""

    pool: Pool


class Run(_Message, frozen=True):
    """Execute a program on the open pool, to its end whatever the outcomes."""

    program: list[Operation]


class Stop(_Message, frozen=True):
    """The last message."""


class Started(_Message, frozen=True):
    """Who the target is.

    capabilities: the names of the methods that it offers, and of EXTRAS those that its allocate takes. profile: the
    rules to which it wants to be held, by name, or all of them (the fields of `kvaudit.profiles.Profile`); empty: the
    usual ones of its level. stubs: modules that were replaced. notes: what a reader of the report should know.
    settings: of a scheduler, the values among which each is drawn.
    """

    name: str
    capabilities: list[str]
    version: str = ""
    profile: str | dict[str, Any] = ""
    stubs: list[str] = []
    notes: list[str] = []
    settings: dict[str, list[Setting]] | msgspec.UnsetType = msgspec.UNSET
    protocol: int = VERSION


class Opened(_Message, frozen=True):
    """The pool is ready."""


class Failed(_Message, frozen=True):
    """The target could not do what the message asked for."""

    error: str
    message: str = ""
    named: bool = True


class Ran(_Message, frozen=True):
    """One outcome for each operation of the program."""

    outcomes: list[Outcome]


Question = Start | Open | Run | Stop
Answer = Started | Opened | Ran | Failed


def schema() -> dict[str, Any]:
    """The JSON Schema of every message."""
    (questions, answers), definitions = msgspec.json.schema_components(
        [Question, Answer], ref_template="#/$defs/{name}"
    )
    made = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"kvaudit protocol {VERSION}: what the auditor asks, and what the target answers",
        "$defs": {**definitions, "Question": questions, "Answer": answers},
        "anyOf": [{"$ref": "#/$defs/Question"}, {"$ref": "#/$defs/Answer"}],
    }
    plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(made))  # defaults as JSON has them
    return plain
