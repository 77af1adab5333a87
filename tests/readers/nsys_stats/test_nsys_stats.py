"""What `nsys stats` and `nsys profile --stats=true` print, in all layouts and formats."""

# ruff: noqa: E501 - tables are as wide as nsys prints them
import codecs
import gzip
import html
import json
import re

import pytest
from recording_checks import rows

import gpuprof
from gpuprof.analyses.totals import totals
from gpuprof.base.errors import (
    CorruptFileError,
    EmptyRecordingError,
    GpuprofError,
    InputError,
    UsageError,
)
from gpuprof.readers import find_reader
from gpuprof.readers.nsys_stats import report_text as nsys_stats

# The same recording in every layout: two kernels, copies both ways and between devices.
EXPECTED = [
    ("kernel", "stencil(float *, int)", 1000, 4_651_646_617, 4_636_563, 4_679_571, None),
    ("kernel", "init(float *)", 2, 74_334, 17_727, 56_607, None),
    ("memcpy", "DtoH", 3003, 177_775_158, 1503, 85_819_776, 2_147_365_000),
    ("memcpy", "PtoP", 4004, 16_018_963, 2976, 18_240, 262_406_000),
    ("memset", "memset", 3006, 9_062_419, 1247, 1_201_812, None),
    ("api", "cudaMalloc", 9, 8_404_755, 327_792, 1_636_457, None),
]
YEAR_2019 = """\
Exported successfully to
/tmp/nsys-report-c2fb.sqlite

Generating CUDA API Statistics...
CUDA API Statistics (nanoseconds)

Time(%)      Total Time       Calls         Average         Minimum         Maximum  Name
-------  --------------  ----------  --------------  --------------  --------------  ------------
  100.0         8404755           9        933861.7          327792         1636457  cudaMalloc
Generating CUDA Kernel Statistics...
CUDA Kernel Statistics (nanoseconds)

Time(%)      Total Time   Instances         Average         Minimum         Maximum  Name
-------  --------------  ----------  --------------  --------------  --------------  ---------------------
  100.0      4651646617        1000       4651646.6         4636563         4679571  stencil(float *, int)
    0.0           74334           2         37167.0           17727           56607  init(float *)


Generating CUDA Memory Operation Statistics...
CUDA Memory Operation Statistics (nanoseconds)

Time(%)      Total Time  Operations         Average         Minimum         Maximum  Name
-------  --------------  ----------  --------------  --------------  --------------  ------------------
   87.6       177775158        3003         59199.2            1503        85819776  [CUDA memcpy DtoH]
    7.9        16018963        4004          4000.7            2976           18240  [CUDA memcpy PtoP]
    4.5         9062419        3006          3014.8            1247         1201812  [CUDA memset]


CUDA Memory Operation Statistics (KiB)

              Total      Operations              Average            Minimum              Maximum  Name
-------------------  --------------  -------------------  -----------------  -------------------  ------------------
        2097036.133            3003              698.314              0.000          1048576.171  [CUDA memcpy DtoH]
         256255.859            4004               64.000             64.000               64.000  [CUDA memcpy PtoP]
              0.000            3006                0.000              0.000                0.000  [CUDA memset]


Generating Operating System Runtime API Statistics...
Operating System Runtime API Statistics (nanoseconds)

Time(%)      Total Time       Calls         Average         Minimum         Maximum  Name
-------  --------------  ----------  --------------  --------------  --------------  ------------
  100.0          999999          33         30303.0            1000          100000  poll
"""
YEAR_2021 = """\
CUDA API Statistics:

 Time(%)  Total Time (ns)  Num Calls   Average   Minimum   Maximum   StdDev       Name
 -------  ---------------  ---------  ---------  -------  ---------  ------  -------------
   100.0        8,404,755          9  933,861.7  327,792  1,636,457     0.0  cudaMalloc



CUDA Kernel Statistics:

 Time(%)  Total Time (ns)  Instances    Average     Minimum    Maximum             Name
 -------  ---------------  ---------  -----------  ---------  ---------  ---------------------
   100.0    4,651,646,617      1,000  4,651,646.6  4,636,563  4,679,571  stencil(float *, int)
     0.0           74,334          2     37,167.0     17,727     56,607  init(float *)



CUDA Memory Operation Statistics (by time):

 Time(%)  Total Time (ns)  Operations  Average   Minimum   Maximum        Operation
 -------  ---------------  ----------  --------  -------  ----------  ------------------
    87.6      177,775,158       3,003  59,199.2    1,503  85,819,776  [CUDA memcpy DtoH]
     7.9       16,018,963       4,004   4,000.7    2,976      18,240  [CUDA memcpy PtoP]
     4.5        9,062,419       3,006   3,014.8    1,247   1,201,812  [CUDA memset]



CUDA Memory Operation Statistics (by size in KiB):

     Total      Operations  Average  Minimum     Maximum        Operation
 -------------  ----------  -------  -------  -------------  ------------------
 2,097,036.133       3,003  698.314    0.000  1,048,576.171  [CUDA memcpy DtoH]
   256,255.859       4,004   64.000   64.000         64.000  [CUDA memcpy PtoP]
         0.000       3,006    0.000    0.000          0.000  [CUDA memset]
"""
YEAR_2022 = """\
Generating '/tmp/nsys-report-6cd7.qdstrm'
[1/8] [0%                          ] report1.nsys-rep\r[1/8] [========================100%] report1.nsys-rep
[2/8] [========================100%] report1.sqlite
[3/8] Executing 'nvtxsum' stats report
SKIPPED: /home/me/report1.sqlite does not contain NV Tools Extension (NVTX) data.
[4/8] Executing 'osrtsum' stats report

Operating System Runtime API Statistics:

 Time (%)  Total Time (ns)  Num Calls  Avg (ns)  Med (ns)  Min (ns)  Max (ns)  StdDev (ns)  Name
 --------  ---------------  ---------  --------  --------  --------  --------  -----------  ----
    100.0           999999         33   30303.0   30000.0      1000    100000          1.0  poll

[5/8] Executing 'cudaapisum' stats report

CUDA API Statistics:

 Time (%)  Total Time (ns)  Num Calls  Avg (ns)  Med (ns)  Min (ns)  Max (ns)  StdDev (ns)     Name
 --------  ---------------  ---------  --------  --------  --------  --------  -----------  ----------
    100.0          8404755          9  933861.7  942553.0    327792   1636457     391616.2  cudaMalloc

[6/8] Executing 'gpukernsum' stats report

CUDA Kernel Statistics:

 Time (%)  Total Time (ns)  Instances  Avg (ns)   Med (ns)   Min (ns)  Max (ns)  StdDev (ns)     GridXYZ         BlockXYZ               Name
 --------  ---------------  ---------  ---------  ---------  --------  --------  -----------  --------------  --------------  ---------------------
     60.0       2651646617        600  4419411.0  4419411.0   4636563   4679571       5901.6   512  512    1    32   32    1  stencil(float *, int)
     40.0       2000000000        400  5000000.0  5000000.0   4640000   4670000       3713.1   512  256    1    32   32    1  stencil(float *, int)
      0.0            74334          2    37167.0    37167.0     17727     56607       1720.4    65    1    1   128    1    1  init(float *)

[7/8] Executing 'gpumemtimesum' stats report

CUDA Memory Operation Statistics (by time):

 Time (%)  Total Time (ns)  Count  Avg (ns)  Med (ns)  Min (ns)  Max (ns)  StdDev (ns)      Operation
 --------  ---------------  -----  --------  --------  --------  --------  -----------  ------------------
     87.6        177775158   3003   59199.2    2176.0      1503  85819776    1917581.3  [CUDA memcpy DtoH]
      7.9         16018963   4004    4000.7    4160.0      2976     18240        641.9  [CUDA memcpy PtoP]
      4.5          9062419   3006    3014.8    1408.0      1247   1201812      38594.0  [CUDA memset]

[8/8] Executing 'gpumemsizesum' stats report

CUDA Memory Operation Statistics (by size):

 Total (MB)  Count  Avg (MB)  Med (MB)  Min (MB)  Max (MB)  StdDev (MB)      Operation
 ----------  -----  --------  --------  --------  --------  -----------  ------------------
   2147.365   3003     0.715     0.000     0.000  1073.742       23.990  [CUDA memcpy DtoH]
    262.406   4004     0.066     0.066     0.066     0.066        0.000  [CUDA memcpy PtoP]
      0.000   3006     0.000     0.000     0.000     0.000        0.000  [CUDA memset]

Generated:
    /home/me/report1.nsys-rep
"""
WITH = "with [/opt/nvidia/nsight-systems/2024.6.2/host-linux-x64/reports"
YEAR_2024 = f"""\
Generating SQLite file run.sqlite from run.nsys-rep
Processing [run.sqlite] {WITH}/cuda_api_sum.py]...

 ** CUDA API Summary (cuda_api_sum):

 Time (%)  Total Time (ns)  Num Calls  Avg (ns)  Med (ns)  Min (ns)  Max (ns)  StdDev (ns)     Name
 --------  ---------------  ---------  --------  --------  --------  --------  -----------  ----------
    100.0          8404755          9  933861.7  942553.0    327792   1636457     391616.2  cudaMalloc

Processing [run.sqlite] {WITH}/cuda_gpu_kern_sum.py]...

 ** CUDA GPU Kernel Summary (cuda_gpu_kern_sum):

 Time (%)  Total Time (ns)  Instances  Avg (ns)   Med (ns)   Min (ns)  Max (ns)  StdDev (ns)          Name
 --------  ---------------  ---------  ---------  ---------  --------  --------  -----------  ---------------------
    100.0       4651646617       1000  4651646.6  4651475.0   4636563   4679571       5901.6  stencil(float *, int)
      0.0            74334          2    37167.0    37167.0     17727     56607       1720.4  init(float *)

Processing [run.sqlite] {WITH}/cuda_gpu_mem_time_sum.py]...

 ** CUDA GPU MemOps Summary (by Time) (cuda_gpu_mem_time_sum):

 Time (%)  Total Time (ns)  Count  Avg (ns)  Med (ns)  Min (ns)  Max (ns)  StdDev (ns)           Operation
 --------  ---------------  -----  --------  --------  --------  --------  -----------  ----------------------------
     87.6        177775158   3003   59199.2    2176.0      1503  85819776    1917581.3  [CUDA memcpy Device-to-Host]
      7.9         16018963   4004    4000.7    4160.0      2976     18240        641.9  [CUDA memcpy Peer-to-Peer]
      4.5          9062419   3006    3014.8    1408.0      1247   1201812      38594.0  [CUDA memset]

Processing [run.sqlite] {WITH}/cuda_gpu_mem_size_sum.py]...

 ** CUDA GPU MemOps Summary (by Size) (cuda_gpu_mem_size_sum):

 Total (MB)  Count  Avg (MB)  Med (MB)  Min (MB)  Max (MB)  StdDev (MB)           Operation
 ----------  -----  --------  --------  --------  --------  -----------  ----------------------------
   2147.365   3003     0.715     0.000     0.000  1073.742       23.990  [CUDA memcpy Device-to-Host]
    262.406   4004     0.066     0.066     0.066     0.066        0.000  [CUDA memcpy Peer-to-Peer]
      0.000   3006     0.000     0.000     0.000     0.000        0.000  [CUDA memset]

Processing [run.sqlite] {WITH}/um_sum.py]...
SKIPPED: run.sqlite does not contain CUDA Unified Memory CPU page faults data.
"""
BOXES = """\
+----------+-----------------+-----------+----------+----------+-----------------------+
| Time (%) | Total Time (ns) | Instances | Avg (ns) | Min (ns) |         Name          |
+----------+-----------------+-----------+----------+----------+-----------------------+
|     60.0 |            6000 |         2 |   3000.0 |     2900 | stencil(float *, int) |
|     40.0 |            4000 |         1 |   4000.0 |     4000 | init(float *)         |
+----------+-----------------+-----------+----------+----------+-----------------------+
"""
CSV = """\
Time (%),Total Time (ns),Instances,Avg (ns),Min (ns),Name
60.0,6000,2,3000.0,2900,"stencil(float *, int)"
40.0,4000,1,4000.0,4000,init(float *)
"""
TSV = CSV.replace(",", "\t").replace("*\t int", "*, int").replace('"', "")
JSON = json.dumps(
    [
        {"Time (%)": share, "Total Time (ns)": total, "Instances": calls}
        | {"Avg (ns)": mean, "Min (ns)": least, "Name": name}
        for share, total, calls, mean, least, name in (
            (60.0, 6000, 2, 3000.0, 2900, "stencil(float *, int)"),
            (40.0, 4000, 1, 4000.0, 4000, "init(float *)"),
        )
    ],
    indent=2,
)
HTML = "<table>" + "".join(
    "<tr>" + "".join(f"<td>{cell.strip()}</td>" for cell in line.split("|")[1:-1]) + "</tr>"
    for line in BOXES.splitlines()
    if line.startswith("|")
)
HTML += "</table>\n"
GUI = """\
Time,Total Time,Instances,Avg,Min,Name\r
0.00%,6.000 μs,2,3.000 μs,2.900 μs,"stencil(float *, int)"\r
0.00%,4.000 μs,1,4.000 μs,4 µs,init(float *)\r
"""  # The window writes the Greek letter, others write the micro sign.
COLUMNS = """\
 Time (%)  Total Time (ns)  Instances  Avg (ns)  Min (ns)          Name
 --------  ---------------  ---------  --------  --------  ---------------------
     60.0             6000          2    3000.0      2900  stencil(float *, int)
     40.0             4000          1    4000.0      4000  init(float *)
"""
TWO_KERNELS = [("stencil(float *, int)", 2, 6000, 3000.0), ("init(float *)", 1, 4000, 4000.0)]
TRACE = """\
Start (ns),Duration (ns),CorrId,GrdX,GrdY,GrdZ,BlkX,BlkY,BlkZ,Reg/Trd,StcSMem (MB),DymSMem (MB),\
Bytes (MB),Throughput (MB/s),SrcMemKd,DstMemKd,Device,Ctx,GreenCtx,Strm,Name
900,100,5,2,3,1,32,8,1,16,0.004,0.000,,,,,Tesla V100-SXM2-16GB (1),1,,7,"stencil(float *, int)"
100,200,6,,,,,,,,,,0.066,18957.468,Pageable,Device,Tesla V100-SXM2-16GB (1),1,,7,\
[CUDA memcpy Host-to-Device]
400,50,7,,,,,,,,,,0.066,18957.468,Device,Device,Tesla V100-SXM2-16GB (0),1,,7,\
[CUDA memcpy Device-to-Host]
500,50,8,,,,,,,,,,0.000,2.273,Device,,Tesla V100-SXM2-16GB (0),1,,7,[CUDA memset]
"""


