"""Columns as Arrow data, and Arrow data as columns: numbers with flags of nulls, or words."""

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gpuprof.model.derived import UNKNOWN
from gpuprof.model.schema import LARGEST, arrow, numpy_dtype, texts
from gpuprof.model.words import Values, narrowed

# Texts as numbers of the different ones.
CODED_TEXTS: Final = pa.dictionary(pa.int32(), pa.string())
# So many words are numbered, or written out, before pyarrow.compute, which is faster, is imported.
_FEW_WORDS: Final = 16_384
_WIDE: Final = 8  # bytes


def values(array: pa.Array) -> Values:
    """A column of a file: numbers of any width, flags and texts, perhaps as a dictionary."""
    is_coded = pa.types.is_dictionary(array.type)
    kind = array.type.value_type if is_coded else array.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _coded(array)
    if pa.types.is_null(kind):
        return Values(np.full(len(array), UNKNOWN, np.int8), np.ones(len(array), bool))
    if is_coded:
        of, is_null, _ = values(array.indices)
        # What stands in the place of a null is anything.
        place = of if is_null is None else np.where(is_null, 0, of)
        different = values(array.dictionary)
        if different.is_null is not None:
            of_rows = different.is_null[place]
            is_null = of_rows if is_null is None else is_null | of_rows
        return Values(different.numbers[place] if len(different.numbers) else place, is_null)
    low, high = array.offset, array.offset + len(array)
    if pa.types.is_boolean(kind):
        numbers: npt.NDArray[Any] = _bits(array.buffers()[1], low, high)
    else:
        dtype = numpy_dtype(kind)
        numbers = np.frombuffer(array.buffers()[1] or b"", dtype)[low:high]
        if dtype.kind == "u":
            # Of eight bytes, what is beyond the bounds of all columns stays what it is.
            is_huge = dtype.itemsize == _WIDE and len(numbers) and numbers.max() > LARGEST
            wider = {1: np.int16, 2: np.int32}.get(dtype.itemsize, np.int64)
            numbers = numbers if is_huge else numbers.astype(wider)
    return Values(numbers, ~_bits(array.buffers()[0], low, high) if array.null_count else None)


def _coded(column: pa.Array) -> Values:
    """A column of words as places among its different ones, and these."""
    if pa.types.is_dictionary(column.type):
        words, (of, is_null, _) = column.dictionary.to_pylist(), values(column.indices)
        if is_null is None:
            return Values(of, None, words)
        return Values(np.where(is_null, np.int32(len(words)), of), None, [*words, None])
    if len(column) > _FEW_WORDS:
        encoded = column.dictionary_encode(null_encoding="encode")
        numbers = np.asarray(np.from_dlpack(encoded.indices), np.int32)
        return Values(numbers, None, encoded.dictionary.to_pylist())
    place: dict[str | None, int] = {}
    codes = [place.setdefault(word, len(place)) for word in column.to_pylist()]
    return Values(np.array(codes, np.int32), None, [*place])


def _bits(buffer: Any, low: int, high: int) -> npt.NDArray[np.bool_]:
    bits = np.frombuffer(buffer or b"", np.uint8)
    return np.unpackbits(bits, bitorder="little")[low:high].astype(bool)


def as_arrow(column: Values, kind: pa.DataType | None = None) -> pa.Array:
    """A column as Arrow data, of some type where that is given."""
    numbers, is_null, words = column
    if words is not None:
        if kind != CODED_TEXTS and len(numbers) <= _FEW_WORDS:
            return texts([words[place] for place in numbers.tolist()])
        if kind != CODED_TEXTS:
            places = arrow(narrowed(numbers))
            return pa.DictionaryArray.from_arrays(places, texts([*words])).dictionary_decode()
        # Arrow joins dictionaries without nulls alone.
        places = numbers.astype(np.int32)
        nothing = np.array([word is None for word in words])
        return pa.DictionaryArray.from_arrays(
            arrow(places, nothing[places]), texts(["" if word is None else word for word in words])
        )
    if kind is not None and (dtype := numpy_dtype(kind)) != numbers.dtype:
        numbers = numbers.astype(dtype)
    return arrow(numbers, is_null)
