import pytest
from commands import ROOT, gpuprof

from gpuprof.readers import read_profile
from gpuprof.show.charts import placement
from gpuprof.show.charts.catalogue import of_recording, picture_of
from gpuprof.show.charts.figure import figure_of
from gpuprof.show.charts.placement import FORWARD, GRADIENTS, arranged

SAMPLES = ROOT / "sample_logs" / "tensorflow" / "2.21.0"


def shown(name):
    [path] = [*SAMPLES.glob(f"deepconn-{name}.json"), *SAMPLES.glob(f"{name}.gpuprof")]
    profile = read_profile(path)
    return picture_of(placement.CHART, of_recording(profile, placement.CHART))


def plan(name):
    rows = shown(name).rows.to_pylist()
    nodes = [row for row in rows if row["dst_device"] is None]
    edges = [row for row in rows if row["dst_device"] is not None]
    return arranged(nodes, edges), edges


def _overlap(box, box_2):
    return (
        box.x < box_2.x + box_2.width
        and box_2.x < box.x + box.width
        and box.y < box_2.y + box_2.height
        and box_2.y < box.y + box.height
    )


@pytest.mark.parametrize(("name", "devices"), [("exaggerated", 2), ("towers-4", 4)])
def test_every_part_stands_alone_in_its_tower_and_each_tower_in_its_device(name, devices):
    layout, _ = plan(name)

    assert [box.label for box in layout.outer] == [f"CPU:{n}" for n in range(devices)]
    for boxes in (layout.outer, layout.inner, layout.parts):
        assert not any(_overlap(a, b) for n, a in enumerate(boxes) for b in boxes[n + 1 :])
    for inner, outer in ((layout.parts, layout.inner), (layout.inner, layout.outer)):
        for box in inner:
            around = [o for o in outer if _overlap(box, o)]
            assert len(around) == 1
            assert around[0].x <= box.x
            assert box.y + box.height <= around[0].y + around[0].height


def test_gradients_of_a_tower_stand_on_the_device_that_computes_them():
    layout, _ = plan("dual")
    middle = layout.width / 2
    towers = [tower for tower in layout.inner if tower.label == "item_tower"]
    item = [box for box in layout.parts if any(_overlap(box, tower) for tower in towers)]

    assert {box.look for box in item if box.x < middle} == {GRADIENTS}
    assert {box.look for box in item if box.x > middle} == {FORWARD}
    assert [box.label for box in item if box.x > middle][:1] == ["item_embedding"]


def test_each_copy_goes_from_box_to_box_as_thick_as_its_bytes():
    layout, edges = plan("dual")
    axes = figure_of(shown("dual")).axes[0]
    arrows = [patch for patch in axes.patches if hasattr(patch, "get_arrowstyle")]

    assert len(arrows) == len(edges) == len(layout.arrows) == 10
    widths = [arrow.get_arrowstyle().tail_width for arrow in arrows]
    assert widths == sorted(widths, reverse=True)
    thick, half = (edges[0]["bytes_per_step"], edges[1]["bytes_per_step"])
    assert (widths[1] - 0.7) / (widths[0] - 0.7) == half / thick
    texts = {text.get_text() for text in axes.texts}
    assert {"13.1 MB", "6.66 MB", "item_tower", "CPU:1"} <= texts


def test_copies_there_and_back_stand_beside_each_other():
    [path] = SAMPLES.glob("data-parallel-far.json")
    picture = picture_of(placement.CHART, of_recording(read_profile(path), placement.CHART))
    rows = picture.rows.to_pylist()
    edges = [row for row in rows if row["dst_device"] is not None]

    layout = arranged([row for row in rows if row["dst_device"] is None], edges)

    heights = [arrow.start[1] for arrow in layout.arrows]
    assert len({*heights}) == len(edges) == 2
    assert picture.finding.endswith("none of it for gradients")


def test_gradients_are_told_from_the_forward_pass_in_grey():
    arrows = [
        patch
        for patch in figure_of(shown("exaggerated")).axes[0].patches
        if type(patch).__name__ == "FancyArrowPatch"
    ]

    assert {patch.get_hatch() for patch in arrows} == {"", "/////"}


def test_four_devices_stand_around_the_one_that_copies_most():
    nodes = [
        {"src_device": f"GPU:{n}", "src_tower": f"tower_{n}", "src_layer": "dense"}
        | {"src_is_gradient": False, "fallbacks": 0}
        for n in range(4)
    ]
    edges = [
        {
            **{f"src_{key}": value for key, value in (("device", "GPU:2"), ("tower", "tower_2"))},
            **{
                f"dst_{key}": value
                for key, value in (("device", f"GPU:{n}"), ("tower", f"tower_{n}"))
            },
            "src_layer": "dense",
            "src_is_gradient": False,
            "dst_layer": "dense",
            "dst_is_gradient": True,
            "bytes_per_step": 100.0,
            "is_gradient": True,
        }
        for n in (0, 1, 3)
    ]
    layout = arranged(nodes, edges)

    assert [(box.label, box.x == 0) for box in layout.outer] == [
        ("GPU:2", True),
        ("GPU:0", False),
        ("GPU:1", False),
        ("GPU:3", False),
    ]


def test_a_recording_without_tensorflow_says_that_it_cannot_tell(tmp_path):
    sample = ROOT / "sample_logs" / "nvprof" / "published" / "dual.txt"
    completed = gpuprof("plot", "placement", sample, "-o", tmp_path / "placement.svg")

    assert completed.returncode == 1
    assert completed.stderr.startswith("Error: placement cannot be drawn: this recording has no ")