def _read(tmp_path, content, section=None):
    path = tmp_path / "report.txt"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    assert find_reader(path) is nsys_stats.READER
    return gpuprof.read_profile(path, section=section)


def _refused(tmp_path, content):
    with pytest.raises(GpuprofError) as caught:
        _read(tmp_path, content)
    return caught.value


def _summary(profile):
    return profile.table("activity_summary").to_pylist()


def _rows(profile, *columns):
    return rows(profile, "activity_summary", *columns)


def _kernels(profile):
    return _rows(profile, "name", "calls", "total_ns", "mean_ns")


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(YEAR_2019, id="2019"),
        pytest.param(YEAR_2021, id="2021-comma"),
        pytest.param(
            YEAR_2021.translate(str.maketrans(",.", ".,"))
            .replace("[CUDA", "[CUDA")
            .replace("stencil(float *. int)", "stencil(float *, int)"),
            id="2021-dot",
        ),
        pytest.param(YEAR_2022, id="2022-by-grid"),
        pytest.param(YEAR_2024, id="2024"),
        pytest.param("noise\n" + YEAR_2024.replace("\n", "\r\n"), id="2024-crlf"),
        pytest.param(YEAR_2024.encode("utf-16"), id="2024-powershell"),
        pytest.param(gzip.compress(YEAR_2024.encode()), id="2024-gzip"),
        pytest.param("    ".join(["", *YEAR_2024.splitlines(keepends=True)]), id="indented-tables"),
    ],
)
def test_layouts_of_all_years_give_the_same_rows(tmp_path, text):
    columns = ("activity_kind", "name", "calls", "total_ns", "min_ns", "max_ns", "bytes")
    found = _rows(_read(tmp_path, text), *columns)

    # Sizes are printed to 0.001 KiB or 0.001 MB; the rows differ by that rounding only.
    assert [row[:-1] for row in found] == [row[:-1] for row in EXPECTED]
    for row, expected in zip(found, EXPECTED, strict=True):
        assert (row[-1] is None) == (expected[-1] is None)
        assert row[-1] is None or abs(row[-1] - expected[-1]) <= 500


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(COLUMNS, id="column"),
        pytest.param(BOXES, id="table"),
        pytest.param(CSV, id="csv"),
        pytest.param(TSV, id="tsv"),
        pytest.param(JSON, id="json"),
        pytest.param(HTML, id="htable"),
        pytest.param("<!DOCTYPE html><body><h1>Sum</h1>\n" + HTML + "</body>", id="hdoc"),
        pytest.param(GUI, id="window"),
        pytest.param(codecs.BOM_UTF8 + CSV.encode(), id="csv-with-bom"),
        pytest.param(CSV.replace("\n", "\r\n"), id="csv-crlf"),
        pytest.param(CSV.rstrip(), id="csv-without-last-line-end"),
        pytest.param(CSV + "\nProcessing [x] with [y/osrt_sum.py]...\n", id="csv-then-more"),
        pytest.param(
            COLUMNS.replace(" (ns)", " (us)")
            .replace("6000 ", "6.00 ")
            .replace("4000 ", "4.00 ")
            .replace("3000.0", "3.0000")
            .replace("4000.0", "4.0000"),
            id="us",
        ),
    ],
)
def test_all_formats_give_the_same_rows(tmp_path, text):
    profile = _read(tmp_path, text)

    assert _kernels(profile) == TWO_KERNELS
    assert not profile.has("runs")


