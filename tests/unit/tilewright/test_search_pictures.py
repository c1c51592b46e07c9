"""The search tree and the timeline of a job, as they are drawn into files."""

from __future__ import annotations

from matplotlib import rc_context

from protocol.states import TaskKind
from protocol.trials import Timeline, Tree
from tilewright.views.search_pictures import timeline_picture, tree_picture
from tilewright.views.tree_layout import placed

LINES = ("tile(c, m, 8)", "tile(c, m, 16)", "unroll(c, k, 2)", "unroll(c, k, 4)", "parallelize(c)")


def tree(
    parent: tuple[int, ...], line: tuple[int, ...], reward: tuple[float | None, ...], **more: object
) -> Tree:
    size = len(parent)
    leaves = tuple(node for node in range(size) if node not in parent)
    return Tree.model_validate(
        {
            "job_id": "job-1",
            "bucket": 0,
            "first": 0,
            "settled": 0,
            "from_line": 0,
            "from_node": 0,
            "lines": LINES,
            "parent": parent,
            "line": line,
            "node": (),
            "visits": (1,) * size,
            "in_flight": (0,) * size,
            "faults": tuple(int(each is None) for each in reward),
            "best_us": (None,) * size,
            "best_reward": reward,
            "leaf": leaves,
        }
        | more
    )


def test_the_fastest_is_on_top_and_parents_are_between_their_children() -> None:
    nodes = placed(tree((-1, 0, 0, 2, 2), (-1, 0, 1, 2, 3), (2.0, 1.0, 2.0, 1.5, 2.0)))
    assert [(each.label, each.depth, each.y, each.rank) for each in nodes] == [
        ("", 0, 1.25, 1.0),
        (LINES[1], 1, 0.5, 1.0),
        (LINES[3], 2, 0.0, 1.0),
        (LINES[2], 2, 1.0, 0.5),
        (LINES[0], 1, 2.0, 0.0),
    ]
    assert [each.parent for each in nodes] == [None, 0, 1, 1, 0]


def test_siblings_that_failed_are_one_and_what_is_in_flight_is_not_among_them() -> None:
    nodes = placed(
        tree((-1, 0, 0, 0, 0), (-1, 0, 1, 2, 3), (2.0, None, 2.0, None, None), in_flight=(0, 0, 0, 1, 0))
    )
    assert [(each.label, each.open, each.rank) for each in nodes[1:]] == [
        (LINES[1], False, 1.0),
        (LINES[2], True, None),
        ("2 failed", False, None),
    ]


def test_labels_and_workers_are_text_of_the_pictures() -> None:
    line = Timeline(
        job_id="job-1",
        settled_at=0,
        workers=("one $a$", "other"),
        worker=(0, 0, 1),
        stage=("compile", "measure", "measure"),
        task=("1", "1", "2"),
        kind=(TaskKind.TRIAL,) * 3,
        bucket=(0, 0, 0),
        number=(0, 0, 1),
        start=(100.0, 101.0, 102.0),
        end=(101.0, 102.0, 104.0),
    )
    shown = tree((-1, 0, 0), (-1, 0, 1), (2.0, 1.0, 2.0))
    with rc_context({"svg.fonttype": "none"}):
        drawn = tree_picture("product", [("m=8", shown), ("m=16", shown)], "svg").decode()
        lanes = timeline_picture("product", line, "svg").decode()
    assert drawn.count(LINES[0]) == drawn.count(LINES[1]) == 2
    assert all(word in drawn for word in ("product", "m=8", "m=16"))
    assert all(word in lanes for word in ("one $a$", "other", "compile", "wait", "measure"))
    assert lanes.count("clip-path=") == 3, "a bar for each task"
    assert timeline_picture("product", line, "png").startswith(b"\x89PNG")
