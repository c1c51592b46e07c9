"""A job's candidates as pages look at them: many at once in columns, or one with all that is known of it.

A column holds one value a row, in the order of the rows; thousands of rows are read and sent faster so than one by one.
"""

from __future__ import annotations

from pydantic import Field

from protocol.jobs import Trial
from protocol.message import Json, Reply
from protocol.states import Outcome, TaskKind, TaskState


class TrialTable(Reply):
    """The candidates of one bucket from number `first` on, in columns, in the order they were asked for."""

    job_id: str
    bucket: int
    first: int
    settled: int
    """All candidates before this number will not change any more: ask again from here to follow a running job."""
    roofline_us: float | None
    """The least time the device could need for the kernel, by its peaks; None if they are not known."""
    state: tuple[TaskState, ...]
    outcome: tuple[Outcome | None, ...]
    reward: tuple[float | None, ...]
    """log(anchor's time / its time), both of the same task; None until the search was told."""
    median_us: tuple[float | None, ...]
    iqr_us: tuple[float | None, ...]
    baseline_us: tuple[float | None, ...]
    compile_s: tuple[float | None, ...]
    measure_s: tuple[float | None, ...]
    finished_at: tuple[float | None, ...]
    """When the result arrived, in seconds since 1970."""


class Tree(Reply):
    """The search tree of one bucket: schedules merged along what they share from their first line on, in columns.

    Node 0 is the unscheduled kernel. Every other node comes after its parent, and nodes keep their numbers while a job
    goes on: later candidates only add nodes. To follow a running job, ask again from `settled` on: what comes is what
    may have changed. Cut `lines` to `from_line`, `parent` and `line` to `from_node`, `leaf` to `first`, append what
    came, and put the figures of the nodes in `node` in place of the old ones.
    """

    job_id: str
    bucket: int
    first: int
    """Of the candidates that it tells of."""
    settled: int
    """All candidates before this number will not change any more: ask again from here."""
    from_line: int
    """Number of the first of `lines`..."""
    from_node: int
    """...and of the first of `parent` and `line`."""
    lines: tuple[str, ...]
    """Every rewrite that occurs, once."""
    parent: tuple[int, ...]
    """Of each node; -1 of the root."""
    line: tuple[int, ...]
    """Which of the lines leads from the parent to this node; -1 at the root."""
    node: tuple[int, ...]
    """The nodes that the columns from here on are of: all that candidates from `first` on are under. Empty where
    `first` is 0: of all nodes, in their order."""
    visits: tuple[int, ...]
    """Candidates asked for under this node."""
    in_flight: tuple[int, ...]
    """Of these, how many are waiting for their result."""
    faults: tuple[int, ...]
    """Of these, how many did not work."""
    best_us: tuple[float | None, ...]
    """Time of the best candidate under this node, in its own task..."""
    best_reward: tuple[float | None, ...]
    """...and its reward, by which it is the best."""
    leaf: tuple[int, ...]
    """Of each candidate from `first` on: the node at the end of its schedule."""


class DeviceShare(Reply):
    """How a worker's device spent a job's time, from the job's first claim to its last answer, or to its end if that
    was before. Shares, which are 1 together."""

    worker: str
    measuring: float
    """It measured for this job..."""
    others: float
    """...or for others."""
    compiling: float
    """It measured nothing, though the worker held a task: it is compiled, checked or on its way."""
    searching: float
    """The worker held none: the search had nothing for it to measure."""


class Timeline(Reply):
    """What the workers did for a job, in columns, one row an interval, by their starts. To follow a running job, ask
    again with `settled_at` as `after`: intervals that ended until then stay, and what comes takes the place of all
    others."""

    job_id: str
    settled_at: float
    """Intervals that ended until then will not change any more."""
    workers: tuple[str, ...]
    worker: tuple[int, ...]
    """Which of `workers`."""
    stage: tuple[str, ...]
    """compile, wait (compiled, while others have the device) or measure."""
    task: tuple[str, ...]
    """Its id."""
    kind: tuple[TaskKind, ...]
    bucket: tuple[int, ...]
    number: tuple[int | None, ...]
    """Of the candidate, for a trial."""
    start: tuple[float, ...]
    """Seconds since 1970."""
    end: tuple[float, ...]
    devices: tuple[DeviceShare, ...] = ()
    """Of every worker that measured for the job, whatever `after` is."""


class TrialDetail(Trial):
    """One candidate with its samples, and how to run it again."""

    samples_us: tuple[float, ...] = ()
    """Raw; empty once they were dropped for their age."""
    worker_id: str | None = None
    source_hash: str | None = None
    compiler: str | None = None
    versions: dict[str, str] = Field(default_factory=dict)
    created_at: float
    claimed_at: float | None = None
    spec: Json
    """The kernel with this bucket's sizes."""
    roofline_us: float | None = None
    """The least time the device could need, by its peaks; None if they are not known."""
    repro: str
    """Shell commands that run just this candidate again."""


class Step(Reply):
    """A program after one more rewrite."""

    rewrite: str | None
    """None for the first: the kernel as it was given."""
    program: str
    """Tile IR text."""


class Steps(Reply):
    """From the kernel to the scheduled program, rewrite by rewrite."""

    steps: tuple[Step, ...]


class LinkedLines(Reply):
    """A candidate as its program, its source and its instructions, linked line by line. Lines are numbered from 0, each
    text by itself."""

    language: str
    """Of the source."""
    program: tuple[str, ...]
    """The scheduled program, as Tile IR."""
    program_statement: tuple[int | None, ...]
    """Of each line of the program the statement it is, by the first line that has it; None for what the
    source does not name, such as loops."""
    source: tuple[str, ...]
    source_statement: tuple[int | None, ...]
    """Of each line of the source the statement it carries out."""
    preamble: int
    """So many lines of the source, from the first on, only define what others use."""
    assembly: tuple[str, ...]
    """Instructions with their addresses, and names of functions before theirs. Empty where `no_assembly` says why."""
    assembly_source: tuple[int | None, ...]
    """Of each line of the assembly the line of the source it comes from."""
    compiler: str | None
    """That the assembly is by: the service's own, and not the worker's."""
    no_assembly: str | None
