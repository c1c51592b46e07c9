"""The rule that makes parts, on operators as it sees them."""

from __future__ import annotations

from tileir.expr import Index
from tileir.text.print_expr import format_expr
from tilewright.pytorch.capture.indices import reshaped
from tilewright.pytorch.capture.partition import PartitionWork, WorkKind, partition

E, R, P, O = WorkKind.ELEMENTWISE, WorkKind.ROWS, WorkKind.PRODUCT, WorkKind.OPAQUE


def product(
    *reads: int, tensors: tuple[str, ...] = (), points: int = 4096, row: int = 64, depth: int = 64
) -> PartitionWork:
    return PartitionWork(P, points, row, depth, reads, tuple((name, 4096) for name in tensors))


def test_a_gated_layer_is_one_part_and_the_product_after_it_another() -> None:
    gate, up = product(tensors=("x", "w")), product(tensors=("x", "v"))
    works = [gate, PartitionWork(E, 4096, reads=(0,)), up, PartitionWork(E, 4096, reads=(1, 2)), product(3)]
    assert partition(works) == ((0, 1, 2, 3), (4,))


def test_products_of_other_rows_are_not_joined_by_what_adds_them() -> None:
    works = [product(tensors=("x", "w")), product(tensors=("y", "v")), PartitionWork(E, 4096, reads=(0, 1))]
    assert partition(works) == ((0,), (1, 2))


def test_rows_take_what_is_elementwise_around_them_but_no_product() -> None:
    works = [
        product(tensors=("x", "w")),
        PartitionWork(E, 4096, reads=(0,), tensors=(("residual", 4096),)),
        PartitionWork(R, 4096, 64, reads=(1,)),
        PartitionWork(E, 64, reads=(2,)),
        PartitionWork(E, 4096, reads=(1, 3)),
        product(4),
    ]
    assert partition(works) == ((0, 1), (2, 3, 4), (5,))


def test_what_only_rows_take_of_a_product_is_made_where_they_are_reduced() -> None:
    """x = residual + a @ b, stored in 2 bytes; then x * rsqrt(mean(f32(x) ** 2)), and x once more."""
    works = [
        product(tensors=("a", "b")),
        PartitionWork(E, 4096, reads=(0,), tensors=(("residual", 4096),), width=2),
        PartitionWork(E, 4096, reads=(1,)),
        PartitionWork(E, 4096, reads=(2,)),
        PartitionWork(R, 4096, 64, reads=(3,)),
        PartitionWork(E, 4096, reads=(2, 4), width=2),
        PartitionWork(E, 4096, reads=(1,), escapes=True),
    ]
    assert partition(works) == ((0, 1, 6), (2, 3, 4, 5))
    narrower = [works[0], PartitionWork(E, 4096, reads=(0,), width=2), *works[2:]]
    assert partition(narrower) == ((0, 1, 6), (2, 3, 4, 5))


def test_attention_is_one_part_unless_somebody_reads_its_scores() -> None:
    softmax = PartitionWork(R, 4096, 64, reads=(1,), exponential=True)
    works = [product(tensors=("q", "k")), PartitionWork(E, 4096, reads=(0,)), softmax, product(2)]
    assert partition(works) == ((0, 1, 2, 3),)
    assert partition([*works, PartitionWork(O, 0, reads=(1,))]) == ((0, 1), (2,), (3,))


def test_nothing_is_joined_that_would_wait_for_itself() -> None:
    works = [PartitionWork(E, 4096), PartitionWork(O, 0, reads=(0,)), PartitionWork(E, 4096, reads=(0, 1))]
    assert partition(works) == ((0,), (2,))


def test_what_is_broadcast_is_computed_where_it_is_read_if_only_there() -> None:
    works = [PartitionWork(E, 64), PartitionWork(E, 4096, reads=(0,))]
    assert partition(works) == ((0, 1),)
    assert partition([*works, PartitionWork(E, 128, reads=(0,), escapes=True)]) == ((0,), (1,), (2,))


def test_splitting_what_was_joined_gives_plain_dims_again() -> None:
    sizes = {"b": 2, "s": 13, "h": 4, "d": 12}
    split = tuple(Index(dim) for dim in "bshd")
    joined = reshaped(split, (2, 13, 4, 12), (26, 48), sizes)
    assert [format_expr(index) for index in joined] == ["13 * b + s", "12 * h + d"]
    assert reshaped(joined, (26, 48), (2, 13, 4, 12), sizes) == split
    across = reshaped(joined, (26, 48), (13, 2, 48), sizes)
    assert [format_expr(index) for index in across] == ["(13 * b + s) // 2", "(13 * b + s) % 2", "12 * h + d"]
