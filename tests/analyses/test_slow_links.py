"""Links that are slower than others of their kind."""

from drawing import draw

from gpuprof.analyses.peer_matrix import slow_links

SIZE = 1_000_000


def _copies(durations_ns, size=SIZE):
    return [
        (
            0,
            ns,
            {"memcpy_kind": "HtoD", "bytes": size, "device_id": device, "dst_device_id": device},
        )
        for device, ns in enumerate(durations_ns)
    ]


def test_the_slow_one_of_alike_links_is_named_with_what_it_loses():
    (row,) = slow_links(draw(memcpys=_copies([100, 100, 105, 200, 100]))).to_pylist()

    assert (row["src"], row["dst"], row["routes"]) == ("host", "device 3", 5)
    assert row["rate_ratio"] == 0.5
    assert row["lost_ns"] == 100


def test_a_link_that_is_a_little_slower_is_not_named():
    assert slow_links(draw(memcpys=_copies([100, 100, 105, 120, 100]))).num_rows == 0


def test_few_links_have_no_outlier():
    assert slow_links(draw(memcpys=_copies([100, 100, 200]))).num_rows == 0


def test_small_copies_are_not_compared_with_large_ones():
    small = [(0, 200, {**row[2], "bytes": SIZE // 10}) for row in _copies([1])]
    small = [(start, end, row | {"device_id": 9, "dst_device_id": 9}) for start, end, row in small]

    assert slow_links(draw(memcpys=[*_copies([100] * 5), *small])).num_rows == 0
