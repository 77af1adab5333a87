import pytest

from gpuprof.base import units


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("13.0696s", 13_069_600_000, id="seconds"),
        pytest.param("137.90us", 137_900, id="microseconds"),
        pytest.param("1.2152ms", 1_215_200, id="milliseconds"),
        pytest.param("544ns", 544, id="nanoseconds"),
        pytest.param("0ns", 0, id="zero"),
        pytest.param("492.941 \N{GREEK SMALL LETTER MU}s", 492_941, id="greek-mu"),
        pytest.param("492.941 \N{MICRO SIGN}s", 492_941, id="micro-sign"),
        pytest.param("1570000000.123456789s", 1_570_000_000_123_456_789, id="no-nanosecond-lost"),
    ],
)
def test_times_become_integer_nanoseconds(text, expected):
    assert units.parse_ns(text) == expected


@pytest.mark.parametrize("text", ["", "12", "s", "1,5s", "-3ms", "5KB", "1.2.3s", "1e999s"])
def test_a_text_that_is_no_time_is_refused(text):
    with pytest.raises(ValueError, match=r"expected a number with a unit|unknown unit"):
        units.parse_ns(text)


def test_nvprofs_kilobyte_is_1024_bytes():
    assert units.parse_binary_bytes("39.062500KB") == 40_000


def test_nsys_megabyte_is_a_million_bytes_and_its_kib_1024():
    assert units.to_decimal_bytes("262.406144", "MB") == 262_406_144
    assert units.to_decimal_bytes("1.5", "KiB") == 1536


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, "n/a"),
        (0, "0 ns"),
        (544, "544 ns"),
        (137_900, "137.9 µs"),
        (13_069_600_000, "13.070 s"),
        (-10_097_800_000, "-10.098 s"),
        (1_234_567_000_000, "1235 s"),
    ],
)
def test_people_get_scaled_times(value, expected):
    assert units.format_ns(value) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (544, "544 ns"),
        (137_900, "138 µs"),
        (9_520, "9.52 µs"),
        (9_996, "10.0 µs"),
        (99_960, "100 µs"),
        (999_600, "1.00 ms"),
        (13_069_600_000, "13.1 s"),
        (1_234_567_000_000, "1235 s"),
    ],
)
def test_sentences_have_times_of_three_digits(value, expected):
    assert units.say_ns(value) == expected


def test_sentences_have_sizes_rates_shares_and_factors_of_three_digits():
    assert units.say_bytes(26_588_000) == "26.6 MB"
    assert units.say_rate(10_500_000_000) == "10.5 GB/s"
    assert [units.say_share(share) for share in (0.0204, 0.2453, 0.9997)] == [
        "2.0 %", "24.5 %", "100 %",
    ]  # fmt: skip
    assert units.say_ratio(1.2847) == "1.28"
    assert [units.say_binary_bytes(size) for size in (1 << 16, 1500, 1_040_000)] == [
        "64 KiB", "1.46 KiB", "1,016 KiB",
    ]  # fmt: skip


def test_unknown_is_never_shown_as_zero():
    shown = {
        f(None)
        for f in (
            units.format_ns,
            units.format_bytes,
            units.format_rate,
            units.format_count,
            units.format_share,
        )
    }

    assert shown == {"n/a"}


def test_people_get_scaled_sizes_rates_counts_and_shares():
    assert units.format_bytes(26_588_000) == "26.588 MB"
    assert units.format_rate(10_500_000_000) == "10.500 GB/s"
    assert units.format_count(94_774) == "94,774"
    assert units.format_share(0.2453) == "24.53 %"


@pytest.mark.parametrize(
    ("text", "expected"), [("2h", 7200), ("10m", 600), ("1.5min", 90), ("90s", 90)]
)
def test_durations_may_be_long(text, expected):
    assert units.duration_ns(text) == expected * units.NS_PER_S


@pytest.mark.parametrize(("text", "expected"), [("-1.5s", -1_500_000_000), ("20us", 20_000)])
def test_instants_may_be_before_the_origin(text, expected):
    assert units.instant_ns(text) == expected


@pytest.mark.parametrize("text", ["--1s", "-", "+1s", "-5"])
def test_a_text_that_is_no_instant_is_refused(text):
    with pytest.raises(ValueError, match="expected a number with a unit"):
        units.instant_ns(text)


def test_no_profiler_prints_minutes():
    with pytest.raises(ValueError, match='unknown unit "m"'):
        units.parse_ns("10m")


def test_a_manyfold_growth_is_a_factor():
    assert units.say_growth(-0.275) == "27.5 %"
    assert units.say_growth(9.5) == "950.0 %"
    assert units.say_growth(57.73) == units.format_change(5773) == "x58.7"


def test_a_thousand_of_a_unit_is_one_of_the_next():
    assert units.say_ns(999.9997) == "1.00 µs"
    assert units.format_ns(999_950) == "1.000 ms"
    assert units.format_ns(999_940) == "999.9 µs"


def test_figures_stay_with_their_units():
    sentence = "takes 36.10 µs (1.0 %) in 3 steps, 2.5 GB/s of 26.469 MB, 4 KiB and 5 sums"

    assert units.bound(sentence).split(" ") == [
        "takes", "36.10\xa0µs", "(1.0\xa0%)", "in", "3", "steps,", "2.5\xa0GB/s", "of",
        "26.469\xa0MB,", "4\xa0KiB", "and", "5", "sums",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param(2_075_412_345, "2.075412 s", id="seconds"),
        pytest.param(512_130_004, "512.130 ms", id="milliseconds"),
        pytest.param(544, "544 ns", id="nanoseconds"),
        pytest.param(None, "n/a", id="unknown"),
    ],
)
def test_instants_are_exact_enough_to_be_found(value, expected):
    assert units.format_instant(value) == expected


@pytest.mark.parametrize(
    ("number", "said"), [(0, "0 copies"), (1, "1 copy"), (2, "2 copies"), (1200, "1,200 copies")]
)
def test_a_number_has_its_noun(number, said):
    assert units.counted(number, "copy", "copies") == said
