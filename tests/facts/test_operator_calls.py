"""What operators compute is what PyTorch's own counter says, from a trace of real operators."""

import json

import pytest

from gpuprof.facts.operator_calls import NAMES, inputs_of, work_of


def work(name, shapes, types=(), values=()):
    inputs = {"shapes": shapes, "types": types or ["float"] * len(shapes), "values": values}
    return work_of(name, inputs_of(json.dumps(inputs)))


CONVOLVED = ["", "", "", "[2, 2]", "[3, 3]", "[1, 1]", "False", "[0, 0]", "1"]


@pytest.mark.parametrize(
    ("name", "shapes", "flops", "moved"),
    [
        ("aten::mm", [[4, 8], [8, 2]], 2 * 4 * 8 * 2, 4 * (32 + 16 + 8)),
        ("aten::addmm", [[2], [4, 8], [8, 2], [], []], 2 * 4 * 8 * 2, 4 * (32 + 16 + 8)),
        ("aten::bmm", [[3, 4, 8], [3, 8, 2]], 3 * 2 * 4 * 8 * 2, 3 * 4 * (32 + 16 + 8)),
        ("aten::add_", [[4, 8], [8], []], None, 4 * (32 + 8 + 32)),
        ("aten::mul", [[4, 1], [1, 8]], None, 4 * (4 + 8 + 8)),
        ("aten::relu", [[4, 8]], None, 4 * (32 + 32)),
        ("aten::zero_", [[4, 8]], None, 4 * 32),
    ],
)
def test_work_follows_from_the_shapes(name, shapes, flops, moved):
    assert work(name, shapes) == (flops, moved, "float")


def test_what_is_written_has_the_type_of_the_first_argument():
    assert work("aten::copy_", [[8], [8], []], ["float", "c10::Half", ""]).bytes == 8 * (2 + 4)


def test_types_have_their_plain_names():
    assert work("aten::mm", [[4, 8], [8, 2]], ["c10::BFloat16"] * 2) == (128, 112, "bfloat16")


def test_the_work_of_an_unknown_type_has_no_bytes():
    assert work("aten::relu", [[4]], ["c10::Odd"]) == (None, None, "c10::Odd")
    inputs = inputs_of('{"shapes": [[4, 8], [8, 2]], "types": [], "values": []}')
    assert work_of("aten::mm", inputs) == (128, None, None)


@pytest.mark.parametrize(
    ("asked_for", "times"), [("True, True", 2), ("False, True", 1), ("False, False", 0)]
)
def test_a_convolution_has_the_gradients_that_were_asked_for(asked_for, times):
    forward = work("aten::convolution", [[32, 3, 224, 224], [64, 3, 7, 7]], values=CONVOLVED)
    assert forward.flops == 2 * 32 * 112 * 112 * 64 * 3 * 49

    shapes = [[32, 64, 112, 112], [32, 3, 224, 224], [64, 3, 7, 7]]
    values = [*CONVOLVED[:3], "[0]", *CONVOLVED[3:], f"[{asked_for}, False]"]
    assert work("aten::convolution_backward", shapes, values=values).flops == times * forward.flops


@pytest.mark.parametrize(
    ("name", "shapes"),
    [
        ("aten::mm", [[4, 8], [9, 2]]),
        ("aten::mm", [[4, 8]]),
        ("aten::mm", [[4], [8]]),
        ("aten::convolution", [[32, 3, 224, 224], [64, 3, 7, 7]]),
        ("aten::relu", [[]]),
        ("aten::nonzero", [[4]]),
    ],
)
def test_shapes_that_no_call_has_make_unknown_work(name, shapes):
    assert work(name, shapes) == (None, None, None)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"shapes": [[-1]], "types": [], "values": []}',
        '{"shapes": [[1099511627776, 2]], "types": [], "values": []}',
        '{"shapes": [[2.5]], "types": [], "values": []}',
        '{"shapes": [["4"]], "types": [], "values": []}',
        '{"shapes": [[[4]]], "types": [], "values": []}',
        '{"shapes": 4, "types": [], "values": []}',
        '{"shapes": [[4]], "types": 4, "values": []}',
        "[" * 100_000,
    ],
)
def test_inputs_beyond_all_bounds_are_unknown(text):
    assert inputs_of(text) is None


def test_work_beyond_64_bits_is_unknown():
    assert work("aten::mm", [[1 << 20, 1 << 19], [1 << 19, 1 << 20]]).flops is None


def test_products_and_convolutions_count_as_in_pytorch(tmp_path):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    flop_counter = pytest.importorskip("torch.utils.flop_counter")
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 5, stride=2, padding=1, dilation=2),
        torch.nn.ReLU(),
        torch.nn.Conv2d(8, 8, 3, bias=False),
        torch.nn.ConvTranspose2d(8, 4, 3, stride=2, output_padding=1),
        torch.nn.Flatten(),
        torch.nn.LazyLinear(16),
        torch.nn.Unflatten(1, (4, 4)),
    )
    batch = torch.randn(6, 3, 32, 32)
    model(batch)

    # Of gradients of weights in groups, PyTorch counts those between groups, too.
    grouped = torch.nn.Sequential(
        torch.nn.Conv2d(3, 6, 3, groups=3), torch.nn.ConvTranspose2d(6, 4, 3, groups=2)
    )

    def step():
        made = model(batch)
        torch.bmm(made, made).sum().backward()
        with torch.no_grad():
            grouped(batch)

    with flop_counter.FlopCounterMode(display=False) as counter:
        step()
    with torch.profiler.profile(record_shapes=True) as recorder:
        step()
    recorder.export_chrome_trace(str(tmp_path / "trace.json"))

    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    counted = [
        work(event["name"], args["Input Dims"], args["Input type"], args["Concrete Inputs"])
        for event in events
        if event.get("name") in NAMES and "Input Dims" in (args := event["args"])
    ]
    assert counter.get_total_flops() > 0
    assert sum(of.flops or 0 for of in counted) == counter.get_total_flops()


def test_attention_counts_as_in_pytorch():
    flop_counter = pytest.importorskip("torch.utils.flop_counter")
    query, key, value = (2, 8, 128, 64), (2, 8, 96, 64), (2, 8, 96, 32)
    forward = work(
        "aten::_scaled_dot_product_flash_attention", [[*query], [*key], [*value], [], [], []]
    )
    assert forward.flops == flop_counter.sdpa_flop_count(query, key, value)
    gradient = (2, 8, 128, 32)
    backward = work(
        "aten::_scaled_dot_product_flash_attention_backward",
        [[*gradient], [*query], [*key], [*value]],
    )
    assert backward.flops == flop_counter.sdpa_backward_flop_count(gradient, query, key, value)
