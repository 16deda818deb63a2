"""Text as other programs write it: separators, decimal commas, indices, sheets."""

from pathlib import Path

import numpy as np
import pytest

from weakprox import InputError
from weakprox.storage import FileError, read_matrix
from weakprox.storage.long import read_long
from weakprox.storage.sheets import Cells
from weakprox.storage.text import Layout, read_cells

GOOD = np.array([[1.5, -2.0, 3.25], [4.0, 5.5, -6.75], [7.0, 8.0, 9.125]])


def written(path, separator, decimal=".", head="", labels=False):
    def cell(x):
        return str(x).replace(".", decimal)

    lines = [head] if head else []
    for i, row in enumerate(GOOD):
        cells = [cell(x) for x in row]
        lines.append(separator.join([f"row {i}", *cells] if labels else cells))
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize(("header", "labels"), [(False, False), (True, False), (True, True)])
@pytest.mark.parametrize(
    ("suffix", "separator", "decimal", "notes"),
    [
        (".csv", ",", ".", ()),
        (".csv", ";", ".", ("cells separated by semicolons",)),
        (".csv", ";", ",", ("cells separated by semicolons", "decimal commas")),
        (".csv", "\t", ".", ("cells separated by tabs",)),
        (".tsv", "\t", ".", ()),
        (".tsv", "\t", ",", ("decimal commas",)),
        (".tsv", ",", ".", ("cells separated by commas",)),
        (".txt", ",", ".", ("cells separated by commas",)),
        (".txt", "\t", ",", ("cells separated by tabs", "decimal commas")),
        (".txt", "|", ".", ("cells separated by bars",)),
    ],
)
def test_dialects_are_detected(tmp_path, suffix, separator, decimal, notes, header, labels):
    head = separator.join([""] * labels + ["a", "b", "c"]) if header else ""
    path = written(tmp_path / f"m{suffix}", separator, decimal, head, labels)
    found = read_matrix(path)
    np.testing.assert_array_equal(found.values, GOOD)
    assert found.notes == notes
    assert found.columns == (("a", "b", "c") if header else None)
    assert found.rows == (("row 0", "row 1", "row 2") if labels else None)
    assert found.doubts == ()


def test_white_space_and_comments_in_txt(tmp_path):
    path = tmp_path / "m.txt"
    np.savetxt(path, GOOD, header="made by np.savetxt")
    found = read_matrix(path)
    np.testing.assert_array_equal(found.values, GOOD)
    assert found.notes == ("cells separated by spaces",)
    path.write_text("  1.5   2\n 3    4.25\n")
    np.testing.assert_array_equal(read_matrix(path).values, [[1.5, 2.0], [3.0, 4.25]])


