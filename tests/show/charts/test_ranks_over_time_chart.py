"""Heat maps of what the devices of a job do when."""

import re
from functools import cache

from collective_jobs import REDUCE, Job
from pictures import figure
from ranks.joint import ranks_of

from gpuprof.readers.merged_ranks import joined
from gpuprof.show.charts import ranks


@cache
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
