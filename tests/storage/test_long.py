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


@pytest.mark.parametrize("missing", ["", None, np.nan])
@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_lines_without_an_id(suffix, missing, tmp_path):
    path = tmp_path / f"long{suffix}"
    ids = np.array([1.0, missing]) if missing is np.nan else np.array(["a", missing], object)
    if suffix == ".csv":
        path.write_text("who,rating\na,1\n,2\n")
    else:
        write_long(path, {"who": ids, "rating": np.ones(2)})
    with pytest.raises(FileError, match=r"an empty cell in column 'who', (line 3|row 2)"):
        read_long(path, ("who", "rating"), ("rating",))


def test_several_columns_of_one_name(tmp_path):
    path = tmp_path / "long.csv"
    path.write_text("who,rating,rating\na,1,2\n")
    with pytest.raises(FileError, match="several columns 'rating'"):
        read_long(path, ("who", "rating"), ("rating",))


def test_numbers_have_no_underscores(tmp_path):
    path = tmp_path / "long.csv"
    path.write_text("who,rating\na,1_000\n")
    with pytest.raises(FileError, match="'1_000' in column 'rating', line 2"):
        read_long(path, ("who", "rating"), ("rating",))
