"""Files that people have, and words they type: answers, or one line with the fix."""

import numpy as np
import pytest

from weakprox.storage import read_matrix
from weakprox.storage.meant import in_numbers

PROBLEM = ("--lam", 0.1, "--tau", 2)
BODY = "1.5,2,3\n4,5.5,6\n7,8,10\n"
GOOD = np.array([[1.5, 2, 3], [4, 5.5, 6], [7, 8, 10]])

# name: contents and what is read, as a matrix
READ = {
    "a byte order mark": ("\ufeffa,b,c\n" + BODY, GOOD),
    "tabs in a .csv file": ("a,b,c\n".replace(",", "\t") + BODY.replace(",", "\t"), GOOD),
    "numbers in quotes": (
        "\n".join('"' + x.replace(",", '","') + '"' for x in BODY.split()),
        GOOD,
    ),
    "bars": (BODY.replace(",", "|"), GOOD),
    "old line ends": (BODY.replace("\n", "\r"), GOOD),
    "dates as labels": ("date,a\n2020-01-01,1\n2020-01-02,3\n", [[1], [3]]),
    "labels twice": ("id,a,a\nx,1,2\nx,3,4\n", [[1, 2], [3, 4]]),
    "one column": ("a\n1\n2\n4\n", [[1], [2], [4]]),
}


@pytest.mark.parametrize("name", READ)
def test_files_of_many_kinds_are_read(name, folder):
    text, expected = READ[name]
    (folder / "f.csv").write_bytes(text.encode())
    np.testing.assert_array_equal(read_matrix("f.csv").dense(), expected)


# name: contents of f.csv, and the words that put it right
MISTAKES = {
    "thousands in quotes": (
        'a,b\n"1,000","2,500"\n"4,000","5,200"\n',
        "thousands separators",
    ),
    "thousands and decimal commas": (
        "a;b\n1.000,5;2.500,1\n4.000,1;5.2\n",
        "thousands separators",
    ),
    "spaces between thousands": ("a;b\n1;2 500\n3;4\n", "thousands separators"),
    "per cent": ("a,b\n1,20%\n3,45%\n", "without %"),
    "a currency": ("a,b\n1,$20\n3,$45\n", "currency sign"),
    "booleans": ("a,b\n1,True\n3,False\n", "1 or 0"),
    "a minus of typographers": ("a,b\n\u22121.5,2\n3,4\n", "ASCII"),
    "an accountant's minus": ("a,b\n1,(1.5)\n3,4\n", "-1.5"),
    "a dash for what is missing": ("a,b\n1,-\n3,4\n", "write NA"),
    "a formula that failed": ("a,b\n1,2\n3,#DIV/0!\n", "the formula of this cell failed"),
    "a column of text": ("name,a,city\nann,1,rome\nbob,2,bonn\n", ["'city'", "--index-col"]),
    "a column of dates": ("a,day\n1,2020-01-01\n2,2020-01-02\n", ["dates", "--index-col"]),
    "a comment": ("# mine\na,b\n1,2\n3,4\n", ["the comment '# mine'", ".txt"]),
    "a separator at the end": ("1,2,\n3,4,\n", "a separator at the end of the line"),
    "nothing": ("", "an empty file"),
    "blank lines": ("\n\n", "no cells"),
    "names alone": ("a,b\n", "rows of numbers"),
    "infinity": ("1,inf\n3,4\n", "a finite number"),
    "a total without numbers": ("id,a\nx,1\nTotal,\n", ["'Total'", "weakprox impute"]),
    "another encoding": ("größe,b\n1,2\n".encode("latin-1"), ["UTF-8", "iconv"]),
    "Excel's Unicode": ("a\tb\n1\t2\n".encode("utf-16"), "UTF-8"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_in_files_are_answered_by_their_fix(name, folder, refused):
    text, says = MISTAKES[name]
    (folder / "f.csv").write_bytes(text if isinstance(text, bytes) else text.encode())
    refused("estimate", "f.csv", *PROBLEM, says=says)


WORDS = {
    "an old spreadsheet": (("info", "f.xls"), "save it as .xlsx"),
    "a packed file": (("info", "f.csv.gz"), "unpack it first"),
    "JSON": (("info", "f.json"), ["write it as .csv", "to_csv"]),
    "an address": (("estimate", "https://host/f.csv"), "download it first"),
    "plan": (("plan", "m.npy"), "weakprox info"),
    "denoise": (("denoise", "m.npy"), "weakprox estimate"),
    "auto": (("estimate", "m.npy", "--lam", "auto"), "Leave --lam out"),
    "ratings as a matrix": (("complete", "long.csv"), "--row, --col and --value"),
    "text among ratings": (
        ("complete", "long.csv", "--row", "user", "--col", "film", "--value", "stars"),
        ["'five' in column 'stars', line 2", "a number, or an empty cell"],
    ),
    "no table of this experiment": (("reproduce", "table3"), "table1"),
}


@pytest.mark.parametrize("name", WORDS)
def test_mistakes_on_the_command_line_are_answered_by_their_fix(name, folder, refused):
    for file in ("f.xls", "f.csv.gz", "f.json"):
        (folder / file).write_text("1,2\n")
    (folder / "long.csv").write_text("user,film,stars\na,x,five\nb,y,2\n")
    words, says = WORDS[name]
    refused(*words, says=says)


def test_long_tables_may_have_semicolons_and_decimal_commas(folder, weakprox):
    words = ("--row", "user", "--col", "film", "--value", "stars", "--lam", 1)
    (folder / "long.csv").write_text("user,film,stars\na,x,5.5\na,y,\nb,x,4\nb,y,2\n")
    wanted = weakprox("complete", "long.csv", *words, "-o", "p.csv")
    assert wanted.exit_code == 0, wanted.stderr
    (folder / "semi.csv").write_text("user;film;stars\na;x;5,5\na;y;NA\nb;x;4\nb;y;2\n")
    for more in ((), ("--sep", ";", "--decimal", ",")):
        done = weakprox("complete", "semi.csv", *words, *more, "-o", "q.csv")
        assert done.exit_code == 0, done.stderr
        assert (folder / "q.csv").read_text() == (folder / "p.csv").read_text()


def test_a_column_without_numbers_is_named(folder, weakprox):
    (folder / "f.csv").write_text("a,b,c\n1,,3\n4,,6\n7,,9.5\n10,,2\n")
    done = weakprox("impute", "f.csv", "-o", "g.csv")
    assert "column 'b' has no number and is filled with 0" in done.stderr
    np.testing.assert_allclose(read_matrix("g.csv").dense()[:, 1], 0.0, atol=1e-12)


@pytest.mark.parametrize("cell", ["1,000", "1.000.000,5", "12 345", "-1'000", "1\u202f000.5"])
def test_thousands_are_recognised(cell):
    assert in_numbers(cell) == "a number without thousands separators"


@pytest.mark.parametrize("cell", ["1,00", "abc", "x1,000", "1,0000"])
def test_other_text_is_not_taken_for_thousands(cell):
    assert in_numbers(cell, "other") == "other"