def _many_kernels(count):
    return [
        {**row, "Name": f"a<b>{{{'é' * (number % 7)}}}({number})"}
        for number, row in enumerate(json.loads(JSON)[:1] * count)
    ]


def _many_in_html(rows):
    lines = [rows[0].keys(), *(row.values() for row in rows)]
    cells = (["<td>" + html.escape(str(cell)) + "</td>\n" for cell in line] for line in lines)
    return "<table>" + "".join(f"<tr>{''.join(line)}</tr>" for line in cells) + "</table>"


@pytest.mark.parametrize(
    "printed",
    [
        pytest.param(lambda rows: json.dumps(rows, indent=2, ensure_ascii=False), id="json"),
        pytest.param(json.dumps, id="json-in-a-line"),
        pytest.param(_many_in_html, id="html"),
    ],
)
def test_table_of_more_rows_than_are_decoded_at_once_is_read_whole(tmp_path, printed):
    kernels = _many_kernels(6_000)
    profile = _read(tmp_path, printed(kernels) + "\nmore\n")

    assert _rows(profile, "name", "total_ns") == [(row["Name"], 6000) for row in kernels]


def test_a_ragged_row_behind_many_rows_of_csv_says_where(tmp_path):
    head, row, last = CSV.splitlines()
    lines = [head, *[row] * 12_000, "40.0,4000,1", last]

    error = _refused(tmp_path, "\n".join(lines))

    assert "line 12002: expected 6 cells as in the heading, found 3" in error.message


