"""Heat maps of what the devices of a job do when."""

import re

import pyarrow as pa
from collective_jobs import REDUCE, Job
from pictures import figure
from ranks.joint import ranks_of

from gpuprof.readers.merged_ranks import joined
from gpuprof.show.charts import of_recording, picture_of, ranks
from gpuprof.show.page.figures import heat_maps as laid_out
from gpuprof.show.page.recording_page import recording_page


def late_job(late="host"):
    """Six ranks, of which rank 2 idles before each collective."""
    return joined(ranks_of(Job(6, 20, seed=3, names=(REDUCE,), late=late).drawn()))


def test_each_part_has_a_panel_with_a_row_per_device():
    shown = figure(ranks.OVER_TIME, late_job())

    titles = [axes.get_title(loc="left").partition(": ") for axes in shown.axes[:4]]
    assert all(re.fullmatch(r"[\d.]+ % in the median", share) for *_, share in titles)
    panels = {
        name: axes.images[0].get_array()
        for (name, *_), axes in zip(titles, shown.axes, strict=False)
    }
    assert [*panels] == [title for title, _ in ranks.PARTS.values()]
    idle, communication = panels["idle"], panels["communication that no compute hides"]
    assert idle.shape[0] == 6
    assert idle.max(axis=1).argmax() == 2
    # The others wait for it meanwhile.
    assert communication.mean(axis=1).argmin() == 2
    assert [label.get_text() for label in shown.axes[0].get_yticklabels()] == [
        f"rank {rank}" for rank in range(6)
    ]


def test_the_title_names_the_rank_that_differs():
    title = figure(ranks.OVER_TIME, late_job()).get_suptitle().replace("\n", " ")

    assert re.fullmatch(r"Rank 2 idles [\d.]+ % of the time, [\d.]+ % in the median", title)


def test_where_all_are_alike_the_title_says_what_they_do():
    title = figure(ranks.OVER_TIME, late_job(None)).get_suptitle().replace("\n", " ")

    assert re.fullmatch(r"The median of 6 devices computes [\d.]+ % of the time", title)


def test_the_page_of_a_job_has_the_heat_maps_and_that_of_one_file_has_not():
    job = late_job()

    page, alone = recording_page(job), recording_page(job.parts[0].profile)

    assert "Rank 2 idles" in page
    assert page.count('class="panel"') == 4
    assert 'class="panel"' not in alone


def test_a_page_joins_cells_of_many_devices():
    rows = picture_of(ranks.OVER_TIME, of_recording(late_job(), ranks.OVER_TIME)).rows
    device = rows["device_id"].to_numpy()
    place = rows.column_names.index("device_id")
    # The same six devices 40 times.
    many = pa.concat_tables(
        [rows.set_column(place, "device_id", pa.array(device + 6 * n)) for n in range(40)]
    )
    few_cells, many_cells = (laid_out(ranks.heat_maps(shown)) for shown in (rows, many))

    assert few_cells["scale"] < many_cells["scale"]
    assert len(many_cells["panels"][0]["rows"]) == 240
    for shown in (few_cells, many_cells):
        for _, _, paths in (row for panel in shown["panels"] for row in panel["rows"]):
            cells = [cell for _, path in paths for cell in re.findall(r"M(\d+) 0h(\d+)", path)]
            ends = [int(begin) + int(width) for begin, width in cells]
            assert max(ends) * shown["scale"] < 1000 - shown["cells_x"] + shown["scale"]
    assert many_cells["height"] < 2_000
