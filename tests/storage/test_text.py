"""What is a label and what a number in .csv and .tsv files."""

import numpy as np
import pytest

from weakprox.storage import FileError, read_matrix

NUMBERS = [[1.0, 2.0], [3.0, 4.0]]
CASES = {
    "bare": ("1,2\n3,4\n", None, None),
    "no last newline": ("1,2\n3,4", None, None),
    "Windows": ("\ufeffa,b\r\n1,2\r\n3,4\r\n", None, ("a", "b")),
    "blank lines": ("\n1,2\n\n3,4\n\n", None, None),
    "spaces": (" 1 , 2\n3,  4\n", None, None),
    "header": ("a,b\n1,2\n3,4\n", None, ("a", "b")),
    "both": ("id,a,b\nx,1,2\ny,3,4\n", ("x", "y"), ("a", "b")),
    "both, some labels missing": ("id,a,b\nx,1,2\nNA,3,4\n", ("x", "NA"), ("a", "b")),
    "names, a column called id": ("id,b\n1,2\n3,4\n", None, ("id", "b")),
    "pandas": (",0,1\n0,1,2\n1,3,4\n", ("0", "1"), ("0", "1")),
    "R": ('"a","b"\n"1",1,2\n"2",3,4\n', ("1", "2"), ("a", "b")),
    "quoted commas": ('id,"a,1","b"\n"x, y",1,2\n"z",3,4\n', ("x, y", "z"), ("a,1", "b")),
    "a label that is a number": (",a,b\nx,1,2\n5,3,4\n", ("x", "5"), ("a", "b")),
    "exponents": ("1e0,+2\n.3e1,4.\n", None, None),
}


@pytest.mark.parametrize(
    ("kind", "suffix"),
    [(kind, ".csv") for kind in CASES]
    + [(kind, ".tsv") for kind in CASES if kind != "quoted commas"],
)
def test_labels_are_told_from_numbers(kind, suffix, tmp_path):
    text, rows, columns = CASES[kind]
    if suffix == ".tsv":
        text = text.replace(",", "\t")
    path = tmp_path / f"a{suffix}"
    path.write_text(text, encoding="utf-8", newline="")
    found = read_matrix(path)
    np.testing.assert_array_equal(found.values, NUMBERS)
    assert (found.rows, found.columns) == (rows, columns)


def test_one_labelled_column(tmp_path):
    (tmp_path / "a.csv").write_text("v\nx,1\ny,2\n")  # as R writes it
    found = read_matrix(tmp_path / "a.csv")
    assert (found.rows, found.columns) == (("x", "y"), ("v",))
    np.testing.assert_array_equal(found.values, [[1.0], [2.0]])


@pytest.mark.parametrize("text", ["v\n1\n2\n", "1\n2\n"])
def test_one_column(text, tmp_path):
    (tmp_path / "a.csv").write_text(text)
    found = read_matrix(tmp_path / "a.csv")
    np.testing.assert_array_equal(found.values, [[1.0], [2.0]])
    assert found.columns == (("v",) if "v" in text else None)


def test_header_can_be_said(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("2001,2002\n1,2\n3,4\n")
    assert read_matrix(path).shape == (3, 2)
    found = read_matrix(path, header=True)
    assert found.columns == ("2001", "2002")
    np.testing.assert_array_equal(found.values, NUMBERS)
    path.write_text("id,2001,2002\nx,1,2\ny,3,4\n")
    found = read_matrix(path, header=True)
    assert (found.rows, found.columns) == (("x", "y"), ("2001", "2002"))
    assert read_matrix(path, header=False).shape == (3, 2)
    path.write_text("x,1,2\ny,3,4\n")
    found = read_matrix(path, header=False)
    assert (found.rows, found.columns, found.shape) == (("x", "y"), None, (2, 2))
    path.write_text("x,1,2\n5,3,4\n")
    with pytest.raises(FileError, match="number 5 at row 2, column 1"):
        read_matrix(path, header=False)
    path.write_text("a,b\n1,2\n")
    with pytest.raises(FileError, match="'b' at row 'a'"):
        read_matrix(path, header=False)
    path.write_text("a,b,c\n1,2\n")
    with pytest.raises(FileError, match="3 column names"):
        read_matrix(path)


def test_missing_cells_become_nan_where_allowed(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("id,a,b,c\nx,1,,NA\ny,nan,NaN,4\n")
    found = read_matrix(path, missing=True)
    np.testing.assert_array_equal(found.values, [[1, np.nan, np.nan], [np.nan, np.nan, 4]])
    assert found.rows == ("x", "y")
    path.write_text("1,inf\n")
    with pytest.raises(FileError, match="infinite"):
        read_matrix(path, missing=True)


def test_long_text_in_an_error_is_cut(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("1,2\n3," + "x" * 5000 + "\n")
    with pytest.raises(FileError) as caught:
        read_matrix(path)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("encoding", ["utf-16", "latin1"])
def test_other_encodings_are_named(tmp_path, encoding):
    path = tmp_path / "a.csv"
    path.write_text("é,b\n1,2\n", encoding=encoding)
    with pytest.raises(FileError, match=f"iconv -f {encoding}"):
        read_matrix(path)
