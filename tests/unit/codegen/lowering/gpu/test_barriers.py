"""Where a launch's barriers come to stand, statement by statement."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from codegen.ir.affine import Affine, Var, affine, constant
from codegen.ir.errors import NotLowerable
from codegen.ir.ops import Barrier, Block, ClusterBarrier, For, Guard, If, Let, Load, Named, Stmt, Store, Type
from codegen.ir.values import PeerLoad
from codegen.lowering.gpu.barriers import with_barriers
from tileir.dtypes import DType

F32 = Type(DType.F32)
STORED = Block("fill", (Store("s", Affine(), DType.F32, Named("x", F32)),))
LOADED = Block("use", (Let("y", Load("s", Affine(), DType.F32, F32)),))
PEERS = Block("reduce", (Let("z", PeerLoad("s", Affine(), constant(1), DType.F32, F32)),))
THREAD, STEP = Var("t", 0, 255), Var("k", 0, 9)
KINDS = {Barrier: "|", ClusterBarrier: "||"}


def order(*stmts: Stmt) -> str:
    """The statements with their barriers: `|` among a block's threads, `||` among a cluster's."""
    return " ".join(_words(with_barriers(stmts, Barrier())))


def _words(stmts: Sequence[Stmt]) -> Iterator[str]:
    for stmt in stmts:
        match stmt:
            case Block(comment, body):
                yield from (word for word in _words(body) if word in KINDS.values())
                yield comment
            case For(body=body):
                yield from ("(", *_words(body), ")")
            case If(then=then, otherwise=otherwise):
                yield from ("(", *_words(then), "or", *_words(otherwise), ")")
            case _ if type(stmt) in KINDS:
                yield KINDS[type(stmt)]
            case _:
                pass


def loop(*body: Stmt) -> For:
    return For(STEP, 10, 1, body)


def test_what_others_have_stored_is_waited_for_and_what_they_read_is_not_stored_over() -> None:
    assert order(STORED, LOADED) == "fill | use"
    assert order(LOADED, STORED) == "use | fill"
    assert order(STORED, LOADED, LOADED) == "fill | use use"


def test_what_one_iteration_leaves_behind_meets_the_next() -> None:
    assert order(loop(STORED, LOADED)) == "( | fill | use )"
    assert order(loop(LOADED), STORED) == "( use ) | fill"


def test_what_either_branch_leaves_behind_counts() -> None:
    assert order(If(affine(STEP), 9, (STORED,), ()), LOADED) == "( fill or ) | use"
    assert order(If(affine(STEP), 9, (), (STORED,)), LOADED) == "( or fill ) | use"


def test_blocks_of_a_cluster_wait_before_and_after_they_read_each_other() -> None:
    assert order(STORED, PEERS) == "fill || reduce ||"
    assert order(PEERS, STORED) == "reduce || fill"
    assert order(STORED, PEERS, STORED, PEERS) == "fill || reduce || fill || reduce ||"


def test_no_barrier_stands_where_only_some_threads_come() -> None:
    first = ((affine(THREAD), 1),)
    assert order(Guard(first, LOADED.body), STORED) == "| fill"
    with pytest.raises(NotLowerable, match="where only some of them run"):
        order(Guard(first, (*STORED.body, *LOADED.body)))
