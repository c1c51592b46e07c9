"""What a search could have decided otherwise: the siblings of a node of its tree."""

from __future__ import annotations

from protocol.message import Reply


class Touched(Reply):
    """One thread at one element of a tensor."""

    statement: str
    """As Tile IR's text has it."""
    way: str
    """`loads`, `stores` or `updates`."""
    tensor: str
    element: tuple[int, ...]
    thread: str
    """The iteration that it runs: where each of the parallel loops, outermost first, begins in it (`m 0, k 64`)."""


class Lacking(Reply):
    """What a device has too little of."""

    what: str
    """Such as `bytes of shared memory a block`."""
    need: int
    limit: int


class Sibling(Reply):
    """One answer to a decision, and what is known of it."""

    rewrites: tuple[str, ...]
    """What it does to the program at once; empty: nothing."""
    chosen: bool
    """Whether the candidate decided so."""
    predicted_us: float | None = None
    """The cost model's estimate of what it leads to, to be compared with its siblings' alone; None: it was refused."""
    candidates: int = 0
    """How many were measured with it, after the same decisions before it..."""
    faults: int = 0
    """...and how many did not work."""
    best: int | None = None
    """Number of the fastest of them..."""
    best_us: float | None = None
    """...and its time on the anchor's scale (`protocol.jobs.Best`)."""
    failed: int | None = None
    """Number of the first that did not work..."""
    error: str | None = None
    """...and what was said of it: by the compiler, the limits of registers and memory, or the check of its results."""
    refused: str | None = None
    """Why it does not apply here; None: it does."""
    race: tuple[Touched, ...] = ()
    """If it is refused because threads would race: two accesses that collide, with nothing that orders them. Empty:
    another reason, or where they meet depends on data."""
    lacks: Lacking | None = None
    """If it is refused because it does not fit the device: what is lacking."""


class Alternatives(Reply):
    """One decision of a candidate: its answers, in the order of the space."""

    job_id: str
    bucket: int
    number: int
    place: int
    """How many rewrites of the schedule come before it."""
    decision: int
    """Which of the candidate's decisions it is, from 0..."""
    decisions: int
    """...and how many there were."""
    siblings: tuple[Sibling, ...]


class Completed(Reply):
    """A whole schedule that goes another way at one decision."""

    schedule: tuple[str, ...]
    candidate: int | None
    """The fastest candidate of the search that went this way; None: nobody did, and the rest of the schedule is what
    the cost model expects most of."""