@pytest.mark.parametrize(
    ("whole", "broken", "reason"),
    [
        ("(5000)", '(5000)" "', "Expecting ',' delimiter"),
        ("},\n  {", "}\n  {", "Expecting ',' delimiter"),
        ("}\n]", "},\n]", "Expecting value"),
    ],
    ids=["in-a-row", "between-rows", "at-the-end"],
)
def test_json_broken_behind_many_rows_says_where(tmp_path, whole, broken, reason):
    text = json.dumps(_many_kernels(6_000), indent=2, ensure_ascii=False)
    at = text.rindex(whole)
    line = text.count("\n", 0, at) + 1
    error = _refused(tmp_path, text[:at] + broken + text[at + len(whole) :])

    found = re.search(r"line (\d+): the JSON is cut off or broken: (.*)", error.message)
    assert found is not None
    assert found[2] == reason
    assert int(found[1]) - line in (0, 1)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(JSON.replace("init", "in\\ud800it").encode(), id="half-a-character"),
        pytest.param(JSON.encode().replace(b"init", b"in\xffit"), id="no-utf-8"),
    ],
)
def test_name_in_json_that_is_no_text_is_shown_with_a_mark(tmp_path, text):
    assert _rows(_read(tmp_path, text), "name")[1] == ("in\ufffdit(float *)",)