def test_what_is_given_is_not_detected(tmp_path):
    path = written(tmp_path / "m.csv", ";", ",")
    found = read_matrix(path, sep=";", decimal=",")
    np.testing.assert_array_equal(found.values, GOOD)
    assert found.notes == ()
    path.write_text("1,5\n2,5\n")
    np.testing.assert_array_equal(read_matrix(path).values, [[1, 5], [2, 5]])
    np.testing.assert_array_equal(
        read_matrix(path, sep="semicolon", decimal=",").values, [[1.5], [2.5]]
    )


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("m.csv", "1;2;3\n4;5;6\n7;8,5;9\n" + 10 * "1;1;1\n"),
        ("m.csv", "1;2,5\n3;4\n"),
        ("m.tsv", "a\tb\n" + 10 * "1\t2\n" + "1,5\t2\n"),
    ],
)
def test_a_few_decimal_commas_among_integers_are_found(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    found = read_matrix(tmp_path / name)
    assert "decimal commas" in found.notes
    assert np.mod(found.values, 1.0).sum() == 0.5


def test_points_among_decimal_commas_are_refused(tmp_path):
    path = tmp_path / "m.csv"
    path.write_text("1,5;2,5\n3,5;4,5\n1.234;5,5\n")
    with pytest.raises(FileError, match="among decimal commas"):
        read_matrix(path, sep=";", decimal=",")


@pytest.mark.parametrize(
    ("options", "argument"),
    [
        ({"sep": ";;"}, "sep"),
        ({"sep": "5"}, "sep"),
        ({"decimal": "x"}, "decimal"),
        ({"sep": ",", "decimal": ","}, "decimal"),
        ({"index_col": 9}, "index_col"),
        ({"index_col": "none"}, "index_col"),
    ],
)
def test_bad_layouts_are_refused(tmp_path, options, argument):
    path = written(tmp_path / "m.csv", ",", head="a,b,c")
    with pytest.raises(InputError) as caught:
        read_matrix(path, **options)
    assert caught.value.argument == argument


def test_layouts_are_for_text(tmp_path):
    np.save(tmp_path / "m.npy", GOOD)
    with pytest.raises(InputError, match="not a text file"):
        read_matrix(tmp_path / "m.npy", sep=";")


@pytest.mark.parametrize("index", [2, "id"])
def test_any_column_may_hold_the_labels(tmp_path, index):
    path = tmp_path / "m.csv"
    path.write_text("a,id,b\n1,10,2\n3,20,4\n")
    found = read_matrix(path, index_col=index)
    np.testing.assert_array_equal(found.values, [[1, 2], [3, 4]])
    assert found.rows == ("10", "20")
    assert found.columns == ("a", "b")


def test_a_column_of_text_is_not_taken_for_labels_if_there_are_none(tmp_path):
    path = tmp_path / "m.csv"
    path.write_text("x,1\ny,2\n")
    assert read_matrix(path, index_col=1).rows == ("x", "y")
    with pytest.raises(FileError, match="the text 'x'"):
        read_matrix(path, header=False, index_col=False)


def test_row_numbers_and_years_raise_doubts(tmp_path):
    path = tmp_path / "m.csv"
    rng = np.random.default_rng(0)
    numbered = np.column_stack([np.arange(1, 9), rng.standard_normal((8, 4))])
    np.savetxt(path, numbered, delimiter=",")
    (doubt,) = read_matrix(path).doubts
    assert "counts rows (1, 2, 3, ...)" in doubt
    assert "--index-col 1" in doubt
    found = read_matrix(path, index_col=1)
    assert (found.shape, found.doubts) == ((8, 4), ())
    assert read_matrix(path, index_col=False).doubts == ()
    years = np.column_stack([np.arange(1960, 1968), rng.standard_normal((8, 4))])
    np.savetxt(path, years, delimiter=",", fmt="%g")
    (doubt,) = read_matrix(path).doubts
    assert "looks like years (1960, 1961, 1962, ...)" in doubt
    assert "--index-col 1" in doubt


@pytest.mark.parametrize(
    ("first", "rows"),
    [
        ("1970,1971,1972", ["3,4,5", "6,7,9"]),
        ("1970,1980,1990", ["3,1975,5", "6,7,9"]),  # decades, and a number like a year
        ("1970.0,1971.0,1972.0", ["3,4,5", "6,7,9"]),  # as spreadsheets write them
        ('"1970","1971","1972"', ["3,4,5", "6,7,9"]),
        ("1970,1971,1972", ["a,3,4,5", "b,6,7,9"]),  # no name for the labels
        ("country,1970,1971,1972", ["a,3,4,5", "b,6,7,9"]),
        ("country,1970,1971", ["a,3,4", "b,6,7"]),
        (",1970,1971,1972", ["a,3,4,5", "b,6,7,9"]),
    ],
)
def test_a_first_row_of_years_names_the_columns(tmp_path, first, rows):
    path = tmp_path / "m.csv"
    path.write_text("\n".join([first, *rows]) + "\n")
    found = read_matrix(path)
    names = [cell.strip('"') for cell in first.split(",")]
    assert found.columns == tuple(names if names[0][:1] == "1" else names[1:])
    labelled = rows[0][0] == "a"
    assert found.rows == (("a", "b") if labelled else None)
    assert found.shape == (2, len(rows[0].split(",")) - labelled)
    if not first.startswith(","):  # an empty corner says so itself
        (doubt,) = found.doubts
        assert f"years ({names[-3] if names[-3][:1] == '1' else names[-2]}, " in doubt
        assert "--no-header" in doubt
    if not labelled:
        plain = read_matrix(path, header=False)
        assert (plain.shape[0], plain.columns, plain.doubts) == (3, None, ())
    assert read_matrix(path, header=True).doubts == ()


@pytest.mark.parametrize(
    "text",
    [
        "1970,1971,1972\n1973,1974,1975\n1976,1977,1978\n",  # all are years
        "1970,1972,1971\n1,2,3\n",  # not increasing
        "1970,1971\n1,2\n",  # only two
        "1970,1971,2971\n1,2,3\n",
        "1970.5,1971,1972\n1,2,3\n",
        "1970,1971,1972\n",  # nothing below
    ],
)
def test_other_first_rows_are_data(tmp_path, text):
    path = tmp_path / "m.csv"
    path.write_text(text)
    found = read_matrix(path)
    assert found.columns is None
    assert found.shape[0] == text.count("\n")
    assert found.doubts == ()


def test_labels_beside_years_in_all_rows_are_ambiguous(tmp_path):
    path = tmp_path / "m.csv"
    path.write_text("a,1970,1971,1972\nb,1973,1974,1975\n")
    with pytest.raises(FileError, match="--no-header"):
        read_matrix(path)


def test_years_are_names_beside_a_column_of_labels_that_is_named(tmp_path):
    path = tmp_path / "m.csv"
    path.write_text("1970,1971,region\n3,4,a\n6,7,b\n")
    found = read_matrix(path, index_col="region")
    assert (found.columns, found.rows) == (("1970", "1971"), ("a", "b"))


def test_ordinary_numbers_raise_no_doubts(tmp_path):
    path = tmp_path / "m.csv"
    for M in (GOOD, np.arange(40.0).reshape(8, 5), np.tile(np.arange(1.0, 9.0), (5, 1)).T):
        np.savetxt(path, M, delimiter=",")
        assert read_matrix(path).doubts == ()


def test_missing_values_name_the_commands_that_fill_them(tmp_path):
    path = tmp_path / "m.csv"
    path.write_text("1;NA\n2;3\n")
    with pytest.raises(FileError, match="weakprox impute"):
        read_matrix(path)
    assert np.isnan(read_matrix(path, missing=True).values[0, 1])


@pytest.mark.parametrize("suffix", [".xlsx", ".ods"])
def test_sheets(tmp_path, suffix):
    pytest.importorskip("python_calamine")
    path = tmp_path / f"m{suffix}"
    path.write_bytes(SHEETS[suffix]())
    found = read_matrix(path)
    np.testing.assert_array_equal(found.values, GOOD)
    assert found.columns == ("a", "b", "c")
    assert found.rows == ("row 0", "row 1", "row 2")
    np.testing.assert_array_equal(read_matrix(path, key="second").values, [[1.0, 2.0]])
    with pytest.raises(InputError, match="first, second"):
        read_matrix(path, key="third")
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(FileError, match="damaged"):
        read_matrix(path)


def test_sheets_need_a_package(tmp_path, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "python_calamine", None)
    path = tmp_path / "m.xlsx"
    path.write_bytes(SHEETS[".xlsx"]())
    with pytest.raises(ModuleNotFoundError, match=r"weakprox\[sheets\]"):
        read_matrix(path)


FIRST = [["", "a", "b", "c"], *([f"row {i}", *row] for i, row in enumerate(GOOD.tolist()))]
SECOND = [[1, 2]]


def zipped(parts):
    import io
    import zipfile

    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as archive:
        for name, text in parts.items():
            archive.writestr(name, text)
    return held.getvalue()


def xlsx():
    """A workbook of two sheets, as little of the format as a reader needs."""
    main = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    relations = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    package = "http://schemas.openxmlformats.org/package/2006"
    kind = "application/vnd.openxmlformats-officedocument.spreadsheetml"

    def sheet(rows):
        body = ""
        for i, row in enumerate(rows, start=1):
            cells = ""
            for j, value in enumerate(row):
                place = f'r="{"ABCD"[j]}{i}"'
                if isinstance(value, str):
                    cells += f'<c {place} t="inlineStr"><is><t>{value}</t></is></c>'
                else:
                    cells += f"<c {place}><v>{value}</v></c>"
            body += f'<row r="{i}">{cells}</row>'
        return f'<worksheet xmlns="{main}"><sheetData>{body}</sheetData></worksheet>'

    return zipped(
        {
            "[Content_Types].xml": f'<Types xmlns="{package}/content-types">'
            '<Default Extension="rels" ContentType="application/xml"/>'
            f'<Override PartName="/xl/workbook.xml" ContentType="{kind}.sheet.main+xml"/>'
            f'<Override PartName="/xl/s1.xml" ContentType="{kind}.worksheet+xml"/>'
            f'<Override PartName="/xl/s2.xml" ContentType="{kind}.worksheet+xml"/></Types>',
            "_rels/.rels": f'<Relationships xmlns="{package}/relationships"><Relationship '
            f'Id="r1" Type="{relations}/officeDocument" Target="xl/workbook.xml"/>'
            "</Relationships>",
            "xl/workbook.xml": f'<workbook xmlns="{main}" xmlns:r="{relations}"><sheets>'
            '<sheet name="first" sheetId="1" r:id="r1"/>'
            '<sheet name="second" sheetId="2" r:id="r2"/></sheets></workbook>',
            "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{package}/relationships">'
            f'<Relationship Id="r1" Type="{relations}/worksheet" Target="s1.xml"/>'
            f'<Relationship Id="r2" Type="{relations}/worksheet" Target="s2.xml"/>'
            "</Relationships>",
            "xl/s1.xml": sheet(FIRST),
            "xl/s2.xml": sheet(SECOND),
        }
    )


def ods():
    """The same as an OpenDocument spreadsheet."""
    base = "urn:oasis:names:tc:opendocument:xmlns"

    def sheet(name, rows):
        body = ""
        for row in rows:
            cells = ""
            for value in row:
                if isinstance(value, str):
                    text = f"<text:p>{value}</text:p>" if value else ""
                    cells += f'<table:table-cell office:value-type="string">{text}'
                else:
                    about = f'office:value-type="float" office:value="{value}"'
                    cells += f"<table:table-cell {about}>"
                cells += "</table:table-cell>"
            body += f"<table:table-row>{cells}</table:table-row>"
        return f'<table:table table:name="{name}">{body}</table:table>'

    names = "".join(
        f' xmlns:{name}="{base}:{name}:1.0"' for name in ("office", "table", "text", "manifest")
    )
    tables = sheet("first", FIRST) + sheet("second", SECOND)
    content = f"<office:body><office:spreadsheet>{tables}</office:spreadsheet></office:body>"
    kind = "application/vnd.oasis.opendocument.spreadsheet"
    return zipped(
        {
            "mimetype": kind,
            "META-INF/manifest.xml": f"<manifest:manifest{names}><manifest:file-entry "
            f'manifest:full-path="/" manifest:media-type="{kind}"/></manifest:manifest>',
            "content.xml": f"<office:document-content{names}>{content}"
            "</office:document-content>",
        }
    )


def test_rows_of_sheets_have_no_separators():
    cells = Cells([["a", "b"], [1.0, ""], [3.0, 4.0]])
    with pytest.raises(FileError) as caught:
        read_cells(Path("m.xlsx"), cells, Layout(), missing=False, allowed=1 << 20)
    assert "an empty cell at row 1, column 'b'" in str(caught.value)
    assert "separator" not in str(caught.value)


SHEETS = {".xlsx": xlsx, ".ods": ods}


def test_ids_keep_their_commas_beside_decimal_commas(tmp_path):
    path = tmp_path / "long.csv"
    path.write_text("i;j;v\n0,5;a;1,25\n1,5;b;2,5\n0,5;b;3,75\n")
    found = read_long(path, ["i", "j", "v"], ["v"])
    assert found["i"].tolist() == ["0,5", "1,5", "0,5"]
    assert found["v"].tolist() == [1.25, 2.5, 3.75]


def test_increasing_numbers_at_unequal_distances_are_no_years(tmp_path):
    path = tmp_path / "m.csv"
    path.write_text("1612,1733,2011\n900,1250,3000\n811,1199,2777\n")
    assert read_matrix(path).values.shape == (3, 3)
