"""What a sweep refuses before anything runs, and the cells and the order of what it accepts."""

import pytest

from gpuprof.base.errors import InputError, UsageError
from gpuprof.sweeps.plan import Plan, SweepCell, cells, ordered_runs, runs_of
from gpuprof.sweeps.sweep_file import read_sweep_file

AXES = {"placement": ("single", "dual"), "batch": ("64", "128")}
COMMAND = ("train.py", "--placement", "{placement}", "--batch={batch}")


REFUSED = {
    "no-command": (
        {"command": ()},
        "the sweep has no command",
        "Give one: gpuprof sweep --grid batch=64,128 -- train.py {batch}",
    ),
    "empty-axis": (
        {"axes": AXES | {"batch": ()}},
        "the axis batch has no values",
        "Separate values by commas: --grid batch=1,2",
    ),
    "empty-value": (
        {"axes": AXES | {"batch": ("64", "")}},
        "the axis batch has an empty value",
        "Separate values by commas: --grid batch=1,2",
    ),
    "twice": (
        {"axes": AXES | {"batch": ("64", "64")}},
        "the axis batch has the value 64 twice",
        None,
    ),
    "unknown-placeholder": (
        {"command": ("train.py", "{placment}", "{batch}")},
        "the grid has no axis 'placment', which the command uses in {placment}",
        "Did you mean placement? Write {{ for a literal brace.",
    ),
    "unused-axis": (
        {"command": ("train.py", "{placement}")},
        "the command has no {batch}, so this axis would have no effect",
        "Put {batch} into the command where the value belongs.",
    ),
    "open-brace": (
        {"command": (*COMMAND, "{")},
        "{: Single '{' encountered in format string",
        "Write {{ and }} for literal braces.",
    ),
    "name-of-a-result": (
        {"axes": AXES | {"speed_up": ("1",)}},
        "'speed_up' cannot name an axis",
        "Use letters, digits and _, but no column of the results.",
    ),
    "baseline-axis": (
        {"baseline": {"devices": "1"}},
        "the grid has no axis devices, which the baseline names",
        "Choose from: placement, batch.",
    ),
    "baseline-value": (
        {"baseline": {"placement": "singel"}},
        "the grid has no placement=singel, which the baseline names",
        "Did you mean single?",
    ),
    "pattern-without-group": (
        {"figures": {"loss": "loss .*"}},
        "the pattern of loss, loss .*, must have one group, not 0",
        r"Put the number into the group: accuracy=(\S+)",
    ),
    "broken-pattern": (
        {"figures": {"loss": "loss ("}},
        (
            "the pattern of loss, loss (, is not a regular expression: missing ), unterminated"
            " subpattern at position 5"
        ),
        None,
    ),
    "no-repeats": ({"repeat": 0}, "repeat must be at least 1, not 0", None),
}


@pytest.mark.parametrize(("changes", "message", "hint"), REFUSED.values(), ids=REFUSED)
def test_what_does_not_fit_together_is_refused_before_anything_runs(changes, message, hint):
    with pytest.raises(UsageError) as caught:
        Plan(**{"command": COMMAND, "axes": AXES} | changes)

    assert (caught.value.message, caught.value.hint) == (message, hint)


def test_a_cell_is_one_value_of_each_axis_put_into_the_command():
    grid_cells = cells(Plan(COMMAND, AXES))

    assert [cell.name for cell in grid_cells] == [
        "placement=single,batch=64",
        "placement=single,batch=128",
        "placement=dual,batch=64",
        "placement=dual,batch=128",
    ]
    assert grid_cells[3].words == ("train.py", "--placement", "dual", "--batch=128")


def test_braces_that_are_doubled_stay():
    [cell] = cells(Plan(("run.py", "{{x}}", "{a}"), {"a": ("1",)}))

    assert cell.words == ("run.py", "{x}", "1")