def test_row_gives_all_its_numbers_in_base_units(tmp_path):
    row = _summary(_read(tmp_path, YEAR_2024))[2]

    assert row == {
        "run_id": None, "activity_kind": "memcpy", "name": "DtoH", "calls": 3003,
        "total_ns": 177_775_158, "min_ns": 1503, "max_ns": 85_819_776, "mean_ns": 59_199.2,
        "median_ns": 2176.0, "stddev_ns": 1_917_581.3, "bytes": 2_147_365_000,
        "printed_share": pytest.approx(0.876), "section": "memory",
    }  # fmt: skip


def test_statistics_that_an_old_version_does_not_print_are_unknown(tmp_path):
    row = _summary(_read(tmp_path, YEAR_2019))[0]

    assert (row["median_ns"], row["stddev_ns"]) == (None, None)


def test_size_that_was_rounded_to_zero_is_unknown(tmp_path):
    memset = _summary(_read(tmp_path, YEAR_2024))[4]

    assert (memset["activity_kind"], memset["calls"], memset["bytes"]) == ("memset", 3006, None)


def test_kernels_split_by_the_shapes_of_their_launches_are_no_excerpt(tmp_path):
    shares = YEAR_2022.replace("     60.0   ", "     56.9   ").replace(
        "     40.0   ", "     42.9   "
    )

    profile = _read(tmp_path, shares)

    (kernels,) = [r for r in totals(profile).to_pylist() if r["activity_group"] == "kernels"]
    assert (kernels["calls"], kernels["total_ns"]) == (1002, 4_651_720_951)


def test_kernel_split_by_the_shape_of_its_launch_is_one_row(tmp_path):
    row = _summary(_read(tmp_path, YEAR_2022))[0]

    assert (row["name"], row["calls"]) == ("stencil(float *, int)", 1000)
    assert row["mean_ns"] == 4_651_646.617
    # The parts do not tell the median or the deviation of the whole.
    assert (row["median_ns"], row["stddev_ns"]) == (None, None)
    # 60.0 and 40.0 were rounded each: their sum need not be the share of the kernel.
    assert row["printed_share"] is None


def test_names_cut_by_the_table_are_counted_and_not_merged(tmp_path):
    cut = YEAR_2022.replace("stencil(float *, int)", "stencil(float *, int…")
    profile = _read(tmp_path, cut)

    assert [row["calls"] for row in _summary(profile)[:2]] == [600, 400]
    assert profile.origin.warnings == (
        "2 names were cut to the width of the table; two may be of one kernel.",
    )


def test_four_digit_groups_are_read(tmp_path):
    text = (
        " Time (%)  Total Time (ns)  Instances   Avg (ns)   Med (ns)   Name \n"
        " --------  ---------------  ---------  ----------  --------  ------\n"
        "     53.1     44,0087,8248     1,3583   32,3999.0  3,7968.0  enqueue\n"
    )

    assert _kernels(_read(tmp_path, text)) == [("enqueue", 13583, 440_087_8248, 323_999.0)]


@pytest.mark.parametrize(
    ("total", "mean", "expected"),
    [
        pytest.param("1.391", "1.391,0", (1391, 1391.0), id="dot-groups"),
        pytest.param("1,391", "1,391.0", (1391, 1391.0), id="comma-groups"),
        pytest.param("1391", "1391.5", (1391, 1391.5), id="no-groups"),
        pytest.param("1391", "1391,5", (1391, 1391.5), id="comma-point"),
        pytest.param("391", "391,5", (391, 391.5), id="small-comma-point"),
        pytest.param("1 391", "1 391,5", (1391, 1391.5), id="blank-groups"),
        pytest.param("1\u202f391", "1\u202f391,5", (1391, 1391.5), id="narrow-blank-groups"),
    ],
)
def test_locale_follows_from_columns_that_must_be_integers(tmp_path, total, mean, expected):
    text = (
        " Time(%)  Total Time (ns)  Instances  Average   Name\n"
        " -------  ---------------  ---------  --------  ----\n"
        f"   100{mean[-2]}0  {total:>15}          1  {mean:>8}  init\n"
    )
    row = _summary(_read(tmp_path, text))[0]

    assert (row["total_ns"], row["mean_ns"]) == expected


def test_small_numbers_are_read_in_the_style_of_the_table_before(tmp_path):
    # Alone, 1,000 KiB would be one; the times above say that a dot groups and a comma does not.
    dots = YEAR_2021.translate(str.maketrans(",.", ".,")).replace("*. int", "*, int")
    text = dots.replace("2.097.036,133       3.003", "        1,000       3.003")

    assert _summary(_read(tmp_path, text))[2]["bytes"] == 1024


def test_reports_of_several_recordings_are_not_added_up(tmp_path):
    text = YEAR_2022 + "my program says\n" + YEAR_2022.replace("     600  ", "     500  ")
    error = _refused(tmp_path, text)

    assert isinstance(error, InputError)
    assert error.message == f"{tmp_path}/report.txt holds 2 recordings, which are not added up"
    assert error.hint == (
        "Name one with --section: 1 (4.85 s of GPU time), 2 (4.85 s of GPU time) or all."
    )
    second = _read(tmp_path, text, section=2)
    assert _summary(second)[0]["calls"] == 900
    assert second.origin.warnings == ("Section 2 of 2 of the file: 4.85 s of GPU time.",)


