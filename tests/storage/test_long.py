"""Long tables: one observation in each line."""

import numpy as np
import pytest

from weakprox.storage import FileError
from weakprox.storage.long import read_long, write_long

pytest.importorskip("pyarrow")
COLUMNS = {
    "who": np.array(["a", "b", "a"]),
    "film": np.array([3, 1, 2]),
    "rating": np.array([1.5, np.nan, -2.0]),
}


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".parquet"])
def test_round_trip(suffix, tmp_path):
    path = tmp_path / f"long{suffix}"
    write_long(path, COLUMNS)
    found = read_long(path, ("who", "rating"), ("rating",))
    assert list(found) == ["who", "rating"]
    assert found["who"].tolist() == ["a", "b", "a"]
    np.testing.assert_array_equal(found["rating"], COLUMNS["rating"])


def test_bad_cells_are_named_by_their_line(tmp_path):
    """Empty lines are skipped, and counted."""
    path = tmp_path / "long.csv"
    path.write_text("who,rating\n\na,1\n\nb,good\n")
    with pytest.raises(FileError, match="'good' in column 'rating', line 5"):
        read_long(path, ("who", "rating"), ("rating",))


def test_text_in_a_column_of_numbers_of_a_parquet_file(tmp_path):
    path = tmp_path / "long.parquet"
    write_long(path, COLUMNS)
    with pytest.raises(FileError, match="text in column 'who'"):
        read_long(path, ("who",), ("who",))
    with pytest.raises(FileError, match="no column 'year'"):
        read_long(path, ("who", "year"), ())
