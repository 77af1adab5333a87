import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuprof.facts.numbers import ByNumber

numbers = st.integers(-(1 << 40), 1 << 40) | st.integers(0, 50)


@given(
    st.dictionaries(numbers, st.integers(-5, 70_000)),
    st.lists(numbers),
    st.integers(-1, 1),
)
def test_each_number_gives_the_value_of_its_name(values, asked, missing):
    by_number = ByNumber([*values], [*values.values()], missing)
    asked += [*values]

    given_values = by_number.of(np.array(asked, np.int64))

    assert given_values.tolist() == [values.get(number, missing) for number in asked]


@pytest.mark.parametrize("kind", [np.int8, np.int16, np.int32, np.int64])
def test_numbers_may_be_as_narrow_as_their_column(kind):
    by_number = ByNumber([1, 2, 300], [10, 20, 30], 0)

    assert by_number.of(np.array([2, 1, -2, 127], kind)).tolist() == [20, 10, 0, 0]