def test_reports_of_several_recordings_are_added_up_when_asked_for(tmp_path):
    profile = _read(tmp_path, YEAR_2022 + YEAR_2022, section="all")

    assert profile.table("runs").column("run_id").to_pylist() == [0, 1]
    assert [row["run_id"] for row in _summary(profile)] == [0] * 6 + [1] * 6
    assert profile.origin.warnings == ("2 recordings of the file are added up.",)


def test_reports_without_a_label_that_follow_one_another_are_not_added_up(tmp_path):
    text = COLUMNS + "\n\n" + COLUMNS.replace("          2  ", "          4  ")

    sections = [_read(tmp_path, text, section=number) for number in (1, 2)]

    assert [_rows(profile, "calls")[0] for profile in sections] == [(2,), (4,)]


def test_reports_of_processes_that_print_at_once_are_told_apart_by_their_order(tmp_path):
    api, kernels, by_time, by_size = YEAR_2021.split("\n\n\n\n")
    mixed = (api, kernels, api, by_time, kernels, by_size, by_time, by_size)
    profile = _read(tmp_path, "\n\n\n\n".join(mixed))

    assert [row["run_id"] for row in _summary(profile)] == [0] * 6 + [1] * 6
    assert [row["bytes"] is None for row in _summary(profile)].count(False) == 4
    assert profile.origin.warnings == (
        (
            "Sums are over 2 processes of one job. Their reports have no labels and are matched by "
            "their order."
        ),
    )


def test_title_of_another_process_does_not_change_what_a_table_is(tmp_path):
    api, kernels = YEAR_2021.split("\n\n\n\n")[:2]
    heading, *rest = kernels.split("\n\n")
    mixed = "\n\n".join([heading, api.splitlines()[0], *rest])

    assert {row["activity_kind"] for row in _summary(_read(tmp_path, mixed))} == {"kernel"}


def test_report_printed_twice_counts_once(tmp_path):
    assert len(_summary(_read(tmp_path, YEAR_2024 + YEAR_2024))) == len(EXPECTED)


def test_other_view_of_the_same_kernels_counts_once(tmp_path):
    view = (
        YEAR_2024[YEAR_2024.index("Processing [run.sqlite]") :]
        .replace("cuda_gpu_kern_sum.py]", "cuda_gpu_kern_sum.py](nvtx-name:base)")
        .replace("stencil(float *, int)", "step/stencil         ")
    )

    names = _rows(_read(tmp_path, YEAR_2024 + view), "name")
    assert ("stencil(float *, int)",) in names
    assert ("step/stencil",) not in names


def test_sums_of_everything_stand_in_for_sums_of_kernels_and_copies(tmp_path):
    text = (
        "Time (%),Total Time (ns),Instances,Avg (ns),Category,Operation\n"
        "70.0,70,1,70.0,CUDA_API,cudaMalloc\n"
        "20.0,20,2,10.0,CUDA_KERNEL,init(float *)\n"
        "10.0,10,1,10.0,MEMORY_OPER,[CUDA memcpy Host-to-Device]\n"
    )
    columns = ("activity_kind", "name", "total_ns", "printed_share", "section")

    assert _rows(_read(tmp_path, text), *columns) == [
        ("kernel", "init(float *)", 20, None, None),
        ("memcpy", "HtoD", 10, None, None),
        ("api", "cudaMalloc", 70, None, None),
    ]


def test_calls_of_the_operating_system_are_not_calls_of_cuda(tmp_path):
    text = YEAR_2024.replace("cudaMalloc\n", "poll\n")

    assert "api" not in {row["activity_kind"] for row in _summary(_read(tmp_path, text))}


def test_the_path_of_the_scripts_tells_who_printed_and_not_who_recorded(tmp_path):
    origin = _read(tmp_path, YEAR_2024).origin

    assert (origin.tool_version, origin.exporter_version) == (None, "2024.6.2")


def test_doubt_of_the_tool_reaches_the_user(tmp_path):
    doubt = "WARNING: Not all CUDA events might have been collected."

    assert _read(tmp_path, f"{doubt}\n{YEAR_2024}").origin.warnings == (doubt,)


def test_report_after_megabytes_of_output_is_found(tmp_path):
    noise = "step 1 loss 0.1 Total tokens 5 --- - +--+ Duration 3\n" * 20_000

    assert _kernels(_read(tmp_path, noise + COLUMNS)) == TWO_KERNELS


def test_trace_gives_kernels_copies_and_memsets(tmp_path):
    profile = _read(tmp_path, TRACE)
    kernel = profile.table("kernels").to_pylist()[0]

    expected = {
        "start_ns": 900, "end_ns": 1000, "device_id": 1, "context_id": 1, "stream_id": 7,
        "process_id": None, "correlation_id": 5, "name": "stencil(float *, int)",
        "grid_x": 2, "grid_y": 3, "grid_z": 1, "block_x": 32, "block_y": 8, "block_z": 1,
        "registers_per_thread": 16, "static_shared_memory_bytes": 4000,
    }  # fmt: skip
    assert kernel == {**dict.fromkeys(kernel), **expected}
    columns = ("start_ns", "end_ns", "device_id", "memcpy_kind", "src_memory_kind", "bytes")
    assert rows(profile, "memcpys", *columns, "src_device_id", "path") == [
        (100, 300, 1, "HtoD", "pageable", 66_000, None, None),
        (400, 450, 0, "DtoH", "device", 66_000, None, "staged"),
    ]
    assert rows(profile, "memsets", "start_ns", "bytes", "memory_kind") == [(500, None, "device")]
    assert not profile.has("activity_summary")