def test_values_that_a_file_system_dislikes_give_folders_of_their_own():
    names = {
        SweepCell({"a": value}, ()).folder_name for value in ("x/y", "x%2fy", "x y", "x_y", "é")
    }

    assert len(names) == 5
    assert not any("/" in name for name in names)


def test_every_round_has_each_cell_once_in_an_order_of_its_own_that_the_seed_fixes():
    plan = Plan(("a.py", "{n}"), {"n": tuple(map(str, range(20)))}, repeat=2, warmup=1)
    runs = list(ordered_runs(plan, seed=3))
    rounds = [[run.cell.name for run in runs[start : start + 20]] for start in (0, 20, 40)]

    assert [run.is_warm_up for run in runs] == [True] * 20 + [False] * 40
    assert all(sorted(part) == sorted(cell.name for cell in cells(plan)) for part in rounds)
    assert rounds[0] != rounds[1] != rounds[2]
    assert runs == list(ordered_runs(plan, seed=3))
    assert runs != list(ordered_runs(plan, seed=4))


def test_a_warm_up_has_a_folder_apart_from_the_runs_that_count():
    plan = Plan(("a.py", "{n}"), {"n": ("1",)}, repeat=1, warmup=1)
    [cell] = cells(plan)

    assert [run.folder.as_posix() for run in runs_of(plan, cell)] == [
        "runs/n=1/warm-up-1",
        "runs/n=1/1",
    ]


class TestSweepFile:
    TEXT = """
        command = ["train.py", "--batch", "{batch}", "--{jit}"]
        repeat = 2
        baseline = { batch = 64 }
        seed = 7
        [grid]
        batch = [64, 128]
        jit = [true, false]
        [figures]
        loss = 'loss (\\S+)'
    """

    def test_it_says_what_the_options_say(self, tmp_path):
        path = tmp_path / "batches.toml"
        path.write_text(self.TEXT)

        assert read_sweep_file(path) == Plan(
            command=("train.py", "--batch", "{batch}", "--{jit}"),
            axes={"batch": ("64", "128"), "jit": ("true", "false")},
            repeat=2,
            baseline={"batch": "64"},
            figures={"loss": r"loss (\S+)"},
            seed=7,
            name="batches",
        )

    @pytest.mark.parametrize(
        ("text", "message", "hint"),
        [
            pytest.param(
                "repeats = 3", "unknown key repeats", "Did you mean repeat?", id="unknown-key"
            ),
            pytest.param("repeat = '3'", "repeat must be an integer", None, id="text-for-a-number"),
            pytest.param("repeat = true", "repeat must be an integer", None, id="truth"),
            pytest.param("command = ['a.py']", "grid is missing", "grid is a table.", id="no-grid"),
            pytest.param(
                "command = ['a.py', '{n}']\ngrid.n = 3",
                "the axis n must be a list of values",
                "n = [3]",
                id="axis-of-one",
            ),
            pytest.param(
                "command = ['a.py', '{n}']\ngrid.n = []",
                "the axis n has no values",
                "Separate values by commas: --grid n=1,2",
                id="empty-axis",
            ),
        ],
    )
    def test_what_is_wrong_is_said_with_the_files_name(self, tmp_path, text, message, hint):
        path = tmp_path / "sweep.toml"
        path.write_text(text)

        with pytest.raises(UsageError) as caught:
            read_sweep_file(path)

        assert (caught.value.message, caught.value.hint) == (f"{path}: {message}", hint)

    @pytest.mark.parametrize("data", [b"command = [", b"name = '\xff'"], ids=["toml", "encoding"])
    def test_what_is_no_toml_is_said(self, tmp_path, data):
        path = tmp_path / "sweep.toml"
        path.write_bytes(data)

        with pytest.raises(InputError, match="is not valid TOML"):
            read_sweep_file(path)

    def test_a_file_that_is_not_there_is_said(self, tmp_path):
        with pytest.raises(InputError, match="No such file"):
            read_sweep_file(tmp_path / "sweep.toml")
