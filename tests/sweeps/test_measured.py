import pytest
from left_threads import left_threads, only_linux
from nsys_export import KERNEL, kernel
from nsys_export import write as write_export
from pyarrow import parquet

from gpuprof.base.errors import CorruptFileError, InputError, UnknownFormatError
from gpuprof.sweeps.times import TIMES, batch_speed_ups, read_times, scaling


def _times(*rows):
    columns = ("label", "devices", "batch_size", "seconds_per_epoch")
    return TIMES.table([dict(zip(columns, row, strict=True)) for row in rows])


def test_speed_up_and_efficiency_over_devices():
    table = scaling(_times(("a", 4, None, 4.0), ("a", 1, None, 10.0), ("a", 2, None, 6.25)))

    scaled = [(row["devices"], row["speed_up"], row["efficiency"]) for row in table.to_pylist()]
    assert scaled == [(1, 1.0, 1.0), (2, 1.6, 0.8), (4, 2.5, 0.625)]


def test_the_fewest_devices_stand_for_ideal_scaling():
    table = scaling(_times((None, 2, None, 8.0), (None, 4, None, 5.0)))

    assert table.column("speed_up").to_pylist() == [2.0, 3.2]


def test_runs_of_one_point_give_their_median():
    rows = [("a", 1, None, seconds) for seconds in (10.0, 12.0, 99.0)]

    (single, two) = scaling(_times(*rows, ("a", 2, None, 6.0))).to_pylist()

    assert (single["runs"], single["seconds_per_epoch"]) == (3, 12.0)
    assert (two["runs"], two["speed_up"]) == (1, 2.0)


def test_only_the_same_work_is_compared():
    rows = [("a", 1, 64, 10.0), ("a", 2, 64, 5.0), ("a", 2, 128, 1.0)]

    assert scaling(_times(*rows)).column("speed_up").to_pylist() == [1.0, 2.0]


def test_each_batch_size_scales_apart_and_is_named_where_there_are_several():
    rows = [("a", d, b, 8.0 / d + b) for b in (64, 32) for d in (2, 1)]

    speed_ups = [
        (row["series"], row["batch_size"], row["devices"], row["seconds_per_epoch"])
        for row in scaling(_times(*rows, ("b", 1, 32, 3.0))).to_pylist()
    ]
    assert speed_ups == [
        ("a, batch size 32", 32, 1, 40.0),
        ("a, batch size 32", 32, 2, 36.0),
        ("a, batch size 64", 64, 1, 72.0),
        ("a, batch size 64", 64, 2, 68.0),
    ]
    (single, _) = scaling(_times(("a", 1, 64, 4.0), ("a", 2, 64, 2.0))).to_pylist()
    assert (single["series"], single["batch_size"]) == ("a", 64)


def test_numbers_of_devices_are_not_mixed_in_the_time_of_a_batch_size():
    rows = [("a", 1, 64, 8.0), ("a", 2, 64, 4.0), ("b", 1, 64, 6.0), ("b", 4, 64, 1.0)]

    speed_ups = [
        (row["series"], row["baseline"], row["devices"], row["speed_up"])
        for row in batch_speed_ups(_times(*rows)).to_pylist()
    ]
    assert speed_ups == [
        ("a, 2 devices", "a, 1 device", 2, 2.0),
        ("b, 1 device", "a, 1 device", 1, pytest.approx(8 / 6)),
        ("b, 4 devices", "a, 1 device", 4, 8.0),
    ]


def test_one_number_of_devices_does_not_scale():
    assert scaling(_times(("a", 1, None, 10.0), ("b", 2, None, 5.0))).num_rows == 0


def test_break_even_lies_between_the_batch_sizes_around_it():
    single = [("single", None, batch, 8.0) for batch in (64, 128, 256)]
    dual = [("dual", None, 64, 16.0), ("dual", None, 256, 16 / 3), ("dual", None, 512, 1.0)]

    rows = batch_speed_ups(_times(*single, *dual)).to_pylist()

    assert [(row["batch_size"], row["speed_up"]) for row in rows] == [(64, 0.5), (256, 1.5)]
    # Half of the way from 0.5 to 1.5 on a logarithmic axis.
    assert rows[0]["break_even_batch_size"] == pytest.approx(128)


def test_nothing_to_set_side_by_side():
    assert batch_speed_ups(_times(("a", None, 64, 1.0))).num_rows == 0
    assert batch_speed_ups(_times()).num_rows == 0


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_table_is_read_with_the_columns_that_it_has(tmp_path, suffix):
    path = tmp_path / f"times.{suffix}"
    if suffix == "csv":
        path.write_text("devices,seconds,note\n1,10,x\n2,,y\n2,5,\n")
    else:
        parquet.write_table(_times((None, 1, None, 10.0), (None, 2, None, 5.0)), path)

    rows = read_times(path).to_pylist()

    assert [(row["devices"], row["seconds_per_epoch"]) for row in rows] == [(1, 10.0), (2, 5.0)]
    assert [row["label"] for row in rows] == [None, None]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("", "is not a table", id="empty"),
        pytest.param("devices\n1\n", "has no column seconds_per_epoch", id="no-times"),
        pytest.param("devices,seconds\none,2\n", "times.csv: ", id="no-number"),
        pytest.param("devices,seconds\n1,0\n", "seconds_per_epoch must be above 0", id="zero"),
        pytest.param("devices,seconds\n1,inf\n", "seconds_per_epoch must be above 0", id="endless"),
        pytest.param("devices,seconds\n1,2,3\n", "is not a table", id="ragged"),
        pytest.param("\x8b,seconds\n1,2\n", "is not a table", id="binary"),
    ],
)
def test_what_is_no_table_of_times_is_said(tmp_path, text, message):
    path = tmp_path / "times.csv"
    path.write_bytes(text.encode("latin-1"))

    with pytest.raises(CorruptFileError) as error:
        read_times(path)

    assert message in error.value.message
    assert "\n" not in error.value.message


@pytest.mark.parametrize("name", ["run.sqlite", "run.csv"])
def test_a_recording_is_no_table_of_times(tmp_path, name):
    path = tmp_path / name
    if name == "run.csv":
        path.write_text('"Time(%)","Time","Calls","Avg","Min","Max","Name"\n')
        path.write_text(f"==7== Profiling result:\n{path.read_text()}%,s,,s,s,s,\n")
    else:
        write_export(path, {KERNEL: [kernel(0, 9)]})

    with pytest.raises(UnknownFormatError) as error:
        read_times(path)

    reader = "nsys-sqlite" if name == "run.sqlite" else "nvprof-csv"
    assert error.value.message == (
        f"{path} is a recording (read as {reader}), not a table of measured times"
    )


def test_a_table_that_is_not_there(tmp_path):
    with pytest.raises(InputError):
        read_times(tmp_path / "none.csv")


@only_linux
def test_reading_parquet_leaves_no_thread_that_could_abort_the_end_of_the_process(tmp_path):
    path = tmp_path / "times.parquet"
    parquet.write_table(_times(("a", 1, 64, 4.0), ("a", 2, 64, 2.0)), path)

    assert left_threads("gpuprof.sweeps.times", "gpuprof.sweeps.times.read_times(path)", path) == 0