def test_trace_names_its_devices(tmp_path):
    profile = _read(tmp_path, TRACE)

    name = "Tesla V100-SXM2-16GB"
    assert rows(profile, "devices", "device_id", "name") == [(0, name), (1, name)]


def test_empty_cells_of_a_trace_may_read_none(tmp_path):
    old = TRACE.replace("," * 10, ",None" * 9 + ",")
    old = old.replace("GreenCtx,", "").replace(",1,,7,", ",1,7,")

    for name in ("kernels", "memcpys", "memsets"):
        assert _read(tmp_path, old).table(name) == _read(tmp_path, TRACE).table(name)


def test_trace_in_whole_seconds_gives_its_sums_only(tmp_path):
    text = TRACE.replace("\n900,", "\n0,").replace("\n100,", "\n0,")
    text = text.replace("\n400,", "\n0,").replace("\n500,", "\n0,")
    profile = _read(tmp_path, text)

    assert not profile.has("kernels")
    assert _rows(profile, "name", "calls", "total_ns") == [
        ("stencil(float *, int)", 1, 100), ("HtoD", 1, 200), ("DtoH", 1, 50), ("memset", 1, 50)
    ]  # fmt: skip
    assert profile.origin.warnings == (
        "The trace has starts in whole seconds only; only its sums are read.",
    )


def test_traces_of_several_recordings_are_sections_which_add_up_to_sums_only(tmp_path):
    header = "Processing [{}.sqlite] with [x/cuda_gpu_trace.py]...\n"
    text = f"{header.format('a')}{TRACE}\n{header.format('b')}{TRACE}"

    every, second = (_read(tmp_path, text, section=section) for section in ("all", "b.sqlite"))

    assert not every.has("kernels")
    assert [row["run_id"] for row in _summary(every)] == [0] * 4 + [1] * 4
    assert second.table("kernels").num_rows == 1


def test_a_trace_after_the_sums_of_another_recording_is_a_section_of_its_own(tmp_path):
    header = "Processing [{}.sqlite] with [x/{}.py]...\n"
    sums, trace = header.format("a", "cuda_gpu_kern_sum"), header.format("b", "cuda_gpu_trace")
    text = f"{sums}{CSV}\n{trace}{TRACE}"

    first, second = (_read(tmp_path, text, section=number) for number in (1, 2))

    assert (first.has("kernels"), second.has("kernels")) == (False, True)
    assert not second.has("activity_summary")
    with pytest.raises(UsageError) as caught:
        _read(tmp_path, text, section="all")
    assert caught.value.message == f"{tmp_path}/report.txt holds 2 traces, which share no clock"


def test_sums_of_calls_beside_a_trace_do_not_hide_its_kernels(tmp_path):
    calls = "Time (%),Total Time (ns),Num Calls,Avg (ns),Name\n100.0,70,1,70.0,cudaMalloc\n\n"
    profile = _read(tmp_path, calls + TRACE)

    kinds = {row["activity_kind"]: row["calls"] for row in _summary(profile)}
    assert kinds == {"api": 1, "kernel": 1, "memcpy": 1, "memset": 1}
    assert profile.has("kernels", "memcpys", "memsets")


def test_trace_of_calls_gives_api_calls(tmp_path):
    text = (
        "Start (ns),Duration (ns),Name,Result,CorrID,Pid,Tid,T-Pri,Thread Name\n"
        "20,5,cuLaunchKernel,0,118,508549,508550,20,trainer\n"
        "10,5,cudaMalloc,0,117,508549,508549,20,trainer\n"
    )
    columns = ("start_ns", "end_ns", "api", "name", "process_id", "thread_id", "correlation_id")
    assert rows(_read(tmp_path, text), "api_calls", *columns) == [
        (10, 15, "runtime", "cudaMalloc", 508549, 508549, 117),
        (20, 25, "driver", "cuLaunchKernel", 508549, 508550, 118),
    ]


def test_a_call_with_a_backtrace_stands_once_in_a_trace(tmp_path):
    text = (
        "Start (ns),Duration (ns),Name,Result,CorrID,Pid,Tid,T-Pri,Thread Name\n"
        "9,11,cudaMalloc,0,117,7,7,20,trainer\n"
        "10,9,cudaMalloc,0,117,7,7,20,trainer\n"
        "12,3,cuMemAlloc_v2,0,117,7,7,20,trainer\n"
        "40,9,cudaMalloc,0,117,8,8,20,of another process\n"
        "60,2,cudaFree,0,,7,7,20,without a number\n"
        "70,1,cudaFree,0,,7,7,20,without a number\n"
    )

    assert rows(_read(tmp_path, text), "api_calls", "name", "start_ns", "end_ns") == [
        ("cudaMalloc", 10, 19),
        ("cuMemAlloc_v2", 12, 15),
        ("cudaMalloc", 40, 49),
        ("cudaFree", 60, 62),
        ("cudaFree", 70, 71),
    ]


def test_calls_with_backtraces_stand_once_in_sums(tmp_path):
    text = (
        "Time (%),Total Time (ns),Num Calls,Avg (ns),Name\n"
        "50.0,110,2,55.0,cudaMalloc\n"
        "45.0,100,2,50.0,cudaMalloc\n"
        "4.0,9,1,9.0,cudaFree\n"
        "1.0,8,3,2.7,cudaFree\n"
    )
    profile = _read(tmp_path, text)

    sums = [("cudaMalloc", 2, 100), ("cudaFree", 3, 8)]
    assert _rows(profile, "name", "calls", "total_ns") == sums
    (api,) = [r for r in totals(profile).to_pylist() if r["activity_group"] == "api_calls"]
    assert (api["calls"], api["total_ns"], api["implied_ns"]) == (5, 108, None)


SKIPPED = "SKIPPED: a.sqlite does not contain CUDA kernel data.\n"
RECORD = "Record with `gpuprof record`, or with `nsys profile --trace=cuda`."


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param(SKIPPED, "nsys found no CUDA kernel data", id="skipped"),
        pytest.param(
            f"{SKIPPED}SKIPPED: a.sqlite does not contain NV Tools Extension (NVTX) data.\n{SKIPPED}",
            "nsys found no CUDA kernel data",
            id="skipped-more-than-cuda",
        ),
        pytest.param(
            CSV.splitlines()[0] + "\n", "the report of nsys has no rows", id="header-only"
        ),
        pytest.param(
            "\n".join(COLUMNS.splitlines()[:2]), "the report of nsys has no rows", id="dashes-only"
        ),
        pytest.param(
            CSV.replace("Instances", "Num Calls").replace("stencil", "poll"),
            "has no report on CUDA",
            id="operating-system-only",
        ),
        pytest.param(
            "[3/8] Executing 'osrt_sum' stats report\n", "has no report on CUDA", id="title-only"
        ),
    ],
)
def test_report_without_cuda_is_an_empty_recording(tmp_path, text, message):
    error = _refused(tmp_path, text)

    assert isinstance(error, EmptyRecordingError)
    assert error.message == f"{tmp_path}/report.txt: {message}"
    assert error.hint == RECORD


def test_a_word_for_a_number_in_columns_says_where(tmp_path):
    text = "noise\n" + COLUMNS.replace("     60.0   ", "     6x.0   ")

    error = _refused(tmp_path, text)

    assert (
        error.message
        == f'{tmp_path}/report.txt, line 4: expected a number, found "6x.0" under Time'
    )


@pytest.mark.parametrize("text", [COLUMNS, CSV, BOXES], ids=["column", "csv", "table"])
def test_row_that_the_end_of_the_file_cuts_off_is_left_out_and_said(tmp_path, text):
    cut = text[: text.rindex("4000") - 4]
    profile = _read(tmp_path, cut)

    assert _kernels(profile) == TWO_KERNELS[:1]
    assert profile.origin.warnings == ("The file ends in the middle of a row, which is left out.",)


def test_a_row_of_json_longer_than_any_that_nsys_prints_is_said(tmp_path):
    error = _refused(tmp_path, JSON.replace("stencil", "s" * 300_000))

    assert error.message == f"{tmp_path}/report.txt, line 8: a row is longer than 256 KiB"


def test_no_report_under_its_name_is_said(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("nothing here\n")

    with pytest.raises(CorruptFileError) as caught:
        gpuprof.read_profile(path, reader="nsys-stats")
    assert caught.value.message == f"{path}: has no report of nsys"


@pytest.mark.parametrize(
    "text",
    [
        "+-----+-----+\n| GPU | Fan |\n+-----+-----+\n|  0  |  40 |\n+-----+-----+\n",
        "name   value\n-----  -----\nTotal  5\n",
        '[{"Total cost": 1}]',
        "Time,Total Time per epoch\n1,2\n",
        "<html><table><tr><th>Total</th></tr></table>",
        "** Note (important): read this\n",
    ],
)
def test_tables_of_others_are_not_taken(tmp_path, text):
    path = tmp_path / "other.txt"
    path.write_text(text)

    assert not nsys_stats.READER.recognises(text.encode())
    assert not nsys_stats.READER.searches(path)


def test_a_carriage_return_within_the_last_row_is_refused_as_any_other_ragged_row(tmp_path):
    error = _refused(tmp_path, CSV.rstrip("\n") + "\rb")

    assert error.message.endswith("expected 6 cells as in the heading, found 1")


def test_calls_of_a_recording_without_gpu_work_are_no_section(tmp_path):
    header = "Processing [{}.sqlite] with [x/{}.py]...\n"
    calls = "Time (%),Total Time (ns),Num Calls,Avg (ns),Name\n100.0,70,1,70.0,cudaMalloc\n\n"
    idle, busy = header.format("a", "cuda_api_sum"), header.format("b", "cuda_gpu_kern_sum")

    assert _kernels(_read(tmp_path, f"{idle}{calls}{busy}{CSV}")) == TWO_KERNELS


def test_sums_of_kernels_stand_beside_a_trace_of_them_and_count_once(tmp_path):
    profile = _read(tmp_path, f"{CSV}\n{TRACE}")

    assert _kernels(profile) == TWO_KERNELS
    assert profile.has("kernels")
